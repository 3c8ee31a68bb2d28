//! Input from a client to a server on a stream.

use std::hint::black_box;

use mcp_proto::Bytes;
use mcp_proto::schema::ServerCapability;
use serde_json::json;

use super::{Shape, Work, commas, repeat, shape};
use crate::common::messages::request_meta;
use crate::common::server::{ServerHarness, config};

pub const SHAPES: [Shape; 14] = [
    shape("server: requests", |bytes| receive_lines(modern(), requests(bytes, "\"r@\"", "{}"))),
    shape("server: requests under long ids", |bytes| {
        receive_lines(modern(), requests(bytes, &format!("\"{}@\"", "x".repeat(5000)), "{}"))
    }),
    shape("server: the same id again", |bytes| receive_lines(modern(), requests(bytes, "7", "{}"))),
    shape("server: cancelled requests", |bytes| {
        let request = r#"{"jsonrpc":"2.0","id":@,"method":"tools/list"}"#;
        let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":@}}"#;
        receive_lines(
            ServerHarness::legacy_at("2025-11-25"),
            repeat(bytes, "\n", &format!("{request}\n{cancelled}")),
        )
    }),
    shape("server: resource subscriptions of a session", |bytes| {
        let request =
            r#"{"jsonrpc":"2.0","id":@,"method":"resources/subscribe","params":{"uri":"file:///@"}}"#;
        receive_lines(ServerHarness::legacy_at("2025-11-25"), repeat(bytes, "\n", request))
    }),
    shape("server: resource subscriptions of a listen request", |bytes| {
        receive_lines(modern(), listen(&format!(r#""resourceSubscriptions":[{}]"#, commas(bytes, "\"f:@\""))))
    }),
    shape("server: the same resource again", |bytes| {
        receive_lines(modern(), listen(&format!(r#""resourceSubscriptions":[{}]"#, commas(bytes, "\"f:\""))))
    }),
    shape("server: task subscriptions of a listen request", |bytes| {
        receive_lines(modern(), listen(&format!(r#""taskIds":[{}]"#, commas(bytes, "\"t@\""))))
    }),
    shape("server: entries of _meta", |bytes| {
        receive_lines(modern(), requests(0, "1", &format!("{{{}}}", commas(bytes, "\"x/a@\":1"))))
    }),
    shape("server: unknown parameters", |bytes| {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{}}}}}"#,
            commas(bytes, "\"x@\":1")
        );
        receive_lines(ServerHarness::legacy_at("2025-11-25"), line)
    }),
    shape("server: notifications", |bytes| {
        receive_lines(modern(), repeat(bytes, "\n", r#"{"jsonrpc":"2.0","method":"x","params":{"a":@}}"#))
    }),
    shape("server: a batch", |bytes| {
        let message =
            format!(r#"{}{{"jsonrpc":"2.0","id":7,"method":"tools/list"}}"#, " ".repeat(bytes / 1000));
        receive_lines(ServerHarness::legacy_at("2025-03-26"), format!("[{}]", vec![message; 1000].join(",")))
    }),
    shape("server: truncated messages", |bytes| {
        receive_lines(modern(), repeat(bytes, "\n", r#"{"jsonrpc":"2.0","id":@,"params":[[1]"#))
    }),
    shape("server: capabilities of a client", |bytes| {
        let some = commas(bytes, "\"x@\":{}");
        let params = format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{{"experimental":{{{some}}}}},"clientInfo":{{"name":"c","version":"1"}}}}"#
        );
        receive_lines(
            modern(),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#),
        )
    }),
];

fn modern() -> ServerHarness {
    let mut config = config();
    config.capabilities = config.capabilities.with(ServerCapability::TasksExtension);
    ServerHarness::new(config)
}

/// Modern requests, at least one, with additional entries in `_meta`.
fn requests(bytes: usize, id: &str, meta: &str) -> String {
    let own = request_meta().to_string();
    let meta = match (own.strip_suffix('}'), meta.strip_prefix('{')) {
        (Some(own), Some(more)) if more != "}" => format!("{own},{more}"),
        _ => own,
    };
    repeat(
        bytes.max(1),
        "\n",
        &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{"_meta":{meta}}}}}"#),
    )
}

fn listen(filter: &str) -> String {
    let mut meta = request_meta();
    meta["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let params = format!(r#"{{"_meta":{meta},"notifications":{{{filter}}}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{params}}}"#)
}

/// The server receives `lines`; all its events and output are polled.
fn receive_lines(mut s: ServerHarness, lines: String) -> Work {
    let lines = Bytes::from(lines + "\n");
    Box::new(move || {
        s.server.handle_input(s.now, lines);
        while let Some(event) = s.server.poll_event() {
            black_box(event);
        }
        let mut out = Vec::new();
        while s.server.poll_transmit(&mut out) {}
        black_box(out);
    })
}
