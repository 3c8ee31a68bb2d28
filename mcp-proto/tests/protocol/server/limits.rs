//! What a client can make a server store, and that a slow reader misses no change (contract 8).

use core::time::Duration;

use mcp_proto::peer::server::{Answer, Cancellation, Event, ListKind, ServerConfig};
use serde_json::{Value, json};

use crate::common::server::{ServerHarness, config};

/// More events than this wait in no test with `few_events`, whatever the client does.
const BOUND: usize = 64;

fn few_events() -> ServerConfig {
    let mut config = config();
    config.limits.events = 32;
    config
}

fn legacy(config: ServerConfig) -> ServerHarness {
    ServerHarness::legacy_with(config, "2025-11-25", json!({"roots": {}}))
}

#[test]
fn repeated_subscriptions_use_no_memory() {
    let mut s = legacy(few_events());
    for round in 0..500 {
        let uri = format!("x://{round}");
        s.request_with_id(round, "resources/subscribe", json!({"uri": uri}));
        s.request_with_id(round, "resources/unsubscribe", json!({"uri": uri}));
    }
    assert_eq!(s.lines().len(), 1000, "each is answered");
    assert!(s.events().len() < BOUND);
}

#[test]
fn repeated_log_levels_use_no_memory() {
    let mut s = legacy(few_events());
    for round in 0..500 {
        s.request_with_id(round, "logging/setLevel", json!({"level": "debug"}));
    }
    assert_eq!(s.lines().len(), 500);
    assert!(s.events().len() < BOUND);
    assert_eq!(s.server.peer().session().unwrap().log_level, Some(mcp_proto::schema::LoggingLevel::Debug));
}

#[test]
fn repeated_handshakes_use_no_memory() {
    let mut s = legacy(few_events());
    for round in 0..500 {
        s.request_with_id(round, "initialize", crate::common::server::initialize("2025-11-25"));
        s.notify("notifications/initialized", json!({}));
    }
    assert_eq!(s.lines().len(), 500);
    assert!(s.events().len() < BOUND);
    assert!(s.server.peer().session().unwrap().initialized);
}

