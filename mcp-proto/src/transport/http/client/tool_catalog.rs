//! The client's catalog of tools: their mirrored parameters, and whether calls may be repeated.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters>
//!
//! It is read from the pages of tools that the application requested, and those requested after a call had wrong headers.

use serde_json::value::RawValue;

use crate::Instant;
use crate::ordered_map::OrderedMap;
use crate::peer::client::Diagnostic;
use crate::peer::{CarriageState, EncodedRequest, RequestId};
use crate::prelude::*;
use crate::rpc::members::collect_members;
use crate::rpc::{ErrorObject, Raw, read_members};
use crate::schema::{CallTool, ListTools, ListToolsParams, Method, Revision};
use crate::transport::http::param_headers::{ParamHeaderError, ParamHeaders};

use super::HttpClient;
use super::outbox::is_modern;

/// The most pages of tools that the client lists itself; no server has more.
const MAX_PAGES: u32 = 64;

#[derive(Debug)]
struct CatalogTool {
    headers: Option<ParamHeaders>,
    /// Whether the server declares that calling it twice has no more effect than calling it once.
    is_repeatable: bool,
}

impl CatalogTool {
    /// Returns the approximate number of stored bytes that the server chose.
    fn bytes(&self, name: &str) -> usize {
        self.headers.as_ref().map_or(0, ParamHeaders::bytes).saturating_add(name.len())
    }
}

/// The listed tools with mirrored parameters or repeatable calls, and the relisting in progress.
#[derive(Debug, Default)]
pub(super) struct ToolCatalog {
    tools: OrderedMap<Box<str>, CatalogTool>,
    bytes: usize,
    pub(super) relisting: Option<ToolRelisting>,
}

/// A relisting of the tools by the transport, because a call had wrong headers.
#[derive(Debug, Default)]
pub(super) struct ToolRelisting {
    /// The request of the current page.
    request: Option<RequestId>,
    pages: u32,
    cursor: Option<String>,
}

impl ToolCatalog {
    /// Returns the mirrored parameters of the tool that a request calls, if it is a call.
    pub(super) fn param_headers(&self, method: &str, request: &EncodedRequest) -> Option<&ParamHeaders> {
        if self.tools.is_empty() || method != CallTool::NAME {
            return None;
        }
        self.called_tool(request)?.headers.as_ref()
    }

    /// Returns whether the server declares that the call may be repeated.
    pub(super) fn is_repeatable(&self, call: &EncodedRequest) -> bool {
        self.called_tool(call).is_some_and(|tool| tool.is_repeatable)
    }

    fn called_tool(&self, call: &EncodedRequest) -> Option<&CatalogTool> {
        self.tools.get(&*call.subject()?)
    }

    /// Records a tool; discards the catalog if that exceeds `max_bytes`.
    ///
    /// A call refused for its missing headers then triggers a relisting.
    fn insert(&mut self, name: Box<str>, tool: CatalogTool, max_bytes: usize) {
        self.remove(&name);
        if tool.headers.is_none() && !tool.is_repeatable {
            return;
        }
        let bytes = tool.bytes(&name);
        if self.bytes.saturating_add(bytes) > max_bytes {
            self.tools.clear();
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.tools.insert(name, tool);
    }

    fn remove(&mut self, name: &str) {
        if let Some(tool) = self.tools.remove(name) {
            self.bytes = self.bytes.saturating_sub(tool.bytes(name));
        }
    }
}

impl HttpClient {
    /// Records a page of tools; returns it without the tools that cannot be called over HTTP.
    pub(super) fn read_tools(&mut self, revision: Revision, page: Raw) -> Raw {
        let (modern, max_bytes) = (is_modern(revision), self.limits().message_bytes);
        let list = ToolList::read(page.clone());
        for (name, mut tool) in list.tools {
            tool.headers = tool.headers.filter(|_| modern);
            self.tools.insert(name, tool, max_bytes);
        }
        // A legacy server does not use mirrored parameters, so all of its tools can be called.
        if !modern {
            return page;
        }
        for ExcludedTool { name, reason } in list.excluded {
            self.tools.remove(&name);
            self.peer.report(Diagnostic::ToolExcluded { name, reason: reason.to_string() });
        }
        list.result
    }

    /// Makes a call with wrong headers wait until the tools are listed again; it ends with `error` if that fails.
    pub(super) fn await_tools(&mut self, now: Instant, number: RequestId, error: ErrorObject) {
        self.peer.update_carriage(number, |call| {
            call.has_slot = false;
            call.state = CarriageState::AwaitingTools(Box::new(error));
        });
        if self.tools.relisting.is_none() {
            self.tools.relisting = Some(ToolRelisting::default());
            self.timers.relist = Some(now + self.config.client.request_timeout);
            // The list in the application's cache is just as outdated.
            self.peer.invalidate(ListTools::NAME);
            self.request_tools_page(now);
        }
    }

