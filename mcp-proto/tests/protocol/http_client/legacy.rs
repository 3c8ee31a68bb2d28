//! The client over HTTP with a legacy server: sessions, and requests of the server.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>

mod lost_session;

use std::time::Duration;

use crate::common::http_client::{ClientWire, SESSION, config, legacy, legacy_at, legacy_config, scenario};
use crate::common::messages::LEGACY;
use mcp_proto::peer::client::{CloseReason, Diagnostic, Event, Keepalive, State};
use mcp_proto::peer::{LostReason, Outcome, RequestId, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapabilities, EmptyParams, Initialized, ListRootsResult, ListTools,
    ListToolsParams, RootsCapability,
};
use mcp_proto::transport::http::client::ListenPolicy;
use mcp_proto::transport::http::{SentState, Verb};
use serde_json::{Value, json};

fn call_tool(wire: &mut ClientWire) -> RequestId {
    let params = CallToolParams::new("pay");
    wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap()
}

fn list_tools(wire: &mut ClientWire) -> RequestId {
    wire.client.at(wire.now).request::<ListTools>(&ListToolsParams::new(), RequestOptions::default()).unwrap()
}

fn lost_session(wire: &mut ClientWire) -> bool {
    wire.diagnostics().iter().any(|diagnostic| matches!(diagnostic, Diagnostic::SessionLost))
}

/// C4.5, C4.18, C4.21, F42, H2 of the eras
#[test]
fn client_opens_a_session_and_names_it_on_all_later_requests() {
    scenario(legacy_config(), |wire| {
        let request = call_tool(wire);
        let initialize = wire.expect("initialize");
        for name in ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id"] {
            assert_eq!(initialize.header(name), None, "{name}");
        }
        assert_eq!(initialize.body["params"]["protocolVersion"], LEGACY);
        assert!(initialize.body["params"].get("_meta").is_none());
        wire.answer_initialize(&initialize, LEGACY, SESSION);
        let initialized = wire.expect("notifications/initialized");
        // The client sends nothing before the server has accepted this.
        wire.expect_silence();
        wire.accept(&initialized);
        let listener = wire.expect_get();
        assert_eq!(listener.header("accept"), Some("text/event-stream"));
        let call = wire.expect("tools/call");
        for exchange in [&initialized, &listener, &call] {
            assert_eq!(exchange.header("mcp-session-id"), Some(SESSION));
            assert_eq!(exchange.header("mcp-protocol-version"), Some(LEGACY));
            assert_eq!(exchange.header("mcp-method"), None);
        }
        wire.answer(&call, json!({"content": []}));
        wire.result(request);
    });
}

/// C4.18: the id of a session is a secret.
#[test]
fn debug_shows_no_session_id() {
    scenario(legacy_config(), |wire| {
        let initialize = wire.expect("initialize");
        wire.answer_initialize(&initialize, LEGACY, SESSION);
        let initialized = wire.expect("notifications/initialized");
        assert_eq!(initialized.header("mcp-session-id"), Some(SESSION));
        let shown = format!("{:?} {:?} {:?}", wire.client, initialized.request, wire.client.peer().server());
        assert!(shown.contains("mcp-session-id"), "{shown}");
        assert!(!shown.contains(SESSION), "{shown}");
    });
}

/// C4.5, F43
#[test]
fn client_sends_the_version_header_since_2025_06_18() {
    for (version, header) in
        [("2025-03-26", None), ("2025-06-18", Some("2025-06-18")), (LEGACY, Some(LEGACY))]
    {
        legacy_at(version, config(), |wire, listener| {
            assert_eq!(listener.header("mcp-protocol-version"), header);
            call_tool(wire);
            assert_eq!(wire.expect("tools/call").header("mcp-protocol-version"), header);
        });
    }
}

#[test]
fn client_works_with_a_server_without_sessions() {
    scenario(legacy_config(), |wire| {
        wire.open_session(LEGACY, "");
        let listener = wire.expect_get();
        wire.reply(&listener, 405, &[], "");
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        assert_eq!(call.header("mcp-session-id"), None);
        // Without a session, no session can be lost.
        wire.reply(&call, 404, &[], "gone");
        assert!(matches!(wire.outcome(request), Outcome::Transport(error) if error.status == 404));
        wire.client.at(wire.now).close();
        wire.expect_silence();
        assert_eq!(wire.closed(), Some(CloseReason::Done));
    });
}

