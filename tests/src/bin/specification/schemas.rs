//! Checks that values encoded for a revision validate against the revision's schema.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use mcp_proto::schema::skills;
use mcp_proto::schema::tasks::{self, legacy};
use mcp_proto::schema::{
    At, CallTool, Cancelled, ClientProgress, Complete, CreateMessage, Discover, Elicit, ElicitationComplete,
    GetPrompt, Initialize, Initialized, InputRequiredResult, ListPrompts, ListResourceTemplates,
    ListResources, ListRoots, ListTools, LoggingMessage, Method, MethodInfo, Notification, NotificationInfo,
    Ping, Progress, PromptListChanged, ReadResource, ResourceListChanged, ResourceUpdated, Revision,
    Revisions, RootsListChanged, SetLoggingLevel, SubscribeResource, SubscriptionsAcknowledged,
    SubscriptionsListen, ToolListChanged, UnsubscribeResource, WriteAt,
};
use serde_json::{Value, json};

use crate::{Report, full_values, misunderstood, read};

/// The schemas of all revisions, and of the tasks extension.
pub(crate) struct Schemas {
    revisions: BTreeMap<Revision, Value>,
    tasks: Value,
}

impl Schemas {
    pub(crate) fn load(folder: &Path) -> Result<Self, String> {
        let mut revisions = BTreeMap::new();
        for revision in Revision::ALL {
            let mut schema = read(&folder.join(revision.as_str()).join("schema.json"))?;
            admit_fractions(&mut schema);
            revisions.insert(*revision, schema);
        }
        let mut tasks = read(&folder.join("extensions/tasks/schema.json"))?;
        admit_fractions(&mut tasks);
        Ok(Self { revisions, tasks })
    }

    fn of(&self, revision: Revision) -> &Value {
        &self.revisions[&revision]
    }
}

fn definitions(schema: &Value) -> &'static str {
    if schema.get("$defs").is_some() { "$defs" } else { "definitions" }
}

fn defines(schema: &Value, definition: &str) -> bool {
    schema[definitions(schema)].get(definition).is_some()
}

/// Lets elicitation answers be fractions: the schemas say integer where the protocol means any number.
fn admit_fractions(schema: &mut Value) {
    let definitions = definitions(schema);
    if let Some(Value::Object(result)) = schema[definitions].get_mut("ElicitResult") {
        admit_fractions_in(&mut result["properties"]["content"]);
    }
}

fn admit_fractions_in(value: &mut Value) {
    match value {
        Value::Array(items) if items.iter().any(|item| item == "integer") => items.push("number".into()),
        Value::Array(items) => items.iter_mut().for_each(admit_fractions_in),
        Value::Object(fields) => fields.values_mut().for_each(admit_fractions_in),
        _ => {}
    }
}

fn validate(schema: &Value, definition: &str, value: &Value) -> Result<(), String> {
    let definitions = definitions(schema);
    let mut root = json!({"$ref": format!("#/{definitions}/{definition}"), definitions: schema[definitions]});
    if let Some(dialect) = schema.get("$schema") {
        root["$schema"] = dialect.clone();
    }
    let validator = jsonschema::validator_for(&root).map_err(|error| error.to_string())?;
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .take(3)
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

/// Decodes a full value; fails for fields that are unset or unknown.
pub(crate) fn filled<T: serde::de::DeserializeOwned + Debug>(value: &Value) -> Result<T, String> {
    let typed: T = serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())?;
    let debug = format!("{typed:?}");
    match misunderstood(&debug) {
        Some(what) => Err(format!("unknown or invalid fields: {what}")),
        None if debug.contains("None") || debug.contains("Meta({})") => Err(format!("not filled: {debug}")),
        None => Ok(typed),
    }
}

pub(crate) fn at<T: WriteAt>(value: &T, revision: Revision) -> Value {
    serde_json::to_value(At(value, revision)).unwrap_or_default()
}

struct Check<'a> {
    schemas: &'a Schemas,
    report: &'a mut Report,
    methods: Vec<&'static MethodInfo>,
    notifications: Vec<&'static NotificationInfo>,
}

