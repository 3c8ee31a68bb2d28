//! The client over HTTP with a legacy server: listening streams and resumed streams.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>

use std::time::Duration;

use crate::common::http_client::{ClientWire, SESSION, config, legacy, legacy_config, scenario};
use crate::common::messages::LEGACY;
use mcp_proto::peer::client::{Diagnostic, Event, State};
use mcp_proto::peer::{LostReason, Outcome, RequestId, RequestOptions};
use mcp_proto::schema::{CallTool, CallToolParams};
use mcp_proto::transport::http::SentState;
use serde_json::json;

const MS: Duration = Duration::from_millis(1);

fn call_tool(wire: &mut ClientWire) -> RequestId {
    let params = CallToolParams::new("pay");
    let options = RequestOptions::default().timeout(Duration::from_secs(300));
    wire.client.at(wire.now).request::<CallTool>(&params, options).unwrap()
}

fn list_changed() -> serde_json::Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
}

fn reported_not_listening(wire: &mut ClientWire) -> bool {
    wire.diagnostics()
        .iter()
        .any(|diagnostic| matches!(diagnostic, Diagnostic::EventStreamUnavailable { .. }))
}

// --- Messages initiated by the server ---

/// C4.21, F10, K3
#[test]
fn client_reports_notifications_of_the_listening_stream() {
    legacy(config(), |wire, listener| {
        wire.event(&listener, &list_changed());
        assert!(matches!(&wire.take_events()[..], [Event::Notification { .. }]));
    });
}

/// C4.21, F52: a server without the stream works the same.
#[test]
fn client_works_with_a_server_without_the_listening_stream() {
    for (status, told) in [(405, false), (404, false), (400, true), (501, true), (200, true)] {
        scenario(legacy_config(), |wire| {
            wire.open_session(LEGACY, SESSION);
            let listener = wire.expect_get();
            wire.reply(&listener, status, &[("content-type", "text/html")], "<html>");
            assert_eq!(reported_not_listening(wire), told, "{status}");
            wire.advance(Duration::from_secs(600));
            wire.expect_silence();
            assert_eq!(wire.client.state(), State::Ready);
        });
    }
}

/// F52, F10: a stream whose head is late delays nothing.
#[test]
fn client_does_not_wait_for_the_listening_stream() {
    scenario(legacy_config(), |wire| {
        wire.open_session(LEGACY, SESSION);
        wire.expect_get();
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"content": []}));
        wire.result(request);
    });
}

/// C4.22, C4.23, F54, F55, K20
#[test]
fn client_reopens_an_ended_stream_from_its_last_event() {
    legacy(config(), |wire, listener| {
        wire.body(&listener, &format!("retry: 250\nid: e-1\ndata: {}\n\n", list_changed()));
        wire.end(&listener);
        wire.expect_silence();
        assert_eq!(wire.advance_to_timeout(), 250 * MS);
        let again = wire.expect_get();
        assert_eq!(again.header("last-event-id"), Some("e-1"));
        assert_eq!(again.header("mcp-session-id"), Some(SESSION));
        // The client keeps the event id although the new stream has not sent any.
        wire.stream(&again);
        wire.truncate(&again);
        wire.advance(Duration::from_secs(60));
        assert_eq!(wire.expect_get().header("last-event-id"), Some("e-1"));
    });
}

/// F55
#[test]
fn client_gives_up_on_a_stream_that_keeps_failing() {
    legacy(config(), |wire, listener| {
        wire.fail(&listener, SentState::MaybeSent);
        let (mut rounds, mut pauses) = (0, Vec::new());
        while !reported_not_listening(wire) {
            rounds += 1;
            pauses.push(wire.advance_to_timeout());
            let again = wire.expect_get();
            assert_eq!(again.header("last-event-id"), None);
            if rounds % 2 == 0 {
                wire.fail(&again, SentState::NotSent)
            } else {
                wire.reply(&again, 503, &[], "")
            }
        }
        assert_eq!(rounds, 5);
        // The backoff doubles from 500 ms, and shortens each pause by up to half.
        assert!(pauses[4] >= Duration::from_secs(4), "{pauses:?}");
        wire.advance(Duration::from_secs(600));
        wire.expect_silence();
        assert_eq!(wire.client.state(), State::Ready);
    });
}

