//! Lost sessions, and their open requests.

use super::*;

/// C4.19, K17
#[test]
fn client_replaces_a_lost_session_and_sends_the_request_again() {
    legacy(config(), |wire, listener| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 404, &[("content-type", "text/plain")], "Session not found");
        assert!(lost_session(wire));
        wire.expect_abort(&listener);
        let initialize = wire.expect("initialize");
        assert_eq!(initialize.header("mcp-session-id"), None);
        assert_eq!(wire.client.state(), State::Initializing);
        wire.answer_initialize(&initialize, LEGACY, "session-2");
        let initialized = wire.expect("notifications/initialized");
        wire.expect_silence();
        wire.accept(&initialized);
        assert_eq!(wire.expect_get().header("mcp-session-id"), Some("session-2"));
        let again = wire.expect("tools/call");
        assert_eq!(again.header("mcp-session-id"), Some("session-2"));
        assert_eq!(again.body, call.body);
        wire.answer(&again, json!({"content": []}));
        wire.result(request);
    });
}

/// C4.19: several requests lose one session once.
#[test]
fn client_sends_each_request_of_a_lost_session_again() {
    legacy(config(), |wire, _| {
        let first = call_tool(wire);
        let one = wire.expect("tools/call");
        let second = call_tool(wire);
        let two = wire.expect("tools/call");
        wire.reply(&one, 404, &[], "");
        let initialize = wire.expect("initialize");
        wire.answer_initialize(&initialize, LEGACY, "session-2");
        let initialized = wire.expect("notifications/initialized");
        wire.accept(&initialized);
        wire.expect_get();
        let one = wire.expect("tools/call");
        // A late failure of the old session says nothing about the new one.
        wire.reply(&two, 404, &[], "");
        let two = wire.expect("tools/call");
        wire.expect_silence();
        wire.answer(&one, json!({"content": []}));
        wire.answer(&two, json!({"content": []}));
        wire.result(first);
        wire.result(second);
        let lost = wire.diagnostics();
        assert_eq!(lost.iter().filter(|one| matches!(one, Diagnostic::SessionLost)).count(), 1);
    });
}

/// Some servers answer an unknown method by 404, which is no loss of the session.
#[test]
fn unknown_method_does_not_lose_the_session() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.refuse(&call, 404, -32601, None);
        assert!(matches!(wire.outcome(request), Outcome::Error(error) if error.code == -32601));
        assert!(!lost_session(wire));
        wire.expect_silence();
    });
}

/// Answers a call with a 400 that loses the session, and again in the next session, where it is an error: a request is
/// repeated once for this reason.
fn lose_by_400(wire: &mut ClientWire, error: &Value) {
    let request = call_tool(wire);
    let call = wire.expect("tools/call");
    wire.reply_json(&call, 400, error);
    assert!(lost_session(wire));
    wire.open_session(LEGACY, "session-2");
    wire.expect_get();
    let call = wire.expect("tools/call");
    wire.reply_json(&call, 400, error);
    assert!(matches!(wire.outcome(request), Outcome::Error(_)));
}

/// Widely used servers answer 400 for an unknown session.
#[test]
fn status_400_without_a_request_id_loses_a_session_that_worked_before() {
    legacy(config(), |wire, _| {
        let error =
            json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32000, "message": "gone"}});
        // The session never worked: the error is an error.
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply_json(&call, 400, &error);
        assert!(matches!(wire.outcome(request), Outcome::Error(_)));

        let request = list_tools(wire);
        let list = wire.expect("tools/list");
        wire.answer(&list, json!({"tools": []}));
        wire.result(request);
        lose_by_400(wire, &error);
    });
}

/// A 400 that mentions the session loses it even before anything worked: the server may have been restarted.
#[test]
fn status_400_that_mentions_the_session_loses_it() {
    legacy(config(), |wire, _| {
        let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
        lose_by_400(wire, &json!({"jsonrpc": "2.0", "id": null, "error": error}));
    });
}

