//! The client over HTTP with a server that wants to know who asks: what is refused is held until somebody has seen to it.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod ends;
mod handshake;
mod sessions;

use std::time::Duration;

use crate::http_common::{
    ClientWire, Exchange, LEGACY, SESSION, config, discover_result, legacy, legacy_config, modern, scenario,
};
use mcp_proto::peer::client::{CloseReason, ConnectError, Diagnostic, Event, Keepalive, State};
use mcp_proto::peer::{LostReason, Outcome, RequestId, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapabilities, ClientCapability, EmptyParams, ListTools, ListToolsParams,
    RootsListChanged,
};
use mcp_proto::transport::http::Verb;
use mcp_proto::transport::http::client::{
    AuthorizationRequired, HttpClientConfig, ListenPolicy, UnauthorizedPolicy,
};
use serde_json::json;

const CHALLENGE: &str =
    r#"Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource""#;

fn parking_config(mut config: HttpClientConfig) -> HttpClientConfig {
    config.authorization = UnauthorizedPolicy::Park;
    config
}

fn call_tool(wire: &mut ClientWire) -> RequestId {
    call_with(wire, RequestOptions::default())
}

fn call_with(wire: &mut ClientWire, options: RequestOptions) -> RequestId {
    wire.client.at(wire.now).request::<CallTool>(&CallToolParams::new("pay"), options).unwrap()
}

fn list_tools(wire: &mut ClientWire) -> RequestId {
    wire.client.at(wire.now).request::<ListTools>(&ListToolsParams::new(), RequestOptions::default()).unwrap()
}

/// Answers 401.
fn reject_unauthorized(wire: &mut ClientWire, exchange: &Exchange) -> AuthorizationRequired {
    wire.reply(exchange, 401, &[("WWW-Authenticate", CHALLENGE)], "who are you?");
    let challenge = wire.expect_challenge();
    assert_eq!((challenge.exchange, challenge.status), (exchange.exchange(), 401));
    challenge
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn http_refusal(outcome: Outcome) -> (u16, String, Option<String>) {
    match outcome {
        Outcome::Transport(error) => {
            (error.status, error.detail.into(), error.unauthorized.map(String::from))
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// C12.2
#[test]
fn a_request_that_is_refused_waits_and_goes_out_again() {
    modern(parking_config(config()), |wire| {
        let request = call_tool(wire);
        let first = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &first);
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
    modern(parking_config(config()), |wire| {
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
    modern(parking_config(config()), |wire| {
        call_tool(wire);
        for attempt in 0..4 {
            let call = wire.expect("tools/call");
            let challenge = reject_unauthorized(wire, &call);
            assert_eq!(challenge.attempt, attempt);
            wire.resume(&challenge);
        }
    });
}

/// C12.16
#[test]
fn a_403_is_held_if_it_says_what_is_missing() {
    modern(parking_config(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 403, &[("www-authenticate", "Bearer error=\"insufficient_scope\"")], "");
        let challenge = wire.expect_challenge();
        assert_eq!(challenge.status, 403);
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        wire.reply(&call, 403, &[], "no");
        wire.expect_no_challenge();
        assert_eq!(http_refusal(wire.outcome(request)), (403, "no".into(), None));
    });
}

#[test]
fn an_error_in_the_body_of_a_refusal_is_held_as_well() {
    modern(parking_config(config()), |wire| {
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
    modern(parking_config(config()), |wire| {
        call_tool(wire);
        let call = wire.expect("tools/call");
        wire.head(&call, 401, &[("www-authenticate", CHALLENGE)]);
        wire.body(&call, "who");
        wire.expect_no_challenge();
        wire.truncate(&call);
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
        assert_eq!(http_refusal(wire.outcome(request)), (401, "who are you?".into(), None));
    });
}

#[test]
fn what_is_given_up_ends_as_the_server_refused_it() {
    modern(parking_config(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &call);
        wire.give_up(&challenge);
        let Outcome::Transport(error) = wire.outcome(request) else { panic!() };
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
    modern(parking_config(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &call);
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.truncate(&call);
        wire.expect_pending(request);
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.result(request);
    });
}

#[test]
fn a_request_that_is_held_keeps_its_place_among_the_exchanges() {
    let mut config = parking_config(config());
    config.client.limits.exchanges = 1;
    modern(config, |wire| {
        let first = call_tool(wire);
        let second = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &call);
        wire.expect_silence();
        wire.give_up(&challenge);
        http_refusal(wire.outcome(first));
        let call = wire.expect("tools/call");
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.result(second);
    });
}

#[test]
fn a_redirect_counts_the_same_attempts() {
    modern(parking_config(config()), |wire| {
        call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &call);
        wire.resume(&challenge);
        let call = wire.expect("tools/call");
        wire.head(&call, 307, &[("location", "/elsewhere")]);
        let call = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &call);
        assert_eq!(challenge.attempt, 1);
        wire.resume(&challenge);
        assert_eq!(&*wire.expect("tools/call").request.url, "http://localhost:3000/elsewhere");
    });
}
