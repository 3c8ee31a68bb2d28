//! Speed of reading an envelope compared with its theoretical limit, the UTF-8 check, and with serde_json: an envelope
//! of `&RawValue`, and a whole `Value`.
//!
//! `cargo bench -p mcp-proto --bench envelope`; arguments as in [`rows::measure_row`].

mod measure;
mod rows;

use std::hint::black_box;

use bytes::Bytes;
use mcp_proto::rpc::{Frame, Message, read};
use rows::measure_row;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[expect(dead_code, reason = "reading an envelope finds all its members")]
struct Peer<'a> {
    jsonrpc: &'a str,
    id: Option<i64>,
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

fn main() {
    println!(
        "{:24} {:>8} {:>18} {:>18} {:>18} {:>8} {:>8}",
        "ns/allocations", "UTF-8", "ours", "RawValue", "Value", "× raw", "× value"
    );
    let call = r#"{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{"name":"echo","arguments":{"message":"The quick brown fox jumps over the lazy dog"},"_meta":{"progressToken":12345}}}"#;
    row("tools/call request", call);
    row("200 B result", &result(&text(80)));
    row("2 KB plain", &result(&text(1_900)));
    row("100 KB plain text", &result(&text(100_000)));
    row("100 KB escaped", &result(&escaped(100_000)));
    row("100 KB structured", &structured(100_000));
}

/// A tool's result; `text` is the inside of a JSON string.
fn result(text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":12345,"result":{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}}}"#
    )
}

fn text(length: usize) -> String {
    "The quick brown fox jumps over the lazy dog. ".chars().cycle().take(length).collect()
}

/// Source code: a newline and a quote every few words.
fn escaped(length: usize) -> String {
    let line = r#"    let name = \"value\";\n\tprint(\"%s\", name);\n"#;
    line.repeat(length / line.len())
}

fn structured(length: usize) -> String {
    let mut rows = String::new();
    let mut n = 0;
    while rows.len() < length {
        if n > 0 {
            rows.push(',');
        }
        rows += &format!(
            r#"{{"id":{n},"name":"item {n}","price":{}.5,"tags":["red","large"],"stock":{{"here":true,"count":{}}}}}"#,
            n * 3,
            n % 17
        );
        n += 1;
    }
    format!(
        r#"{{"jsonrpc":"2.0","id":12345,"result":{{"content":[],"structuredContent":{{"rows":[{rows}]}}}}}}"#
    )
}

fn row(name: &str, message: &str) {
    // A line as the framing returns it: a slice of the chunk that was read.
    let chunk = Bytes::from(format!("{message}\n"));
    let line = chunk.slice(..message.len());
    let mut utf8 = || {
        black_box(std::str::from_utf8(black_box(&line))).unwrap();
    };
    let mut ours = || {
        let frame = read(black_box(&line), 128);
        assert!(matches!(frame, Ok(Frame::Single(Message::Request(_) | Message::Response(_)))));
        black_box(&frame);
    };
    let mut peer = || {
        let envelope: Peer<'_> = serde_json::from_slice(black_box(&line)).unwrap();
        black_box(&envelope);
    };
    let mut value = || {
        let value: Value = serde_json::from_slice(black_box(&line)).unwrap();
        black_box(&value);
    };
    let candidates: [(&str, &mut dyn FnMut()); 4] =
        [("limit", &mut utf8), ("ours", &mut ours), ("peer", &mut peer), ("value", &mut value)];
    let Some([utf8, ours, peer, value]) = measure_row(name, candidates) else { return };
    println!(
        "{name:24} {:>8.0} {:>14.0}/{:<3} {:>14.0}/{:<3} {:>12.0}/{:<5} {:>8.2} {:>8.2}",
        utf8.nanoseconds,
        ours.nanoseconds,
        ours.allocations,
        peer.nanoseconds,
        peer.allocations,
        value.nanoseconds,
        value.allocations,
        peer.nanoseconds / ours.nanoseconds,
        value.nanoseconds / ours.nanoseconds,
    );
}
