//! Sessions over HTTP: how they begin and end, and the responses to messages posted in them.

use core::time::Duration;

use mcp_proto::peer::LostReason;
use mcp_proto::peer::server::ServerTransport as _;
use mcp_proto::peer::server::{Answer, CloseReason, Event, ListKind};
use mcp_proto::peer::{Outcome, OutgoingRequest, RequestOptions};
use mcp_proto::quota::{QuotaError, QuotaOwner};
use mcp_proto::rpc::Id;
use mcp_proto::schema::{Elicit, ElicitParams, ElicitSchema, ListRoots, ListRootsParams, ProgressParams};
use mcp_proto::transport::http::server::{
    BodyKind, HttpResponse as Http, PostOutcome, Session, SessionId, Sessions, Setup,
};
use serde_json::{Value, json};

use crate::common::http_server::{
    NOW, SessionClient, config, expect_request, initialize, post, result, seconds, setup,
};

fn body(answer: &Http) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

fn progress(done: u64) -> ProgressParams {
    ProgressParams::new(Id::from("x"), done)
}

/// S3.20
#[test]
fn response_to_the_handshake_names_the_session() {
    let setup = setup();
    let id = SessionId::from_entropy([9; 16]);
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let opening = post(&initialize(version, json!({}))).post(&setup);
        let (session, answer) = Session::open(&setup, id, opening, NOW).unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.headers.contains(&("mcp-session-id", id.to_string().into())));
        assert_eq!(body(&answer)["result"]["protocolVersion"], version);
        assert_eq!(session.peer().session().unwrap().revision.as_str(), version);
    }
    let opening = post(&initialize("2025-11-25", json!({}))).with("Accept", "text/event-stream").post(&setup);
    let (_, answer) = Session::open(&setup, id, opening, NOW).unwrap();
    assert!(answer.body.starts_with(b"id: ") && answer.body.ends_with(b"\n\n"));
    assert!(answer.headers.contains(&("content-type", "text/event-stream".into())));
}

#[test]
fn failed_handshake_opens_no_session() {
    let setup = setup();
    let opening =
        post(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})).post(&setup);
    let answer = Session::open(&setup, SessionId::from_entropy([9; 16]), opening, NOW).unwrap_err();
    assert_eq!(body(&answer)["error"]["code"], -32602);
    assert!(!answer.headers.iter().any(|(name, _)| *name == "mcp-session-id"));
}

/// S3.7
#[test]
fn server_answers_by_one_json_value_without_earlier_notifications() {
    let mut client = SessionClient::at("2025-06-18");
    let (stream, call) = client.call(1);
    assert!(client.session.poll_head(stream).is_none());
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    assert_eq!(client.session.poll_connection(), Some(stream));
    let whole = client.read(stream);
    assert_eq!((whole.head.status, &whole.json()["id"]), (200, &json!(1)));
    assert_eq!(client.session.poll_connection(), None);
    // Errors have status 200 too: a legacy status says nothing about the error.
    for method in ["no/such", "subscriptions/listen", "tasks/get"] {
        let stream = client.ask(2, method, json!({}));
        let whole = client.read(stream);
        assert_eq!((whole.head.status, &whole.json()["error"]["code"]), (200, &json!(-32601)));
    }
    let stream = client.ask(3, "ping", json!({}));
    assert_eq!(client.read(stream).json()["result"], json!({}));
}

/// S3.6
#[test]
fn server_accepts_notifications_and_responses_without_a_response() {
    let mut client = SessionClient::at("2025-11-25");
    for taken in [
        json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
        json!({"jsonrpc": "2.0", "id": 99, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "x"}}),
    ] {
        let answer = client.post_for_answer(taken);
        assert_eq!((answer.status, answer.head().body), (202, BodyKind::Empty));
    }
}

