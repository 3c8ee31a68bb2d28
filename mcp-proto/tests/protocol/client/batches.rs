//! A client that receives batches, which only revision 2025-03-26 has.

use crate::common::client::{ClientHarness, config};
use mcp_proto::peer::InboundId;
use mcp_proto::peer::client::{ClientConfig, Diagnostic, Event};
use mcp_proto::rpc::Batch;
use mcp_proto::schema::ListRootsResult;
use serde_json::{Value, json};

const WITH_BATCHES: &str = "2025-03-26";

fn with_roots() -> ClientConfig {
    let mut config = config();
    config.capabilities.roots = Some(Default::default());
    config
}

fn request(id: impl Into<Value>, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method})
}

fn requests(events: &[Event]) -> Vec<InboundId> {
    let id = |event: &Event| match event {
        Event::Request { id, .. } => Some(*id),
        _ => None,
    };
    events.iter().filter_map(id).collect()
}

fn respond(s: &mut ClientHarness, id: InboundId) {
    s.client.at(s.now).respond(id, Ok(&ListRootsResult::new(Vec::new())));
}

/// R1
#[test]
fn client_answers_a_batch_by_one_array_once_every_response_exists() {
    let mut s = ClientHarness::legacy_at(with_roots(), WITH_BATCHES);
    s.send(&json!([
        request("a", "roots/list"),
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}},
        request("p", "ping"),
        request("x", "no/such"),
        request("b", "roots/list"),
    ]));
    let events = s.take_events();
    let ids = requests(&events);
    assert_eq!(ids.len(), 2);
    assert!(events.iter().any(|event| matches!(event, Event::Notification { .. })));
    respond(&mut s, ids[0]);
    s.expect_silence();
    respond(&mut s, ids[1]);
    let answers = s.line();
    let answers: Vec<(&Value, &Value)> =
        answers.as_array().unwrap().iter().map(|answer| (&answer["id"], &answer["error"]["code"])).collect();
    let none = Value::Null;
    assert_eq!(
        answers,
        [(&json!("p"), &none), (&json!("x"), &json!(-32601)), (&json!("a"), &none), (&json!("b"), &none)]
    );
    s.expect_silence();
}

/// R1
#[test]
fn client_does_not_answer_a_batch_of_notifications() {
    let mut s = ClientHarness::legacy_at(config(), WITH_BATCHES);
    let told = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    s.send(&json!([told, told]));
    s.expect_silence();
    assert_eq!(s.take_events().len(), 2);
}

/// R1
#[test]
fn client_refuses_an_empty_batch() {
    let mut s = ClientHarness::legacy_at(config(), WITH_BATCHES);
    s.send_text("[]");
    let line = s.line();
    assert_eq!((&line["id"], &line["error"]["code"]), (&Value::Null, &json!(-32600)));
}

/// R1
#[test]
fn client_refuses_invalid_messages_within_the_array_of_their_batch() {
    let mut s = ClientHarness::legacy_at(config(), WITH_BATCHES);
    s.send(&json!([7, {"jsonrpc": "1.0", "id": "q", "method": "ping"}, request("p", "ping"), [request("n", "ping")]]));
    let answers = s.line();
    let ids: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&Value::Null, &json!("q"), &json!("p"), &Value::Null]);
    s.expect_silence();
}

/// R1
#[test]
fn cancelled_request_does_not_hold_back_the_array_of_its_batch() {
    let mut s = ClientHarness::legacy_at(with_roots(), WITH_BATCHES);
    s.send(&json!([request("a", "roots/list"), request("p", "ping")]));
    s.expect_silence();
    s.notify("notifications/cancelled", json!({"requestId": "a"}));
    let answers = s.line();
    assert_eq!(answers.as_array().unwrap().len(), 1);
    assert_eq!(answers[0]["id"], "p");
    let events = s.take_events();
    respond(&mut s, requests(&events)[0]);
    s.expect_silence();
}

/// R1, D3, contract 9: the responses in the batch resolve their requests, so that no caller waits in vain.
#[test]
fn client_accepts_responses_and_refuses_requests_of_a_batch_at_other_revisions() {
    let mut s = ClientHarness::legacy_at(with_roots(), "2025-06-18");
    let options = mcp_proto::peer::RequestOptions::default();
    let own =
        s.client.at(s.now).request::<mcp_proto::schema::ListTools>(&Default::default(), options).unwrap();
    let id = s.expect("tools/list");
    s.send(&json!([
        request("a", "roots/list"),
        {"jsonrpc": "2.0", "id": id, "result": {"tools": []}},
        request("b", "ping"),
    ]));
    let line = s.line();
    assert_eq!((&line["id"], &line["error"]["code"]), (&Value::Null, &json!(-32600)));
    s.expect_silence();
    assert!(matches!(s.outcome(own), mcp_proto::peer::Outcome::Result(_)));
    let events = s.take_events();
    assert_eq!(requests(&events), []);
    assert!(events.iter().any(|event| matches!(event, Event::Diagnostic(Diagnostic::ForbiddenBatch))));
}

/// C1.5
#[test]
fn client_does_not_answer_a_batch_of_a_modern_server() {
    let mut s = ClientHarness::modern(config());
    s.send(&json!([request("a", "ping")]));
    s.send_text("[]");
    s.expect_silence();
    let forbidden = |event: &Event| matches!(event, Event::Diagnostic(Diagnostic::ForbiddenBatch));
    assert_eq!(s.take_events().into_iter().filter(forbidden).count(), 2);
}

/// R1, contract 8
#[test]
fn client_refuses_a_batch_of_a_hundred_thousand_messages_as_a_whole() {
    let mut s = ClientHarness::legacy_at(config(), WITH_BATCHES);
    let one = request("p", "ping");
    s.send(&Value::from(vec![one.clone(); Batch::MAX]));
    assert_eq!(s.line().as_array().unwrap().len(), Batch::MAX);
    s.send(&Value::from(vec![one; 100_000]));
    s.expect_silence();
    assert!(matches!(s.take_events().as_slice(), [Event::Diagnostic(Diagnostic::Malformed(_))]));
}

/// Contract 8: a server that reads no answers cannot make the client collect them without end.
#[test]
fn responses_held_back_by_a_batch_count_as_queued() {
    let mut small = with_roots();
    small.limits.queued_bytes = 500;
    small.limits.reply_bytes = 500;
    let mut s = ClientHarness::legacy_at(small, WITH_BATCHES);
    for _ in 0..40 {
        s.send(&json!([request("r", "roots/list"), request("p", "ping")]));
    }
    assert!(s.client.is_closed());
    let events = s.take_events();
    assert!(matches!(events.last(), Some(Event::Closed(_))), "{events:?}");
}
