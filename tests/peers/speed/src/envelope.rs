//! From the bytes of a message to its envelope, and to typed parameters or a typed result.
//!
//! The limit is the check that the bytes are UTF-8.

use std::hint::black_box;
use std::rc::Rc;

use bytes::Bytes;
use mcp_proto::rpc::{Frame, Message, read};
use mcp_proto::schema::{CallToolParams, CallToolResult, Params, ResultFields};
use rmcp::service::RxJsonRpcMessage;
use rmcp::{RoleClient, RoleServer};
use serde_json::Value;

use crate::measure::{Mode, Row, Table, Unit};
use crate::messages::{CALL, escaped, result, structured, text};
use crate::raw_envelope::Envelope;

/// The default of [`mcp_proto::Limits::depth`].
const DEPTH: usize = 128;

pub(crate) fn run(mode: &Mode) {
    table("request, 180 B", CALL.to_owned()).run(mode);
    table("result, 200 B", result(&text(80))).run(mode);
    table("result, 2 KB", result(&text(1_900))).run(mode);
    table("result, 100 KB of plain text", result(&text(100_000))).run(mode);
    table("result, 100 KB of escaped text", result(&escaped(100_000))).run(mode);
    table("result, 100 KB structured", structured(100_000)).run(mode);
}

fn table(title: &str, message: String) -> Table {
    // A line as the framing returns it: a slice of the chunk that was read.
    let length = message.len();
    let line = Bytes::from(message + "\n").slice(..length);
    let line = Rc::new(line);
    let each = |name, row: fn(&Bytes)| {
        let line = Rc::clone(&line);
        Row::new(name, 1, move || move || row(black_box(&line)))
    };
    let rows = vec![
        each("limit: UTF-8 check", |line| {
            black_box(std::str::from_utf8(line)).expect("it is UTF-8");
        }),
        each("serde_json, RawValue", |line| {
            black_box(serde_json::from_slice::<Envelope<'_>>(line).expect("an envelope"));
        }),
        each("ours, envelope", |line| {
            black_box(message_of(line));
        }),
        each("serde_json, Value", |line| {
            black_box(serde_json::from_slice::<Value>(line).expect("JSON"));
        }),
        each("rmcp, typed message", |line| {
            if line.starts_with(br#"{"jsonrpc":"2.0","id":12345,"method""#) {
                black_box(serde_json::from_slice::<RxJsonRpcMessage<RoleServer>>(line).expect("a message"));
            } else {
                black_box(serde_json::from_slice::<RxJsonRpcMessage<RoleClient>>(line).expect("a message"));
            }
        }),
        each("ours, typed message", |line| match message_of(line) {
            Message::Request(request) => {
                black_box(CallToolParams::from_raw(&request.params.expect("some")).expect("parameters"));
            }
            Message::Response(response) => {
                black_box(CallToolResult::from_json(response.outcome.expect("a result").as_str()).expect("a result"));
            }
            Message::Notification(_) => unreachable!("none is measured"),
        }),
    ];
    Table { title: format!("message to type: {title}"), unit: Unit::Each, peer: "rmcp, typed message", rows }
}

fn message_of(line: &Bytes) -> Message {
    match read(line, DEPTH) {
        Ok(Frame::Single(message)) => message,
        other => panic!("no message: {other:?}"),
    }
}
