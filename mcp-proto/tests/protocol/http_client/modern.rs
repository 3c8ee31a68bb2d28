//! The client over HTTP with a modern server.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>

use std::time::Duration;

use crate::common::http_client::{config, modern, scenario};
use crate::common::messages::{MODERN, discover_result};
use mcp_proto::peer::client::{Event, State};
use mcp_proto::peer::{
    InvalidAnswerError, LostReason, Outcome, ReissuePolicy, RequestError, RequestOptions, TransportError,
};
use mcp_proto::schema::{
    CallTool, CallToolParams, GetPrompt, GetPromptParams, ListTools, ListToolsParams, ReadResource,
    ReadResourceParams, SubscriptionFilter, SubscriptionsListen, SubscriptionsListenParams,
};
use mcp_proto::transport::http::{SentState, Verb};
use serde_json::json;

fn call(name: &str) -> CallToolParams {
    CallToolParams::new(name)
}

/// C4.1, C4.2, C4.3, C4.4, C4.6, F38
#[test]
fn each_message_is_a_post_with_its_headers() {
    modern(config(), |wire| {
        let options = RequestOptions::default;
        let request =
            wire.client.at(wire.now).request::<ListTools>(&ListToolsParams::new(), options()).unwrap();
        let exchange = wire.expect("tools/list");
        assert_eq!(exchange.request.verb, Verb::Post);
        assert_eq!(exchange.header("content-type"), Some("application/json"));
        assert_eq!(exchange.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(exchange.header("mcp-protocol-version"), Some(MODERN));
        assert_eq!(exchange.header("mcp-method"), Some("tools/list"));
        assert_eq!(exchange.header("mcp-name"), None);
        let meta = &exchange.body["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], MODERN);
        wire.answer(
            &exchange,
            json!({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}),
        );
        assert_eq!(wire.result(request)["tools"], json!([]));
    });
}

/// C4.7
#[test]
fn client_sends_the_name_as_a_header() {
    modern(config(), |wire| {
        let options = RequestOptions::default;
        wire.client.at(wire.now).request::<CallTool>(&call("weather"), options()).unwrap();
        assert_eq!(wire.expect("tools/call").header("mcp-name"), Some("weather"));
        wire.client.at(wire.now).request::<GetPrompt>(&GetPromptParams::new("greet"), options()).unwrap();
        assert_eq!(wire.expect("prompts/get").header("mcp-name"), Some("greet"));
        let params = ReadResourceParams::new("file:///a%20b.txt");
        wire.client.at(wire.now).request::<ReadResource>(&params, options()).unwrap();
        assert_eq!(wire.expect("resources/read").header("mcp-name"), Some("file:///a%20b.txt"));
    });
}

/// C4.8
#[test]
fn client_encodes_a_name_that_is_no_header_value() {
    modern(config(), |wire| {
        for (name, header) in [
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("a \"quoted\" name", "a \"quoted\" name"),
        ] {
            wire.client.at(wire.now).request::<CallTool>(&call(name), RequestOptions::default()).unwrap();
            assert_eq!(wire.expect("tools/call").header("mcp-name"), Some(header));
        }
    });
}

/// C4.2, C4.25, F45
#[test]
fn server_may_answer_by_events_after_progress() {
    modern(config(), |wire| {
        let request =
            wire.client.at(wire.now).request::<CallTool>(&call("slow"), RequestOptions::default()).unwrap();
        let exchange = wire.expect("tools/call");
        let token = exchange.body["params"]["_meta"]["progressToken"].clone();
        wire.stream(&exchange);
        wire.body(&exchange, ": keep-alive\r\n\r\n:\n\n");
        let params = json!({"progressToken": token, "progress": 1});
        wire.event(
            &exchange,
            &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
        );
        wire.body(&exchange, ":\n");
        let result = json!({"resultType": "complete", "content": []});
        wire.event_answer(&exchange, &exchange.id(), result.clone());
        let events = wire.take_events();
        assert!(matches!(&events[0], Event::Progress { request: of, .. } if *of == request), "{events:?}");
        assert!(
            matches!(&events[1], Event::Outcome { request: of, outcome: Outcome::Result(_) } if *of == request)
        );
        wire.end(&exchange);
        wire.advance(Duration::from_secs(60));
        wire.expect_no_abort();
        assert!(wire.take_events().is_empty());
    });
}

/// H0 of the eras: a response belongs to its exchange, regardless of its id.
#[test]
fn error_belongs_to_its_exchange_regardless_of_its_id() {
    modern(config(), |wire| {
        for id in [json!(null), json!("server-error"), json!(4711)] {
            let request =
                wire.client.at(wire.now).request::<CallTool>(&call("x"), RequestOptions::default()).unwrap();
            let exchange = wire.expect("tools/call");
            let error = json!({"code": -32602, "message": "unknown tool"});
            wire.reply_json(&exchange, 400, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
            assert!(matches!(wire.outcome(request), Outcome::Error(error) if error.code == -32602));
        }
    });
}

#[test]
fn outcome_of_an_error_status_shows_status_retry_time_and_body() {
    modern(config(), |wire| {
        let request =
            wire.client.at(wire.now).request::<CallTool>(&call("x"), RequestOptions::default()).unwrap();
        let exchange = wire.expect("tools/call");
        let headers = [
            ("content-type", "text/html"),
            ("WWW-Authenticate", "Bearer realm=\"a\""),
            ("www-authenticate", "Basic"),
            ("retry-after", "7"),
        ];
        wire.reply(&exchange, 401, &headers, "<h1>No</h1>");
        let Outcome::Transport(TransportError { status, detail, challenge, retry_after, .. }) =
            wire.outcome(request)
        else {
            panic!()
        };
        assert_eq!((status, &*detail), (401, "<h1>No</h1>"));
        assert_eq!(challenge.as_deref(), Some("Bearer realm=\"a\", Basic"));
        assert_eq!(retry_after, Some(Duration::from_secs(7)));
    });
}

#[test]
fn excerpt_of_a_body_is_bounded() {
    modern(config(), |wire| {
        let request =
            wire.client.at(wire.now).request::<CallTool>(&call("x"), RequestOptions::default()).unwrap();
        let exchange = wire.expect("tools/call");
        wire.head(&exchange, 500, &[("content-type", "text/plain")]);
        wire.body(&exchange, &"ä".repeat(40_000));
        wire.expect_abort(&exchange);
        let Outcome::Transport(error) = wire.outcome(request) else { panic!() };
        assert_eq!(error.detail.chars().count(), 512);
    });
}

/// C4.16, K4
#[test]
fn client_cancels_a_request_by_aborting_its_exchange() {
    modern(config(), |wire| {
        let request =
            wire.client.at(wire.now).request::<CallTool>(&call("x"), RequestOptions::default()).unwrap();
        let exchange = wire.expect("tools/call");
        wire.stream(&exchange);
        wire.client.at(wire.now).cancel(request, Some("enough"));
        wire.expect_abort(&exchange);
        wire.expect_silence();
        assert!(matches!(wire.outcome(request), Outcome::Cancelled));
        // C7.5: the client ignores late output.
        wire.event_answer(&exchange, &exchange.id(), json!({"content": []}));
        wire.end(&exchange);
        assert!(wire.take_events().is_empty());
    });
}

/// C7.1
#[test]
fn client_aborts_the_exchange_of_a_request_that_timed_out() {
    modern(config(), |wire| {
        let options = RequestOptions::default().timeout(Duration::from_secs(3));
        let request = wire.client.at(wire.now).request::<CallTool>(&call("x"), options).unwrap();
        let exchange = wire.expect("tools/call");
        wire.advance(Duration::from_secs(4));
        wire.expect_abort(&exchange);
        assert!(matches!(wire.outcome(request), Outcome::TimedOut { .. }));
    });
}

#[test]
fn client_never_sends_a_request_cancelled_before() {
    let mut config = config();
    config.client.limits.exchanges = 1;
    modern(config, |wire| {
        let options = RequestOptions::default;
        let first = wire.client.at(wire.now).request::<CallTool>(&call("a"), options()).unwrap();
        let second = wire.client.at(wire.now).request::<CallTool>(&call("b"), options()).unwrap();
        let third = wire.client.at(wire.now).request::<CallTool>(&call("c"), options()).unwrap();
        let exchange = wire.expect("tools/call");
        wire.expect_silence();
        wire.client.at(wire.now).cancel(second, None);
        wire.expect_no_abort();
        wire.answer(&exchange, json!({"content": []}));
        assert_eq!(wire.expect("tools/call").header("mcp-name"), Some("c"));
        assert!(matches!(wire.outcome(first), Outcome::Result(_)));
        assert!(matches!(wire.outcome(second), Outcome::Cancelled));
        wire.expect_pending(third);
    });
}

/// Contract 8: requests beyond the limit wait in order; subscriptions do not count.
#[test]
fn exchanges_are_limited_and_subscriptions_are_not_counted() {
    let mut config = config();
    config.client.limits.exchanges = 2;
    modern(config, |wire| {
        let options = RequestOptions::default;
        for name in ["a", "b", "c", "d"] {
            wire.client.at(wire.now).request::<CallTool>(&call(name), options()).unwrap();
        }
        let params = SubscriptionsListenParams::new(SubscriptionFilter::new());
        wire.client.at(wire.now).request::<SubscriptionsListen>(&params, options()).unwrap();
        let first = wire.expect("tools/call");
        wire.expect("tools/call");
        wire.expect("subscriptions/listen");
        wire.expect_silence();
        wire.answer(&first, json!({"content": []}));
        assert_eq!(wire.expect("tools/call").header("mcp-name"), Some("c"));
        wire.expect_silence();
    });
}

/// C4.17, K3, K17
#[test]
fn client_ignores_a_session_id_of_a_modern_server_and_opens_no_listening_stream() {
    scenario(config(), |wire| {
        let probe = wire.expect("server/discover");
        let body = json!({"jsonrpc": "2.0", "id": probe.id(), "result": discover_result()});
        let headers = [("content-type", "application/json"), ("mcp-session-id", "nonsense")];
        wire.reply(&probe, 200, &headers, &body.to_string());
        wire.expect_silence();
        wire.client.at(wire.now).request::<CallTool>(&call("x"), RequestOptions::default()).unwrap();
        let exchange = wire.expect("tools/call");
        assert_eq!(exchange.header("mcp-session-id"), None);
        wire.answer(&exchange, json!({"content": []}));
        wire.client.at(wire.now).close();
        wire.expect_silence();
        assert!(wire.client.is_closed());
        assert_eq!(wire.client.state(), State::Disconnected);
    });
}

/// C4.15, K25
#[test]
fn client_does_not_repeat_a_lost_tool_call() {
    modern(config(), |wire| {
        for how in ["no head", "cut body", "cut stream", "ended stream"] {
            let request = wire
                .client
                .at(wire.now)
                .request::<CallTool>(&call("pay"), RequestOptions::default())
                .unwrap();
            let exchange = wire.expect("tools/call");
            match how {
                "no head" => wire.fail(&exchange, SentState::MaybeSent),
                "cut body" => {
                    wire.head(&exchange, 200, &[("content-type", "application/json")]);
                    wire.body(&exchange, "{\"jsonrpc\":");
                    wire.truncate(&exchange);
                }
                "cut stream" => {
                    wire.stream(&exchange);
                    wire.body(&exchange, "id: 7\ndata: {\"js");
                    wire.truncate(&exchange);
                }
                _ => {
                    wire.stream(&exchange);
                    wire.body(&exchange, "id: 7\ndata:\n\n");
                    wire.end(&exchange);
                }
            }
            assert!(matches!(wire.outcome(request), Outcome::Lost(LostReason::Disconnected(_))), "{how}");
            wire.advance(Duration::from_secs(100));
            wire.expect_silence();
        }
    });
}

/// C4.15, K25, K20
#[test]
fn client_repeats_a_lost_read_only_request_once_as_a_new_request() {
    modern(config(), |wire| {
        let params = ReadResourceParams::new("file:///a");
        let request =
            wire.client.at(wire.now).request::<ReadResource>(&params, RequestOptions::default()).unwrap();
        let first = wire.expect("resources/read");
        wire.stream(&first);
        wire.truncate(&first);
        let second = wire.expect("resources/read");
        assert_ne!(first.id(), second.id());
        assert_eq!(second.header("last-event-id"), None);
        assert_eq!(first.body["params"], second.body["params"]);
        wire.expect_pending(request);
        wire.answer(&second, json!({"contents": []}));
        assert_eq!(wire.result(request), json!({"contents": []}));

        let request =
            wire.client.at(wire.now).request::<ReadResource>(&params, RequestOptions::default()).unwrap();
        for _ in 0..2 {
            let exchange = wire.expect("resources/read");
            wire.truncate(&exchange);
        }
        assert!(matches!(wire.outcome(request), Outcome::Lost(_)));
        wire.expect_silence();
    });
}

/// C4.15, K25
#[test]
fn caller_decides_whether_a_lost_request_is_repeated() {
    modern(config(), |wire| {
        let always = RequestOptions::default().reissue(ReissuePolicy::Always);
        let request = wire.client.at(wire.now).request::<CallTool>(&call("pay"), always).unwrap();
        let first = wire.expect("tools/call");
        wire.stream(&first);
        wire.body(&first, "id: 7\ndata:\n\n");
        wire.end(&first);
        let second = wire.expect("tools/call");
        assert_ne!(second.id(), first.id());
        assert_eq!(second.header("last-event-id"), None, "event ids mean nothing in this revision");
        wire.answer(&second, json!({"content": []}));
        wire.result(request);

        let never = RequestOptions::default().reissue(ReissuePolicy::Never);
        let request = wire.client.at(wire.now).request::<ListTools>(&ListToolsParams::new(), never).unwrap();
        let exchange = wire.expect("tools/list");
        wire.fail(&exchange, SentState::MaybeSent);
        assert!(matches!(wire.outcome(request), Outcome::Lost(_)));
    });
}

#[test]
fn client_sends_an_unsent_request_again_a_few_times() {
    modern(config(), |wire| {
        let request = wire
            .client
            .at(wire.now)
            .request::<CallTool>(&call("pay"), RequestOptions::default().timeout(Duration::MAX))
            .unwrap();
        let mut pauses = Vec::new();
        for _ in 0..5 {
            let exchange = wire.expect("tools/call");
            wire.fail(&exchange, SentState::NotSent);
            wire.expect_silence();
            pauses.push(wire.advance_to_timeout());
        }
        for (at, pause) in pauses.iter().enumerate() {
            let whole = Duration::from_millis(500 << at);
            assert!(*pause <= whole && *pause >= whole / 2, "{pauses:?}");
        }
        let exchange = wire.expect("tools/call");
        wire.fail(&exchange, SentState::NotSent);
        let Outcome::Refused(RequestError::Connect(detail)) = wire.outcome(request) else { panic!() };
        assert_eq!(detail, "refused");
        wire.advance(Duration::from_secs(100));
        wire.expect_silence();
    });
}

#[test]
fn request_that_was_sent_once_is_lost_when_it_cannot_be_sent_again() {
    let mut config = config();
    config.backoff.attempts = 0;
    modern(config, |wire| {
        let again = RequestOptions::default().reissue(ReissuePolicy::Always);
        let request = wire.client.at(wire.now).request::<CallTool>(&call("pay"), again).unwrap();
        let exchange = wire.expect("tools/call");
        wire.fail(&exchange, SentState::MaybeSent);
        let exchange = wire.expect("tools/call");
        wire.fail(&exchange, SentState::NotSent);
        assert!(matches!(wire.outcome(request), Outcome::Lost(LostReason::Disconnected(_))));
    });
}

/// A0.4 of the eras.
#[test]
fn client_retries_once_if_the_refusal_lists_the_refused_version() {
    modern(config(), |wire| {
        let request =
            wire.client.at(wire.now).request::<CallTool>(&call("x"), RequestOptions::default()).unwrap();
        let first = wire.expect("tools/call");
        wire.refuse(&first, 400, -32022, Some(json!({"supported": [MODERN], "requested": MODERN})));
        let second = wire.expect("tools/call");
        assert_ne!(first.id(), second.id());
        wire.refuse(&second, 400, -32022, Some(json!({"supported": [MODERN], "requested": MODERN})));
        assert!(matches!(wire.outcome(request), Outcome::Error(error) if error.code == -32022));
        wire.expect_silence();
    });
}

#[test]
fn notifications_identify_a_repeated_subscription() {
    modern(config(), |wire| {
        let params = SubscriptionsListenParams::new(SubscriptionFilter::new());
        let request = wire
            .client
            .at(wire.now)
            .request::<SubscriptionsListen>(&params, RequestOptions::default())
            .unwrap();
        let first = wire.expect("subscriptions/listen");
        wire.truncate(&first);
        let second = wire.expect("subscriptions/listen");
        assert_ne!(first.id(), second.id());
        wire.stream(&second);
        let meta = json!({"io.modelcontextprotocol/subscriptionId": second.id()});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}});
        wire.event(&second, &message);
        let events = wire.take_events();
        assert!(
            matches!(&events[..], [Event::Notification { subscription, .. }] if *subscription == Some(request)),
            "{events:?}"
        );
        // Notifications may be lost between two streams: the owner learns of it.
        wire.truncate(&second);
        assert!(matches!(wire.outcome(request), Outcome::Lost(_)));
    });
}