#[test]
fn client_opens_a_stream_again_that_delivered_at_the_last_attempt() {
    legacy(config(), |wire, listener| {
        let mut listener = listener;
        for _ in 0..5 {
            wire.fail(&listener, SentState::MaybeSent);
            wire.advance_to_timeout();
            listener = wire.expect_get();
        }
        wire.stream(&listener);
        wire.event(&listener, &list_changed());
        wire.end(&listener);
        wire.advance_to_timeout();
        wire.expect_get();
    });
}

#[test]
fn stream_that_lasts_or_delivers_does_not_count_as_failed() {
    legacy(config(), |wire, listener| {
        let mut listener = listener;
        for _ in 0..10 {
            wire.event(&listener, &list_changed());
            wire.end(&listener);
            assert_eq!(wire.advance_to_timeout(), Duration::from_secs(1));
            listener = wire.expect_get();
            wire.stream(&listener);
        }
        for _ in 0..10 {
            wire.advance(Duration::from_secs(60));
            wire.truncate(&listener);
            assert_eq!(wire.advance_to_timeout(), Duration::from_secs(1));
            listener = wire.expect_get();
            wire.stream(&listener);
        }
    });
}

/// C4.19
#[test]
fn status_404_of_the_stream_opens_a_new_session() {
    legacy(config(), |wire, listener| {
        wire.end(&listener);
        wire.advance(Duration::from_secs(1));
        let again = wire.expect_get();
        wire.reply(&again, 404, &[], "");
        wire.open_session(LEGACY, "session-2");
        let listener = wire.expect_get();
        assert_eq!(listener.header("mcp-session-id"), Some("session-2"));
        assert_eq!(listener.header("last-event-id"), None);
    });
}

// --- Resumed responses ---

/// C4.22, C4.23, K20; the conformance suite's `sse-retry`
#[test]
fn client_resumes_a_response_after_the_pause_of_the_server() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "id: p-1\nretry: 500\ndata:\n\n");
        wire.end(&call);
        wire.expect_silence();
        wire.expect_pending(request);
        wire.advance(499 * MS);
        wire.expect_silence();
        wire.advance(MS);
        let rest = wire.expect_get();
        assert_eq!(rest.header("last-event-id"), Some("p-1"));
        assert_eq!(rest.header("mcp-session-id"), Some(SESSION));
        assert_eq!(rest.header("accept"), Some("text/event-stream"));
        wire.stream(&rest);
        wire.event_answer(&rest, &call.id(), json!({"content": ["late"]}));
        assert_eq!(wire.result(request), json!({"content": ["late"]}));
    });
}

/// C4.23: a server may close the stream repeatedly while it works.
#[test]
fn client_polls_a_response_without_a_limit() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "id: 0\nretry: 200\ndata:\n\n");
        wire.end(&call);
        for round in 1..20 {
            // Streams that deliver only ids are polled less often after a while.
            let pause = match round {
                1..=3 => 200,
                4 => 400,
                5 => 800,
                6 => 1600,
                _ => 2000,
            };
            assert_eq!(wire.advance_to_timeout(), pause * MS);
            let rest = wire.expect_get();
            assert_eq!(rest.header("last-event-id"), Some(&*(round - 1).to_string()));
            wire.stream(&rest);
            wire.body(&rest, &format!("id: {round}\ndata:\n\n"));
            wire.end(&rest);
        }
        wire.advance_to_timeout();
        let rest = wire.expect_get();
        wire.stream(&rest);
        wire.event_answer(&rest, &call.id(), json!({"content": []}));
        wire.result(request);
    });
}

