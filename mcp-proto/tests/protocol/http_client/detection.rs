//! Detection of the server's era by the client over HTTP, exchange by exchange. The unit tests of `detect` walk the
//! table itself.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#backward-compatibility>

use std::time::Duration;

use crate::common::http_client::{ClientWire, SESSION, config, legacy_config, scenario};
use crate::common::messages::{LEGACY, MODERN, discover_result};
use mcp_proto::peer::client::{CloseReason, ConnectError, Diagnostic, KnownEra, State};
use mcp_proto::peer::{Outcome, RequestError, RequestOptions};
use mcp_proto::schema::{CallTool, CallToolParams, Era, Revision};
use mcp_proto::transport::http::SentState;
use serde_json::json;

fn connect_error(wire: &mut ClientWire) -> ConnectError {
    match wire.closed() {
        Some(CloseReason::Connect(error)) => error,
        other => panic!("expected a failure to connect, not {other:?}"),
    }
}

fn assert_ready(wire: &ClientWire, era: Era) {
    assert_eq!(wire.client.state(), State::Ready);
    assert_eq!(wire.client.peer().server().unwrap().era, era);
}

/// C4.4, C4.6, H1
#[test]
fn the_probe_is_a_modern_request() {
    scenario(config(), |wire| {
        let probe = wire.expect("server/discover");
        assert_eq!(probe.header("mcp-protocol-version"), Some(MODERN));
        assert_eq!(probe.header("mcp-method"), Some("server/discover"));
        assert_eq!(probe.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(probe.header("mcp-session-id"), None);
        assert_eq!(probe.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], MODERN);
        wire.stream(&probe);
        wire.event_answer(&probe, &probe.id(), discover_result());
        assert_ready(wire, Era::Modern);
        let verdict = wire.client.peer().known_era().unwrap();
        assert_eq!((verdict.era, verdict.version), (Era::Modern, Revision::LATEST));
        wire.end(&probe);
        wire.expect_silence();
    });
}

/// C2.7, A0.4; the conformance suite's `request-metadata`
#[test]
fn client_repeats_a_probe_refused_with_its_own_version() {
    scenario(config(), |wire| {
        let first = wire.expect("server/discover");
        wire.refuse(&first, 400, -32022, Some(json!({"supported": [MODERN], "requested": MODERN})));
        let second = wire.expect("server/discover");
        assert_ne!(first.id(), second.id());
        wire.answer(&second, discover_result());
        assert_ready(wire, Era::Modern);
    });
}

/// C2.7: a server that lists only legacy versions is spoken to in one of them.
#[test]
fn list_of_legacy_versions_leads_to_the_handshake() {
    scenario(config(), |wire| {
        let probe = wire.expect("server/discover");
        wire.refuse(&probe, 400, -32022, Some(json!({"supported": ["2025-06-18", "2024-11-05"]})));
        let initialize = wire.expect("initialize");
        assert_eq!(initialize.body["params"]["protocolVersion"], "2025-06-18");
        wire.answer_initialize(&initialize, "2025-06-18", SESSION);
        assert_ready(wire, Era::Legacy);
    });
}

