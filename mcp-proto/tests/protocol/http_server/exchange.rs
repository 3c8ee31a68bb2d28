//! One request of the modern era over HTTP, and its response.

use core::time::Duration;

use mcp_proto::peer::LostReason;
use mcp_proto::peer::server::ServerTransport as _;
use mcp_proto::peer::server::{Answer, CloseReason, Event, ListKind, Topic, missing_capabilities};
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{
    ClientCapabilities, ClientCapability, Json, LoggingLevel, LoggingMessageParams, ProgressParams,
};
use mcp_proto::transport::http::server::{BodyKind, Chunk, Exchange, Setup};
use mcp_proto::{Limits, rpc::Id};
use serde_json::{Value, json};

use crate::common::http_server::{
    NOW, TestRequest, after, config, config_with, expect_request, modern, post, read, result, seconds, setup,
};
use crate::common::messages::{MODERN, request_meta};

const KEEPALIVE: u64 = 15;

fn call() -> TestRequest {
    modern(7, "tools/call", json!({"name": "t", "_meta": {"progressToken": "p"}}))
}

fn progress(done: u64) -> ProgressParams {
    ProgressParams::new(Id::from("x"), done)
}

/// S3.7, S3.13
#[test]
fn server_answers_by_one_json_value_without_earlier_notifications() {
    let setup = setup();
    let mut exchange = call().exchange(&setup);
    assert!(exchange.poll_head().is_none());
    assert_eq!(exchange.poll_body(), Chunk::Pending);
    let request = expect_request(exchange.poll_event());
    exchange.at(NOW).respond(request, Answer::Result(&result()));
    let whole = read(&mut exchange);
    assert_eq!(whole.head.status, 200);
    let answer = whole.json();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(7), &json!("done")));
    assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "test-server");
    assert_eq!(exchange.poll_timeout(), None);
}

/// S6.2
#[test]
fn exchange_sends_its_waiting_report_in_time_or_before_the_answer() {
    let setup = Setup::new(config_with(|server| server.limits = Limits::default()));
    let mut exchange = call().exchange(&setup);
    let request = expect_request(exchange.poll_event());
    let values = |exchange: &mut Exchange| -> Vec<Value> {
        read(exchange).messages().iter().map(|message| message["params"]["progress"].clone()).collect()
    };
    (1..=5).for_each(|done| assert!(exchange.at(NOW).progress(request, &progress(done))));
    assert_eq!(values(&mut exchange), [json!(1)]);
    let due = after(Duration::from_millis(20));
    assert_eq!(exchange.poll_timeout(), Some(due));
    exchange.handle_timeout(due);
    assert_eq!(values(&mut exchange), [json!(5)]);
    (6..=9).for_each(|done| assert!(exchange.at(due).progress(request, &progress(done))));
    exchange.at(due).respond(request, Answer::Result(&result()));
    assert_eq!(values(&mut exchange), [json!(9), Value::Null]);
}

/// S3.13, S3.14, F57
#[test]
fn server_answers_by_a_stream_after_a_notification() {
    let setup = setup();
    let mut exchange = call().exchange(&setup);
    let request = expect_request(exchange.poll_event());
    assert!(exchange.at(NOW).progress(request, &progress(1)));
    let begun = read(&mut exchange);
    assert!(!begun.ended);
    for header in [("x-accel-buffering", "no"), ("cache-control", "no-store, no-transform")] {
        assert!(begun.head.headers.contains(&(header.0, header.1.into())));
    }
    assert_eq!(begun.messages()[0]["params"]["progressToken"], "p");
    exchange.at(NOW).respond(request, Answer::Result(&result()));
    let rest = read(&mut exchange);
    assert!(rest.ended);
    assert_eq!(rest.messages()[0]["id"], 7);
    // Nothing follows the response.
    assert!(!exchange.at(NOW).progress(request, &progress(2)));
    assert_eq!(exchange.poll_body(), Chunk::End);
}

