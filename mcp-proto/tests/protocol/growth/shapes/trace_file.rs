//! Traces with many of everything, which are read, judged, written and replayed.

use std::hint::black_box;

use mcp_proto::testing;
use mcp_proto::trace_file::{Recording, Trace, TraceRecord};

use super::{Shape, Work, commas, repeat, shape};

pub const SHAPES: [Shape; 13] = [
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
    shape("trace: members that differ", |bytes| {
        let members = |value| format!("{{{}}}", commas(bytes, &format!("'a@':{value}")));
        replay(&members(1), &members(2))
    }),
    shape("trace: named items in another order", |bytes| {
        let items = commas(bytes, "{'name':'a@'}");
        let reversed: Vec<_> = items.rsplit(',').collect();
        replay(&format!("[{items}]"), &format!("[{}]", reversed.join(",")))
    }),
    shape("trace: hidden parts", |bytes| {
        let text = |pattern| format!("'{}'", repeat(bytes, "", pattern));
        replay(&text("a[redacted]"), &text("aab"))
    }),
    shape("trace: ids that are other ones", |bytes| {
        let ids = |value| format!("[{}]", commas(bytes, &format!("{{'id':'{value}@'}}")));
        replay(&ids("abcd"), &ids("bcde"))
    }),
    shape("trace: JSON in texts", |bytes| {
        let texts = |value| format!("[{}]", commas(bytes, &format!("'[@,{value}]'")));
        replay(&texts("1"), &texts("1 "))
    }),
];

const HEADER: &str = r#"{"mcpTrace":1,"started":0,"program":"test","redacted":true}"#;

/// A trace whose lines repeat a text.
fn trace(bytes: usize, lines: &str) -> Work {
    let file = format!("{HEADER}\n{}", repeat(bytes, "\n", lines));
    Box::new(move || {
        let trace = Trace::parse(file.as_bytes()).unwrap();
        black_box(trace.report());
        black_box(trace.records.iter().map(TraceRecord::to_line).collect::<Vec<_>>());
    })
}

/// A trace whose messages, each behind its sender and `@`, repeat.
fn messages(bytes: usize, messages: &str) -> Work {
    trace(bytes, &records(messages))
}

fn records(messages: &str) -> String {
    let lines = messages.lines().map(|message| {
        let (from, text) = message.split_once('@').unwrap();
        let frame = text.replace('\'', "\\\"");
        format!(r#"{{"at":1,"connection":1,"event":"message","from":"{from}","frame":"{frame}"}}"#)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// An answer that is replayed, of a server that gives another one.
fn replay(recorded: &str, live: &str) -> Work {
    let recording = |answer: &str| {
        let request = "client@{'jsonrpc':'2.0','id':1,'method':'a'}";
        let answer = format!("server@{{'jsonrpc':'2.0','id':1,'result':{{'b':{answer}}}}}");
        let file = format!("{HEADER}\n{}", records(&format!("{request}\n{answer}")));
        Recording::new(&Trace::parse(file.as_bytes()).unwrap(), None).unwrap()
    };
    let (recorded, live) = (recording(recorded), recording(live));
    Box::new(move || {
        let replay = recorded.replay().all_calls();
        let report = testing::pair(live.router()).run(async |client| replay.run(&client).await);
        assert_eq!(report.calls.len(), 1);
        black_box(report);
    })
}
