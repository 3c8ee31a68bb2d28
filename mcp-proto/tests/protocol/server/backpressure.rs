//! A server whose client leaves answers unread holds further requests, and loses none.

use core::time::Duration;

use mcp_proto::peer::RequestOptions;
use mcp_proto::peer::server::{Answer, CloseReason, Event, ServerConfig};
use mcp_proto::schema::{CallToolResult, EmptyParams, ListRoots};
use serde_json::{Value, json};

use crate::common::server::{ServerHarness, config, initialize, tools};

/// Requests are held while more bytes than this are unread.
const MARK: usize = 1000;

fn small() -> ServerConfig {
    let mut config = config();
    config.limits.queued_bytes = MARK;
    config.limits.message_bytes = 10_000;
    config
}

fn legacy(config: ServerConfig) -> ServerHarness {
    ServerHarness::legacy_with(config, "2025-03-26", json!({"roots": {}}))
}

/// Leaves a response unread that exceeds the mark.
fn fill(s: &mut ServerHarness) {
    s.modern(99, "tools/call", json!({}));
    let request = s.request();
    s.server.at(s.now).respond(request, Answer::Result(&CallToolResult::text("x".repeat(MARK + 1))));
}

/// Takes the queued output, and lets the server react to that.
fn take(s: &mut ServerHarness) -> Vec<Value> {
    let mut lines = s.lines();
    s.advance(Duration::ZERO);
    lines.extend(s.lines());
    lines
}

/// The tokens of the requests that reached the application, in order; each is answered.
fn dispatched(s: &mut ServerHarness) -> Vec<String> {
    let mut seen = Vec::new();
    for event in s.events() {
        if let Event::Request { id, context, .. } = event {
            seen.push(context.progress_token.map_or_else(String::new, |token| token.to_string()));
            s.server.at(s.now).respond(id, Answer::Result(&tools()));
        }
    }
    seen
}

fn ask(s: &mut ServerHarness, id: i64) {
    s.modern(id, "tools/list", json!({"_meta": {"progressToken": id}}));
}

fn ids(lines: &[Value]) -> Vec<i64> {
    lines.iter().filter_map(|line| line["id"].as_i64()).collect()
}

#[test]
fn server_holds_requests_while_answers_are_unread_and_dispatches_them_in_order() {
    let mut s = ServerHarness::new(small());
    fill(&mut s);
    for id in 1..=3 {
        ask(&mut s, id);
    }
    assert!(s.events().is_empty(), "nothing is dispatched");
    assert_eq!(s.server.peer().backlog_len(), 3);
    assert!(s.server.wants_read(), "there is room for more");
    assert_eq!(ids(&s.lines()), [99]);
    assert!(s.server.poll_timeout().is_some_and(|due| due <= s.now), "held requests are due at once");
    s.advance(Duration::ZERO);
    assert_eq!(dispatched(&mut s), ["1", "2", "3"]);
    assert_eq!(ids(&take(&mut s)), [1, 2, 3]);
    assert_eq!(s.server.peer().backlog_len(), 0);
}

#[test]
fn requests_queue_behind_those_that_are_held() {
    let mut s = ServerHarness::new(small());
    fill(&mut s);
    ask(&mut s, 1);
    s.lines();
    ask(&mut s, 2);
    assert_eq!(dispatched(&mut s), ["1", "2"]);
}

/// S1.20
#[test]
fn server_handles_pings_cancellations_and_responses_while_it_holds_requests() {
    let mut s = legacy(small());
    let asked = s.server.at(s.now).request::<ListRoots>(&EmptyParams::default(), RequestOptions::default());
    let (asked, wire) = (asked.unwrap(), s.line()["id"].clone());
    fill(&mut s);
    ask(&mut s, 1);
    ask(&mut s, 2);
    s.notify("notifications/cancelled", json!({"requestId": 1}));
    s.send(&json!({"jsonrpc": "2.0", "id": wire, "result": {"roots": []}}).to_string());
    s.request_with_id(3, "ping", json!({}));
    let events = s.events();
    assert!(matches!(&*events, [Event::Outcome { request, .. }] if *request == asked), "{events:?}");
    assert_eq!(ids(&s.lines()), [99, 3]);
    s.advance(Duration::ZERO);
    assert_eq!(dispatched(&mut s), ["2"]);
    assert_eq!(ids(&take(&mut s)), [2], "a cancelled request has no answer");
}

#[test]
fn server_stops_reading_only_when_the_window_is_full() {
    let mut s = ServerHarness::new(small());
    fill(&mut s);
    let mut asked = Vec::new();
    while s.server.wants_read() {
        let id = asked.len() as i64 + 1;
        s.modern(id, "tools/call", json!({"padding": "x".repeat(2000), "_meta": {"progressToken": id}}));
        asked.push(id.to_string());
        assert!(asked.len() < 10, "the window is bounded");
    }
    assert!(asked.len() >= 4, "it holds as many bytes as one message may have: {}", asked.len());
    s.send("{}");
    take(&mut s);
    assert!(s.server.wants_read());
    assert_eq!(dispatched(&mut s), asked);
}

#[test]
fn server_refuses_requests_of_a_driver_that_reads_on() {
    let mut s = ServerHarness::new(small());
    fill(&mut s);
    let mut id = 0;
    while s.server.peer().backlog_len() == id as usize {
        id += 1;
        s.modern(id, "tools/call", json!({"padding": "x".repeat(9000)}));
        assert!(id < 1000, "held requests are bounded");
    }
    let lines = s.lines();
    assert_eq!(ids(&lines), [99, id]);
    assert_eq!(lines[1]["error"]["code"], -32603);
}