#[test]
fn server_reads_a_body_in_one_piece_or_in_many() {
    let setup = setup();
    let run = |each: bool| {
        let mut exchange = call().exchange(&setup);
        let request = expect_request(exchange.poll_event());
        let mut body = Vec::new();
        for done in 0..5 {
            exchange.at(NOW).progress(request, &progress(done));
            while each && let Chunk::Bytes(bytes) = exchange.poll_body() {
                body.extend_from_slice(&bytes);
            }
        }
        exchange.at(NOW).respond(request, Answer::Result(&result()));
        body.extend_from_slice(&read(&mut exchange).body);
        body
    };
    assert_eq!(run(true), run(false));
}

/// S3.11: methods that exist only in a session are unknown to a request without one.
#[test]
fn unknown_methods_are_not_found() {
    let setup = setup();
    let legacy =
        ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "no/such"];
    for method in legacy {
        assert_eq!(
            modern(1, method, json!({"uri": "x:y", "level": "info"})).expect_refusal(&setup),
            (404, -32601)
        );
    }
}

/// S1.5, S3.12
#[test]
fn server_refuses_an_unsupported_version_and_lists_its_own() {
    let setup = setup();
    for version in ["2025-11-25", "2099-01-01"] {
        let other =
            modern(1, "tools/list", json!({"_meta": {"io.modelcontextprotocol/protocolVersion": version}}))
                .with("MCP-Protocol-Version", version);
        let whole = read(&mut other.exchange(&setup));
        assert_eq!(whole.head.status, 400);
        let error = &whole.json()["error"];
        assert_eq!((&error["code"], &error["data"]["supported"]), (&json!(-32022), &json!([MODERN])));
        assert_eq!(error["data"]["requested"], version);
    }
}

/// S1.4
#[test]
fn server_refuses_requests_without_metadata() {
    let setup = setup();
    let bare = |method: &str| post(&json!({"jsonrpc": "2.0", "id": 1, "method": method}));
    for method in ["tools/list", "ping", "server/discover"] {
        let asked = bare(method).header("MCP-Protocol-Version", MODERN).header("Mcp-Method", method);
        assert_eq!(asked.expect_refusal(&setup), (400, -32602), "{method}");
    }
    assert_eq!(bare("server/discover").expect_refusal(&setup), (400, -32602));
    let half = |key: &str| {
        let mut params = json!({"_meta": request_meta()});
        params["_meta"].as_object_mut().unwrap().remove(key);
        post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}))
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", "tools/list")
    };
    assert_eq!(half("io.modelcontextprotocol/clientCapabilities").expect_refusal(&setup), (400, -32602));
    assert_eq!(half("io.modelcontextprotocol/protocolVersion").expect_refusal(&setup), (400, -32602));
    let by_position = post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": [1]}));
    assert_eq!(by_position.header("MCP-Protocol-Version", MODERN).expect_refusal(&setup), (400, -32602));
}

#[test]
fn handler_errors_have_status_200_and_protocol_errors_do_not() {
    let setup = setup();
    let status = |error: ErrorObject| {
        let mut exchange = call().exchange(&setup);
        let request = expect_request(exchange.poll_event());
        exchange.at(NOW).respond(request, Answer::Error(error));
        let whole = read(&mut exchange);
        whole.json();
        whole.head.status
    };
    assert_eq!(status(ErrorObject::new(code::INVALID_PARAMS, "no such tool")), 200);
    assert_eq!(status(ErrorObject::new(code::INTERNAL_ERROR, "broken")), 200);
    assert_eq!(status(ErrorObject::new(1, "ours")), 200);
    let needed = ClientCapabilities::default().with(ClientCapability::Sampling);
    assert_eq!(status(missing_capabilities(needed)), 400);
}

#[test]
fn stream_carries_errors_that_happen_after_its_head() {
    let setup = setup();
    let mut exchange = call().exchange(&setup);
    let request = expect_request(exchange.poll_event());
    exchange.at(NOW).progress(request, &progress(1));
    exchange.at(NOW).respond(request, Answer::Error(missing_capabilities(ClientCapabilities::default())));
    let whole = read(&mut exchange);
    assert_eq!(whole.messages()[1]["error"]["code"], -32021);
}

