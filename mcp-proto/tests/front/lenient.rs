//! A front whose server deviates from the specification as servers in use do.

use core::task::Poll;

use crate::common::front::{ClientHarness, config};
use crate::common::polling::{boxed, pending, poll, ready};
use mcp_proto::front::{ClientHandlers, Error, Event, Events, PagesError, SendHandlers};
use mcp_proto::peer::client::Diagnostic;
use mcp_proto::peer::{Leniency, Strictness};
use serde_json::{Value, json};

fn page(names: &[&str], next: Value) -> Value {
    let tools: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    json!({"resultType": "complete", "tools": tools, "nextCursor": next, "ttlMs": 0, "cacheScope": "private"})
}

/// The diagnostics among the events of an application.
fn tolerated(events: &mut Events<Event>) -> Vec<Leniency> {
    let mut found = Vec::new();
    while let Poll::Ready(Some(event)) = poll(&mut boxed(events.next())) {
        if let Event::Diagnostic(Diagnostic::Tolerated(leniency)) = event {
            found.push(leniency);
        }
    }
    found
}

/// C9.1, K19
#[test]
fn repeated_empty_cursor_ends_the_list() {
    for (pages, names) in [
        // The server sends its only page again and again.
        (vec![page(&["a"], json!("")), page(&["a"], json!(""))], vec!["a"]),
        // The empty cursor is a normal one until it is repeated.
        (vec![page(&["a"], json!("")), page(&["b"], json!(""))], vec!["a", "b"]),
        (vec![page(&["a"], json!("x")), page(&["b"], json!("")), page(&["b"], json!(""))], vec!["a", "b"]),
        (vec![page(&["a"], json!("")), page(&["a"], Value::Null)], vec!["a", "a"]),
    ] {
        let mut s = ClientHarness::modern();
        let mut events = s.client.events();
        let mut list = s.client.list_tools();
        for page in &pages {
            pending(poll(&mut list));
            let id = s.expect("tools/list");
            s.answer(&id, page.clone());
        }
        let tools = ready(poll(&mut list)).unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), names);
        s.expect_silence();
        let expected = if pages.last().is_some_and(|page| page["nextCursor"].is_null()) { 0 } else { 1 };
        assert_eq!(tolerated(&mut events), vec![Leniency::EmptyCursor { method: "tools/list" }; expected]);
    }
}

/// C9.1
#[test]
fn repeated_empty_cursor_is_an_error_for_a_strict_client() {
    let mut strict = config();
    strict.strictness = Strictness::Strict;
    let mut s = ClientHarness::<SendHandlers>::open(strict, ClientHandlers::new());
    let id = s.expect("server/discover");
    let discovered =
        json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}});
    s.answer(&id, discovered);
    let mut list = s.client.list_tools();
    for _ in 0..2 {
        pending(poll(&mut list));
        let id = s.expect("tools/list");
        s.answer(&id, page(&["a"], json!("")));
    }
    let error = ready(poll(&mut list)).unwrap_err();
    assert!(matches!(Error::from(error), Error::Pages(PagesError::Repeated { cursor }) if cursor.is_empty()));
}
