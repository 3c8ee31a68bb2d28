//! The client over HTTP with a server that wants to know who asks: what is refused is held until somebody has seen to it.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use std::time::Duration;

use crate::http_common::{
    Exchange, LEGACY, SESSION, Wire, config, discover_result, legacy, legacy_config, modern, scenario,
};
use mcp_proto::bind::http::Verb;
use mcp_proto::bind::http::client::{Challenge, HttpClientConfig, Listen, Unauthorized};
use mcp_proto::peer::client::{Closed, ConnectError, Diagnostic, Event, Keepalive, State};
use mcp_proto::peer::{Lost, Outcome, RequestId, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapabilities, ClientCapability, EmptyParams, ListTools, ListToolsParams,
    RootsListChanged,
};
use serde_json::json;

const CHALLENGE: &str =
    r#"Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource""#;

fn parking(mut config: HttpClientConfig) -> HttpClientConfig {
    config.authorization = Unauthorized::Park;
    config
}

fn call_tool(wire: &mut Wire) -> RequestId {
    call_with(wire, RequestOptions::default())
}

fn call_with(wire: &mut Wire, options: RequestOptions) -> RequestId {
    wire.client.request::<CallTool>(wire.now, &CallToolParams::new("pay"), options).unwrap()
}

fn list_tools(wire: &mut Wire) -> RequestId {
    wire.client.request::<ListTools>(wire.now, &ListToolsParams::new(), RequestOptions::default()).unwrap()
}

/// Answers 401.
fn bar(wire: &mut Wire, exchange: &Exchange) -> Challenge {
    wire.reply(exchange, 401, &[("WWW-Authenticate", CHALLENGE)], "who are you?");
    let challenge = wire.expect_challenge();
    assert_eq!((challenge.exchange, challenge.status), (exchange.exchange(), 401));
    challenge
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn refusal(outcome: Outcome) -> (u16, String, Option<String>) {
    match outcome {
        Outcome::Http(error) => (error.status, error.excerpt, error.unauthorized),
        other => panic!("not refused: {other:?}"),
    }
}

// --- Requests ---

/// C12.2
#[test]
fn a_request_that_is_refused_waits_and_goes_out_again() {
    modern(parking(config()), |wire| {
        let request = call_tool(wire);
        let first = wire.expect("tools/call");
        let challenge = bar(wire, &first);
        assert_eq!(challenge.header.as_deref(), Some(CHALLENGE));
        assert_eq!((challenge.attempt, challenge.dpop_nonce.as_deref()), (0, None));
        wire.expect_silence();
        wire.expect_pending(request);

        wire.resume(&challenge);
        let again = wire.expect("tools/call");
        assert_ne!(again.exchange(), first.exchange());
        assert_eq!((&again.request.url, &again.body), (&first.request.url, &first.body));
        assert_eq!(again.request.headers, first.request.headers);
        wire.answer(&again, json!({"resultType": "complete", "content": []}));
        wire.result(request);
        wire.expect_no_abort();
    });
}

/// C12.2
#[test]
fn several_challenges_are_told_as_one_header_and_the_nonce_beside_them() {
    modern(parking(config()), |wire| {
        call_tool(wire);
        let call = wire.expect("tools/call");
        let headers = [("www-authenticate", "Basic"), ("WWW-Authenticate", "DPoP"), ("DPoP-Nonce", "n-1")];
        wire.reply(&call, 401, &headers, "");
        let challenge = wire.expect_challenge();
        assert_eq!(challenge.header.as_deref(), Some("Basic, DPoP"));
        assert_eq!(challenge.dpop_nonce.as_deref(), Some("n-1"));
        assert!(!format!("{challenge:?}").contains("n-1"));
    });
}

/// C12.2
#[test]
fn each_attempt_is_counted() {
    modern(parking(config()), |wire| {
        call_tool(wire);
        for attempt in 0..4 {
            let call = wire.expect("tools/call");
            let challenge = bar(wire, &call);
            assert_eq!(challenge.attempt, attempt);
            wire.resume(&challenge);
        }
    });
}

/// C12.16
#[test]
fn a_403_is_held_if_it_says_what_is_missing() {
    modern(parking(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 403, &[("www-authenticate", "Bearer error=\"insufficient_scope\"")], "");
        let challenge = wire.expect_challenge();
        assert_eq!(challenge.status, 403);
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        wire.reply(&call, 403, &[], "no");
        wire.expect_no_challenge();
        assert_eq!(refusal(wire.outcome(request)), (403, "no".into(), None));
    });
}