/// S3.16
#[test]
fn disconnect_of_the_client_cancels_its_request() {
    let setup = setup();
    let mut exchange = call().exchange(&setup);
    let request = expect_request(exchange.poll_event());
    exchange.at(NOW).progress(request, &progress(1));
    exchange.handle_disconnect(NOW);
    assert!(matches!(exchange.poll_event(), Some(Event::Cancelled { id, .. }) if id == request));
    assert!(matches!(
        exchange.poll_event(),
        Some(Event::Closed(CloseReason::Lost(LostReason::Disconnected(_))))
    ));
    assert!(!exchange.at(NOW).progress(request, &progress(2)));
    exchange.at(NOW).respond(request, Answer::Result(&result()));
    assert_eq!((exchange.poll_body(), exchange.poll_timeout()), (Chunk::End, None));
}

/// S3.6
#[test]
fn server_accepts_a_notification_without_a_response() {
    let setup = setup();
    let notification = |version: &str| {
        let mut meta = request_meta();
        meta["io.modelcontextprotocol/protocolVersion"] = version.into();
        let params = json!({"requestId": 1, "_meta": meta});
        post(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
    };
    // Some clients send it without `Mcp-Method`: no header is defined for it.
    let taken = notification(MODERN).header("MCP-Protocol-Version", MODERN);
    for asked in [notification(MODERN), taken.clone(), taken.clone().header("Mcp-Session-Id", "whatever")] {
        let answer = asked.answer(&setup);
        assert_eq!((answer.status, answer.body.len()), (202, 0));
        assert_eq!(answer.head().body, BodyKind::Empty);
    }
    assert_eq!(taken.with("MCP-Protocol-Version", "2025-11-25").expect_refusal(&setup), (400, -32020));
    let named = notification(MODERN).header("Mcp-Method", "notifications/progress");
    assert_eq!(named.expect_refusal(&setup), (400, -32020));
}

/// S3.17
#[test]
fn server_ignores_session_and_last_event_headers() {
    let setup = setup();
    let asked = call().header("Mcp-Session-Id", "00".repeat(16)).header("Last-Event-ID", "1-1");
    let mut exchange = asked.exchange(&setup);
    let request = crate::common::http_server::expect_request(exchange.poll_event());
    exchange.at(NOW).respond(request, Answer::Result(&result()));
    let whole = read(&mut exchange);
    assert_eq!(whole.head.status, 200);
    assert!(!whole.head.headers.iter().any(|(name, _)| *name == "mcp-session-id"));
}

#[test]
fn server_refuses_posted_arrays_and_responses() {
    let setup = setup();
    let at = |body: Value| {
        post(&body).header("MCP-Protocol-Version", MODERN).header("Mcp-Session-Id", "00".repeat(16))
    };
    assert_eq!(
        at(json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])).expect_refusal(&setup),
        (400, -32600)
    );
    assert_eq!(at(json!({"jsonrpc": "2.0", "id": 1, "result": {}})).expect_refusal(&setup), (400, -32600));
}

/// S3.15, F56
#[test]
fn server_sends_comments_on_a_quiet_stream() {
    let setup = setup();
    let mut exchange = call().exchange(&setup);
    let request = expect_request(exchange.poll_event());
    assert_eq!(exchange.poll_timeout(), Some(seconds(KEEPALIVE)));
    exchange.handle_timeout(seconds(KEEPALIVE - 1));
    assert!(exchange.poll_head().is_none());
    exchange.handle_timeout(seconds(KEEPALIVE));
    assert_eq!(exchange.poll_head().unwrap().body, BodyKind::Stream);
    assert_eq!(exchange.poll_body(), Chunk::Bytes(":\n\n".into()));
    assert_eq!(exchange.poll_timeout(), Some(seconds(2 * KEEPALIVE)));
    // Any output counts as well.
    exchange.at(seconds(20)).progress(request, &progress(1));
    assert!(matches!(exchange.poll_body(), Chunk::Bytes(_)));
    assert_eq!(exchange.poll_timeout(), Some(seconds(20 + KEEPALIVE)));
    exchange.at(seconds(21)).respond(request, Answer::Result(&result()));
    read(&mut exchange);
    assert_eq!(exchange.poll_timeout(), None);
}