/// C2.7, A2: the responses to the probe that lead to the handshake.
#[test]
fn response_that_no_modern_server_sends_leads_to_the_handshake() {
    for (status, kind, body) in [
        (200, "application/json", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"),
        (200, "text/html", "<html>"),
        (200, "text/event-stream", ": bye\n\n"),
        (202, "", ""),
        (400, "text/plain", "Invalid request"),
        (404, "text/html", "<html>"),
        (405, "", ""),
        (406, "", ""),
        (415, "", ""),
        (
            500,
            "application/json",
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,\"message\":\"x\"}}",
        ),
    ] {
        scenario(config(), |wire| {
            let probe = wire.expect("server/discover");
            wire.reply(&probe, status, &[("content-type", kind)], body);
            wire.open_session(LEGACY, SESSION);
            assert_ready(wire, Era::Legacy);
        });
    }
}

/// A2: a response that does not determine the era never does.
#[test]
fn client_retries_the_probe_after_transient_failures() {
    scenario(config(), |wire| {
        let probe = wire.expect("server/discover");
        wire.reply(&probe, 503, &[("retry-after", "3")], "starting");
        wire.expect_silence();
        assert_eq!(wire.advance_to_timeout(), Duration::from_secs(3));
        let probe = wire.expect("server/discover");
        wire.fail(&probe, SentState::NotSent);
        wire.advance_to_timeout();
        let probe = wire.expect("server/discover");
        wire.head(&probe, 200, &[("content-type", "application/json")]);
        wire.truncate(&probe);
        wire.advance_to_timeout();
        let probe = wire.expect("server/discover");
        wire.answer(&probe, discover_result());
        assert_ready(wire, Era::Modern);
    });
}

#[test]
fn client_gives_up_on_an_unreachable_server() {
    scenario(config(), |wire| {
        let params = CallToolParams::new("x");
        let options = RequestOptions::default().timeout(Duration::from_secs(600));
        let request = wire.client.at(wire.now).request::<CallTool>(&params, options).unwrap();
        for _ in 0..4 {
            let probe = wire.expect("server/discover");
            wire.fail(&probe, SentState::NotSent);
            if !wire.client.is_closed() {
                wire.advance_to_timeout();
            }
        }
        let error = connect_error(wire);
        assert!(error.to_string().contains("refused"), "{error}");
        assert!(matches!(wire.outcome(request), Outcome::Refused(RequestError::Connect(_))));
        assert_eq!(wire.client.poll_timeout(), None);
        wire.expect_silence();
    });
}

/// An unanswered probe is sent again, and the first may still be answered.
#[test]
fn client_accepts_a_slow_response_to_the_probe() {
    scenario(config(), |wire| {
        let slow = wire.expect("server/discover");
        wire.advance(Duration::from_secs(12));
        let again = wire.expect("server/discover");
        wire.expect_no_abort();
        wire.answer(&slow, discover_result());
        assert_ready(wire, Era::Modern);
        wire.expect_abort(&again);
        wire.answer(&again, discover_result());
        wire.expect_silence();
    });
}

#[test]
fn client_repeats_an_unanswered_step_after_the_configured_time() {
    for (mut config, method, seconds) in
        [(config(), "server/discover", 3), (legacy_config(), "initialize", 7)]
    {
        config.client.connect.probe_http = Duration::from_secs(3);
        config.client.connect.initialize_http = Duration::from_secs(7);
        scenario(config, |wire| {
            wire.expect(method);
            assert_eq!(wire.advance_to_timeout(), Duration::from_secs(seconds));
            wire.advance_to_timeout();
            wire.expect(method);
        });
    }
}

/// The session is that of the accepted response.
#[test]
fn client_accepts_a_slow_response_to_the_handshake() {
    scenario(legacy_config(), |wire| {
        let slow = wire.expect("initialize");
        wire.advance(Duration::from_secs(35));
        let again = wire.expect("initialize");
        wire.answer_initialize(&slow, LEGACY, "slow");
        wire.expect_abort(&again);
        assert_eq!(wire.expect("notifications/initialized").header("mcp-session-id"), Some("slow"));
        wire.answer_initialize(&again, LEGACY, "late");
        wire.expect_silence();
    });
}

/// 401 and 403 keep the server's challenge.
#[test]
fn connect_error_shows_the_challenge_of_the_server() {
    for status in [401, 403] {
        scenario(config(), |wire| {
            let probe = wire.expect("server/discover");
            let challenge =
                "Bearer resource_metadata=\"http://localhost/.well-known/oauth-protected-resource\"";
            wire.reply(&probe, status, &[("www-authenticate", challenge)], "who are you?");
            let ConnectError::Transport { error, .. } = connect_error(wire) else { panic!() };
            assert_eq!((error.status, error.challenge.as_deref()), (status, Some(challenge)));
            wire.expect_silence();
        });
    }
}

#[test]
fn client_follows_a_redirect_of_the_probe_and_stays_there() {
    scenario(config(), |wire| {
        let probe = wire.expect("server/discover");
        wire.reply(&probe, 308, &[("location", "http://localhost:3000/mcp/")], "");
        let probe = wire.expect("server/discover");
        assert_eq!(&*probe.request.url, "http://localhost:3000/mcp/");
        wire.answer(&probe, discover_result());
        wire.client
            .at(wire.now)
            .request::<CallTool>(&CallToolParams::new("x"), RequestOptions::default())
            .unwrap();
        assert_eq!(&*wire.expect("tools/call").request.url, "http://localhost:3000/mcp/");
    });
}

#[test]
fn client_refuses_a_redirect_to_another_origin() {
    scenario(config(), |wire| {
        let probe = wire.expect("server/discover");
        wire.reply(&probe, 308, &[("location", "https://localhost:4000/mcp")], "");
        assert!(matches!(connect_error(wire), ConnectError::Transport { error, .. } if error.status == 308));
        wire.expect_silence();
    });
}

/// A0.9: the client drops a wrong known era without an error.
#[test]
fn client_detects_that_a_known_legacy_server_has_become_modern() {
    let mut config = config();
    config.client.known_era =
        Some(KnownEra { era: Era::Legacy, version: Revision::V2025_06_18, probe_breaks_server: false });
    scenario(config, |wire| {
        let initialize = wire.expect("initialize");
        assert_eq!(initialize.body["params"]["protocolVersion"], "2025-06-18");
        wire.refuse(&initialize, 400, -32022, Some(json!({"supported": [MODERN]})));
        let probe = wire.expect("server/discover");
        wire.answer(&probe, discover_result());
        assert_ready(wire, Era::Modern);
        let dropped = |diagnostic: &Diagnostic| matches!(diagnostic, Diagnostic::KnownEraWrong);
        assert!(wire.diagnostics().iter().any(dropped));
    });
}

/// C2.2
#[test]
fn client_can_use_a_known_modern_server_without_a_probe() {
    let mut config = config();
    config.client.known_era =
        Some(KnownEra { era: Era::Modern, version: Revision::V2026_07_28, probe_breaks_server: false });
    config.skip_known_probe = true;
    scenario(config, |wire| {
        let request = |wire: &mut ClientWire| {
            let params = CallToolParams::new("x");
            wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap()
        };
        let first = request(wire);
        let call = wire.expect("tools/call");
        assert_eq!(call.header("mcp-protocol-version"), Some(MODERN));
        assert_ready(wire, Era::Modern);
        wire.answer(&call, json!({"resultType": "complete", "content": []}));
        wire.result(first);
    });
}

/// C2.2: the known era is wrong, and nothing has proven it.
#[test]
fn client_detects_a_server_that_is_no_longer_modern() {
    let mut config = config();
    config.client.known_era =
        Some(KnownEra { era: Era::Modern, version: Revision::V2026_07_28, probe_breaks_server: false });
    config.skip_known_probe = true;
    scenario(config, |wire| {
        let params = CallToolParams::new("x");
        wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
        let call = wire.expect("tools/call");
        wire.refuse(&call, 400, -32000, None);
        wire.expect("server/discover");
    });
}

/// A server that knows neither the probe's method nor `initialize` counts as modern until a request fails.
#[test]
fn client_probes_again_if_a_server_taken_for_modern_is_not() {
    scenario(config(), |wire| {
        let probe = wire.expect("server/discover");
        wire.refuse(&probe, 404, -32601, None);
        let initialize = wire.expect("initialize");
        wire.refuse(&initialize, 404, -32601, None);
        assert_ready(wire, Era::Modern);
        let params = CallToolParams::new("x");
        let request =
            wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
        let call = wire.expect("tools/call");
        wire.reply(&call, 400, &[("content-type", "text/plain")], "no session");
        assert!(matches!(wire.outcome(request), Outcome::Transport(_)));
        let probe = wire.expect("server/discover");
        wire.reply(&probe, 404, &[], "");
        wire.open_session(LEGACY, SESSION);
        assert_ready(wire, Era::Legacy);
    });
}

/// The server is replaced while the client is connected: a lost session leads to a modern server.
#[test]
fn client_continues_with_a_modern_server_after_a_lost_session() {
    crate::common::http_client::legacy(config(), |wire, _| {
        let params = CallToolParams::new("x");
        let request =
            wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
        let call = wire.expect("tools/call");
        wire.reply(&call, 404, &[], "");
        let initialize = wire.expect("initialize");
        wire.refuse(&initialize, 400, -32022, Some(json!({"supported": [MODERN]})));
        // This client accepts only legacy servers.
        connect_error(wire);
        assert!(matches!(wire.outcome(request), Outcome::Lost(_) | Outcome::Refused(_)));
    });
}

/// Connecting as a whole ends in time, however slow the server is.
#[test]
fn connecting_ends_at_its_deadline() {
    scenario(config(), |wire| {
        for _ in 0..100 {
            while let Some(exchange) = wire.next() {
                wire.head(&exchange, 200, &[("content-type", "text/event-stream")]);
            }
            wire.advance(Duration::from_secs(5));
        }
        connect_error(wire);
    });
}
