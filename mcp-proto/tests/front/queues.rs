//! The queues of a client's front count bytes, and report dropped items.

use core::task::Poll;

use crate::common::front::ClientHarness;
use crate::common::messages::{notification, text};
use crate::common::polling::{boxed, poll, ready};
use mcp_proto::front::{Error, Event, ListError, PagesError, WatchUpdate};
use mcp_proto::peer::client::Change;
use serde_json::{Value, json};

const MIB: usize = 1024 * 1024;

#[test]
fn progress_queue_drops_the_oldest_bytes_and_counts_them() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("slow", json!({})).start().unwrap();
    let id = s.expect("tools/call");
    for value in 0..20 {
        let params = json!({"progressToken": id, "progress": value, "message": "x".repeat(MIB)});
        s.receive(&[notification("notifications/progress", params)]);
    }
    assert_eq!(call.missed_progress(), 5);
    s.answer(&id, text("done"));
    let mut seen = Vec::new();
    while let Some(report) = ready(poll(&mut boxed(call.progress()))) {
        seen.push(report.progress.as_i64().unwrap());
    }
    assert_eq!(seen, (5..20).collect::<Vec<_>>());
    assert_eq!(call.missed_progress(), 5);
}

#[test]
fn watch_drops_the_oldest_bytes_and_counts_them() {
    let mut s = ClientHarness::modern();
    let mut watch = s.client.watch().resource("file:///").open().unwrap();
    let id = s.expect("subscriptions/listen");
    let tell = |s: &mut ClientHarness, method: &str, mut params: Value| {
        params["_meta"]["io.modelcontextprotocol/subscriptionId"] = id.clone();
        s.receive(&[notification(method, params)]);
    };
    let filter = json!({"resourceSubscriptions": ["file:///"]});
    tell(&mut s, "notifications/subscriptions/acknowledged", json!({"notifications": filter}));
    for number in 0..20 {
        let uri = format!("file:///{number}{}", "x".repeat(MIB));
        tell(&mut s, "notifications/resources/updated", json!({"uri": uri}));
    }
    let missed = match ready(poll(&mut boxed(watch.next()))) {
        Some(WatchUpdate::Missed { count }) => count,
        other => panic!("{other:?}"),
    };
    let mut left = 0;
    while let Poll::Ready(Some(update)) = poll(&mut boxed(watch.next())) {
        let WatchUpdate::Changed { change: Change::Resource(_), .. } = update else { panic!("{update:?}") };
        left += 1;
    }
    // The first dropped update reported that the watch is on.
    assert_eq!(missed + left, 21);
    assert!((4..=15).contains(&left), "{left} updates are left");
}

#[test]
fn list_beyond_its_byte_limit_ends_with_an_error() {
    let mut s = ClientHarness::modern();
    let page = |cursor: &str| {
        let tool = json!({"name": "t", "description": "x".repeat(1000), "inputSchema": {"type": "object"}});
        json!({
            "resultType": "complete", "tools": [tool], "nextCursor": cursor, "ttlMs": 0, "cacheScope": "private",
        })
    };
    let mut list = s.client.list_tools().byte_limit(2_500);
    for cursor in ["a", "b", "c"] {
        assert!(poll(&mut list).is_pending());
        let id = s.expect("tools/list");
        s.answer(&id, page(cursor));
    }
    assert!(matches!(
        ready(poll(&mut list)),
        Err(ListError { error: Error::Pages(PagesError::TooLong { limit: 2_500 }), .. })
    ));
    s.expect_silence();
}

#[test]
fn event_stream_counts_the_bytes_of_diagnostics_and_of_method_names() {
    for name in ["x".repeat(MIB + 16), format!("notifications/{}", "x".repeat(MIB))] {
        let mut s = ClientHarness::modern();
        let mut events = s.client.events();
        for number in 0..20 {
            s.receive(&[match name.starts_with('x') {
                true => json!({"jsonrpc": "2.0", "id": number, "method": name, "params": {}}),
                false => notification(&name, json!({})),
            }]);
        }
        let events = events.drain();
        assert!(matches!(events.first(), Some(Event::Missed { count: 5 })), "{:?}", events.len());
        assert_eq!(events.len(), 16);
    }
}
