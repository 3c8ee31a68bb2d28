//! Traces with many of everything, which are read, judged and written again.

use std::hint::black_box;

use mcp_proto::trace_file::{Trace, TraceRecord};

use super::{Shape, Work, repeat, shape};

pub const SHAPES: [Shape; 8] = [
    shape("trace: connections", |bytes| {
        trace(bytes, r#"{"at":1,"connection":@,"event":"opened","server":"a","transport":"stdio"}"#)
    }),
    shape("trace: requests in flight", |bytes| {
        messages(bytes, r#"client@{'jsonrpc':'2.0','id':@,'method':'ping'}"#)
    }),
    shape("trace: requests of both sides", |bytes| {
        messages(
            bytes,
            "client@{'jsonrpc':'2.0','id':@,'method':'ping'}\nserver@{'jsonrpc':'2.0','id':@,'method':'ping'}",
        )
    }),
    shape("trace: answers to nothing", |bytes| {
        messages(bytes, r#"server@{'jsonrpc':'2.0','id':@,'result':{}}"#)
    }),
    shape("trace: progress", |bytes| {
        let progress = "server@{'jsonrpc':'2.0','method':'notifications/progress','params':{'progressToken':@,'progress':1}}";
        let call = "client@{'jsonrpc':'2.0','id':@,'method':'a','params':{'_meta':{'progressToken':@}}}";
        messages(bytes, &format!("{call}\n{progress}\n{progress}"))
    }),
    shape("trace: exchanges", |bytes| {
        let request = r#"{"at":1,"connection":1,"event":"request","exchange":@,"method":"GET","url":"","headers":[["a","b"]],"frame":""}"#;
        trace(
            bytes,
            &format!(
                "{request}\n{}",
                r#"{"at":1,"connection":1,"event":"message","from":"server","exchange":@,"frame":"data: {"}"#
            ),
        )
    }),
    shape("trace: cancellations", |bytes| {
        let cancelled =
            "client@{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':@}}";
        messages(bytes, &format!("client@{{'jsonrpc':'2.0','id':@,'method':'a'}}\n{cancelled}"))
    }),
    shape("trace: lines that are no records", |bytes| {
        trace(bytes, r#"{"at":1,"connection":1,"event":{"@":["#)
    }),
];

/// A trace whose lines repeat a text.
fn trace(bytes: usize, lines: &str) -> Work {
    let header = r#"{"mcpTrace":1,"started":0,"program":"test","redacted":true}"#;
    let file = format!("{header}\n{}", repeat(bytes, "\n", lines));
    Box::new(move || {
        let trace = Trace::parse(file.as_bytes()).unwrap();
        black_box(trace.report());
        black_box(trace.records.iter().map(TraceRecord::to_line).collect::<Vec<_>>());
    })
}

/// A trace whose messages, each behind its sender and `@`, repeat.
fn messages(bytes: usize, messages: &str) -> Work {
    let lines = messages.lines().map(|message| {
        let (from, text) = message.split_once('@').unwrap();
        let frame = text.replace('\'', "\\\"");
        format!(r#"{{"at":1,"connection":1,"event":"message","from":"{from}","frame":"{frame}"}}"#)
    });
    trace(bytes, &lines.collect::<Vec<_>>().join("\n"))
}
