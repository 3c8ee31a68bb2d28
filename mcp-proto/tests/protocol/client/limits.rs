//! What a server cannot make a client do: hang, hold without bound, lose something in silence.

use std::sync::Arc;

use core::time::Duration;

use crate::common::client::{ClientHarness, config};
use mcp_proto::Bytes;
use mcp_proto::peer::client::{Diagnostic, Event, LinkAction};
use mcp_proto::peer::{InvalidAnswerError, LostReason, Outcome, RequestError, RequestId, RequestOptions};
use mcp_proto::schema::{CallTool, CallToolParams, ListTools, PaginatedParams};
use serde_json::{Value, json};

fn call(s: &mut ClientHarness, options: RequestOptions) -> (RequestId, Value) {
    let request = s.client.at(s.now).request::<CallTool>(&CallToolParams::new("slow"), options).unwrap();
    let id = s.expect("tools/call");
    (request, id)
}

/// Contract 9
#[test]
fn unreadable_response_ends_its_request_at_once() {
    let mut s = ClientHarness::modern(config());
    let (request, id) = call(&mut s, RequestOptions::default());
    s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[}}}}"#));
    assert!(matches!(s.outcome(request), Outcome::Invalid(InvalidAnswerError::Malformed(_))));

    let (request, id) = call(&mut s, RequestOptions::default());
    s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1,"error":2}}"#));
    assert!(matches!(s.outcome(request), Outcome::Invalid(InvalidAnswerError::Malformed(_))));
}

/// Contract 9
#[test]
fn oversized_response_ends_its_request_at_once() {
    let mut config = config();
    config.limits.message_bytes = 10_000;
    let mut s = ClientHarness::modern(config);
    for id_first in [true, false] {
        let (request, id) = call(&mut s, RequestOptions::default());
        let long = "x".repeat(20_000);
        if id_first {
            s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":"{long}"}}}}"#));
        } else {
            s.send_text(&format!(r#"{{"result":{{"content":"{long}"}},"jsonrpc":"2.0","id":{id}}}"#));
        }
        assert!(
            matches!(s.outcome(request), Outcome::Invalid(InvalidAnswerError::TooLong { bytes }) if bytes > 20_000)
        );
    }
    let (request, id) = call(&mut s, RequestOptions::default());
    s.answer(&id, json!({"content": []}));
    assert!(matches!(s.outcome(request), Outcome::Result(_)), "the stream goes on");
}

/// K9, F28, peers' pain 13
#[test]
fn client_reports_and_survives_noise() {
    let mut s = ClientHarness::modern(config());
    for noise in
        ["Listening…", "{", "[]", "null", "\u{0}\u{0}", "{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}"]
    {
        s.send_text(noise);
    }
    s.client.handle_input(s.now, Bytes::from_static(b"\xff\xfe broken \x80 text\n"));
    s.client.handle_input(s.now, Bytes::from("[".repeat(100_000) + "\n"));
    let reported = s
        .take_events()
        .iter()
        .filter(|event| matches!(event, Event::Diagnostic(Diagnostic::Malformed(_))))
        .count();
    assert!(reported >= 7, "{reported}");
    let (request, id) = call(&mut s, RequestOptions::default());
    s.answer(&id, json!({"content": []}));
    assert!(matches!(s.outcome(request), Outcome::Result(_)));
}

/// Contract 8
#[test]
fn client_returns_requests_beyond_its_limits() {
    let mut few = config();
    few.limits.requests_out = 2;
    let mut s = ClientHarness::modern(few);
    call(&mut s, RequestOptions::default());
    call(&mut s, RequestOptions::default());
    let refused =
        s.client.at(s.now).request::<ListTools>(&PaginatedParams::default(), RequestOptions::default());
    assert_eq!(refused.unwrap_err(), RequestError::InFlight { limit: 2 });

    let mut narrow = config();
    narrow.limits.queued_bytes = 100;
    let mut s = ClientHarness::modern(narrow);
    s.client.at(s.now).request::<ListTools>(&PaginatedParams::default(), RequestOptions::default()).unwrap();
    let refused =
        s.client.at(s.now).request::<ListTools>(&PaginatedParams::default(), RequestOptions::default());
    assert_eq!(refused.unwrap_err(), RequestError::Overloaded { limit: 100 });
}

/// Contract 8
#[test]
fn client_drops_and_counts_unread_notifications() {
    let mut config = config();
    config.limits.events = 20;
    let mut s = ClientHarness::modern(config);
    let (request, id) = call(&mut s, RequestOptions::default());
    for _ in 0..100 {
        s.notify("notifications/message", json!({"level": "info", "data": "x"}));
    }
    s.answer(&id, json!({"content": []}));
    assert!(!s.client.wants_read());
    let events = s.take_events();
    let taken = events.iter().filter(|event| matches!(event, Event::Notification { .. })).count() as u64;
    let dropped = events.iter().find_map(|event| match event {
        Event::Diagnostic(Diagnostic::NotificationsDropped { count }) => Some(*count),
        _ => None,
    });
    assert_eq!(taken + dropped.unwrap(), 100, "no notification is lost silently");
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Outcome { request: ended, .. } if *ended == request))
    );
    assert!(s.client.wants_read());
}

/// Contract 8: a server that never reads does not make the client wait for ever.
#[test]
fn server_that_reads_nothing_fails_the_connection() {
    let mut config = config();
    config.request_timeout = Duration::MAX;
    config.request_hard_timeout = Duration::MAX;
    let mut s = ClientHarness::modern(config);
    let request = s
        .client
        .at(s.now)
        .request::<ListTools>(&PaginatedParams::default(), RequestOptions::default())
        .unwrap();
    s.advance(Duration::from_secs(60));
    assert!(matches!(s.outcome(request), Outcome::Lost(LostReason::Failed(_))));
    assert_eq!(s.client.poll_link(), Some(LinkAction::Abort));
}

/// Contract 8: a small message does not keep the rest of its input in memory for long.
#[test]
fn unread_events_do_not_keep_the_input_they_came_in() {
    struct Chunk {
        bytes: Vec<u8>,
        _alive: Arc<()>,
    }
    impl AsRef<[u8]> for Chunk {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    let mut s = ClientHarness::modern(config());
    let alive = Arc::new(());
    for _ in 0..500 {
        let message =
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
        let padded = format!("{message}\n{}\n", " ".repeat(60_000));
        s.client.handle_input(
            s.now,
            Bytes::from_owner(Chunk { bytes: padded.into_bytes(), _alive: alive.clone() }),
        );
    }
    let kept = Arc::strong_count(&alive) - 1;
    assert!(kept <= 20, "{kept} chunks are kept");
    assert_eq!(s.take_events().len(), 500);
}
