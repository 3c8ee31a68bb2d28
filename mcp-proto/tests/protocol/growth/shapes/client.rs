//! Input from a server to a client on a stream.

use std::hint::black_box;

use mcp_proto::peer::RequestOptions;
use mcp_proto::peer::client::{ClientConfig, WatchFilter, WatchStart};
use mcp_proto::schema::{CallTool, CallToolParams, ClientCapability, ListTools};
use mcp_proto::{Bytes, Limits};
use serde_json::{Value, json};

use super::{Shape, Work, commas, repeat, shape};
use crate::common::client::{ClientHarness, config};
use crate::common::messages::{discover_result, initialize_result};

const FORM: &str = r#"{"method":"elicitation/create","params":{"message":"","requestedSchema":{"type":"object","properties":{}}}}"#;

pub const SHAPES: [Shape; 23] = [
    shape("client: input requests", |bytes| input(commas(bytes, r#""@":{"method":""}"#))),
    shape("client: input requests of few bytes", |bytes| input(commas(bytes, "\"@\":1"))),
    shape("client: the same input request again", |bytes| {
        input(commas(bytes, r#""k":{"method":"roots/list"}"#))
    }),
    shape("client: pages to visit", |bytes| pages(commas(bytes, r#"{"mode":"url","elicitationId":"@"}"#))),
    shape("client: the same page again", |bytes| {
        pages(commas(bytes, r#"{"mode":"url","elicitationId":"p"}"#))
    }),
    shape("client: input requests of a task", |bytes| {
        let requests = commas(bytes, &format!("\"k@\":{FORM}"));
        task(format!(r#""status":"input_required","inputRequests":{{{requests}}}"#))
    }),
    shape("client: unknown fields of a task", |bytes| {
        task(format!(r#""status":"working",{}"#, commas(bytes, "\"x@\":1")))
    }),
    shape("client: task notifications", |bytes| {
        receive_lines(
            modern(),
            message(bytes, "notifications/tasks", r#"{"taskId":"t@","status":"working"}"#),
        )
    }),
    shape("client: answers to unknown ids", |bytes| {
        receive_lines(modern(), repeat(bytes, "\n", r#"{"jsonrpc":"2.0","id":@,"result":{}}"#))
    }),
    shape("client: answers under long ids", |bytes| {
        receive_lines(
            modern(),
            repeat(bytes, "\n", &format!(r#"{{"jsonrpc":"2.0","id":"{}@","result":0}}"#, "x".repeat(5000))),
        )
    }),
    shape("client: progress", |bytes| {
        let mut s = modern();
        s.client.at(s.now).request::<CallTool>(&CallToolParams::new("t"), RequestOptions::default()).unwrap();
        receive_lines(s, message(bytes, "notifications/progress", r#"{"progressToken":2,"progress":@}"#))
    }),
    shape("client: notifications", |bytes| {
        receive_lines(modern(), message(bytes, "notifications/x", r#"{"a":@}"#))
    }),
    shape("client: resource updates", |bytes| {
        receive_lines(
            watching(),
            message(bytes, "notifications/resources/updated", r#"{"uri":"file:///a/@"}"#),
        )
    }),
    shape("client: an update of a deeply nested resource", |bytes| {
        let uri = format!("file:///{}", repeat(bytes, "/", "@"));
        let params = format!(r#"{{"uri":"{uri}"}}"#);
        let line =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{params}}}"#);
        receive_lines(watching(), line)
    }),
    shape("client: resource updates with a cache", |bytes| {
        let mut config = open_config();
        config.cache.bytes = 1 << 20;
        let mut s = ClientHarness::modern(config);
        s.client.at(s.now).request::<ListTools>(&Default::default(), RequestOptions::default()).unwrap();
        receive_lines(
            s,
            message(bytes, "notifications/resources/updated", r#"{"uri":"file:///a/@/b/c/d/e/f"}"#),
        )
    }),
    shape("client: requests", |bytes| {
        receive_lines(
            ClientHarness::legacy(open_config()),
            repeat(bytes, "\n", r#"{"jsonrpc":"2.0","id":@,"method":"roots/list"}"#),
        )
    }),
    shape("client: requests before the handshake", |bytes| {
        receive_lines(
            ClientHarness::open(open_config()),
            repeat(bytes, "\n", r#"{"jsonrpc":"2.0","id":@,"method":"roots/list"}"#),
        )
    }),
    shape("client: cancelled requests", |bytes| {
        let request = r#"{"jsonrpc":"2.0","id":@,"method":"roots/list"}"#;
        let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":@}}"#;
        receive_lines(
            ClientHarness::legacy(open_config()),
            repeat(bytes, "\n", &format!("{request}\n{cancelled}")),
        )
    }),
    shape("client: a batch", |bytes| {
        let pad = " ".repeat(bytes / 1000);
        let request = format!(r#"{pad}{{"jsonrpc":"2.0","id":7,"method":"ping"}}"#);
        receive_lines(
            ClientHarness::legacy_at(open_config(), "2025-03-26"),
            format!("[{}]", vec![request; 1000].join(",")),
        )
    }),
    shape("client: truncated messages", |bytes| {
        receive_lines(modern(), repeat(bytes, "\n", r#"{"jsonrpc":"2.0","id":@"#))
    }),
    shape("client: supported versions", |bytes| {
        let mut s = ClientHarness::open(open_config());
        let id = s.expect("server/discover");
        let mut result = discover_result();
        result["supportedVersions"] = json!(["\u{1}"]);
        receive_lines(s, answer(&id, &result).replace("\"\\u0001\"", &commas(bytes, "\"v@\"")))
    }),
    shape("client: capabilities of a server", |bytes| {
        let mut s = ClientHarness::open(legacy_only());
        let id = s.expect("initialize");
        let mut result = initialize_result("2025-11-25");
        result["capabilities"]["experimental"] = json!({"\u{1}": 1});
        receive_lines(s, answer(&id, &result).replace("\"\\u0001\":1", &commas(bytes, "\"v@\":{}")))
    }),
    shape("client: tools as tasks", |bytes| {
        let mut config = legacy_only();
        config.limits = Limits { task_tools: usize::MAX, ..Limits::default() };
        let mut s = ClientHarness::open(config);
        let id = s.expect("initialize");
        let mut result = initialize_result("2025-11-25");
        result["capabilities"]["tasks"] = json!({"requests": {"tools": {"call": {}}}});
        s.answer(&id, result);
        s.line();
        s.client.at(s.now).request::<ListTools>(&Default::default(), RequestOptions::default()).unwrap();
        let id = s.expect("tools/list");
        let tools = commas(bytes, r#"{"name":"t@","inputSchema":{},"execution":{"taskSupport":"required"}}"#);
        receive_lines(s, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{tools}]}}}}"#))
    }),
];

fn open_config() -> ClientConfig {
    let mut config = config();
    let all = [
        ClientCapability::Roots,
        ClientCapability::ElicitationForm,
        ClientCapability::ElicitationUrl,
        ClientCapability::TasksExtension,
    ];
    config.capabilities = all.into_iter().fold(config.capabilities, |declared, one| declared.with(one));
    config
}

fn legacy_only() -> ClientConfig {
    let mut config = open_config();
    config.era_policy = mcp_proto::peer::client::EraPolicy::LegacyOnly;
    config
}

fn modern() -> ClientHarness {
    ClientHarness::modern(open_config())
}

fn watching() -> ClientHarness {
    let mut s = ClientHarness::legacy(open_config());
    s.client
        .at(s.now)
        .watch(WatchFilter::new().resource("file:///a").resource("file:///b"), WatchStart::Now)
        .unwrap();
    s
}

fn message(bytes: usize, method: &str, params: &str) -> String {
    repeat(bytes, "\n", &format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))
}

fn answer(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// The client receives `lines`; all its events and output are polled.
fn receive_lines(mut s: ClientHarness, lines: String) -> Work {
    let lines = Bytes::from(lines + "\n");
    Box::new(move || {
        s.client.handle_input(s.now, lines);
        while let Some(event) = s.client.poll_event() {
            black_box(event);
        }
        let mut out = Vec::new();
        while s.client.poll_transmit(&mut out) {}
        black_box(out);
    })
}

fn call(s: &mut ClientHarness) -> Value {
    s.client.at(s.now).request::<CallTool>(&CallToolParams::new("t"), RequestOptions::default()).unwrap();
    s.expect("tools/call")
}

/// The server answers a call with input requests.
fn input(requests: String) -> Work {
    let mut s = modern();
    let id = call(&mut s);
    let result = format!(r#"{{"resultType":"input_required","inputRequests":{{{requests}}}}}"#);
    receive_lines(s, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

/// The server answers a call with pages that the user must visit.
fn pages(pages: String) -> Work {
    let mut s = ClientHarness::legacy(open_config());
    let id = call(&mut s);
    let error = format!(r#"{{"code":-32042,"message":"","data":{{"elicitations":[{pages}]}}}}"#);
    receive_lines(s, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
}

/// A call becomes a task, for which the server sends a notification with `fields`.
fn task(fields: String) -> Work {
    let mut s = modern();
    let id = call(&mut s);
    s.answer(&id, json!({"resultType": "task", "taskId": "t", "status": "working", "pollIntervalMs": 50}));
    let params = format!(r#"{{"taskId":"t",{fields}}}"#);
    receive_lines(s, format!(r#"{{"jsonrpc":"2.0","method":"notifications/tasks","params":{params}}}"#))
}