    fn request_tools_page(&mut self, now: Instant) {
        let Some(relisting) = &mut self.tools.relisting else { return };
        let mut params = ListToolsParams::new();
        params.cursor = relisting.cursor.clone();
        relisting.pages = relisting.pages.saturating_add(1);
        relisting.request = self.peer.list_tools(now, &params, &mut self.outbox);
        if relisting.request.is_none() {
            self.finish_relisting(now, false);
        }
    }

    /// Handles a page that has arrived, or the failure of its request.
    pub(super) fn handle_tools_page(&mut self, now: Instant, page: Option<Raw>) {
        let Some(relisting) = &mut self.tools.relisting else { return };
        let next_cursor = |page: Raw| {
            let [next] = read_members(page.as_str(), ["nextCursor"]).ok()?;
            next.map(serde_json::from_str::<String>).transpose().ok()
        };
        match page.and_then(next_cursor) {
            Some(Some(next)) if relisting.pages < MAX_PAGES && relisting.cursor.as_ref() != Some(&next) => {
                relisting.cursor = Some(next);
                self.request_tools_page(now);
            }
            // A server that repeats a cursor has no more pages.
            next => self.finish_relisting(now, next.is_some()),
        }
    }

    /// Ends the listing if its request has been answered elsewhere, as in a batch.
    pub(super) fn check_listing(&mut self, now: Instant) {
        let request = self.tools.relisting.as_ref().and_then(|relisting| relisting.request);
        if request.is_some_and(|request| self.peer.sent_request(request).is_none()) {
            self.handle_tools_page(now, None);
        }
    }