#[test]
fn unreadable_response_ends_its_request() {
    let mut client = SessionClient::at("2025-11-25");
    let params = ListRootsParams::new();
    let request = OutgoingRequest::new::<ListRoots>(&params, RequestOptions::default());
    let request = client.session.at(NOW).send(None, request).unwrap();
    let malformed =
        post(&json!(null)).body(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#);
    let malformed = malformed.header("Mcp-Session-Id", client.id.to_string());
    let PostOutcome::Answer(answer) = client.post_request(&malformed) else { panic!() };
    assert_eq!((answer.status, &body(&answer)["error"]["code"]), (400, &json!(-32600)));
    let ended = client.session.poll_event();
    assert!(
        matches!(ended, Some(Event::Outcome { request: this, outcome: Outcome::Invalid(_) }) if this == request)
    );
}

#[test]
fn server_refuses_an_id_in_flight_on_the_stream_of_the_second_request() {
    let mut client = SessionClient::at("2025-06-18");
    let (first, call) = client.call(1);
    let second = client.ask(1, "tools/list", json!({}));
    assert_eq!(client.read(second).json()["error"]["code"], -32600);
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    assert_eq!(client.read(first).json()["result"]["content"][0]["text"], "done");
}

#[test]
fn server_answers_each_request_on_its_own_stream() {
    let mut client = SessionClient::at("2025-11-25");
    let calls: Vec<_> = (1..=3).map(|id| client.call(id)).collect();
    for (_, call) in &calls {
        client.session.at(NOW).progress(*call, &progress(1));
    }
    for (_, call) in calls.iter().rev() {
        client.session.at(NOW).respond(*call, Answer::Result(&result()));
    }
    for (id, (stream, _)) in (1..=3).zip(&calls) {
        let whole = client.read(*stream);
        assert!(whole.ended);
        let messages = whole.messages();
        assert_eq!(messages.len(), 2);
        assert_eq!(
            (&messages[0]["method"], &messages[1]["id"]),
            (&json!("notifications/progress"), &json!(id))
        );
    }
}

/// S3.22: messages related to a request go to its stream, all others to the stream that the client has opened.
#[test]
fn each_message_goes_to_one_stream() {
    let mut client = SessionClient::at("2025-06-18");
    let listening = client.listen(None);
    let (first, call) = client.call(1);
    let (second, other) = client.call(2);
    let schema: ElicitSchema = serde_json::from_str(r#"{"type":"object","properties":{}}"#).unwrap();
    let params = ElicitParams::form("Who?", schema);
    let ask = |client: &mut SessionClient, of| {
        let request = OutgoingRequest::new::<Elicit>(&params, RequestOptions::default());
        client.session.at(NOW).send(of, request).unwrap()
    };
    let related = ask(&mut client, Some(call));
    ask(&mut client, None);
    client.session.at(NOW).list_changed(ListKind::Tools);
    let told = client.read(first).messages();
    assert_eq!((told.len(), &told[0]["method"]), (1, &json!("elicitation/create")));
    let told = client.read(listening).messages();
    let methods: Vec<&str> = told.iter().filter_map(|message| message["method"].as_str()).collect();
    assert_eq!(methods, ["elicitation/create", "notifications/tools/list_changed"]);
    assert!(client.session.poll_head(second).is_none());

    client.post_for_answer(json!({"jsonrpc": "2.0", "id": 1, "result": {"action": "decline"}}));
    let outcome = client.session.poll_event();
    assert!(matches!(outcome, Some(Event::Outcome { request, .. }) if request == related));
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    assert_eq!(client.read(first).messages()[0]["id"], 1);
    // Once its request is answered, this stream is gone.
    let late = ask(&mut client, Some(call));
    assert_eq!(client.read(listening).messages().len(), 1);
    client.session.at(NOW).respond(other, Answer::Result(&result()));
    assert_eq!(client.read(second).json()["id"], 2);
    client.session.at(NOW).cancel(late, None);
    assert_eq!(client.read(listening).messages()[0]["method"], "notifications/cancelled");
}

#[test]
fn server_cancels_its_request_on_the_stream_of_the_request() {
    let mut client = SessionClient::at("2025-06-18");
    let (stream, call) = client.call(1);
    let params = ListRootsParams::new();
    let request = OutgoingRequest::new::<ListRoots>(&params, RequestOptions::default());
    let request = client.session.at(NOW).send(Some(call), request).unwrap();
    client.session.at(NOW).cancel(request, Some("never mind"));
    let messages = client.read(stream).messages();
    assert_eq!(messages[1]["params"], json!({"requestId": messages[0]["id"], "reason": "never mind"}));
}

/// S3.23, S6.1
#[test]
fn notification_cancels_a_request_and_a_disconnect_does_not() {
    let mut client = SessionClient::at("2025-06-18");
    let (stream, call) = client.call(1);
    client.session.handle_disconnect(NOW, stream);
    assert!(client.session.poll_event().is_none());
    let (waiting, other) = client.call(2);
    client.post_for_answer(
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}),
    );
    assert!(matches!(client.session.poll_event(), Some(Event::Cancelled { id, .. }) if id == other));
    assert_eq!(client.session.poll_connection(), Some(waiting));
    let whole = client.read(waiting);
    assert_eq!((whole.head.status, whole.body.len(), whole.ended), (202, 0, true));
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    assert_eq!(client.session.poll_connection(), None);
    // Both ids are free again.
    for id in [1, 2] {
        let stream = client.ask(id, "ping", json!({}));
        assert_eq!(client.read(stream).json()["result"], json!({}));
    }
}

