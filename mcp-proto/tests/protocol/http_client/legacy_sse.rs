//! The client over HTTP with a server of 2024-11-05: one event stream, and a URL for messages.
//!
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use std::time::Duration;

use crate::common::http_client::{ClientWire, Exchange, config, legacy_config, scenario};
use crate::common::messages::initialize_result;
use mcp_proto::peer::client::{CloseReason, Diagnostic, Event, State};
use mcp_proto::peer::{InvalidAnswerError, LostReason, Outcome, RequestId, RequestOptions};
use mcp_proto::schema::{CallTool, CallToolParams, ListTools, ListToolsParams};
use mcp_proto::transport::http::SentState;
use serde_json::json;

const OLD: &str = "2024-11-05";
const POST: &str = "http://localhost:3000/messages?session=7";

fn call_tool(wire: &mut ClientWire) -> RequestId {
    let params = CallToolParams::new("pay");
    wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap()
}

/// Answers the stream's GET with the endpoint, and the handshake on it.
fn open(wire: &mut ClientWire) -> Exchange {
    let events = wire.expect_get();
    assert_eq!(events.header("accept"), Some("text/event-stream"));
    wire.stream(&events);
    wire.expect_silence();
    wire.body(&events, "event: endpoint\ndata: /messages?session=7\n\n");
    let initialize = wire.expect("initialize");
    assert_eq!(&*initialize.request.url, POST);
    wire.reply(&initialize, 202, &[("content-type", "text/plain")], "Accepted");
    wire.event_answer(&events, &initialize.id(), initialize_result(OLD));
    let initialized = wire.expect("notifications/initialized");
    assert_eq!(&*initialized.request.url, POST);
    assert_eq!(initialized.header("mcp-protocol-version"), None);
    wire.reply(&initialized, 200, &[], "ok");
    assert_eq!(wire.client.state(), State::Ready);
    events
}

/// A server of 2024-11-05 whose stream is open.
fn legacy_sse_server(run: impl Fn(&mut ClientWire, Exchange)) {
    scenario(legacy_config(), |wire| {
        let initialize = wire.expect("initialize");
        wire.reply(&initialize, 405, &[], "");
        let events = open(wire);
        wire.take_events();
        run(wire, events);
    });
}

/// C2.8, R2, K6
#[test]
fn client_detects_an_http_sse_server_by_falling_back_twice() {
    scenario(config(), |wire| {
        let probe = wire.expect("server/discover");
        wire.reply(&probe, 404, &[("content-type", "text/html")], "<html>");
        let initialize = wire.expect("initialize");
        wire.reply(&initialize, 404, &[], "");
        open(wire);
        assert_eq!(wire.client.peer().server().unwrap().revision.as_str(), OLD);
        wire.expect_silence();
    });
}

/// C4.1, R2: only POSTs, and responses on the one stream, in any order.
#[test]
fn client_receives_responses_on_the_one_stream() {
    legacy_sse_server(|wire, events| {
        let first = call_tool(wire);
        let one = wire.expect("tools/call");
        let second = call_tool(wire);
        let two = wire.expect("tools/call");
        assert_eq!(&*two.request.url, POST);
        wire.reply(&one, 202, &[], "");
        // A response may arrive before the status of its request.
        wire.event_answer(&events, &two.id(), json!({"content": [2]}));
        assert_eq!(wire.result(second), json!({"content": [2]}));
        wire.reply(&two, 202, &[], "");
        wire.expect_pending(first);
        wire.event_answer(&events, &one.id(), json!({"content": [1]}));
        assert_eq!(wire.result(first), json!({"content": [1]}));
        wire.event(&events, &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        assert!(matches!(&wire.take_events()[..], [Event::Notification { .. }]));
    });
}

#[test]
fn refused_message_ends_its_request() {
    legacy_sse_server(|wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 400, &[], "no such session");
        assert!(matches!(wire.outcome(request), Outcome::Transport(error) if error.status == 400));
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.refuse(&call, 400, -32602, None);
        assert!(matches!(wire.outcome(request), Outcome::Error(_)));
    });
}

/// C4.24
#[test]
fn client_cancels_an_accepted_request_by_a_notification() {
    legacy_sse_server(|wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 202, &[], "");
        wire.client.at(wire.now).cancel(request, None);
        assert_eq!(wire.expect("notifications/cancelled").body["params"]["requestId"], call.id());
    });
}