#[test]
fn repeated_listen_requests_use_no_memory() {
    let mut s = ServerHarness::new(few_events());
    for round in 0..500 {
        let uri = format!("x://{round}");
        s.modern(round, "subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [uri]}}));
        s.notify("notifications/cancelled", json!({"requestId": round}));
    }
    assert!(s.events().len() < BOUND);
}

#[test]
fn stored_requests_are_bounded_in_bytes() {
    let mut config = config();
    config.limits.event_bytes = 100_000;
    let mut s = ServerHarness::new(config);
    let mut taken = 0;
    for round in 0..100 {
        let id = format!("{round}{}", "x".repeat(5_000));
        s.modern(id, "tools/list", json!({"_meta": {"progressToken": "y".repeat(5_000)}}));
        taken += s.events().iter().filter(|event| matches!(event, Event::Request { .. })).count();
    }
    assert!((3..=20).contains(&taken), "{taken} requests are held");
    let refused = s.lines();
    assert_eq!(refused.len(), 100 - taken);
    let expected = "the unanswered requests are too large: more than `Limits::event_bytes` allows";
    for line in &refused {
        assert_eq!(line["error"], json!({"code": -32603, "message": expected}));
    }
}

#[test]
fn response_makes_room_for_the_next_request() {
    let mut config = config();
    config.limits.event_bytes = 20_000;
    let mut s = ServerHarness::new(config);
    for round in 0..50 {
        s.modern(format!("{round}{}", "x".repeat(3_000)), "tools/list", json!({}));
        let request = s.request();
        s.server.at(s.now).respond(request, Answer::Result(&crate::common::server::tools()));
        assert!(s.line()["result"].is_object(), "{round}");
    }
}

#[test]
fn stored_subscriptions_are_bounded_in_bytes() {
    let mut config = config();
    config.limits.event_bytes = 100_000;
    let mut s = legacy(config);
    let mut taken = 0;
    for round in 0..100 {
        s.request_with_id(
            round,
            "resources/subscribe",
            json!({"uri": format!("{round}{}", "x".repeat(5_000))}),
        );
        taken += usize::from(s.line()["result"].is_object());
        s.events();
    }
    assert!((5..=20).contains(&taken), "{taken} subscriptions are held");
}

#[test]
fn subscriptions_of_both_eras_share_one_limit() {
    let mut config = config();
    config.limits.subscriptions = 4;
    let mut s = legacy(config);
    for uri in ["a:", "b:"] {
        s.request_with_id(1, "resources/subscribe", json!({"uri": uri}));
        assert!(s.line()["result"].is_object());
    }
    s.modern(
        2,
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": ["c:", "d:", "e:"]}}),
    );
    assert_eq!(s.code(), -32603);
    s.modern(2, "subscriptions/listen", json!({"notifications": {"resourceSubscriptions": ["c:"]}}));
    assert_eq!(s.line()["method"], "notifications/subscriptions/acknowledged");
    s.request_with_id(3, "resources/subscribe", json!({"uri": "d:"}));
    assert!(s.line()["result"].is_object());
    s.request_with_id(4, "resources/subscribe", json!({"uri": "e:"}));
    assert_eq!(s.code(), -32603);
    s.request_with_id(5, "resources/subscribe", json!({"uri": "d:"}));
    assert!(s.line()["result"].is_object(), "the subscription exists already");
}

#[test]
fn listen_requests_leave_room_for_others() {
    let mut config = config();
    config.limits.requests_in = 1;
    let mut s = ServerHarness::new(config);
    for id in 1..=3 {
        s.modern(id, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        assert_eq!(s.line()["method"], "notifications/subscriptions/acknowledged", "{id}");
    }
    s.modern(4, "tools/list", json!({}));
    s.request();
    s.modern(5, "tools/list", json!({}));
    assert_eq!(s.code(), -32603);
}

/// Leaves a response unread that is longer than the limit.
fn fill(s: &mut ServerHarness) {
    let limit = s.server.peer().config().limits.queued_bytes;
    s.modern(99, "tools/call", json!({}));
    let request = s.request();
    let result = mcp_proto::schema::CallToolResult::text("x".repeat(limit + 1));
    s.server.at(s.now).respond(request, Answer::Result(&result));
}

fn changes(lines: &[Value]) -> usize {
    let changed = |line: &&Value| line["method"].as_str().is_some_and(|method| method.contains("changed"));
    lines.iter().filter(changed).count()
}

/// S5.7
#[test]
fn server_reports_a_change_once_when_its_queue_has_room_again() {
    let mut config = config();
    config.limits.queued_bytes = 1000;
    let mut s = legacy(config);
    s.modern(1, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    s.line();
    fill(&mut s);
    for _ in 0..10 {
        s.server.at(s.now).list_changed(ListKind::Tools);
    }
    assert!(s.server.poll_timeout().is_some(), "the server tries again");
    s.advance(Duration::from_secs(5));
    assert_eq!(changes(&s.lines()), 0, "the client has not read yet");
    s.advance(Duration::from_secs(5));
    assert_eq!(changes(&s.lines()), 2, "one for the session, one for the subscription");
    assert_eq!(s.server.poll_timeout(), None);
}

#[test]
fn next_input_sends_changes_that_the_queue_had_no_room_for() {
    let mut config = config();
    config.limits.queued_bytes = 1000;
    let mut s = ServerHarness::new(config);
    let filter = json!({"notifications": {"resourceSubscriptions": ["x://y"]}});
    s.modern(1, "subscriptions/listen", filter);
    s.line();
    fill(&mut s);
    s.server.at(s.now).resource_updated("x://y");
    s.server.at(s.now).resource_updated("x://y");
    s.lines();
    s.notify("notifications/nonsense", json!({}));
    let told = s.lines();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["params"]["uri"], "x://y");
}

#[test]
fn unread_cancellation_reasons_are_truncated_to_the_limit() {
    let mut config = config();
    config.limits.event_bytes = 10_000;
    let mut s = ServerHarness::new(config);
    for id in 0..15 {
        s.modern(id, "tools/list", json!({}));
    }
    for id in 0..15 {
        s.notify("notifications/cancelled", json!({"requestId": id, "reason": "x".repeat(4_000)}));
    }
    let reason = |event| match event {
        Event::Cancelled { cancellation: Cancellation::Client { reason }, .. } => Some(reason),
        _ => None,
    };
    let reasons: Vec<_> = s.events().into_iter().filter_map(reason).collect();
    assert_eq!(reasons.len(), 15, "each is reported");
    assert!(reasons.contains(&None));
    assert!(reasons.iter().flatten().map(String::len).sum::<usize>() < 10_000);
}