impl Check<'_> {
    fn value(&mut self, schema: &Value, what: &str, definition: &str, value: &Value) {
        self.report.validated += 1;
        if let Err(error) = validate(schema, definition, value) {
            self.report.fail(format!("{what}: {definition}: {error}"));
        }
    }

    fn typed<T: serde::de::DeserializeOwned + Debug>(&mut self, what: &str, rich: &Value) -> Option<T> {
        filled(rich).map_err(|error| self.report.fail(format!("{what}: {error}"))).ok()
    }

    /// A method whose request and result the schemas define under these names.
    fn method<M: Method>(&mut self, request: &str, result: &str) {
        self.method_as::<M>(request, result, full_values::params(request), full_values::result(result));
    }

    fn method_as<M: Method>(&mut self, request: &str, result: &str, params: Value, answer: Value) {
        self.methods.push(M::INFO);
        let Some(params) = self.typed::<M::Params>(request, &params) else { return };
        let Some(answer) = self.typed::<M::Result>(result, &answer) else { return };
        for revision in Revision::ALL.iter().copied() {
            let schema = self.schemas.of(revision);
            let as_input = M::INFO.as_input_request.is_some_and(|revisions| revisions.contains(revision));
            if !M::INFO.exists_in(revision) && !as_input {
                if defines(schema, request) {
                    self.report.fail(format!("{request}: {revision} has it"));
                }
                continue;
            }
            let message =
                json!({"jsonrpc": "2.0", "id": 1, "method": M::NAME, "params": at(&params, revision)});
            let what = format!("{} at {revision}", M::NAME);
            self.value(schema, &what, request, &message);
            self.value(schema, &what, result, &at(&answer, revision));
        }
    }

    /// A method of the tasks extension.
    fn extension<M: Method>(&mut self, request: &str, result: &str, answers: &[Value]) {
        self.methods.push(M::INFO);
        let schema = &self.schemas.tasks;
        if let Some(params) = self.typed::<M::Params>(request, &full_values::params(request)) {
            let params = at(&params, Revision::LATEST);
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": M::NAME, "params": params});
            self.value(schema, M::NAME, request, &message);
        }
        for answer in answers {
            if let Some(answer) = self.typed::<M::Result>(result, answer) {
                self.value(schema, M::NAME, result, &at(&answer, Revision::LATEST));
            }
        }
    }

    fn notification<N: Notification>(&mut self, definition: &str) {
        self.notification_as::<N>(definition, full_values::params(definition));
    }

    fn notification_as<N: Notification>(&mut self, definition: &str, params: Value) {
        self.notifications.push(N::INFO);
        let Some(params) = self.typed::<N::Params>(definition, &params) else { return };
        for revision in Revision::ALL.iter().copied() {
            let schema = self.schemas.of(revision);
            if !N::INFO.exists_in(revision) {
                // The client's progress has the name of the server's, which still exists.
                let shared =
                    NotificationInfo::all().any(|info| info.name == N::NAME && info.exists_in(revision));
                if defines(schema, definition) && !shared {
                    self.report.fail(format!("{definition}: {revision} has it"));
                }
                continue;
            }
            let message = json!({"jsonrpc": "2.0", "method": N::NAME, "params": at(&params, revision)});
            self.value(schema, &format!("{} at {revision}", N::NAME), definition, &message);
        }
    }

    fn result<T: WriteAt + serde::de::DeserializeOwned + Debug>(
        &mut self,
        rich: &str,
        definition: &str,
        revisions: Revisions,
    ) {
        let Some(value) = self.typed::<T>(rich, &full_values::result(rich)) else { return };
        for revision in Revision::ALL.iter().copied().filter(|revision| revisions.contains(*revision)) {
            let what = format!("a result at {revision}");
            self.value(self.schemas.of(revision), &what, definition, &at(&value, revision));
        }
    }
}