/// C4.18: a session id consists of bytes 0x21 to 0x7E.
#[test]
fn client_refuses_an_invalid_session_id() {
    for bad in ["a b", "ä", "a\tb"] {
        scenario(legacy_config(), |wire| {
            wire.open_session(LEGACY, bad);
            assert_eq!(wire.expect_get().header("mcp-session-id"), None);
        });
    }
}

/// K17: a session id on any response but that of `initialize` does not count.
#[test]
fn client_takes_the_session_id_only_from_the_response_to_initialize() {
    scenario(config(), |wire| {
        let probe = wire.expect("server/discover");
        let body = json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "Missing session ID"}});
        let headers = [("content-type", "application/json"), ("mcp-session-id", "of-the-probe")];
        wire.reply(&probe, 400, &headers, &body.to_string());
        let initialize = wire.expect("initialize");
        assert_eq!(initialize.header("mcp-session-id"), None);
        wire.answer_initialize(&initialize, LEGACY, "");
        assert_eq!(wire.expect("notifications/initialized").header("mcp-session-id"), None);
    });
}

/// An event stream may carry the response to `initialize`, after a priming event.
#[test]
fn server_may_answer_initialize_by_events() {
    scenario(legacy_config(), |wire| {
        let initialize = wire.expect("initialize");
        wire.head(&initialize, 200, &[("content-type", "text/event-stream"), ("mcp-session-id", SESSION)]);
        wire.body(&initialize, "id: 0\ndata:\n\n");
        wire.event_answer(&initialize, &initialize.id(), crate::common::messages::initialize_result(LEGACY));
        assert_eq!(wire.expect("notifications/initialized").header("mcp-session-id"), Some(SESSION));
    });
}

/// C4.20, F42
#[test]
fn closing_client_deletes_the_session() {
    for status in [200, 204, 405, 404, 500] {
        legacy(config(), |wire, listener| {
            wire.client.at(wire.now).close();
            wire.expect_abort(&listener);
            let delete = wire.next().unwrap();
            assert_eq!(delete.request.verb, Verb::Delete);
            assert_eq!(delete.header("mcp-session-id"), Some(SESSION));
            assert_eq!(delete.header("mcp-protocol-version"), Some(LEGACY));
            assert!(!wire.client.is_closed());
            wire.reply(&delete, status, &[], "");
            assert_eq!(wire.closed(), Some(CloseReason::Done));
            assert_eq!(wire.client.poll_timeout(), None);
        });
    }
}

/// C4.20, F42
#[test]
fn closing_client_does_not_wait_for_an_unanswered_delete() {
    legacy(config(), |wire, _| {
        wire.client.at(wire.now).close();
        let delete = wire.next().unwrap();
        wire.advance(Duration::from_secs(3));
        wire.expect_abort(&delete);
        assert_eq!(wire.closed(), Some(CloseReason::Done));
    });
}

#[test]
fn closing_client_lets_requests_finish() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.client.at(wire.now).close();
        wire.expect_silence();
        wire.answer(&call, json!({"content": []}));
        wire.result(request);
        assert_eq!(wire.next().unwrap().request.verb, Verb::Delete);
    });
}

/// C7.6, C4.24, K4
#[test]
fn client_cancels_a_request_by_a_notification() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.client.at(wire.now).cancel(request, Some("enough"));
        let cancelled = wire.expect("notifications/cancelled");
        assert_eq!(cancelled.body["params"], json!({"requestId": call.id(), "reason": "enough"}));
        assert_eq!(cancelled.header("mcp-session-id"), Some(SESSION));
        wire.expect_abort(&call);
        assert!(matches!(wire.outcome(request), Outcome::Cancelled));
    });
}

fn with_roots() -> mcp_proto::transport::http::client::HttpClientConfig {
    let mut config = config();
    let mut capabilities = ClientCapabilities::new();
    capabilities.roots = Some(RootsCapability::new());
    config.client.capabilities = capabilities;
    config
}

