//! Servers that are busy, redirect, cannot be reached, or respond in an unexpected form.

use std::time::Duration;

use crate::common::http_client::{ClientWire, config, legacy_config, modern, scenario};
use crate::common::messages::{LEGACY, discover_result, initialize_result};
use mcp_proto::peer::client::{CloseReason, ConnectError, Diagnostic, EraPolicy, State};
use mcp_proto::peer::{Outcome, ReissuePolicy, RequestError, RequestId, RequestOptions, RetryAdvice};
use mcp_proto::schema::{CallTool, CallToolParams, Era, ListTools};
use mcp_proto::transport::http::client::HttpClientConfig;
use mcp_proto::transport::http::{ExchangeEnd, SentState, Verb};
use serde_json::json;

fn fail_unreachable(wire: &mut ClientWire, exchange: &crate::common::http_client::Exchange) {
    let end = ExchangeEnd::Unreachable("cannot connect to localhost:3000: connection refused".into());
    wire.client.handle_end(wire.now, exchange.exchange(), end);
    wire.drain();
}

fn connect_error(wire: &mut ClientWire) -> ConnectError {
    match wire.closed() {
        Some(CloseReason::Connect(error)) => error,
        other => panic!("expected a failure to connect, not {other:?}"),
    }
}

/// F46, F47: also the words of the server, which are fit for display.
#[test]
fn error_quotes_the_challenge_and_names_the_request() {
    modern(config(), |wire| {
        let request = list_tools(wire, 60);
        let exchange = wire.expect("tools/list");
        let headers = [("www-authenticate", "Bearer realm=\"a\""), ("WWW-Authenticate", "Basic")];
        wire.reply(&exchange, 401, &headers, "log in\u{1b}[2J first");
        assert_eq!(
            wire.outcome(request).to_string(),
            format!(
                "HTTP status 401 to tools/list, id {} (WWW-Authenticate: Bearer realm=\"a\", Basic): \
                 log in [2J first",
                exchange.id()
            )
        );
        let request = wire
            .client
            .at(wire.now)
            .request::<CallTool>(&CallToolParams::new("a"), Default::default())
            .unwrap();
        let exchange = wire.expect("tools/call");
        wire.stream(&exchange);
        wire.end(&exchange);
        let text = wire.outcome(request).to_string();
        assert!(
            text.ends_with(&format!(
                "the stream ended before the answer to tools/call, id {}",
                exchange.id()
            )),
            "{text}"
        );
    });
}

/// F48
#[test]
fn error_of_the_server_shows_its_code_and_message() {
    modern(config(), |wire| {
        let request = list_tools(wire, 60);
        let exchange = wire.expect("tools/list");
        wire.refuse(&exchange, 200, -32050, None);
        let text = wire.outcome(request).to_string();
        assert!(text.contains("-32050"), "{text}");
    });
}

// --- Retry-After ---

fn list_tools(wire: &mut ClientWire, timeout: u64) -> RequestId {
    let options = RequestOptions::default().timeout(Duration::from_secs(timeout));
    wire.client.at(wire.now).request::<ListTools>(&Default::default(), options).unwrap()
}

fn refuse_busy(wire: &mut ClientWire, method: &str, status: u16, headers: &[(&str, &str)]) {
    let exchange = wire.expect(method);
    wire.reply(&exchange, status, headers, "too much at once");
}

#[test]
fn request_that_may_be_repeated_is_sent_again_when_the_server_says() {
    modern(config(), |wire| {
        let request = list_tools(wire, 60);
        let first = wire.expect("tools/list");
        wire.reply(&first, 429, &[("retry-after", "7")], "too much at once");
        let told = wire.diagnostics();
        assert!(matches!(&told[..], [Diagnostic::RequestDelayed { .. }]), "{told:?}");
        assert_eq!(
            told[0].to_string(),
            "tools/list is sent again in 7 s: HTTP status 429 (retry after 7 s): too much at once"
        );
        wire.expect_silence();
        assert_eq!(wire.advance_to_timeout(), Duration::from_secs(7));
        let second = wire.expect("tools/list");
        assert_ne!(first.id(), second.id(), "an id is never used twice");
        let dates =
            [("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"), ("date", "Sun, 06 Nov 1994 08:49:37 GMT")];
        wire.reply_json(
            &second,
            503,
            &json!({"jsonrpc": "2.0", "id": second.id(), "error": {"code": -32000, "message": "no"}}),
        );
        assert!(matches!(wire.outcome(request), Outcome::Error(_)), "the server names no time");

        let request = list_tools(wire, 60);
        refuse_busy(wire, "tools/list", 503, &dates);
        assert_eq!(wire.advance_to_timeout(), Duration::from_secs(10));
        let again = wire.expect("tools/list");
        wire.answer(
            &again,
            json!({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}),
        );
        wire.result(request);
    });
}

