//! Checks that a value encoded for a revision has the fields of the revision and lacks the others.
//!
//! One row is one line of the tables of differences: the field's place in a full value, and the revisions that have it.

use mcp_proto::schema::tasks::legacy;
use mcp_proto::schema::{
    CallToolParams, CallToolResult, CompleteParams, CreateMessageParams, DiscoverResult, ElicitParams,
    ElicitResult, GetPromptParams, GetPromptResult, InitializeParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListRootsResult, ListToolsResult, ProgressParams,
    ReadResourceParams, ReadResourceResult, Revision, Revisions,
};
use serde_json::{Value, json};

use crate::schemas::{at, filled};
use crate::{Report, full_values};

/// A place in a value, the expected value there, and the revisions that have it.
type FieldRow = (&'static str, Option<Value>, Revisions);

const JUNE: Revisions = Revisions::since(Revision::V2025_06_18);
const NOVEMBER: Revisions = Revisions::since(Revision::V2025_11_25);
const MARCH: Revisions = Revisions::since(Revision::V2025_03_26);
const ONLY_NOVEMBER: Revisions = Revisions::only(Revision::V2025_11_25);

fn has(place: &'static str, revisions: Revisions) -> FieldRow {
    (place, None, revisions)
}

fn is(place: &'static str, value: impl Into<Value>, revisions: Revisions) -> FieldRow {
    (place, Some(value.into()), revisions)
}

struct FieldChecks<'a>(&'a mut Report);

impl FieldChecks<'_> {
    fn check<T: mcp_proto::schema::WriteAt + serde::de::DeserializeOwned + std::fmt::Debug>(
        &mut self,
        what: &str,
        rich: &Value,
        rows: &[FieldRow],
    ) {
        match filled::<T>(rich) {
            Ok(value) => self.rows(what, |revision| at(&value, revision), rows),
            Err(error) => self.0.fail(format!("{what}: {error}")),
        }
    }

    fn rows(&mut self, what: &str, written: impl Fn(Revision) -> Value, rows: &[FieldRow]) {
        for revision in Revision::ALL.iter().copied() {
            let written = written(revision);
            for (place, value, revisions) in rows {
                self.0.cells += 1;
                let found = written.pointer(place);
                let there = found.is_some_and(|found| value.as_ref().is_none_or(|value| value == found));
                if there != revisions.contains(revision) {
                    let verb = if there { "has" } else { "lacks" };
                    self.0.fail(format!("{what} {verb} {place} at {revision}"));
                }
            }
        }
    }
}