#[test]
fn an_error_in_the_body_of_a_refusal_is_held_as_well() {
    modern(parking(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.refuse(&call, 401, -32001, None);
        let challenge = wire.expect_challenge();
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.result(request);
    });
}

#[test]
fn a_refusal_whose_body_breaks_off_is_held_as_well() {
    modern(parking(config()), |wire| {
        call_tool(wire);
        let call = wire.expect("tools/call");
        wire.head(&call, 401, &[("www-authenticate", CHALLENGE)]);
        wire.body(&call, "who");
        wire.expect_no_challenge();
        wire.cut(&call);
        wire.expect_challenge();
    });
}

/// C12.2
#[test]
fn nothing_is_held_unless_that_was_asked_for() {
    modern(config(), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 401, &[("www-authenticate", CHALLENGE)], "who are you?");
        wire.expect_no_challenge();
        assert_eq!(refusal(wire.outcome(request)), (401, "who are you?".into(), None));
    });
}

#[test]
fn what_is_given_up_ends_as_the_server_refused_it() {
    modern(parking(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = bar(wire, &call);
        wire.give_up(&challenge);
        let Outcome::Http(error) = wire.outcome(request) else { panic!() };
        assert_eq!(error.challenge.as_deref(), Some(CHALLENGE));
        assert_eq!(error.to_string(), "HTTP status 401 (nobody logged in): who are you?");
        // Whatever else is said of it comes too late.
        wire.resume(&challenge);
        wire.give_up(&challenge);
        wire.expect_silence();
    });
}

#[test]
fn what_still_comes_of_an_exchange_that_is_held_changes_nothing() {
    modern(parking(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = bar(wire, &call);
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.cut(&call);
        wire.expect_pending(request);
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.result(request);
    });
}

#[test]
fn a_request_that_is_held_keeps_its_place_among_the_exchanges() {
    let mut config = parking(config());
    config.client.limits.exchanges = 1;
    modern(config, |wire| {
        let first = call_tool(wire);
        let second = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = bar(wire, &call);
        wire.expect_silence();
        wire.give_up(&challenge);
        refusal(wire.outcome(first));
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.result(second);
    });
}

#[test]
fn a_redirect_counts_the_same_attempts() {
    modern(parking(config()), |wire| {
        call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = bar(wire, &call);
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        wire.head(&call, 307, &[("location", "/elsewhere")]);
        let call = wire.expect("tools/call");
        let challenge = bar(wire, &call);
        assert_eq!(challenge.attempt, 1);
        wire.resume(&challenge);
        assert_eq!(&*wire.expect("tools/call").request.url, "http://localhost:3000/elsewhere");
    });
}

// --- The end of it ---

#[test]
fn a_request_that_is_cancelled_is_held_no_longer_and_the_server_is_not_told() {
    legacy(parking(config()), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = bar(wire, &call);
        wire.client.cancel(wire.now, request, None);
        assert!(matches!(wire.outcome(request), Outcome::Cancelled));
        // Whoever saw to it is told.
        wire.expect_abort(&call);
        wire.expect_silence();
        wire.resume(&challenge);
        wire.expect_silence();
    });
}

#[test]
fn the_time_of_a_request_stands_still_while_it_is_held() {
    modern(parking(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.advance(Duration::from_secs(29));
        let challenge = bar(wire, &call);
        wire.advance(minutes(2));
        wire.expect_pending(request);
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        // It is given its time anew.
        wire.advance(Duration::from_secs(29));
        wire.expect_pending(request);
        wire.advance(Duration::from_secs(1));
        assert!(matches!(wire.outcome(request), Outcome::TimedOut { maximum: false, .. }));
        wire.expect_abort(&call);
    });
}

#[test]
fn a_request_that_is_held_ends_at_its_hard_maximum() {
    modern(parking(config()), |wire| {
        let request = call_with(wire, RequestOptions::default().maximum(minutes(1)));
        let call = wire.expect("tools/call");
        let challenge = bar(wire, &call);
        wire.advance(minutes(1) - Duration::from_millis(1));
        wire.expect_pending(request);
        wire.advance(Duration::from_millis(1));
        assert!(matches!(wire.outcome(request), Outcome::TimedOut { maximum: true, .. }));
        wire.expect_abort(&call);
        wire.resume(&challenge);
        wire.expect_silence();
    });
}

