//! Input of the framing and of the envelope parser.

use std::hint::black_box;

use mcp_proto::Bytes;
use mcp_proto::codec::{Lines, Sse, header, media};
use mcp_proto::rpc::{Frame, read, recover, recover_ends};

use super::{Shape, Work, commas, repeat, shape};

pub const SHAPES: [Shape; 20] = [
    shape("lines: short lines", |bytes| lines(repeat(bytes, "\n", "@"), usize::MAX)),
    shape("lines: blank lines", |bytes| lines(repeat(bytes, "\n", " \r"), usize::MAX)),
    shape("lines: one line in pieces of 7 bytes", |bytes| lines(repeat(bytes, "", "x"), 7)),
    shape("lines: pieces of 7 bytes, read at the end", |bytes| {
        let text = Bytes::from(repeat(bytes, "\n", "@@"));
        Box::new(move || {
            let mut lines = Lines::new(usize::MAX);
            pieces(&text, 7).for_each(|piece| lines.handle_input(piece));
            black_box(lines.handle_eof());
            while lines.poll_line().is_some() {}
        })
    }),
    shape("sse: short events", |bytes| sse(repeat(bytes, "\n\n", "data: @"), usize::MAX)),
    shape("sse: lines of data", |bytes| sse(repeat(bytes, "\n", "data:"), usize::MAX)),
    shape("sse: ids", |bytes| sse(repeat(bytes, "\n", "id:@"), usize::MAX)),
    shape("sse: names and comments", |bytes| sse(repeat(bytes, "\r", ":\revent:x\r"), usize::MAX)),
    shape("sse: events with ids in pieces of 7 bytes", |bytes| {
        sse(repeat(bytes, "\n\n", "id: @\nretry: 1\ndata: x"), 7)
    }),
    shape("header: plain and encoded values", |bytes| {
        let text = repeat(bytes, "", "ü@");
        Box::new(move || drop(black_box(header::decode(header::encode(&text).as_bytes()).unwrap())))
    }),
    shape("media: ranges and their parameters", |bytes| {
        let text = commas(bytes, "a/b@;q=1;x=\"@\\\"\"");
        Box::new(move || _ = black_box(media::accepts([text.as_bytes()], "application/json")))
    }),
    shape("rpc: unknown members", |bytes| {
        frame(format!(r#"{{"jsonrpc":"2.0",{}}}"#, commas(bytes, "\"a@\":1")))
    }),
    shape("rpc: the same member again", |bytes| frame(format!("{{{}}}", commas(bytes, "\"id\":1")))),
    shape("rpc: nested arrays", |bytes| {
        let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
        frame(format!(r#"{{"jsonrpc":"2.0","method":"m","params":[{}]}}"#, commas(bytes, &nested)))
    }),
    shape("rpc: escapes", |bytes| {
        frame(format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"m"}}"#, repeat(bytes, "", r#"\"\u0041"#)))
    }),
    shape("rpc: a batch", |bytes| {
        let text = "x".repeat(bytes / 1000);
        let message = format!(r#"{{"jsonrpc":"2.0","method":"{text}"}}"#);
        frame(format!("[{}]", vec![message; 1000].join(",")))
    }),
    shape("rpc: a batch of invalid messages", |bytes| {
        frame(format!("[{}]", vec!["x".repeat(bytes / 1000); 1000].join(",").replace('x', "1")))
    }),
    shape("rpc: a truncated message", |bytes| {
        frame(format!(r#"{{"jsonrpc":"2.0","result":[{}"#, commas(bytes, "[@,\"\\\"]\"]")))
    }),
    shape("rpc: recovery of a long message", |bytes| {
        let text = format!("{{{}", commas(bytes, "\"a@\":[1,{\"b\":2}]"));
        Box::new(move || drop(black_box(recover(text.as_bytes()))))
    }),
    shape("rpc: recovery from the end", |bytes| {
        let text = format!("{}}}", commas(bytes, r#""a@":"\\\\\"""#));
        Box::new(move || drop(black_box(recover_ends(b"{\"a", text.as_bytes()))))
    }),
];

fn pieces(text: &Bytes, size: usize) -> impl Iterator<Item = Bytes> + '_ {
    let size = size.min(text.len());
    (0..text.len()).step_by(size).map(move |at| text.slice(at..text.len().min(at + size)))
}

fn lines(text: String, size: usize) -> Work {
    let text = Bytes::from(text);
    Box::new(move || {
        let mut lines = Lines::new(usize::MAX);
        for piece in pieces(&text, size) {
            lines.handle_input(piece);
            while let Some(line) = lines.poll_line() {
                black_box(line);
            }
        }
        black_box(lines.handle_eof());
    })
}

fn sse(text: String, size: usize) -> Work {
    let text = Bytes::from(text);
    Box::new(move || {
        let mut sse = Sse::new(usize::MAX);
        for piece in pieces(&text, size) {
            sse.handle_input(piece);
            while let Some(item) = sse.poll_item() {
                black_box((item, sse.last_event_id(), sse.retry()));
            }
        }
        black_box(sse.handle_eof());
    })
}

fn frame(text: String) -> Work {
    let text = Bytes::from(text);
    Box::new(move || match read(&text, 128) {
        Ok(Frame::Batch(batch)) => batch.for_each(|message| drop(black_box(message))),
        other => drop(black_box(other)),
    })
}