/// F49, contract 9.
#[test]
fn unreadable_response_ends_its_request() {
    let mut config = config();
    config.client.limits.message_bytes = 600;
    modern(config, |wire| {
        let options = RequestOptions::default;
        let request = wire.client.at(wire.now).request::<CallTool>(&call("x"), options()).unwrap();
        let exchange = wire.expect("tools/call");
        wire.reply(&exchange, 200, &[("content-type", "application/json")], "{\"jsonrpc\": oops");
        assert!(matches!(wire.outcome(request), Outcome::Invalid(InvalidAnswerError::Malformed(_))));

        let request = wire.client.at(wire.now).request::<CallTool>(&call("x"), options()).unwrap();
        let exchange = wire.expect("tools/call");
        wire.head(&exchange, 200, &[("content-type", "application/json")]);
        wire.body(&exchange, &"x".repeat(700));
        wire.expect_abort(&exchange);
        assert!(matches!(wire.outcome(request), Outcome::Invalid(InvalidAnswerError::TooLong { .. })));

        let request = wire.client.at(wire.now).request::<CallTool>(&call("x"), options()).unwrap();
        let exchange = wire.expect("tools/call");
        wire.stream(&exchange);
        wire.event_answer(&exchange, &exchange.id(), json!({"text": "x".repeat(700)}));
        assert!(matches!(wire.outcome(request), Outcome::Invalid(InvalidAnswerError::TooLong { .. })));

        let request = wire.client.at(wire.now).request::<CallTool>(&call("x"), options()).unwrap();
        let exchange = wire.expect("tools/call");
        wire.stream(&exchange);
        wire.body(
            &exchange,
            &format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{]\n\n", exchange.id()),
        );
        assert!(matches!(wire.outcome(request), Outcome::Invalid(InvalidAnswerError::Malformed(_))));
    });
}