/// Checks every method, notification and result.
pub(crate) fn check(schemas: &Schemas, report: &mut Report) {
    let mut check = Check { schemas, report, methods: Vec::new(), notifications: Vec::new() };
    check.method::<Initialize>("InitializeRequest", "InitializeResult");
    check.method::<Discover>("DiscoverRequest", "DiscoverResult");
    check.method::<Ping>("PingRequest", "EmptyResult");
    check.method::<ListTools>("ListToolsRequest", "ListToolsResult");
    check.method::<CallTool>("CallToolRequest", "CallToolResult");
    check.method::<ListResources>("ListResourcesRequest", "ListResourcesResult");
    check.method::<ListResourceTemplates>("ListResourceTemplatesRequest", "ListResourceTemplatesResult");
    check.method::<ReadResource>("ReadResourceRequest", "ReadResourceResult");
    check.method::<SubscribeResource>("SubscribeRequest", "EmptyResult");
    check.method::<UnsubscribeResource>("UnsubscribeRequest", "EmptyResult");
    check.method::<ListPrompts>("ListPromptsRequest", "ListPromptsResult");
    check.method::<GetPrompt>("GetPromptRequest", "GetPromptResult");
    check.method::<Complete>("CompleteRequest", "CompleteResult");
    check.method::<SetLoggingLevel>("SetLevelRequest", "EmptyResult");
    check.method::<SubscriptionsListen>("SubscriptionsListenRequest", "SubscriptionsListenResult");
    check.method::<ListRoots>("ListRootsRequest", "ListRootsResult");
    check.method::<CreateMessage>("CreateMessageRequest", "CreateMessageResult");
    check.method::<Elicit>("ElicitRequest", "ElicitResult");
    let legacy_task = full_values::result("LegacyGetTaskResult");
    let id = full_values::params("GetTaskRequest");
    check.method_as::<legacy::GetTask>("GetTaskRequest", "GetTaskResult", id.clone(), legacy_task.clone());
    check.method_as::<legacy::CancelTask>("CancelTaskRequest", "CancelTaskResult", id, legacy_task);
    check.method::<legacy::TaskResult>("GetTaskPayloadRequest", "GetTaskPayloadResult");
    check.method::<legacy::ListTasks>("ListTasksRequest", "ListTasksResult");
    check.result::<legacy::CreateTaskResult>(
        "LegacyCreateTaskResult",
        "CreateTaskResult",
        Revisions::only(Revision::V2025_11_25),
    );
    check.result::<InputRequiredResult>("InputRequiredResult", "InputRequiredResult", Revisions::MODERN);

    let url = check.typed::<<Elicit as Method>::Params>("elicitation by URL", &full_values::url());
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let params = at(&url, revision);
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": Elicit::NAME, "params": params});
        check.value(schemas.of(revision), "elicitation by URL", "ElicitRequest", &message);
    }

    let states = ["working", "input_required", "completed", "failed", "cancelled"];
    let answers = states.map(|status| {
        let mut task = full_values::detailed_task(status);
        task["resultType"] = "complete".into();
        task["_meta"] = json!({"com.example/shard": 7});
        task
    });
    check.extension::<tasks::GetTask>("GetTaskRequest", "GetTaskResult", &answers);
    check.extension::<tasks::UpdateTask>("UpdateTaskRequest", "UpdateTaskResult", &[full_values::result("")]);
    check.extension::<tasks::CancelTask>("CancelTaskRequest", "CancelTaskResult", &[full_values::result("")]);
    if let Some(created) =
        check.typed::<tasks::CreateTaskResult>("a task", &full_values::result("CreateTaskResult"))
    {
        check.value(&schemas.tasks, "a task", "CreateTaskResult", &at(&created, Revision::LATEST));
    }
    // The skills extension has no JSON Schema.
    check.methods.extend([skills::ListSkills::INFO, skills::GetSkill::INFO, skills::ReadDirectory::INFO]);
    check.notifications.push(tasks::TaskUpdated::INFO);
    let updated = full_values::params("TaskStatusNotification");
    if let Some(updated) = check.typed::<tasks::TaskUpdatedParams>("notifications/tasks", &updated) {
        let params = at(&updated, Revision::LATEST);
        let message = json!({"jsonrpc": "2.0", "method": tasks::TaskUpdated::NAME, "params": params});
        check.value(&schemas.tasks, "notifications/tasks", "TaskStatusNotification", &message);
    }

    check.notification::<Initialized>("InitializedNotification");
    check.notification::<Cancelled>("CancelledNotification");
    check.notification::<Progress>("ProgressNotification");
    check.notification::<ClientProgress>("ProgressNotification");
    check.notification::<LoggingMessage>("LoggingMessageNotification");
    check.notification::<ResourceUpdated>("ResourceUpdatedNotification");
    check.notification::<ResourceListChanged>("ResourceListChangedNotification");
    check.notification::<ToolListChanged>("ToolListChangedNotification");
    check.notification::<PromptListChanged>("PromptListChangedNotification");
    check.notification::<RootsListChanged>("RootsListChangedNotification");
    check.notification::<ElicitationComplete>("ElicitationCompleteNotification");
    check.notification::<SubscriptionsAcknowledged>("SubscriptionsAcknowledgedNotification");
    let changed = full_values::params("LegacyTaskStatusNotification");
    check.notification_as::<legacy::TaskStatusChanged>("TaskStatusNotification", changed);

    let (methods, notifications) = (check.methods, check.notifications);
    for info in MethodInfo::all().filter(|info| !methods.contains(info)) {
        report.fail(format!("{} is not checked here", info.name));
    }
    for info in NotificationInfo::all().filter(|info| !notifications.contains(info)) {
        report.fail(format!("{} is not checked here", info.name));
    }
}