#[test]
fn requests_of_one_read_are_never_refused_for_a_full_window() {
    let mut s = ServerHarness::new(small());
    fill(&mut s);
    let mut read = String::new();
    for id in 1..=1000 {
        read.push_str(&json!({"jsonrpc": "2.0", "id": id, "method": "server/discover"}).to_string());
        read.push('\n');
    }
    s.server.handle_input(s.now, read.into());
    assert!(!s.server.wants_read());
    assert_eq!(s.server.peer().backlog_len(), 1000);
}

#[test]
fn release_never_exceeds_the_limit_of_unanswered_requests() {
    let mut config = small();
    config.limits.requests_in = 3;
    let mut s = ServerHarness::new(config);
    fill(&mut s);
    for id in 1..=10 {
        ask(&mut s, id);
    }
    s.lines();
    s.advance(Duration::ZERO);
    let mut seen = Vec::new();
    for _ in 0..10 {
        let next = dispatched(&mut s);
        assert!(next.len() <= 3, "{next:?}");
        seen.extend(next);
        assert!(take(&mut s).iter().all(|line| line.get("error").is_none()));
    }
    assert_eq!(seen.len(), 10);
}

#[test]
fn held_handshake_is_still_followed_by_its_notification() {
    let mut s = ServerHarness::new(small());
    fill(&mut s);
    s.request_with_id(1, "initialize", initialize("2025-11-25"));
    s.notify("notifications/initialized", json!({}));
    assert!(s.server.peer().session().is_none());
    assert_eq!(ids(&take(&mut s)), [99, 1]);
    assert!(s.server.peer().session().is_some_and(|session| session.initialized));
}

#[test]
fn held_batch_is_answered_as_one() {
    let mut s = legacy(small());
    fill(&mut s);
    let request = |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {}});
    let ping = json!({"jsonrpc": "2.0", "id": 3, "method": "ping"});
    s.send(&json!([request(1), ping, request(2)]).to_string());
    s.notify("notifications/cancelled", json!({"requestId": 2}));
    assert_eq!(ids(&take(&mut s)), [99]);
    assert_eq!(dispatched(&mut s).len(), 1);
    let batch = s.line();
    assert_eq!(ids(batch.as_array().unwrap()), [3, 1]);
}

#[test]
fn server_answers_a_repeated_id_of_a_held_request_once() {
    let mut s = ServerHarness::new(small());
    fill(&mut s);
    ask(&mut s, 1);
    ask(&mut s, 1);
    take(&mut s);
    assert_eq!(dispatched(&mut s), ["1"], "the first survives");
}

#[test]
fn requests_before_the_end_of_input_are_served_however_slowly_the_client_reads() {
    let mut s = ServerHarness::new(small());
    fill(&mut s);
    for id in 1..=3 {
        ask(&mut s, id);
    }
    s.server.handle_eof(s.now, "");
    s.advance(Duration::from_secs(30));
    assert!(!s.server.is_closed(), "the close timeout does not run while the client has to read");
    assert_eq!(ids(&take(&mut s)), [99]);
    assert_eq!(dispatched(&mut s), ["1", "2", "3"]);
    assert_eq!(ids(&s.lines()), [1, 2, 3]);
    assert!(matches!(&*s.events(), [Event::Closed(CloseReason::Done)]));
}

#[test]
fn close_timeout_does_not_run_while_the_client_has_to_read() {
    let mut s = ServerHarness::new(small());
    ask(&mut s, 1);
    let request = s.request();
    fill(&mut s);
    s.server.handle_eof(s.now, "");
    s.advance(Duration::from_secs(30));
    assert_eq!(ids(&s.lines()), [99]);
    s.advance(Duration::from_secs(1));
    s.server.at(s.now).respond(request, Answer::Result(&tools()));
    assert_eq!(ids(&s.lines()), [1]);
    assert!(matches!(&*s.events(), [Event::Closed(CloseReason::Done)]));
}

#[test]
fn held_requests_are_answered_with_an_error_if_the_application_does_not_answer() {
    let mut config = small();
    config.limits.requests_in = 1;
    let mut s = ServerHarness::new(config);
    fill(&mut s);
    for id in 1..=3 {
        ask(&mut s, id);
    }
    s.server.handle_eof(s.now, "");
    take(&mut s);
    s.advance(Duration::from_secs(5));
    let lines = s.lines();
    assert_eq!(ids(&lines), [1, 2, 3]);
    assert!(lines.iter().all(|line| line["error"]["code"] == -32603));
    assert!(s.server.is_closed());
}

#[test]
fn closing_server_refuses_held_requests() {
    let mut s = ServerHarness::new(small());
    fill(&mut s);
    ask(&mut s, 1);
    s.server.at(s.now).close();
    let lines = s.lines();
    assert_eq!(ids(&lines), [99, 1]);
    assert_eq!(lines[1]["error"]["code"], -32603);
    assert!(s.server.is_closed());
}

#[test]
fn client_that_reads_nothing_loses_the_connection_at_the_write_deadline() {
    for ends_input in [false, true] {
        let mut s = ServerHarness::new(small());
        fill(&mut s);
        ask(&mut s, 1);
        if ends_input {
            s.server.handle_eof(s.now, "");
        }
        s.advance(Duration::from_secs(59));
        assert!(!s.server.is_closed());
        s.advance(Duration::from_secs(2));
        assert!(s.server.is_closed());
        assert!(matches!(&*s.events(), [Event::Closed(CloseReason::Lost(_))]));
    }
}

#[test]
fn client_that_reads_a_large_response_slowly_keeps_the_connection() {
    let mut s = ServerHarness::new(small());
    fill(&mut s);
    for _ in 0..10 {
        s.advance(Duration::from_secs(40));
        s.server.handle_written(s.now);
    }
    assert!(!s.server.is_closed());
}