#[test]
fn stream_of_a_cancelled_request_ends() {
    let mut client = SessionClient::at("2025-06-18");
    let (stream, call) = client.call(1);
    client.session.at(NOW).progress(call, &progress(1));
    client.post_for_answer(
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    );
    let whole = client.read(stream);
    assert_eq!((whole.messages().len(), whole.ended), (1, true));
}

#[test]
fn client_that_accepts_only_json_gets_no_notifications() {
    let mut client = SessionClient::at("2025-11-25");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "_meta": {"progressToken": 1}}});
    let alone =
        post(&call).with("Accept", "application/json").header("Mcp-Session-Id", client.id.to_string());
    let PostOutcome::Connection(stream) = client.post_request(&alone) else { panic!() };
    let call = expect_request(client.session.poll_event());
    client.session.at(NOW).progress(call, &progress(1));
    client.session.at(NOW).close_sse_stream(call);
    client.advance(Duration::from_secs(100));
    assert!(client.session.poll_head(stream).is_none());
    // A request of the server still needs a stream.
    let params = ListRootsParams::new();
    let request = OutgoingRequest::new::<ListRoots>(&params, RequestOptions::default());
    client.session.at(client.now).send(Some(call), request).unwrap();
    let listening = client.listen(None);
    assert_eq!(client.read(listening).messages()[0]["method"], "roots/list");
    client.session.at(client.now).respond(call, Answer::Result(&result()));
    assert_eq!(client.read(stream).json()["id"], 1);
}

/// S3.20
#[test]
fn deleted_session_ends_for_all_streams_and_requests() {
    let mut client = SessionClient::at("2025-11-25");
    let listening = client.listen(None);
    let (waiting, call) = client.call(1);
    let (begun, other) = client.call(2);
    client.session.at(NOW).progress(other, &progress(1));
    assert_eq!(client.session.delete(NOW).status, 200);
    let mut cancelled = Vec::new();
    loop {
        match client.session.poll_event() {
            Some(Event::Cancelled { id, .. }) => cancelled.push(id),
            Some(Event::Closed(closed)) => break assert_eq!(closed, CloseReason::Done),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(cancelled, [call, other]);
    assert!(client.session.is_closed());
    let whole = client.read(waiting);
    assert_eq!((whole.head.status, &whole.json()["error"]["code"]), (200, &json!(-32603)));
    for stream in [listening, begun] {
        assert!(client.read(stream).ended);
    }
    let answer = client.post_for_answer(json!({"jsonrpc": "2.0", "id": 5, "method": "ping"}));
    assert_eq!((answer.status, &body(&answer)["id"]), (404, &json!(5)));
    assert_eq!(client.session.listen(NOW, None).unwrap_err().status, 404);
    assert_eq!(client.session.delete(NOW).status, 404);
    assert_eq!(client.session.poll_timeout(), None);
}

#[test]
fn closing_session_lets_requests_finish_for_a_while() {
    let mut client = SessionClient::at("2025-06-18");
    let listening = client.listen(None);
    let (first, call) = client.call(1);
    let (second, _) = client.call(2);
    client.session.at(NOW).close();
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    assert_eq!(client.read(first).json()["id"], 1);
    assert!(!client.session.is_closed());
    client.advance(Duration::from_secs(2));
    assert_eq!(client.read(second).json()["error"]["code"], -32603);
    assert!(client.read(listening).ended && client.session.is_closed());
}

/// Not while a stream is open or a handler works.
#[test]
fn idle_session_expires() {
    let half = Duration::from_secs(15 * 60);
    let mut client = SessionClient::at("2025-06-18");
    assert_eq!(client.session.idle_since(), Some(NOW));
    client.advance(half);
    client.post_for_answer(json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}));
    assert_eq!(client.session.idle_since(), Some(client.now));
    client.advance(half);
    assert!(!client.session.is_closed());
    while client.session.poll_event().is_some() {}
    let (stream, call) = client.call(1);
    client.session.handle_disconnect(client.now, stream);
    client.advance(10 * half);
    assert!(!client.session.is_closed() && client.session.idle_since().is_none());
    client.session.at(client.now).respond(call, Answer::Result(&result()));
    let listening = client.listen(None);
    for _ in 0..1000 {
        client.advance(Duration::from_secs(15));
        client.read(listening);
    }
    assert!(!client.session.is_closed());
    client.session.handle_disconnect(client.now, listening);
    assert_eq!(client.session.idle_since(), Some(client.now));
    client.advance(2 * half - Duration::from_secs(1));
    assert!(!client.session.is_closed());
    client.advance(Duration::from_secs(1));
    assert!(client.session.is_closed());
}

