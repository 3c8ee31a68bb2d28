//! Tool calls that become tasks: over a byte stream, over HTTP and through the front, in both eras.

mod front;
mod handles;
mod http;
mod legacy;
mod modern;
mod receiver;
mod walk;

use core::time::Duration;

use crate::common::client::{ClientHarness, config};
use mcp_proto::peer::client::{ClientConfig, EraPolicy, Event};
use mcp_proto::peer::{Outcome, RequestId, RequestOptions};
use mcp_proto::schema::tasks::TaskStatus;
use mcp_proto::schema::{CallTool, CallToolParams, ClientCapability, ListTools, PaginatedParams};
use serde_json::{Value, json};

pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

// --- Messages of a server ---

/// A client of a modern server that does not declare the tasks extension.
pub(crate) fn without_tasks() -> ClientHarness {
    let mut s = ClientHarness::open(config());
    let probe = s.expect("server/discover");
    let mut discovered = crate::common::messages::discover_result();
    discovered["capabilities"]["extensions"] = json!({"com.example/other": {}});
    s.answer(&probe, discovered);
    s.take_events();
    s
}

pub(crate) fn task(status: &str) -> Value {
    json!({
        "resultType": "complete", "taskId": "task-1", "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null, "pollIntervalMs": 2000,
    })
}

pub(crate) fn created() -> Value {
    with(task("working"), "resultType", json!("task"))
}

pub(crate) fn with(mut task: Value, field: &str, value: Value) -> Value {
    task[field] = value;
    task
}

pub(crate) fn completed() -> Value {
    with(task("completed"), "result", json!({"content": [{"type": "text", "text": "done"}]}))
}

pub(crate) fn asking(keys: &[&str]) -> Value {
    let mut requests = json!({});
    for key in keys {
        requests[*key] = json!({"method": "elicitation/create", "params": {
            "mode": "form", "message": "Your name?", "requestedSchema": {"type": "object", "properties": {}},
        }});
    }
    with(task("input_required"), "inputRequests", requests)
}

pub(crate) fn legacy_task(status: &str) -> Value {
    json!({
        "taskId": "task-1", "status": status, "createdAt": "2025-11-25T10:30:00Z",
        "lastUpdatedAt": "2025-11-25T10:30:00Z", "ttl": 60000, "pollInterval": 2000,
    })
}

pub(crate) fn legacy_capabilities() -> Value {
    json!({"tools": {}, "tasks": {"cancel": {}, "list": {}, "requests": {"tools": {"call": {}}}}})
}

/// A legacy server with these capabilities, after a `tools/list`.
pub(crate) fn legacy_with(capabilities: Value) -> ClientHarness {
    legacy_by(config(), capabilities)
}

pub(crate) fn legacy_of(config: ClientConfig) -> ClientHarness {
    legacy_by(config, legacy_capabilities())
}

fn legacy_by(mut config: ClientConfig, capabilities: Value) -> ClientHarness {
    config.era_policy = EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(config);
    let id = s.expect("initialize");
    let server = json!({"name": "scripted", "version": "1"});
    s.answer(
        &id,
        json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server}),
    );
    assert_eq!(s.line()["method"], "notifications/initialized");
    list_tools(&mut s, tools());
    s
}

pub(crate) fn tools() -> Value {
    let tool = |name: &str, support: Value| json!({"name": name, "inputSchema": {"type": "object"}, "execution": support});
    json!({"tools": [
        tool("plain", json!({})), tool("forbidden", json!({"taskSupport": "forbidden"})),
        tool("optional", json!({"taskSupport": "optional"})), tool("required", json!({"taskSupport": "required"})),
    ]})
}

pub(crate) fn list_tools(s: &mut ClientHarness, page: Value) {
    s.client.at(s.now).request::<ListTools>(&PaginatedParams::default(), RequestOptions::default()).unwrap();
    let id = s.expect("tools/list");
    s.answer(&id, page);
    s.take_events();
}

pub(crate) fn legacy() -> ClientHarness {
    legacy_with(legacy_capabilities())
}

pub(crate) fn eliciting() -> ClientHarness {
    let mut config = config();
    config.capabilities = config.capabilities.with(ClientCapability::ElicitationForm);
    ClientHarness::modern(config)
}

// --- Actions of a client ---

pub(crate) fn call(s: &mut ClientHarness, tool: &str, options: RequestOptions) -> (RequestId, Value) {
    let request = s.client.at(s.now).request::<CallTool>(&CallToolParams::new(tool), options).unwrap();
    (request, s.line())
}

/// A call that has become a task.
pub(crate) fn started_task(s: &mut ClientHarness) -> RequestId {
    let (request, line) = call(s, "slow", RequestOptions::default());
    s.answer(&line["id"], created());
    request
}

/// A call of 2025-11-25 that has become a task.
pub(crate) fn started_legacy_task(s: &mut ClientHarness) -> RequestId {
    let (request, line) = call(s, "required", RequestOptions::default());
    s.answer(&line["id"], json!({"task": legacy_task("working")}));
    request
}

/// Advances to the next poll and returns its id.
pub(crate) fn answer_poll(s: &mut ClientHarness) -> Value {
    s.advance(INTERVAL);
    let line = s.line();
    assert_eq!(
        (&line["method"], &line["params"]["taskId"]),
        (&json!("tasks/get"), &json!("task-1")),
        "{line}"
    );
    line["id"].clone()
}

pub(crate) fn result(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Result(raw) => serde_json::from_str(raw.as_str()).unwrap(),
        other => panic!("no result: {other:?}"),
    }
}

pub(crate) fn statuses(s: &mut ClientHarness) -> Vec<TaskStatus> {
    let events = s.take_events();
    let status = |event: &Event| match event {
        Event::TaskStatus { report, .. } => Some(report.status),
        _ => None,
    };
    let statuses = events.iter().filter_map(status).collect();
    s.events = events;
    statuses
}

pub(crate) fn input_requests(s: &mut ClientHarness) -> Vec<mcp_proto::peer::InboundId> {
    let events = s.take_events();
    let id = |event: &Event| match event {
        Event::Request { id, method, .. } => {
            assert_eq!(method.name, "elicitation/create");
            Some(*id)
        }
        _ => None,
    };
    events.iter().filter_map(id).collect()
}

pub(crate) fn declared(line: &Value) -> &Value {
    &line["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"][EXTENSION]
}