/// A session that is lost as often as it is opened is not opened for ever.
#[test]
fn client_gives_up_on_a_server_that_keeps_losing_its_sessions() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 404, &[], "");
        for round in 0.. {
            assert!(round < 10);
            let Some(initialize) = wire.next() else { break };
            assert_eq!(initialize.body["method"], "initialize");
            wire.answer_initialize(&initialize, LEGACY, "again");
            let initialized = wire.expect("notifications/initialized");
            wire.accept(&initialized);
            wire.expect_get();
            let call = wire.expect("tools/call");
            wire.reply(&call, 404, &[], "");
        }
        assert!(matches!(wire.outcome(request), Outcome::Transport(error) if error.status == 404));
    });
}

/// Clients that only listen do not ask a server for sessions forever, but a request still opens one (C4.19).
#[test]
fn request_opens_a_session_after_the_stream_was_given_up() {
    legacy(config(), |wire, listener| {
        let mut listener = listener;
        for round in 0.. {
            assert!(round < 20, "the client gives up");
            wire.stream(&listener);
            wire.truncate(&listener);
            wire.advance_to_timeout();
            let again = wire.expect_get();
            wire.reply(&again, 404, &[], "");
            let Some(initialize) = wire.next() else { break };
            wire.answer_initialize(&initialize, LEGACY, "again");
            let initialized = wire.expect("notifications/initialized");
            wire.accept(&initialized);
            listener = wire.expect_get();
        }
        for session in ["late", "later"] {
            let request = call_tool(wire);
            let call = wire.expect("tools/call");
            wire.reply(&call, 404, &[], "");
            wire.open_session(LEGACY, session);
            wire.expect_get();
            let call = wire.expect("tools/call");
            assert_eq!(call.header("mcp-session-id"), Some(session));
            wire.answer(&call, json!({"content": []}));
            wire.result(request);
        }
    });
}

/// As from a server whose balancer sends each request to another instance (C4.19).
#[test]
fn client_gives_up_sessions_that_are_lost_before_they_open() {
    legacy(config(), |wire, _| {
        call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 404, &[], "");
        for round in 0.. {
            assert!(round < 20, "the client gives up");
            let Some(initialize) = wire.next() else { break };
            if initialize.body["method"] != "initialize" {
                wire.reply(&initialize, 404, &[], "");
                continue;
            }
            wire.answer_initialize(&initialize, LEGACY, "again");
            let initialized = wire.expect("notifications/initialized");
            wire.reply(&initialized, 404, &[], "");
        }
    });
}

#[test]
fn failure_to_reopen_the_session_ends_the_connection() {
    legacy(config(), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 404, &[], "");
        let initialize = wire.expect("initialize");
        wire.refuse(&initialize, 400, -32603, None);
        while let Some(exchange) = wire.next() {
            wire.reply(&exchange, 404, &[], "");
        }
        assert!(matches!(wire.outcome(request), Outcome::Lost(_) | Outcome::Refused(_)));
        assert!(matches!(wire.closed(), Some(CloseReason::Connect(_))));
        assert!(wire.client.is_closed());
    });
}

/// A server that has refused everything so far has not lost a session.
#[test]
fn status_400_does_not_lose_a_session_that_never_worked() {
    legacy(config(), |wire, _| {
        for _ in 0..3 {
            let request = call_tool(wire);
            let call = wire.expect("tools/call");
            let error = json!({"code": -32000, "message": "Bad Request: no"});
            wire.reply_json(&call, 400, &json!({"jsonrpc": "2.0", "id": null, "error": error}));
            assert!(matches!(wire.outcome(request), Outcome::Error(_)));
        }
        assert!(!lost_session(wire));
    });
}

/// A request whose pause ends while the session is being replaced waits for the new one.
#[test]
fn client_sends_no_requests_between_two_sessions() {
    legacy(config(), |wire, _| {
        let paused = call_tool(wire);
        let never_left = wire.expect("tools/call");
        wire.fail(&never_left, SentState::NotSent);
        call_tool(wire);
        let refused = wire.expect("tools/call");
        wire.reply(&refused, 404, &[], "");
        let initialize = wire.expect("initialize");
        wire.advance(Duration::from_secs(5));
        wire.expect_silence();
        wire.answer_initialize(&initialize, LEGACY, "session-2");
        let initialized = wire.expect("notifications/initialized");
        wire.accept(&initialized);
        wire.expect_get();
        let again = wire.expect("tools/call");
        assert_eq!((again.id(), again.header("mcp-session-id")), (never_left.id(), Some("session-2")));
        wire.answer(&again, json!({"content": []}));
        wire.result(paused);
    });
}