#[test]
fn the_time_of_what_waits_behind_it_stands_still_as_well() {
    let mut config = parking(config());
    config.client.limits.exchanges = 1;
    modern(config, |wire| {
        call_tool(wire);
        let behind = list_tools(wire);
        let call = wire.expect("tools/call");
        let challenge = bar(wire, &call);
        wire.advance(minutes(1) + Duration::from_secs(29));
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        let list = wire.expect("tools/list");
        wire.advance(Duration::from_secs(29));
        wire.expect_pending(behind);
        wire.answer(
            &list,
            json!({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}),
        );
        wire.result(behind);
    });
}

#[test]
fn the_time_of_other_requests_goes_on() {
    modern(parking(config()), |wire| {
        let slow = list_tools(wire);
        let list = wire.expect("tools/list");
        let held = call_tool(wire);
        let call = wire.expect("tools/call");
        bar(wire, &call);
        wire.advance(Duration::from_secs(30));
        assert!(matches!(wire.outcome(slow), Outcome::TimedOut { .. }));
        wire.expect_abort(&list);
        wire.expect_pending(held);
    });
}

#[test]
fn closing_ends_what_is_held_after_a_while() {
    for at_once in [false, true] {
        modern(parking(config()), |wire| {
            let request = call_tool(wire);
            let call = wire.expect("tools/call");
            let challenge = bar(wire, &call);
            if at_once {
                wire.client.abort(wire.now, Lost::DriverDropped);
            } else {
                wire.client.close(wire.now);
                wire.expect_pending(request);
                wire.advance(minutes(5));
            }
            assert!(matches!(wire.outcome(request), Outcome::Lost(_)));
            assert!(wire.client.is_closed());
            wire.expect_abort(&call);
            wire.resume(&challenge);
            wire.expect_silence();
            assert_eq!(wire.client.poll_timeout(), None);
        });
    }
}

#[test]
fn a_request_that_is_held_may_still_be_answered_while_closing() {
    modern(parking(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = bar(wire, &call);
        wire.client.close(wire.now);
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.result(request);
        assert_eq!(wire.closed(), Some(Closed::Done));
    });
}

// --- The handshake ---

/// C12.2
#[test]
fn the_probe_is_held_and_detection_stands_still() {
    scenario(parking(config()), |wire| {
        let request = call_tool(wire);
        let probe = wire.expect("server/discover");
        wire.advance(Duration::from_secs(3));
        let challenge = bar(wire, &probe);
        wire.advance(minutes(3));
        wire.expect_silence();
        assert_eq!(wire.closed(), None);
        wire.expect_pending(request);
        wire.resume(&challenge);
        let probe = wire.expect("server/discover");
        wire.answer(&probe, discover_result());
        assert_eq!(wire.client.state(), State::Ready);
        let call = wire.expect("tools/call");
        wire.advance(Duration::from_secs(29));
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.result(request);
    });
}

#[test]
fn detection_has_the_time_left_that_it_had() {
    scenario(parking(config()), |wire| {
        let probe = wire.expect("server/discover");
        let due = wire.client.poll_timeout().unwrap();
        let challenge = bar(wire, &probe);
        wire.advance(minutes(3));
        wire.resume(&challenge);
        assert_eq!(wire.client.poll_timeout(), Some(due + minutes(3)));
    });
}

#[test]
fn a_probe_that_is_given_up_fails_the_connection_with_the_reason() {
    scenario(parking(config()), |wire| {
        let probe = wire.expect("server/discover");
        let challenge = bar(wire, &probe);
        wire.give_up(&challenge);
        let Some(Closed::Connect(ConnectError::Http { error, .. })) = wire.closed() else { panic!() };
        assert_eq!((error.status, error.unauthorized.as_deref()), (401, Some("nobody logged in")));
        assert_eq!(error.challenge.as_deref(), Some(CHALLENGE));
    });
}