#[test]
fn a_client_that_reads_nothing_loses_its_connection_and_not_its_session() {
    let mut client = SessionClient::at("2025-11-25");
    let listening = client.listen(None);
    client.read(listening);
    client.session.at(NOW).list_changed(ListKind::Tools);
    client.advance(Duration::from_secs(60));
    assert!(client.read(listening).ended && !client.session.is_closed());
    let again = client.listen(None);
    assert_eq!(client.read(again).messages()[0]["method"], "notifications/tools/list_changed");
}

#[test]
fn session_of_a_dropped_driver_answers_with_errors() {
    let mut client = SessionClient::at("2025-11-25");
    let (stream, _) = client.call(1);
    client.session.at(seconds(1)).abort(LostReason::DriverDropped);
    assert_eq!(client.read(stream).json()["error"]["code"], -32603);
}

#[test]
fn table_evicts_an_idle_session_for_a_new_one() {
    let id = |number| SessionId::from_entropy([number; 16]);
    let mut sessions = Sessions::new(2);
    assert_eq!(
        (sessions.insert(id(1), &QuotaOwner::LOCAL, 1), sessions.insert(id(2), &QuotaOwner::LOCAL, 2)),
        (Ok(None), Ok(None))
    );
    assert_eq!(sessions.insert(id(3), &QuotaOwner::LOCAL, 3), Err(QuotaError));
    sessions.set_idle(id(2), Some(seconds(5)));
    sessions.set_idle(id(1), Some(seconds(6)));
    sessions.set_idle(id(9), Some(seconds(0)));
    assert_eq!((sessions.idle_since(), sessions.pop_idle(seconds(4))), (Some(seconds(5)), None));
    assert_eq!(sessions.insert(id(3), &QuotaOwner::LOCAL, 3), Ok(Some((id(2), 2))));
    assert_eq!((sessions.get(id(2)), sessions.get(id(3)), sessions.len()), (None, Some(&3), 2));
    sessions.set_idle(id(1), None);
    assert_eq!(sessions.insert(id(4), &QuotaOwner::LOCAL, 4), Err(QuotaError));
    sessions.set_idle(id(3), Some(seconds(1)));
    assert_eq!(sessions.pop_idle(seconds(1)), Some((id(3), 3)));
    assert_eq!(sessions.insert(id(1), &QuotaOwner::LOCAL, 10), Ok(Some((id(1), 1))));
    assert_eq!(sessions.remove(id(1)), Some(10));
    assert!(sessions.is_empty() && sessions.idle_since().is_none());
}

#[test]
fn refusal_of_an_unknown_session_carries_the_request_id() {
    let setup = Setup::new(config());
    let posted = post(&json!({"jsonrpc": "2.0", "id": "x", "method": "ping"}))
        .header("Mcp-Session-Id", "ab".repeat(16));
    let posted = posted.post(&setup);
    let (gone, full) =
        (Http::unknown_session(posted.request_id()), Http::too_many_sessions(posted.request_id()));
    assert_eq!((gone.status, &body(&gone)["id"]), (404, &json!("x")));
    assert_eq!((full.status, &body(&full)["id"]), (503, &json!("x")));
    assert!(full.headers.contains(&("retry-after", "5".into())));
}