    /// Resends the calls that waited, or ends them with their errors.
    pub(super) fn finish_relisting(&mut self, now: Instant, listed: bool) {
        let Some(relisting) = self.tools.relisting.take() else { return };
        self.timers.relist = None;
        if let Some(request) = relisting.request {
            self.peer.cancel_own(request, &mut self.outbox);
        }
        for number in self.peer.carried(|call| matches!(call.state, CarriageState::AwaitingTools(_))) {
            if listed {
                self.requeue_with_new_id(now, number);
            } else if let Some(call) = self.peer.carriage(number)
                && let CarriageState::AwaitingTools(error) = &call.state
            {
                let error = ErrorObject::clone(error);
                self.peer.end_sent(now, number, Ok(Err(error)), &mut self.outbox);
            }
        }
    }
}

// --- Lists of tools ---

/// A `tools/list` result, read by an HTTP client.
#[derive(Debug)]
struct ToolList {
    /// The result without the tools that cannot be called.
    result: Raw,
    /// Those that can be called, by name.
    tools: Vec<(Box<str>, CatalogTool)>,
    excluded: Vec<ExcludedTool>,
}

/// A tool that cannot be called over HTTP, and why.
#[derive(Debug)]
pub(super) struct ExcludedTool {
    name: String,
    reason: ParamHeaderError,
}

impl ToolList {
    /// Reads a result. Anything other than a list of tools stays unchanged, and the decoder rejects it.
    fn read(result: Raw) -> Self {
        let (mut tools, mut excluded) = (Vec::new(), Vec::new());
        let rewritten = pick_members(result.as_str(), ["tools"]).and_then(|[listed]| {
            let listed = listed?;
            let entries: Vec<&RawValue> = serde_json::from_str(listed).ok()?;
            let mut kept = Vec::with_capacity(entries.len());
            for entry in entries {
                match read_tool(entry.get()) {
                    Ok(tool) => {
                        tools.extend(tool);
                        kept.push(entry.get());
                    }
                    Err(tool) => excluded.push(tool),
                }
            }
            if excluded.is_empty() { None } else { rewrite(result.as_str(), listed, &kept) }
        });
        Self { result: rewritten.unwrap_or(result), tools, excluded }
    }
}

/// Writes the result with the `kept` tools in place of the `listed` ones.
fn rewrite(result: &str, listed: &str, kept: &[&str]) -> Option<Raw> {
    let start = (listed.as_ptr() as usize).checked_sub(result.as_ptr() as usize)?;
    let end = start.checked_add(listed.len())?;
    let mut text = String::with_capacity(result.len());
    text.push_str(result.get(..start)?);
    text.push('[');
    for (number, tool) in kept.iter().enumerate() {
        text.push_str(if number == 0 { "" } else { "," });
        text.push_str(tool);
    }
    text.push(']');
    text.push_str(result.get(end..)?);
    Some(Raw::from_scan(text.into()))
}

/// Reads an entry; `None` if it is no tool that a call could name.
fn read_tool(entry: &str) -> Result<Option<(Box<str>, CatalogTool)>, ExcludedTool> {
    let Some([name, schema, annotations]) = pick_members(entry, ["name", "inputSchema", "annotations"])
    else {
        return Ok(None);
    };
    let name = name.and_then(|name| serde_json::from_str::<String>(name).ok());
    let headers = match schema.map(ParamHeaders::from_schema) {
        None => None,
        Some(Ok(headers)) => headers,
        //= C4.11 "Exclude a tool from tools/list results"
        Some(Err(reason)) => return Err(ExcludedTool { name: name.unwrap_or_default(), reason }),
    };
    let hints = annotations.and_then(|hints| pick_members(hints, ["readOnlyHint", "idempotentHint"]));
    // One that changes nothing, or has no further effect when it is called again.
    let is_repeatable = hints.into_iter().flatten().flatten().any(|hint| hint == "true");
    Ok(name.map(|name| (name.into(), CatalogTool { headers, is_repeatable })))
}

/// Reads the raw values of the named members of an object; of a repeated member, the last. `None` if it is no object.
fn pick_members<'a, const COUNT: usize>(
    text: &'a str,
    names: [&'static str; COUNT],
) -> Option<[Option<&'a str>; COUNT]> {
    let mut found = [None; COUNT];
    collect_members(text, &names, &mut found).ok()?;
    Some(found)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    const MARKED: &str = r#"{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#;
    const INVALID: &str = r#"{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#;

    fn read(result: &str) -> ToolList {
        ToolList::read(Raw::new(result).expect("valid JSON"))
    }

    /// C4.11, C4.12.
    #[test]
    fn reader_excludes_and_names_a_tool_with_an_invalid_mark() {
        let list = read(
            &r#" {"ttlMs" : 1, "tools" : [ {"name":"bad","inputSchema":INVALID} , {"name":"good","inputSchema":MARKED},
                {"name":"worse","inputSchema":INVALID}, {"x":[1, 2],"name":"plain"}] , "nextCursor":"c"}"#
                .replace("INVALID", INVALID)
                .replace("MARKED", MARKED),
        );
        let kept = r#" {"ttlMs" : 1, "tools" : [{"name":"good","inputSchema":MARKED},{"x":[1, 2],"name":"plain"}] , "nextCursor":"c"}"#;
        assert_eq!(list.result.as_str(), kept.replace("MARKED", MARKED));
        let excluded: Vec<_> = list.excluded.iter().map(|tool| &*tool.name).collect();
        assert_eq!(excluded, ["bad", "worse"]);
        assert!(list.excluded[0].reason.to_string().contains("properties.a"));
        let kept: Vec<_> = list.tools.iter().map(|(name, tool)| (&**name, tool.headers.is_some())).collect();
        assert_eq!(kept, [("good", true), ("plain", false)]);
        assert!(list.result.validate().is_ok());
    }

    #[test]
    fn list_of_invalid_tools_is_empty() {
        let list = read(&r#"{"tools":[{"name":"bad","inputSchema":INVALID}]}"#.replace("INVALID", INVALID));
        assert_eq!(list.result.as_str(), r#"{"tools":[]}"#);
    }

    #[test]
    fn reader_does_not_copy_a_list_without_invalid_tools() {
        let result = Raw::new(r#"{"tools":[{"name":"a","inputSchema":{}}]}"#).expect("valid JSON");
        let list = ToolList::read(result.clone());
        assert_eq!(list.result.as_bytes().as_ptr(), result.as_bytes().as_ptr());
    }

    #[test]
    fn hints_of_a_tool_count_only_if_they_are_true() {
        let list = read(
            r#"{"tools":[{"name":"a","annotations":{"readOnlyHint":true}},
                {"name":"b","annotations":{"idempotentHint":true,"readOnlyHint":"true"}},
                {"name":"c","annotations":{"idempotentHint":1,"readOnlyHint":false}},
                {"name":"d","annotations":[true,true]},{"name":"e"}]}"#,
        );
        let repeatable: Vec<_> = list.tools.iter().map(|(_, tool)| tool.is_repeatable).collect();
        assert_eq!(repeatable, [true, true, false, false, false]);
    }

    #[test]
    fn reader_does_not_change_other_results() {
        for odd in [
            "{}",
            "[]",
            "null",
            r#"{"tools":{}}"#,
            r#"{"tools":null}"#,
            r#"{"tools":[1,null,"x",[]]}"#,
            r#"{"tools":[{"name":1},{}]}"#,
        ] {
            let list = read(odd);
            assert_eq!(list.result.as_str(), odd);
            assert!(list.tools.is_empty() && list.excluded.is_empty());
        }
    }

    #[test]
    fn reader_takes_the_last_of_duplicate_members() {
        let list = read(
            &r#"{"tools":[{"name":"x"}],"tools":[{"name":"a","name":"b","inputSchema":INVALID,"inputSchema":{}}]}"#
                .replace("INVALID", INVALID),
        );
        assert_eq!(list.tools.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["b"]);
        assert!(list.excluded.is_empty());
    }
}