/// R2
#[test]
fn client_sends_messages_only_to_the_same_origin() {
    for endpoint in
        ["http://evil.example/messages", "//evil.example/", "https://localhost:3000/", "http://localhost/"]
    {
        scenario(legacy_config(), |wire| {
            let initialize = wire.expect("initialize");
            wire.reply(&initialize, 404, &[], "");
            let events = wire.expect_get();
            wire.stream(&events);
            wire.body(&events, &format!("event: endpoint\ndata: {endpoint}\n\n"));
            wire.expect_abort(&events);
            wire.expect_silence();
            assert!(matches!(wire.closed(), Some(CloseReason::Connect(_))));
        });
    }
}

#[test]
fn client_waits_briefly_for_the_stream_and_its_first_event() {
    for head in [false, true] {
        scenario(legacy_config(), |wire| {
            let initialize = wire.expect("initialize");
            wire.reply(&initialize, 404, &[], "");
            let events = wire.expect_get();
            wire.advance(Duration::from_secs(4));
            if head {
                wire.stream(&events);
                wire.body(&events, ": hello\n\n");
                wire.advance(Duration::from_secs(4));
            }
            assert_eq!(wire.closed(), None);
            wire.advance(Duration::from_secs(2));
            wire.expect_abort(&events);
        });
    }
}

#[test]
fn response_that_is_no_event_stream_ends_detection() {
    scenario(legacy_config(), |wire| {
        let initialize = wire.expect("initialize");
        wire.reply(&initialize, 405, &[], "");
        let events = wire.expect_get();
        wire.reply(&events, 200, &[("content-type", "text/html")], "<h1>Welcome</h1>");
        assert!(matches!(wire.closed(), Some(CloseReason::Connect(_))));
    });
}

/// The end of the stream ends the session: the client opens a new one.
#[test]
fn client_reopens_an_ended_stream() {
    legacy_sse_server(|wire, events| {
        let accepted = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 202, &[], "");
        let params = ListToolsParams::new();
        let safe = wire.client.at(wire.now).request::<ListTools>(&params, RequestOptions::default()).unwrap();
        let list = wire.expect("tools/list");
        wire.reply(&list, 202, &[], "");
        wire.truncate(&events);
        assert!(matches!(wire.outcome(accepted), Outcome::Lost(LostReason::Disconnected(_))));
        wire.expect_pending(safe);
        assert!(wire.diagnostics().iter().any(|diagnostic| matches!(diagnostic, Diagnostic::SessionLost)));
        wire.expect_silence();
        let later = call_tool(wire);
        wire.advance_to_timeout();
        let events = open(wire);
        let list = wire.expect("tools/list");
        let call = wire.expect("tools/call");
        wire.event_answer(&events, &list.id(), json!({"tools": []}));
        wire.event_answer(&events, &call.id(), json!({"content": []}));
        wire.result(safe);
        wire.result(later);
    });
}

#[test]
fn failure_to_reopen_the_stream_ends_the_connection() {
    legacy_sse_server(|wire, events| {
        wire.truncate(&events);
        let request = call_tool(wire);
        for _ in 0..5 {
            wire.advance_to_timeout();
            let events = wire.expect_get();
            wire.fail(&events, SentState::NotSent);
        }
        assert!(matches!(wire.closed(), Some(CloseReason::Lost(LostReason::Disconnected(_)))));
        let _ = request;
        wire.advance(Duration::from_secs(1000));
        wire.expect_silence();
    });
}

#[test]
fn closing_client_ends_the_stream() {
    legacy_sse_server(|wire, events| {
        wire.client.at(wire.now).close();
        wire.expect_abort(&events);
        wire.expect_silence();
        assert_eq!(wire.closed(), Some(CloseReason::Done));
    });
}

/// Contract 9
#[test]
fn oversized_response_ends_its_request_and_not_the_stream() {
    let mut config = legacy_config();
    config.client.limits.message_bytes = 1000;
    scenario(config, |wire| {
        let initialize = wire.expect("initialize");
        wire.reply(&initialize, 405, &[], "");
        let events = open(wire);
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 202, &[], "");
        wire.event_answer(&events, &call.id(), json!({"text": "x".repeat(2000)}));
        assert!(matches!(wire.outcome(request), Outcome::Invalid(InvalidAnswerError::TooLong { .. })));
        // The stream stays open.
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.event_answer(&events, &call.id(), json!({"content": []}));
        wire.result(request);
    });
}