#[test]
fn response_that_cannot_be_resumed_is_lost() {
    for status in [400, 404, 405] {
        legacy(config(), |wire, listener| {
            // The server offers streams, so a 404 means that the session is gone.
            wire.event(&listener, &list_changed());
            let request = call_tool(wire);
            let call = wire.expect("tools/call");
            wire.stream(&call);
            wire.body(&call, "id: p-1\ndata:\n\n");
            wire.truncate(&call);
            wire.advance(Duration::from_secs(1));
            let rest = wire.expect_get();
            wire.reply(&rest, status, &[], "");
            assert!(matches!(wire.outcome(request), Outcome::Lost(LostReason::Disconnected(_))));
            if status == 404 {
                wire.expect("initialize");
            }
            wire.expect_silence();
        });
    }
}

/// Streams can be resumed since 2025-03-26.
#[test]
fn client_does_not_resume_a_response_at_2024_11_05() {
    scenario(legacy_config(), |wire| {
        wire.open_session("2024-11-05", SESSION);
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "id: p-1\ndata:\n\n");
        wire.end(&call);
        assert!(matches!(wire.outcome(request), Outcome::Lost(LostReason::Disconnected(_))));
        wire.advance(Duration::from_secs(10));
        wire.expect_silence();
    });
}

#[test]
fn response_whose_resumption_keeps_failing_is_lost() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "id: p-1\ndata:\n\n");
        wire.truncate(&call);
        for round in 0..6 {
            wire.expect_pending(request);
            wire.advance_to_timeout();
            let rest = wire.expect_get();
            assert_eq!(rest.header("last-event-id"), Some("p-1"));
            match round % 3 {
                0 => wire.fail(&rest, SentState::NotSent),
                1 => wire.reply(&rest, 502, &[], ""),
                _ => {
                    wire.stream(&rest);
                    wire.truncate(&rest);
                }
            }
        }
        assert!(matches!(wire.outcome(request), Outcome::Lost(LostReason::Disconnected(_))));
        wire.advance(Duration::from_secs(100));
        wire.expect_silence();
    });
}

/// C4.24, C7.1: disconnection is not cancellation, so the client sends one.
#[test]
fn client_cancels_a_request_with_a_resumed_response_by_a_notification() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "id: p-1\ndata:\n\n");
        wire.truncate(&call);
        wire.client.at(wire.now).cancel(request, None);
        let cancelled = wire.expect("notifications/cancelled");
        assert_eq!(cancelled.body["params"]["requestId"], call.id());
        wire.accept(&cancelled);
        wire.advance(Duration::from_secs(100));
        wire.expect_silence();
    });
}

#[test]
fn client_accepts_a_response_on_another_stream() {
    legacy(config(), |wire, listener| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.event_answer(&listener, &call.id(), json!({"content": []}));
        wire.result(request);
        wire.event_answer(&call, &call.id(), json!({"content": []}));
        wire.end(&call);
        wire.expect_silence();
        assert!(wire.take_events().is_empty());
    });
}

#[test]
fn client_does_not_send_an_event_id_that_is_no_header_value() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "id: a\u{7}b\ndata:\n\n");
        wire.end(&call);
        assert!(matches!(wire.outcome(request), Outcome::Lost(_)));
    });
}

#[test]
fn resumed_response_is_lost_with_its_session() {
    legacy(config(), |wire, _| {
        let resumed = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "id: p-1\ndata:\n\n");
        wire.truncate(&call);
        let refused = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 404, &[], "");
        assert!(matches!(wire.outcome(resumed), Outcome::Lost(_)));
        wire.expect_pending(refused);
        wire.open_session(LEGACY, "session-2");
        wire.expect_get();
        wire.expect("tools/call");
        wire.advance(Duration::from_secs(10));
        wire.expect_silence();
    });
}
