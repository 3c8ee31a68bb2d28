//! Speed of reading an envelope compared with its theoretical limit, the UTF-8 check, and with serde_json's
//! `&RawValue`.
//!
//! `cargo bench -p mcp-proto --bench envelope`; an argument selects the rows whose names contain it.

mod measure;

use std::hint::black_box;

use bytes::Bytes;
use mcp_proto::rpc::{Frame, Message, read};
use measure::measure;
use serde::Deserialize;
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
        "{:24} {:>8} {:>18} {:>18} {:>12}",
        "ns/allocations", "UTF-8", "ours", "serde_json", "serde ÷ ours"
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
    if std::env::args().skip(1).any(|wanted| !wanted.starts_with('-') && !name.contains(&wanted)) {
        return;
    }
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
    let [utf8, ours, peer] = measure([&mut utf8, &mut ours, &mut peer]);
    println!(
        "{name:24} {:>8.0} {:>14.0}/{:<3} {:>14.0}/{:<3} {:>12.2}",
        utf8.nanoseconds,
        ours.nanoseconds,
        ours.allocations,
        peer.nanoseconds,
        peer.allocations,
        peer.nanoseconds / ours.nanoseconds,
    );
}