#[test]
fn server_queues_one_comment_for_a_client_that_does_not_read() {
    let setup = setup();
    let mut exchange = call().exchange(&setup);
    expect_request(exchange.poll_event());
    exchange.handle_timeout(seconds(KEEPALIVE));
    for second in KEEPALIVE..KEEPALIVE + 60 {
        exchange.handle_timeout(seconds(second));
    }
    assert_eq!(read(&mut exchange).body, ":\n\n");
}

#[test]
fn server_gives_up_on_a_client_that_reads_nothing() {
    let setup = setup();
    let mut exchange = call().exchange(&setup);
    let request = expect_request(exchange.poll_event());
    exchange.at(NOW).progress(request, &progress(1));
    assert_eq!(exchange.poll_timeout(), Some(seconds(60)));
    exchange.handle_timeout(seconds(60));
    assert!(matches!(exchange.poll_event(), Some(Event::Cancelled { .. })));
    assert_eq!((exchange.poll_body(), exchange.poll_timeout()), (Chunk::End, None));
}

#[test]
fn unread_output_of_an_exchange_is_bounded() {
    let limits =
        Limits { queued_bytes: 1000, reply_bytes: 1000, progress_out: u32::MAX, ..Limits::default() };
    let setup = Setup::new(config_with(|server| server.limits = limits));
    let mut exchange = call().exchange(&setup);
    let request = expect_request(exchange.poll_event());
    let sent = (0..1000).filter(|done| exchange.at(NOW).progress(request, &progress(*done))).count();
    assert!(sent < 20, "{sent}");
    assert!(read(&mut exchange).body.len() < 1300);
    assert!(exchange.at(NOW).progress(request, &progress(1000)));
}

#[test]
fn client_that_accepts_only_json_gets_no_notifications() {
    let setup = setup();
    let mut exchange = call().with("Accept", "application/json").exchange(&setup);
    let request = expect_request(exchange.poll_event());
    exchange.at(NOW).progress(request, &progress(1));
    exchange.handle_timeout(seconds(KEEPALIVE));
    assert!(exchange.poll_head().is_none());
    exchange.at(NOW).respond(request, Answer::Result(&result()));
    assert_eq!(read(&mut exchange).json()["id"], 7);
    let listening = modern("l", "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    assert_eq!(listening.with("Accept", "application/json").expect_refusal(&setup), (406, -32600));
}

#[test]
fn client_that_accepts_only_events_gets_its_response_as_an_event() {
    let setup = setup();
    let mut exchange = call().with("Accept", "text/event-stream").exchange(&setup);
    let request = expect_request(exchange.poll_event());
    exchange.at(NOW).respond(request, Answer::Result(&result()));
    let whole = read(&mut exchange);
    assert_eq!(whole.messages()[0]["id"], 7);
    assert!(whole.ended);
    // The status still reports an error.
    assert_eq!(
        modern(1, "no/such", json!({})).with("Accept", "text/event-stream").expect_refusal(&setup),
        (404, -32601)
    );
}

/// S5.3, S5.4, R11, D9: the result ends a subscription without a cancellation.
#[test]
fn a_subscription_is_a_stream_that_ends_with_its_result() {
    let setup = setup();
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["x:y"]});
    let mut exchange = modern("l", "subscriptions/listen", json!({"notifications": filter})).exchange(&setup);
    let topics: Vec<Topic> = exchange.peer().topics().cloned().collect();
    assert_eq!(topics, [Topic::List(ListKind::Tools), Topic::Resource("x:y".into())]);
    let begun = read(&mut exchange);
    assert_eq!(begun.messages()[0]["method"], "notifications/subscriptions/acknowledged");
    exchange.at(NOW).list_changed(ListKind::Tools);
    exchange.at(NOW).list_changed(ListKind::Prompts);
    exchange.at(NOW).resource_updated("x:y");
    let told = read(&mut exchange).messages();
    let methods: Vec<&str> = told.iter().filter_map(|message| message["method"].as_str()).collect();
    assert_eq!(methods, ["notifications/tools/list_changed", "notifications/resources/updated"]);
    for message in &told {
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
    }
    exchange.at(NOW).close();
    let end = read(&mut exchange);
    assert!(end.ended);
    let end = end.messages();
    assert_eq!(
        (end.len(), &end[0]["id"], &end[0]["result"]["resultType"]),
        (1, &json!("l"), &json!("complete"))
    );
}