/// C12.2
#[test]
fn the_handshake_is_held_as_well_and_so_is_what_opens_the_session() {
    scenario(parking(legacy_config()), |wire| {
        let request = call_tool(wire);
        let initialize = wire.expect("initialize");
        let challenge = bar(wire, &initialize);
        wire.advance(minutes(3));
        wire.resume(&challenge);
        let initialize = wire.expect("initialize");
        wire.answer_initialize(&initialize, LEGACY, SESSION);

        let initialized = wire.expect("notifications/initialized");
        let challenge = bar(wire, &initialized);
        // Nothing goes out before the server has heard that.
        wire.advance(minutes(3));
        wire.expect_silence();
        wire.resume(&challenge);
        let initialized = wire.expect("notifications/initialized");
        assert_eq!(initialized.header("mcp-session-id"), Some(SESSION));
        wire.accept(&initialized);
        wire.expect_get();
        wire.expect("tools/call");
        wire.expect_pending(request);
    });
}

#[test]
fn what_opens_the_session_and_is_given_up_is_told_and_the_session_is_used() {
    scenario(parking(legacy_config()), |wire| {
        let initialize = wire.expect("initialize");
        wire.answer_initialize(&initialize, LEGACY, SESSION);
        let initialized = wire.expect("notifications/initialized");
        let challenge = bar(wire, &initialized);
        wire.give_up(&challenge);
        assert!(
            wire.diagnostics().iter().any(
                |told| matches!(told, Diagnostic::NotTaken { error, .. } if error.unauthorized.is_some())
            )
        );
        wire.expect_get();
    });
}

/// C12.2
#[test]
fn the_stream_of_events_of_http_with_sse_is_held() {
    scenario(parking(legacy_config()), |wire| {
        let initialize = wire.expect("initialize");
        wire.reply(&initialize, 405, &[], "");
        let events = wire.expect_get();
        let challenge = bar(wire, &events);
        wire.advance(minutes(3));
        assert_eq!(wire.closed(), None);
        wire.resume(&challenge);
        let events = wire.expect_get();
        wire.stream(&events);
        wire.body(&events, "event: endpoint\ndata: /post\n\n");
        let initialize = wire.expect("initialize");
        let challenge = bar(wire, &initialize);
        wire.advance(minutes(3));
        wire.resume(&challenge);
        let initialize = wire.expect("initialize");
        assert_eq!(&*initialize.request.url, "http://localhost:3000/post");
        wire.accept(&initialize);
        wire.event_answer(&events, &initialize.id(), crate::http_common::initialize_result("2024-11-05"));
        assert_eq!(wire.client.state(), State::Ready);
    });
}

#[test]
fn a_stream_of_events_that_is_asked_for_again_in_vain_ends_by_its_own_time() {
    scenario(parking(legacy_config()), |wire| {
        let initialize = wire.expect("initialize");
        wire.reply(&initialize, 405, &[], "");
        let events = wire.expect_get();
        let challenge = bar(wire, &events);
        wire.advance(minutes(3));
        wire.resume(&challenge);
        let events = wire.expect_get();
        wire.advance(Duration::from_secs(5));
        wire.expect_abort(&events);
        assert!(wire.closed().is_some());
    });
}

// --- Sessions ---

/// C12.2
#[test]
fn the_listening_stream_is_held_and_asked_for_again() {
    scenario(parking(legacy_config()), |wire| {
        wire.open_session(LEGACY, SESSION);
        let listener = wire.expect_get();
        let challenge = bar(wire, &listener);
        wire.advance(minutes(1));
        wire.expect_silence();
        wire.resume(&challenge);
        let listener = wire.expect_get();
        assert_eq!(listener.header("mcp-session-id"), Some(SESSION));
        wire.stream(&listener);
        wire.client.close(wire.now);
        wire.expect_abort(&listener);
    });
}

#[test]
fn a_listening_stream_that_is_given_up_is_not_asked_for_again() {
    scenario(parking(legacy_config()), |wire| {
        wire.open_session(LEGACY, SESSION);
        let listener = wire.expect_get();
        let challenge = bar(wire, &listener);
        wire.give_up(&challenge);
        wire.advance(minutes(10));
        wire.expect_silence();
        assert!(wire.diagnostics().iter().any(|told| matches!(told, Diagnostic::NotListening { .. })));
    });
}

/// C12.2
#[test]
fn the_rest_of_an_answer_is_held_and_asked_for_again() {
    legacy(parking(config()), |wire, _| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.stream(&call);
        wire.body(&call, "id: 7\ndata:\n\n");
        wire.cut(&call);
        wire.advance(Duration::from_secs(1));
        let rest = wire.expect_get();
        let challenge = bar(wire, &rest);
        wire.advance(minutes(2));
        wire.expect_pending(request);
        wire.resume(&challenge);
        let rest = wire.expect_get();
        assert_eq!(rest.header("last-event-id"), Some("7"));
        wire.stream(&rest);
        wire.event_answer(&rest, &call.id(), json!({"content": []}));
        wire.result(request);
    });
}

