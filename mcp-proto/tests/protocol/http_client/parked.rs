//! The client over HTTP with a server that requires authorization: refused exchanges are parked until the application
//! resumes them.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod ends;
mod handshake;
mod sessions;

use std::time::Duration;

use crate::common::http_client::{
    ClientWire, Exchange, SESSION, config, legacy, legacy_config, modern, scenario,
};
use crate::common::messages::{LEGACY, discover_result};
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
fn client_parks_a_refused_request_and_sends_it_again() {
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
fn client_joins_several_challenges_and_reports_the_nonce_beside_them() {
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
fn client_counts_attempts() {
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
fn client_parks_a_403_with_a_challenge() {
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
fn client_parks_a_refusal_with_an_error_in_its_body() {
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
fn client_parks_a_refusal_whose_body_is_truncated() {
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
fn client_parks_no_refusals_by_default() {
    modern(config(), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        wire.reply(&call, 401, &[("www-authenticate", CHALLENGE)], "who are you?");
        wire.expect_no_challenge();
        assert_eq!(http_refusal(wire.outcome(request)), (401, "who are you?".into(), None));
    });
}

#[test]
fn request_given_up_ends_with_the_refusal_of_the_server() {
    modern(parking_config(config()), |wire| {
        let request = call_tool(wire);
        let call = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &call);
        wire.give_up(&challenge);
        let Outcome::Transport(error) = wire.outcome(request) else { panic!() };
        assert_eq!(error.challenge.as_deref(), Some(CHALLENGE));
        let text = format!(
            "HTTP status 401 to tools/call, id 2 (nobody logged in) (WWW-Authenticate: {CHALLENGE}): who are you?"
        );
        assert_eq!(error.to_string(), text);
        // A later decision has no effect.
        wire.resume(&challenge);
        wire.give_up(&challenge);
        wire.expect_silence();
    });
}

#[test]
fn client_ignores_late_output_of_a_parked_exchange() {
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
fn parked_request_counts_towards_the_limit_of_exchanges() {
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
fn parked_exchange_is_resumed_at_https_after_a_redirect_there() {
    modern(parking_config(config()), |wire| {
        call_tool(wire);
        let parked = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &parked);
        call_tool(wire);
        let call = wire.expect("tools/call");
        wire.head(&call, 307, &[("location", "https://localhost:3000/mcp")]);
        assert_eq!(&*wire.expect("tools/call").request.url, "https://localhost:3000/mcp");
        wire.resume(&challenge);
        assert_eq!(&*wire.expect("tools/call").request.url, "https://localhost:3000/mcp");
    });
}

#[test]
fn redirect_does_not_reset_the_count_of_attempts() {
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

#[test]
fn parked_request_that_cannot_be_sent_again_is_refused() {
    modern(parking_config(config()), |wire| {
        let params = CallToolParams::new("query").with_arguments(json!({"limit": 1.5}));
        let options = RequestOptions::default().timeout(Duration::MAX).hard_timeout(Duration::MAX);
        let request = wire.client.at(wire.now).request::<CallTool>(&params, options).unwrap();
        let first = wire.expect("tools/call");
        let challenge = reject_unauthorized(wire, &first);
        list_tools(wire);
        let list = wire.expect("tools/list");
        let schema =
            json!({"type": "object", "properties": {"limit": {"type": "integer", "x-mcp-header": "Limit"}}});
        let tools = json!([{"name": "query", "inputSchema": schema}]);
        wire.answer(&list, json!({"resultType": "complete", "tools": tools}));
        wire.resume(&challenge);
        wire.expect_silence();
        assert!(matches!(wire.outcome(request), Outcome::Refused(_)));
    });
}
