//! Arrays of messages, which only a client of 2025-03-26 may post.

use mcp_proto::peer::server::ServerTransport as _;
use mcp_proto::peer::server::{Answer, Event};
use mcp_proto::rpc::Id;
use mcp_proto::schema::ProgressParams;
use mcp_proto::transport::http::server::PostOutcome;
use serde_json::{Value, json};

use crate::common::http_server::{NOW, SessionClient, expect_request, initialize, post, result};

fn call(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t", "_meta": {"progressToken": id}}})
}

fn ping(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

/// R1
#[test]
fn server_answers_an_array_by_an_array() {
    let mut client = SessionClient::at("2025-03-26");
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/x"});
    let stream = client.stream(json!([call(1), notification, ping(2), call(3)]));
    let mut calls = Vec::new();
    while let Some(event) = client.session.poll_event() {
        if let Event::Request { id, .. } = event {
            calls.push(id);
        }
    }
    client.session.at(NOW).respond(calls[1], Answer::Result(&result()));
    assert!(client.session.poll_head(stream).is_none());
    client.session.at(NOW).respond(calls[0], Answer::Result(&result()));
    let answers = client.read(stream).json();
    let ids: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(2), &json!(3), &json!(1)]);
    // An array of one message has an array of one response.
    let stream = client.stream(json!([ping(4)]));
    assert_eq!(client.read(stream).json(), json!([{"jsonrpc": "2.0", "id": 4, "result": {}}]));
}

/// R1
#[test]
fn stream_of_an_array_carries_each_response_as_an_event() {
    let mut client = SessionClient::at("2025-03-26");
    let stream = client.stream(json!([ping(1), call(2), call(3)]));
    let first = expect_request(client.session.poll_event());
    let second = expect_request(client.session.poll_event());
    client.session.at(NOW).progress(first, &ProgressParams::new(Id::from("x"), 1u64));
    client.session.at(NOW).respond(second, Answer::Result(&result()));
    let begun = client.read(stream);
    assert!(!begun.ended);
    client.session.at(NOW).respond(first, Answer::Result(&result()));
    let rest = client.read(stream);
    assert!(rest.ended);
    let ids: Vec<Value> = [begun.messages(), rest.messages()]
        .concat()
        .into_iter()
        .map(|message| message["id"].clone())
        .collect();
    assert_eq!(ids, [json!(1), json!(null), json!(3), json!(2)]);
}

/// R1
#[test]
fn server_accepts_an_array_without_requests_and_does_not_answer_it() {
    let mut client = SessionClient::at("2025-03-26");
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/x"});
    assert_eq!(client.post_for_answer(json!([notification, notification])).status, 202);
    assert_eq!(client.post_for_answer(json!([{"jsonrpc": "2.0", "id": 1, "result": {}}])).status, 202);
}

/// R1
#[test]
fn invalid_message_of_an_array_does_not_affect_the_others() {
    let mut client = SessionClient::at("2025-03-26");
    let stream = client.stream(
        json!([ping(1), 5, {"jsonrpc": "2.0", "id": 2, "method": 3}, ping(1), {"id": 9, "result": 1}]),
    );
    let answers = client.read(stream).json();
    let codes: Vec<(Value, Value)> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| (answer["id"].clone(), answer["error"]["code"].clone()))
        .collect();
    assert_eq!(
        codes,
        [
            (json!(1), json!(null)),
            (json!(null), json!(-32600)),
            (json!(2), json!(-32600)),
            (json!(1), json!(null))
        ]
    );
}

/// R1
#[test]
fn server_refuses_the_second_request_of_an_array_with_the_same_id() {
    let mut client = SessionClient::at("2025-03-26");
    let stream = client.stream(json!([call(1), call(1)]));
    let first = expect_request(client.session.poll_event());
    assert!(client.session.poll_event().is_none());
    client.session.at(NOW).respond(first, Answer::Result(&result()));
    let answers = client.read(stream).json();
    assert_eq!(
        (&answers[0]["error"]["code"], &answers[1]["result"]["content"][0]["text"]),
        (&json!(-32600), &json!("done"))
    );
}

/// R1
#[test]
fn server_refuses_a_handshake_in_an_array() {
    let mut client = SessionClient::at("2025-03-26");
    let stream = client.stream(json!([initialize("2025-11-25", json!({})), ping(1)]));
    let answers = client.read(stream).json();
    assert_eq!((&answers[0]["error"]["code"], &answers[1]["id"]), (&json!(-32600), &json!(1)));
    assert_eq!(client.session.peer().session().unwrap().revision.as_str(), "2025-03-26");
}

/// R1
#[test]
fn server_refuses_arrays_at_other_revisions_and_empty_ones_always() {
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut client = SessionClient::at(version);
        let answer = client.post_for_answer(json!([ping(1)]));
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((answer.status, &body["error"]["code"]), (400, &json!(-32600)), "{version}");
    }
    assert_eq!(SessionClient::at("2025-03-26").post_for_answer(json!([])).status, 400);
}

/// R1
#[test]
fn cancelled_request_of_an_array_does_not_affect_the_others() {
    let mut client = SessionClient::at("2025-03-26");
    let stream = client.stream(json!([call(1), call(2)]));
    let first = expect_request(client.session.poll_event());
    expect_request(client.session.poll_event());
    client.session.at(NOW).respond(first, Answer::Result(&result()));
    client.post_for_answer(
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}),
    );
    assert_eq!(client.read(stream).json().as_array().unwrap().len(), 1);
}

/// R1
#[test]
fn client_that_accepts_only_events_gets_a_stream_for_an_array() {
    let mut client = SessionClient::at("2025-03-26");
    let posted = post(&json!([ping(1), ping(2)])).with("Accept", "text/event-stream");
    let PostOutcome::Connection(stream) =
        client.post_request(&posted.header("Mcp-Session-Id", client.id.to_string()))
    else {
        panic!()
    };
    let whole = client.read(stream);
    assert_eq!((whole.messages().len(), whole.ended), (2, true));
}