/// Checks every row.
pub(crate) fn check(report: &mut Report) {
    let mut cells = FieldChecks(report);
    let all = Revisions::ALL;
    let modern = Revisions::MODERN;

    cells.check::<InitializeParams>(
        "initialize",
        &full_values::params("InitializeRequest"),
        &[
            has("/clientInfo/name", all),
            has("/clientInfo/title", JUNE),
            has("/clientInfo/description", NOVEMBER),
            has("/clientInfo/websiteUrl", NOVEMBER),
            has("/clientInfo/icons", NOVEMBER),
            has("/capabilities/roots", all),
            has("/capabilities/roots/listChanged", Revisions::LEGACY),
            has("/capabilities/sampling", all),
            has("/capabilities/sampling/tools", NOVEMBER),
            has("/capabilities/sampling/context", NOVEMBER),
            has("/capabilities/elicitation", JUNE),
            has("/capabilities/elicitation/form", NOVEMBER),
            has("/capabilities/elicitation/url", NOVEMBER),
            has("/capabilities/tasks", ONLY_NOVEMBER),
            has("/capabilities/extensions", all),
            has("/capabilities/experimental", all),
            has("/_meta/progressToken", all),
            has("/_meta/traceparent", all),
            has("/_meta/io.modelcontextprotocol~1protocolVersion", modern),
            has("/_meta/io.modelcontextprotocol~1clientCapabilities", modern),
            has("/_meta/io.modelcontextprotocol~1clientInfo", modern),
            has("/_meta/io.modelcontextprotocol~1logLevel", modern),
            has("/_meta/io.modelcontextprotocol~1related-task", ONLY_NOVEMBER),
        ],
    );
    cells.check::<InitializeResult>(
        "initialize",
        &full_values::result("InitializeResult"),
        &[
            has("/capabilities/tools/listChanged", all),
            has("/capabilities/logging", all),
            has("/capabilities/completions", MARCH),
            has("/capabilities/tasks", ONLY_NOVEMBER),
            has("/capabilities/extensions", all),
            has("/resultType", modern),
            has("/_meta/io.modelcontextprotocol~1serverInfo", modern),
        ],
    );
    cells.check::<DiscoverResult>(
        "server/discover",
        &full_values::result("DiscoverResult"),
        &[has("/serverInfo", Revisions::LEGACY), has("/_meta/io.modelcontextprotocol~1serverInfo", modern)],
    );
    cells.check::<CallToolParams>(
        "tools/call",
        &full_values::params("CallToolRequest"),
        &[
            has("/arguments", all),
            has("/inputResponses", modern),
            has("/requestState", modern),
            has("/task", ONLY_NOVEMBER),
        ],
    );
    for (what, params) in [("prompts/get", "GetPromptRequest"), ("resources/read", "ReadResourceRequest")] {
        let rows = [has("/inputResponses", modern), has("/requestState", modern)];
        match what {
            "prompts/get" => cells.check::<GetPromptParams>(what, &full_values::params(params), &rows),
            _ => cells.check::<ReadResourceParams>(what, &full_values::params(params), &rows),
        }
    }
    cells.check::<CallToolResult>(
        "tools/call",
        &full_values::result("CallToolResult"),
        &[
            is("/content/0/type", "text", all),
            has("/content/0/annotations/audience", all),
            has("/content/0/annotations/lastModified", JUNE),
            has("/content/0/_meta", JUNE),
            is("/content/1/type", "image", all),
            has("/content/1/_meta", JUNE),
            is("/content/2/type", "audio", MARCH),
            is(
                "/content/2/text",
                "[audio audio/wav, 4 bytes of base64]",
                Revisions::until(Revision::V2024_11_05),
            ),
            has("/content/2/_meta", JUNE),
            is("/content/3/type", "resource_link", JUNE),
            is("/content/3/text", "[resource file:///a.txt]", Revisions::until(Revision::V2025_03_26)),
            has("/content/3/icons", NOVEMBER),
            is("/content/4/type", "resource", all),
            has("/content/4/resource/text", all),
            has("/content/4/resource/_meta", JUNE),
            has("/content/5/resource/blob", all),
            has("/structuredContent", JUNE),
            has("/resultType", modern),
            has("/_meta/io.modelcontextprotocol~1serverInfo", modern),
            has("/_meta/io.modelcontextprotocol~1related-task", ONLY_NOVEMBER),
        ],
    );
    for value in [json!(null), json!([1, 2]), json!("text")] {
        let mut result = full_values::result("CallToolResult");
        result["structuredContent"] = value.clone();
        cells.check::<CallToolResult>("tools/call", &result, &[is("/structuredContent", value, modern)]);
    }
    cells.check::<ListToolsResult>(
        "tools/list",
        &full_values::result("ListToolsResult"),
        &[
            has("/tools/0/description", all),
            has("/tools/0/title", JUNE),
            has("/tools/0/annotations", MARCH),
            has("/tools/0/outputSchema", JUNE),
            has("/tools/0/icons", NOVEMBER),
            has("/tools/0/execution", ONLY_NOVEMBER),
            has("/tools/0/_meta", JUNE),
            has("/ttlMs", modern),
            has("/cacheScope", modern),
        ],
    );
    let mut listed = full_values::result("ListToolsResult");
    listed["tools"][0]["outputSchema"] = json!({"type": "array"});
    cells.check::<ListToolsResult>("tools/list", &listed, &[has("/tools/0/outputSchema", modern)]);
    let listed = |list: &str| {
        [("title", JUNE), ("icons", NOVEMBER), ("_meta", JUNE)]
            .map(|(field, revisions)| -> FieldRow { (format!("/{list}/0/{field}").leak(), None, revisions) })
    };
    let result = full_values::result("ListResourcesResult");
    cells.check::<ListResourcesResult>("resources/list", &result, &listed("resources"));
    cells.check::<ListResourcesResult>(
        "resources/list",
        &result,
        &[
            has("/resources/0/annotations/priority", all),
            has("/resources/0/annotations/lastModified", JUNE),
            has("/ttlMs", modern),
            has("/cacheScope", modern),
        ],
    );
    let result = full_values::result("ListResourceTemplatesResult");
    cells.check::<ListResourceTemplatesResult>(
        "resources/templates/list",
        &result,
        &listed("resourceTemplates"),
    );
    cells.check::<ListResourceTemplatesResult>(
        "resources/templates/list",
        &result,
        &[has("/resourceTemplates/0/annotations/lastModified", JUNE), has("/ttlMs", modern)],
    );
    let result = full_values::result("ListPromptsResult");
    cells.check::<ListPromptsResult>("prompts/list", &result, &listed("prompts"));
    cells.check::<ListPromptsResult>(
        "prompts/list",
        &result,
        &[has("/prompts/0/arguments/0/title", JUNE), has("/ttlMs", modern)],
    );
    cells.check::<ReadResourceResult>(
        "resources/read",
        &full_values::result("ReadResourceResult"),
        &[
            has("/contents/0/_meta", JUNE),
            has("/contents/1/_meta", JUNE),
            has("/ttlMs", modern),
            has("/cacheScope", modern),
        ],
    );
    cells.check::<GetPromptResult>(
        "prompts/get",
        &full_values::result("GetPromptResult"),
        &[
            is("/messages/2/content/type", "audio", MARCH),
            is("/messages/3/content/type", "resource_link", JUNE),
        ],
    );
    cells.check::<CompleteParams>(
        "completion/complete",
        &full_values::params("CompleteRequest"),
        &[has("/ref/title", JUNE), has("/context", JUNE)],
    );
    cells.check::<ProgressParams>(
        "notifications/progress",
        &full_values::params("ProgressNotification"),
        &[has("/total", all), has("/message", MARCH)],
    );
    cells.check::<ListRootsResult>(
        "roots/list",
        &full_values::result("ListRootsResult"),
        &[has("/roots/0/_meta", JUNE)],
    );
    cells.check::<CreateMessageParams>(
        "sampling/createMessage",
        &full_values::params("CreateMessageRequest"),
        &[
            has("/tools", NOVEMBER),
            has("/toolChoice", NOVEMBER),
            has("/task", ONLY_NOVEMBER),
            has("/includeContext", all),
            has("/messages/0/_meta", NOVEMBER),
            has("/messages/0/content/_meta", JUNE),
            is("/messages/2/content/type", "audio", MARCH),
            is("/messages/3/content/0/type", "tool_use", NOVEMBER),
            is("/messages/4/content/0/type", "tool_result", NOVEMBER),
            is("/messages/5/content/text", "one", Revisions::until(Revision::V2025_06_18)),
        ],
    );
    cells.check::<ElicitParams>(
        "elicitation/create",
        &full_values::form(),
        &[
            has("/mode", NOVEMBER),
            has("/task", ONLY_NOVEMBER),
            has("/requestedSchema/$schema", NOVEMBER),
            has("/requestedSchema/properties/line/default", NOVEMBER),
            has("/requestedSchema/properties/number/default", NOVEMBER),
            has("/requestedSchema/properties/yes/default", all),
            has("/requestedSchema/properties/one/default", NOVEMBER),
            has("/requestedSchema/properties/titled/oneOf", NOVEMBER),
            has("/requestedSchema/properties/titled/enumNames", Revisions::until(Revision::V2025_06_18)),
            is("/requestedSchema/properties/several/type", "array", NOVEMBER),
            is("/requestedSchema/properties/severalTitled/type", "array", NOVEMBER),
        ],
    );
    cells.check::<ElicitParams>(
        "elicitation/create",
        &full_values::url(),
        &[has("/elicitationId", Revisions::LEGACY), has("/task", ONLY_NOVEMBER)],
    );
    cells.check::<ElicitResult>(
        "elicitation/create",
        &full_values::result("ElicitResult"),
        &[has("/content/several/0", NOVEMBER), has("/content/number", all)],
    );
    cells.check::<legacy::CreateTaskResult>(
        "a task",
        &full_values::result("LegacyCreateTaskResult"),
        &[has("/task/ttl", all), has("/resultType", modern)],
    );
}