/// F49, K9
#[test]
fn client_reports_noise_on_a_stream_and_loses_no_request() {
    modern(config(), |wire| {
        let request =
            wire.client.at(wire.now).request::<CallTool>(&call("x"), RequestOptions::default()).unwrap();
        let exchange = wire.expect("tools/call");
        wire.stream(&exchange);
        wire.body(&exchange, "data: hello\n\nevent: ping\ndata: 1\n\n");
        assert_eq!(wire.diagnostics().len(), 1);
        // A response to another request does not end it.
        wire.event_answer(&exchange, &json!(999), json!({"content": ["wrong"]}));
        assert_eq!(wire.diagnostics().len(), 1);
        wire.event_answer(&exchange, &exchange.id(), json!({"content": []}));
        assert_eq!(wire.result(request), json!({"content": []}));
    });
}

/// F45
#[test]
fn client_reads_on_briefly_after_the_response() {
    modern(config(), |wire| {
        let request =
            wire.client.at(wire.now).request::<CallTool>(&call("x"), RequestOptions::default()).unwrap();
        let exchange = wire.expect("tools/call");
        wire.stream(&exchange);
        wire.event_answer(&exchange, &exchange.id(), json!({"content": []}));
        wire.result(request);
        wire.event_answer(&exchange, &exchange.id(), json!({"content": ["again"]}));
        assert!(wire.take_events().is_empty());
        wire.expect_no_abort();
        wire.advance(Duration::from_secs(2));
        wire.expect_abort(&exchange);
    });
}