/// F3
#[test]
fn request_that_was_never_sent_is_refused_and_not_lost_when_the_client_closes() {
    let mut config = config();
    config.backoff.first = Duration::from_secs(100);
    config.backoff.longest = Duration::from_secs(100);
    modern(config, |wire| {
        let unsent = list_tools(wire, 600);
        let exchange = wire.expect("tools/list");
        wire.fail(&exchange, SentState::NotSent);
        let lost = list_tools(wire, 600);
        wire.expect("tools/list");
        wire.client.at(wire.now).close();
        wire.advance(Duration::from_secs(10));
        assert!(matches!(wire.outcome(unsent), Outcome::Refused(RequestError::Closed)));
        assert!(matches!(wire.outcome(lost), Outcome::Lost(_)));
    });
}

#[test]
fn error_in_a_refusal_does_not_hide_when_to_come_back() {
    modern(config(), |wire| {
        list_tools(wire, 60);
        let first = wire.expect("tools/list");
        let body =
            json!({"jsonrpc": "2.0", "id": first.id(), "error": {"code": -32000, "message": "slow down"}});
        let headers = [("content-type", "application/json"), ("retry-after", "2")];
        wire.reply(&first, 429, &headers, &body.to_string());
        assert_eq!(wire.advance_to_timeout(), Duration::from_secs(2));
        wire.expect("tools/list");
    });
}

#[test]
fn client_does_not_wait_beyond_the_timeout_of_the_request() {
    modern(config(), |wire| {
        let request = list_tools(wire, 10);
        refuse_busy(wire, "tools/list", 429, &[("retry-after", "10")]);
        let outcome = wire.outcome(request);
        assert!(matches!(outcome, Outcome::Transport(_)), "{outcome:?}");
        assert_eq!(
            outcome.to_string(),
            "HTTP status 429 to tools/list, id 2 (retry after 10 s): too much at once"
        );
    });
}

#[test]
fn client_gives_up_on_a_server_that_is_always_busy() {
    modern(config(), |wire| {
        let request = list_tools(wire, 600);
        for _ in 0..5 {
            refuse_busy(wire, "tools/list", 429, &[("retry-after", "0")]);
            assert_eq!(wire.advance_to_timeout(), Duration::from_millis(100));
        }
        refuse_busy(wire, "tools/list", 429, &[("retry-after", "0")]);
        assert!(matches!(wire.outcome(request), Outcome::Transport(_)));
    });
}

#[test]
fn request_that_may_not_be_repeated_shows_when_the_server_is_back() {
    modern(config(), |wire| {
        let call = |wire: &mut ClientWire, reissue| {
            let options = RequestOptions::default().reissue(reissue);
            wire.client.at(wire.now).request::<CallTool>(&CallToolParams::new("pay"), options).unwrap()
        };
        let request = call(wire, ReissuePolicy::WhereSafe);
        refuse_busy(wire, "tools/call", 503, &[("retry-after", "3")]);
        let text = wire.outcome(request).to_string();
        assert_eq!(text, "HTTP status 503 to tools/call, id 2 (retry after 3 s): too much at once");

        // The same if the body has the error of the request.
        let request = call(wire, ReissuePolicy::WhereSafe);
        let first = wire.expect("tools/call");
        let error = json!({"code": -32603, "message": "the task store failed"});
        let body = json!({"jsonrpc": "2.0", "id": first.id(), "error": error});
        let headers = [("content-type", "application/json"), ("retry-after", "3")];
        wire.reply(&first, 503, &headers, &body.to_string());
        let Outcome::Transport(error) = wire.outcome(request) else { panic!() };
        assert_eq!((error.retry, error.retry_after), (RetryAdvice::Later, Some(Duration::from_secs(3))));
        assert_eq!(&*error.detail, "the task store failed");

        call(wire, ReissuePolicy::Always);
        refuse_busy(wire, "tools/call", 503, &[("retry-after", "3")]);
        assert_eq!(wire.advance_to_timeout(), Duration::from_secs(3));
        wire.expect("tools/call");
    });
}

#[test]
fn client_repeats_a_call_that_was_not_accepted() {
    modern(config(), |wire| {
        let call = |wire: &mut ClientWire, reissue| {
            let options = RequestOptions::default().reissue(reissue);
            wire.client.at(wire.now).request::<CallTool>(&CallToolParams::new("pay"), options).unwrap()
        };
        call(wire, ReissuePolicy::WhereSafe);
        refuse_busy(wire, "tools/call", 429, &[("retry-after", "3")]);
        assert_eq!(wire.advance_to_timeout(), Duration::from_secs(3));
        wire.expect("tools/call");

        // The error says when to try again, whether the body has a JSON-RPC error or not.
        let body = json!({"jsonrpc": "2.0", "error": {"code": -32603, "message": "too many requests"}});
        let request = call(wire, ReissuePolicy::Never);
        let first = wire.expect("tools/call");
        let headers = [("content-type", "application/json"), ("retry-after", "3")];
        wire.reply(&first, 429, &headers, &body.to_string());
        let Outcome::Transport(error) = wire.outcome(request) else { panic!() };
        assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
        let id = first.id();
        let text = format!("HTTP status 429 to tools/call, id {id} (retry after 3 s): too many requests");
        assert_eq!(error.to_string(), text);
    });
}

// --- Responses in another form ---