/// C1.6, F22: requests of the server on any stream are answered by POST.
#[test]
fn client_answers_requests_of_the_server_by_post() {
    legacy(with_roots(), |wire, listener| {
        call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        for (stream, id) in [(&call, json!("a")), (&listener, json!(0))] {
            wire.event(stream, &json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"}));
            let events = wire.take_events();
            let Some(Event::Request { id: asked, .. }) = events.last() else { panic!("{events:?}") };
            wire.client.at(wire.now).respond(*asked, Ok(&ListRootsResult::new(Vec::new())));
            let reply = wire.next().unwrap();
            assert_eq!(reply.request.verb, Verb::Post);
            assert_eq!(reply.body, json!({"jsonrpc": "2.0", "id": id, "result": {"roots": []}}));
            assert_eq!(reply.header("mcp-session-id"), Some(SESSION));
            assert_eq!(reply.header("mcp-method"), None);
            wire.accept(&reply);
        }
        assert!(wire.diagnostics().is_empty());
        // A refused reply is reported.
        wire.event(&call, &json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
        let reply = wire.next().unwrap();
        wire.reply(&reply, 400, &[], "what?");
        let diagnostics = wire.diagnostics();
        assert!(matches!(&diagnostics[..], [Diagnostic::MessageRejected { .. }]), "{diagnostics:?}");
    });
}

/// Replies do not wait behind requests, which may depend on them.
#[test]
fn replies_do_not_wait_for_requests() {
    let mut config = config();
    config.client.limits.exchanges = 1;
    legacy(config, |wire, listener| {
        call_tool(wire);
        call_tool(wire);
        wire.expect("tools/call");
        wire.expect_silence();
        wire.event(&listener, &json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
        assert_eq!(wire.next().unwrap().body["result"], json!({}));
    });
}

#[test]
fn client_sends_an_unsent_reply_again() {
    legacy(config(), |wire, listener| {
        wire.event(&listener, &json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
        let reply = wire.next().unwrap();
        wire.fail(&reply, SentState::NotSent);
        wire.expect_silence();
        wire.advance(Duration::from_secs(1));
        assert_eq!(wire.next().unwrap().body, reply.body);
    });
}

#[test]
fn client_cancels_requests_of_the_server_when_their_session_is_lost() {
    legacy(with_roots(), |wire, listener| {
        wire.event(&listener, &json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}));
        let events = wire.take_events();
        let Some(Event::Request { id: asked, .. }) = events.last() else { panic!("{events:?}") };
        call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 404, &[], "");
        let withdrawn = |event: &Event| matches!(event, Event::RequestCancelled { id, .. } if id == asked);
        assert!(wire.take_events().iter().any(withdrawn));
    });
}

/// Another request of the next session may have its id.
#[test]
fn client_ignores_requests_of_a_session_that_was_lost() {
    legacy_at("2025-03-26", with_roots(), |wire, _| {
        let request = call_tool(wire);
        let old = wire.expect("tools/call");
        wire.stream(&old);
        call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 404, &[], "");
        wire.take_events();
        let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"});
        wire.event(&old, &asked);
        wire.event(&old, &json!([asked, {"jsonrpc": "2.0", "id": 2, "method": "ping"}]));
        wire.open_session("2025-03-26", "session-2");
        wire.event(&old, &asked);
        let answer = json!({"jsonrpc": "2.0", "id": old.id(), "result": {"content": []}});
        wire.event(&old, &json!([asked, answer]));
        let events = wire.take_events();
        assert!(!events.iter().any(|event| matches!(event, Event::Request { .. })), "{events:?}");
        // The response that the old stream has is that of its request.
        let is_answered = |event: &Event| matches!(event, Event::Outcome { request: of, outcome: Outcome::Result(_) } if *of == request);
        assert!(events.iter().any(is_answered), "{events:?}");
    });
}

/// R1, F44: batches in a body and on a stream.
#[test]
fn client_accepts_arrays_at_2025_03_26() {
    legacy_at("2025-03-26", config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
        let answer = json!({"jsonrpc": "2.0", "id": call.id(), "result": {"content": []}});
        wire.reply_json(&call, 200, &json!([log, answer]));
        let told = wire.take_events();
        assert!(matches!(&told[0], Event::Notification { .. }), "{told:?}");
        assert!(
            matches!(&told[1], Event::Outcome { request: of, outcome: Outcome::Result(_) } if *of == request)
        );

        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        let answer = json!({"jsonrpc": "2.0", "id": call.id(), "result": {"content": []}});
        wire.event(&call, &json!([log, answer]));
        wire.result(request);
        wire.end(&call);
        wire.expect_silence();
    });
}

/// C7.11
#[test]
fn client_detects_a_dead_server_by_pings() {
    let mut config = config();
    config.client.keepalive = Some(Keepalive::PRESET);
    legacy(config, |wire, _| {
        wire.advance(Duration::from_secs(30));
        let ping = wire.expect("ping");
        wire.answer(&ping, json!({}));
        wire.advance(Duration::from_secs(10));
        assert!(wire.diagnostics().is_empty());
        for _ in 0..3 {
            wire.advance(Duration::from_secs(36));
            let ping = wire.expect("ping");
            wire.fail(&ping, SentState::MaybeSent);
        }
        wire.advance(Duration::from_secs(36));
        assert_eq!(wire.closed(), Some(CloseReason::Lost(LostReason::KeepaliveFailed)));
    });
}

