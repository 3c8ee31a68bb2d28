//! Speed of reading an envelope compared with its theoretical limit, the UTF-8 check, and with serde_json: an envelope
//! of `&RawValue`, and a whole `Value`.
//!
//! `cargo bench -p mcp-proto --bench envelope`; arguments as in [`rows::measure_row`].

mod measure;
mod messages;
mod raw_envelope;
mod rows;

use std::hint::black_box;

use bytes::Bytes;
use mcp_proto::rpc::{Frame, Message, read};
use messages::{CALL, escaped, result, structured, text};
use raw_envelope::Envelope;
use rows::measure_row;
use serde_json::Value;

fn main() {
    println!(
        "{:24} {:>8} {:>18} {:>18} {:>18} {:>8} {:>8}",
        "ns/allocations", "UTF-8", "ours", "RawValue", "Value", "× raw", "× value"
    );
    row("tools/call request", CALL);
    row("200 B result", &result(&text(80)));
    row("2 KB plain", &result(&text(1_900)));
    row("100 KB plain text", &result(&text(100_000)));
    row("100 KB escaped", &result(&escaped(100_000)));
    row("100 KB structured", &structured(100_000));
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
        let envelope: Envelope<'_> = serde_json::from_slice(black_box(&line)).unwrap();
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