#[test]
fn event_stream_with_an_endpoint_is_recognised_as_http_sse() {
    for mode in [EraPolicy::Auto, EraPolicy::LegacyOnly] {
        let mut config = config();
        config.client.era_policy = mode;
        scenario(config, |wire| {
            let first = wire.next().unwrap();
            wire.stream(&first);
            wire.body(&first, "event: endpoint\ndata: /messages?s=1\n\n");
            wire.expect_abort(&first);
            let events = wire.expect_get();
            wire.stream(&events);
            wire.body(&events, "event: endpoint\ndata: /messages?s=2\n\n");
            let initialize = wire.expect("initialize");
            assert!(initialize.request.url.ends_with("/messages?s=2"));
            wire.accept(&initialize);
            wire.event_answer(&events, &initialize.id(), initialize_result(LEGACY));
            assert_eq!(wire.client.peer().server().unwrap().era, Era::Legacy);
        });
    }
    let mut only = config();
    only.client.era_policy = EraPolicy::ModernOnly;
    scenario(only, |wire| {
        let probe = wire.expect("server/discover");
        wire.stream(&probe);
        wire.body(&probe, "event: endpoint\ndata: /messages\n\n");
        let error = connect_error(wire);
        assert!(matches!(error, ConnectError::LegacyServer { .. }));
        assert!(error.to_string().contains("HTTP+SSE"), "{error}");
    });
}

#[test]
fn redirect_that_is_not_followed_shows_its_target() {
    scenario(config(), |wire| {
        let probe = wire.expect("server/discover");
        wire.reply(&probe, 302, &[("location", "https://login.example/start")], "");
        assert_eq!(
            connect_error(wire).to_string(),
            "the server answered the era probe (server/discover) with HTTP status 302 \
             (it redirects to https://login.example/start, which is not followed)"
        );
    });
}

#[test]
fn error_names_an_unrequested_content_encoding() {
    let words = "the server sent content-encoding: gzip, which was not asked for";
    modern(config(), |wire| {
        for kind in ["application/json", "text/event-stream"] {
            let request = list_tools(wire, 60);
            let list = wire.expect("tools/list");
            wire.head(&list, 200, &[("content-type", kind), ("content-encoding", "gzip")]);
            wire.expect_abort(&list);
            let text = wire.outcome(request).to_string();
            assert!(text.contains(words), "{text}");
        }
        let request = list_tools(wire, 60);
        let list = wire.expect("tools/list");
        wire.head(&list, 403, &[("content-encoding", "gzip")]);
        assert_eq!(
            wire.outcome(request).to_string(),
            format!("HTTP status 403 to tools/list, id {}: {words}", list.id())
        );
    });
    scenario(legacy_config(), |wire| {
        let initialize = wire.expect("initialize");
        wire.head(&initialize, 200, &[("content-type", "application/json"), ("content-encoding", "gzip")]);
        let text = connect_error(wire).to_string();
        assert!(text.contains(words), "{text}");
    });
    modern(config(), |wire| {
        list_tools(wire, 60);
        let list = wire.expect("tools/list");
        wire.head(&list, 200, &[("content-type", "application/json"), ("content-encoding", "identity")]);
        wire.expect_no_abort();
    });
}

// --- No connection ---

#[test]
fn host_that_cannot_be_reached_fails_at_once() {
    for mode in [EraPolicy::Auto, EraPolicy::LegacyOnly] {
        let mut config = config();
        config.client.era_policy = mode;
        scenario(config, |wire| {
            let first = wire.next().unwrap();
            fail_unreachable(wire, &first);
            wire.expect_silence();
            let error = connect_error(wire);
            assert_eq!(error.to_string(), "cannot connect to localhost:3000: connection refused");
            assert!(!error.is_timeout());
        });
    }
}

#[test]
fn host_that_cannot_be_reached_is_tried_again_on_demand() {
    let retrying = || {
        let mut config: HttpClientConfig = config();
        config.retry_unreachable = true;
        config
    };
    scenario(retrying(), |wire| {
        for _ in 0..3 {
            let probe = wire.expect("server/discover");
            fail_unreachable(wire, &probe);
            wire.expect_silence();
            wire.advance_to_timeout();
        }
        let probe = wire.expect("server/discover");
        wire.answer(&probe, discover_result());
        assert_eq!(wire.client.state(), State::Ready);
    });
}

/// It is most likely restarting.
#[test]
fn host_that_was_reached_before_is_tried_again() {
    scenario(config(), |wire| {
        let probe = wire.expect("server/discover");
        wire.reply(&probe, 503, &[], "");
        wire.advance_to_timeout();
        let probe = wire.expect("server/discover");
        fail_unreachable(wire, &probe);
        wire.advance_to_timeout();
        let probe = wire.expect("server/discover");
        assert_eq!(probe.request.verb, Verb::Post);
        wire.answer(&probe, discover_result());
        let request = list_tools(wire, 60);
        let list = wire.expect("tools/list");
        fail_unreachable(wire, &list);
        wire.expect_pending(request);
        wire.advance_to_timeout();
        wire.expect("tools/list");
    });
}
