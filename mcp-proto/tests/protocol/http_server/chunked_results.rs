//! Results of tools in parts, which is an option: events with names, beside the answer for other clients.

use mcp_proto::peer::InboundId;
use mcp_proto::peer::server::{Answer, ServerTransport as _};
use mcp_proto::rpc::ErrorObject;
use mcp_proto::schema::CallToolResult;
use mcp_proto::transport::http::server::{Exchange, HttpServerConfig, RequestRoute, Setup};
use serde_json::{Value, json};

use crate::common::http_server::{
    NOW, ReceivedEvent, SessionClient, config, expect_request, modern, post, read, result,
};
use crate::common::messages::request;

fn chunked() -> HttpServerConfig {
    let mut config = config();
    config.chunked_results = true;
    config
}

fn call() -> Value {
    json!({"name": "t"})
}

fn names(events: &[ReceivedEvent]) -> Vec<Option<&str>> {
    events.iter().map(|event| event.name.as_deref()).collect()
}

fn text(event: &ReceivedEvent) -> &Value {
    &event.message.as_ref().unwrap()["content"][0]["text"]
}

fn send_parts(exchange: &mut Exchange, request: InboundId) {
    for part in ["a", "b"] {
        assert!(exchange.at(NOW).partial_result(request, &CallToolResult::text(part)));
    }
}

/// F56
#[test]
fn server_sends_parts_then_the_answer_under_a_name_and_without_one() {
    let (done, error) = (result(), ErrorObject::new(-1, "no"));
    let answers = [("complete", Answer::Result(&done)), ("error", Answer::Error(error))];
    for (name, answer) in answers {
        let mut exchange = modern(7, "tools/call", call()).exchange(&Setup::new(chunked()));
        let request = expect_request(exchange.poll_event());
        send_parts(&mut exchange, request);
        exchange.at(NOW).respond(request, answer);
        assert!(!exchange.at(NOW).partial_result(request, &result()), "the call is answered");
        let whole = read(&mut exchange);
        let events = whole.events();
        assert!(whole.ended);
        assert_eq!(names(&events), [Some("result"), Some("result"), Some(name), None]);
        assert_eq!((text(&events[0]), text(&events[1])), (&json!("a"), &json!("b")));
        assert_eq!(events[2].data, events[3].data);
        assert_eq!(events[3].message.as_ref().unwrap()["id"], 7);
    }
}

/// F56
#[test]
fn session_sends_parts_in_every_revision_and_again_to_a_client_that_resumes() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = SessionClient::with(chunked(), version);
        let (stream, call) = client.call(1);
        assert!(client.session.at(NOW).partial_result(call, &CallToolResult::text("a")));
        client.session.at(NOW).respond(call, Answer::Result(&result()));
        let events = client.read(stream).events();
        let events: Vec<_> = events.into_iter().filter(|event| event.message.is_some()).collect();
        assert_eq!(names(&events), [Some("result"), Some("complete"), None], "{version}");
        let resumed = client.listen(events[0].id.as_deref());
        assert_eq!(client.read(resumed).events(), events[1..]);

        let (stream, call) = client.call(2);
        assert!(client.session.at(NOW).partial_result(call, &CallToolResult::text("a")));
        client.session.at(NOW).respond(call, Answer::Error(ErrorObject::new(-1, "no")));
        let events = client.read(stream).events();
        let events: Vec<_> = events.into_iter().filter(|event| event.message.is_some()).collect();
        assert_eq!(names(&events), [Some("result"), Some("error"), None], "{version}");
    }
}

/// F56
#[test]
fn call_that_a_session_ends_is_answered_by_the_event_of_an_error() {
    let mut client = SessionClient::with(chunked(), "2025-11-25");
    let (stream, call) = client.call(1);
    assert!(client.session.at(NOW).partial_result(call, &CallToolResult::text("a")));
    client.session.delete(NOW);
    let events = client.read(stream).events();
    let events: Vec<_> = events.into_iter().filter(|event| event.message.is_some()).collect();
    assert_eq!(names(&events), [Some("result"), Some("error"), None]);
}

/// F56: the POST of a client that makes no handshake and sends no header of the protocol.
#[test]
fn stateless_server_answers_a_bare_call_in_parts() {
    let mut config = chunked();
    config.stateless = true;
    let setup = Setup::new(config);
    let RequestRoute::Stateless(bare) =
        post(&request(&json!(1), "tools/call", call())).without("Accept").route(&setup)
    else {
        panic!()
    };
    let mut exchange = Exchange::open_stateless(&setup, bare, NOW);
    let request = expect_request(exchange.poll_event());
    send_parts(&mut exchange, request);
    exchange.at(NOW).respond(request, Answer::Result(&result()));
    let events = read(&mut exchange).events();
    assert_eq!(names(&events), [Some("result"), Some("result"), Some("complete"), None]);
    assert_eq!(events[2].message.as_ref().unwrap()["result"]["content"][0]["text"], "done");
}

#[test]
fn answer_without_parts_before_it_is_plain_json() {
    let mut exchange = modern(7, "tools/call", call()).exchange(&Setup::new(chunked()));
    let request = expect_request(exchange.poll_event());
    exchange.at(NOW).respond(request, Answer::Result(&result()));
    assert_eq!(read(&mut exchange).json()["id"], 7);
}

#[test]
fn parts_go_nowhere_without_the_option_or_a_stream_and_from_other_methods() {
    let is_sent = |config, asked: &crate::common::http_server::TestRequest| {
        let mut exchange = asked.exchange(&Setup::new(config));
        let request = expect_request(exchange.poll_event());
        exchange.at(NOW).partial_result(request, &result())
    };
    let asked = modern(7, "tools/call", call());
    assert!(is_sent(chunked(), &asked));
    assert!(!is_sent(config(), &asked));
    assert!(!is_sent(chunked(), &asked.with("Accept", "application/json")));
    assert!(!is_sent(chunked(), &modern(7, "prompts/get", call())));
    let mut client = SessionClient::with(config(), "2025-11-25");
    let (_, call) = client.call(1);
    assert!(!client.session.at(NOW).partial_result(call, &result()));
}

#[test]
fn parts_for_a_client_that_does_not_read_are_bounded() {
    let mut exchange = modern(7, "tools/call", call()).exchange(&Setup::new(chunked()));
    let request = expect_request(exchange.poll_event());
    let part = CallToolResult::text("x".repeat(1 << 20));
    let sent = (0..1000).filter(|_| exchange.at(NOW).partial_result(request, &part)).count();
    assert!(sent > 0 && sent < 100, "{sent}");
}