#[test]
fn a_request_that_is_held_while_its_session_is_lost_goes_out_in_the_next() {
    legacy(parking(config()), |wire, listener| {
        let held = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = bar(wire, &call);
        let lost = list_tools(wire);
        let list = wire.expect("tools/list");
        wire.reply(&list, 404, &[], "gone");
        wire.expect_abort(&listener);
        wire.resume(&challenge);
        let initialize = wire.expect("initialize");
        wire.expect_silence();
        wire.answer_initialize(&initialize, LEGACY, "session-2");
        let initialized = wire.expect("notifications/initialized");
        wire.accept(&initialized);
        wire.expect_get();
        for (request, method, result) in
            [(held, "tools/call", json!({"content": []})), (lost, "tools/list", json!({"tools": []}))]
        {
            let exchange = wire.expect(method);
            assert_eq!(exchange.header("mcp-session-id"), Some("session-2"));
            wire.answer(&exchange, result);
            wire.result(request);
        }
    });
}

#[test]
fn a_listening_stream_that_is_held_goes_with_its_session() {
    scenario(parking(legacy_config()), |wire| {
        wire.open_session(LEGACY, SESSION);
        let listener = wire.expect_get();
        let challenge = bar(wire, &listener);
        list_tools(wire);
        let list = wire.expect("tools/list");
        wire.reply(&list, 404, &[], "gone");
        wire.expect_abort(&listener);
        wire.resume(&challenge);
        wire.expect("initialize");
        wire.expect_silence();
    });
}

/// C12.2
#[test]
fn a_notification_is_held_and_sent_again() {
    let mut config = parking(config());
    config.client.capabilities = ClientCapabilities::default().with(ClientCapability::RootsListChanged);
    config.listen = Listen::Never;
    config.client.mode = mcp_proto::peer::client::Mode::LegacyOnly;
    scenario(config, |wire| {
        wire.open_session(LEGACY, SESSION);
        wire.client.notify::<RootsListChanged>(wire.now, &EmptyParams::default()).unwrap();
        let said = wire.expect("notifications/roots/list_changed");
        let challenge = bar(wire, &said);
        // Its exchange has no time of its own while it is held.
        wire.advance(minutes(2));
        wire.expect_no_abort();
        wire.resume(&challenge);
        let said = wire.expect("notifications/roots/list_changed");
        wire.accept(&said);
        wire.client.close(wire.now);
        let delete = wire.next().unwrap();
        assert_eq!(delete.request.verb, Verb::Delete);
        let challenge = bar(wire, &delete);
        wire.resume(&challenge);
        let delete = wire.next().unwrap();
        assert_eq!(delete.request.verb, Verb::Delete);
        wire.reply(&delete, 204, &[], "");
        assert_eq!(wire.closed(), Some(Closed::Done));
    });
}

#[test]
fn a_ping_that_is_held_is_not_missed() {
    let mut config = parking(config());
    config.client.keepalive = Some(Keepalive::PRESET);
    legacy(config, |wire, _| {
        wire.advance(Keepalive::PRESET.interval);
        let ping = wire.expect("ping");
        let challenge = bar(wire, &ping);
        wire.advance(minutes(5));
        assert_eq!(wire.take_events().len(), 0);
        wire.resume(&challenge);
        let ping = wire.expect("ping");
        wire.advance(Keepalive::PRESET.timeout - Duration::from_millis(1));
        wire.answer(&ping, json!({}));
        assert!(!wire.take_events().iter().any(|event| matches!(event, Event::Diagnostic(_))));
    });
}

/// The tools are listed anew for a call whose headers were wrong.
#[test]
fn a_list_of_the_bindings_own_is_held_and_so_is_what_waits_for_it() {
    modern(parking(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.refuse(&call, 400, -32020, None);
        let list = wire.expect("tools/list");
        let challenge = bar(wire, &list);
        wire.advance(minutes(2));
        wire.expect_pending(request);
        wire.resume(&challenge);
        let list = wire.expect("tools/list");
        wire.advance(Duration::from_secs(29));
        wire.answer(
            &list,
            json!({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}),
        );
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.result(request);
    });
}