/// A lost idempotent request is safe to repeat, in a session too.
#[test]
fn client_repeats_a_lost_read_only_request_once_in_a_session() {
    legacy(config(), |wire, _| {
        let request = list_tools(wire);
        let first = wire.expect("tools/list");
        wire.fail(&first, SentState::MaybeSent);
        let second = wire.expect("tools/list");
        assert_ne!(first.id(), second.id());
        wire.answer(&second, json!({"tools": []}));
        wire.result(request);

        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.fail(&call, SentState::MaybeSent);
        assert!(matches!(wire.outcome(request), Outcome::Lost(_)));
        wire.expect_silence();
    });
}

#[test]
fn client_repeats_the_initialized_notification_until_it_arrives() {
    scenario(legacy_config(), |wire| {
        let request = call_tool(wire);
        let initialize = wire.expect("initialize");
        wire.answer_initialize(&initialize, LEGACY, SESSION);
        let initialized = wire.expect("notifications/initialized");
        wire.fail(&initialized, SentState::MaybeSent);
        wire.expect_silence();
        wire.advance(Duration::from_secs(1));
        let initialized = wire.expect("notifications/initialized");
        // If the server refuses it, the client continues anyway.
        wire.reply(&initialized, 500, &[], "");
        wire.expect_get();
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"content": []}));
        wire.result(request);
    });
}

#[test]
fn application_that_repeats_initialized_opens_no_second_stream() {
    legacy(config(), |wire, _| {
        wire.client.at(wire.now).notify::<Initialized>(&EmptyParams::default()).unwrap();
        let request = call_tool(wire);
        let post = wire.expect("notifications/initialized");
        let call = wire.expect("tools/call");
        wire.accept(&post);
        wire.expect_silence();
        wire.answer(&call, json!({"content": []}));
        wire.result(request);
    });
}

#[test]
fn client_opens_no_listening_stream_if_disabled() {
    let mut config = legacy_config();
    config.listen = ListenPolicy::Never;
    scenario(config, |wire| {
        wire.open_session(LEGACY, SESSION);
        wire.expect_silence();
    });
}

/// A legacy server's response to the probe leads to the handshake.
#[test]
fn probe_detects_a_legacy_server() {
    for (status, body) in [
        (200, json!({"jsonrpc": "2.0", "id": 1, "result": {}})),
        (
            400,
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "Bad Request: Server not initialized"}}),
        ),
        (404, json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}})),
    ] {
        scenario(config(), |wire| {
            let probe = wire.expect("server/discover");
            wire.reply_json(&probe, status, &body);
            wire.open_session(LEGACY, SESSION);
            assert_eq!(wire.client.state(), State::Ready);
        });
    }
}

#[test]
fn client_sends_requests_although_the_notification_is_unanswered() {
    scenario(legacy_config(), |wire| {
        call_tool(wire);
        let initialize = wire.expect("initialize");
        wire.answer_initialize(&initialize, LEGACY, SESSION);
        let initialized = wire.expect("notifications/initialized");
        wire.advance(Duration::from_secs(4));
        wire.expect_silence();
        wire.advance(Duration::from_secs(2));
        wire.expect_get();
        wire.expect("tools/call");
        wire.accept(&initialized);
        wire.expect_silence();
    });
}

/// C7.11: a queued ping would count as missed.
#[test]
fn pings_do_not_wait_for_requests() {
    let mut config = config();
    config.client.keepalive = Some(Keepalive::PRESET);
    config.client.limits.exchanges = 1;
    config.client.request_timeout = Duration::from_secs(100);
    legacy(config, |wire, _| {
        call_tool(wire);
        call_tool(wire);
        wire.expect("tools/call");
        wire.advance(Duration::from_secs(30));
        wire.expect("ping");
    });
}

#[test]
fn closing_client_aborts_the_handshake() {
    scenario(config(), |wire| {
        let request = call_tool(wire);
        let probe = wire.expect("server/discover");
        wire.client.at(wire.now).close();
        wire.expect_abort(&probe);
        assert!(matches!(wire.outcome(request), Outcome::Refused(_)));
        assert_eq!(wire.closed(), Some(CloseReason::Done));
    });
}

/// C2.15: the exchange ends, and no notification says so.
#[test]
fn closing_client_does_not_cancel_its_initialize() {
    scenario(legacy_config(), |wire| {
        let initialize = wire.expect("initialize");
        wire.client.at(wire.now).close();
        wire.expect_abort(&initialize);
        wire.expect_silence();
        assert_eq!(wire.closed(), Some(CloseReason::Done));
    });
}