#[test]
fn client_refuses_an_oversized_header() {
    modern(config(), |wire| {
        let long = "x".repeat(20_000);
        let request =
            wire.client.at(wire.now).request::<CallTool>(&call(&long), RequestOptions::default()).unwrap();
        wire.expect_silence();
        assert!(matches!(wire.outcome(request), Outcome::Refused(RequestError::Encode(_))));
    });
}

/// A server may end a subscription by a notification, whether or not the stream ends then.
#[test]
fn server_ends_a_subscription_by_a_notification() {
    modern(config(), |wire| {
        let params = SubscriptionsListenParams::new(SubscriptionFilter::new());
        let request = wire
            .client
            .at(wire.now)
            .request::<SubscriptionsListen>(&params, RequestOptions::default())
            .unwrap();
        let exchange = wire.expect("subscriptions/listen");
        wire.stream(&exchange);
        let params = json!({"requestId": exchange.id()});
        wire.event(
            &exchange,
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        );
        assert!(matches!(wire.outcome(request), Outcome::Lost(LostReason::Ended)));
        wire.advance(Duration::from_secs(2));
        wire.expect_abort(&exchange);
    });
}

#[test]
fn client_repeats_a_subscription_after_notifications_on_demand() {
    modern(config(), |wire| {
        let params = SubscriptionsListenParams::new(SubscriptionFilter::new());
        let options = RequestOptions::default().reissue(ReissuePolicy::Always);
        let request = wire.client.at(wire.now).request::<SubscriptionsListen>(&params, options).unwrap();
        let exchange = wire.expect("subscriptions/listen");
        wire.stream(&exchange);
        wire.event(&exchange, &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        wire.truncate(&exchange);
        wire.expect("subscriptions/listen");
        wire.expect_pending(request);
    });
}

/// The body of an error status may be truncated: the status says enough.
#[test]
fn truncated_body_of_an_error_status_does_not_hide_the_status() {
    modern(config(), |wire| {
        let request =
            wire.client.at(wire.now).request::<CallTool>(&call("x"), RequestOptions::default()).unwrap();
        let exchange = wire.expect("tools/call");
        wire.head(&exchange, 503, &[("content-type", "text/plain")]);
        wire.body(&exchange, "over");
        wire.truncate(&exchange);
        assert!(
            matches!(wire.outcome(request), Outcome::Transport(error) if error.status == 503 && &*error.detail == "over")
        );
    });
}