/// S5.4: an abrupt end sends no result.
#[test]
fn subscription_whose_stream_breaks_or_whose_server_is_aborted_has_no_result() {
    let setup = setup();
    for aborted in [false, true] {
        let params = json!({"notifications": {"toolsListChanged": true}});
        let mut exchange = modern("l", "subscriptions/listen", params).exchange(&setup);
        assert_eq!(read(&mut exchange).messages().len(), 1, "the acknowledgement");
        if aborted {
            exchange.at(NOW).abort(LostReason::DriverDropped);
        } else {
            exchange.handle_disconnect(NOW);
        }
        exchange.at(NOW).list_changed(ListKind::Tools);
        assert_eq!((exchange.poll_body(), exchange.is_closed()), (Chunk::End, true), "{aborted}");
    }
}

#[test]
fn closing_server_lets_the_handler_finish_for_a_while() {
    let setup = setup();
    let mut exchange = call().exchange(&setup);
    let request = expect_request(exchange.poll_event());
    exchange.at(NOW).close();
    assert!(exchange.poll_head().is_none());
    exchange.at(NOW).respond(request, Answer::Result(&result()));
    assert_eq!(read(&mut exchange).json()["id"], 7);

    let mut exchange = call().exchange(&setup);
    expect_request(exchange.poll_event());
    exchange.at(NOW).close();
    exchange.handle_timeout(seconds(2));
    assert_eq!(read(&mut exchange).json()["error"]["code"], -32603);
}

#[test]
fn aborted_exchange_is_answered_by_an_error() {
    let setup = setup();
    let mut exchange = call().exchange(&setup);
    expect_request(exchange.poll_event());
    exchange.at(NOW).abort(LostReason::DriverDropped);
    let whole = read(&mut exchange);
    assert_eq!(whole.head.status, 503);
    assert_eq!(whole.json()["error"]["code"], -32603);
}

/// S8.18
#[test]
fn server_sends_log_messages_only_to_clients_that_set_a_level() {
    let setup = setup();
    let message = LoggingMessageParams::new(LoggingLevel::Info, Json::encode("x").unwrap());
    let mut exchange = call().exchange(&setup);
    let request = expect_request(exchange.poll_event());
    assert!(!exchange.at(NOW).log(Some(request), &message) && !exchange.at(NOW).log(None, &message));
    let level = json!({"io.modelcontextprotocol/logLevel": "info"});
    let mut exchange = modern(1, "tools/call", json!({"name": "t", "_meta": level})).exchange(&setup);
    let request = expect_request(exchange.poll_event());
    assert!(exchange.at(NOW).log(Some(request), &message));
    assert_eq!(read(&mut exchange).messages()[0]["method"], "notifications/message");
}

#[test]
fn exchange_has_no_deadline_while_comments_are_disabled() {
    let mut config = config();
    config.keepalive = Duration::MAX;
    let exchange = call().exchange(&Setup::new(config));
    assert_eq!(exchange.poll_timeout(), None);
}
