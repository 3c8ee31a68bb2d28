//! Sessions over HTTP: how they begin and end, and how what is posted in them is answered.

use core::time::Duration;

use mcp_proto::peer::LostReason;
use mcp_proto::peer::server::{Answer, CloseReason, Event, ListKind};
use mcp_proto::peer::{Outcome, OutgoingRequest, RequestOptions};
use mcp_proto::quota::{QuotaError, QuotaOwner};
use mcp_proto::rpc::Id;
use mcp_proto::schema::{Elicit, ElicitParams, ElicitSchema, ListRoots, ListRootsParams, ProgressParams};
use mcp_proto::transport::http::server::{
    BodyKind, HttpResponse as Http, PostOutcome, Session, SessionId, Sessions, Setup,
};
use serde_json::{Value, json};

use crate::http_server_common::{
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
fn the_answer_to_the_handshake_names_the_session() {
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
fn a_handshake_that_fails_opens_nothing() {
    let setup = setup();
    let opening =
        post(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})).post(&setup);
    let answer = Session::open(&setup, SessionId::from_entropy([9; 16]), opening, NOW).unwrap_err();
    assert_eq!(body(&answer)["error"]["code"], -32602);
    assert!(!answer.headers.iter().any(|(name, _)| *name == "mcp-session-id"));
}

/// S3.7
#[test]
fn an_answer_that_comes_first_is_one_json_value() {
    let mut client = SessionClient::at("2025-06-18");
    let (stream, call) = client.call(1);
    assert!(client.session.poll_head(stream).is_none());
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    assert_eq!(client.session.poll_stream(), Some(stream));
    let whole = client.read(stream);
    assert_eq!((whole.head.status, &whole.json()["id"]), (200, &json!(1)));
    assert_eq!(client.session.poll_stream(), None);
    // Errors are answers too, whatever they are: statuses say nothing in this era.
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
fn notifications_and_answers_are_taken_without_an_answer() {
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
fn an_answer_that_can_not_be_read_ends_the_request_that_it_was_to_answer() {
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
fn an_id_that_is_still_unanswered_is_refused_on_the_stream_of_the_second() {
    let mut client = SessionClient::at("2025-06-18");
    let (first, call) = client.call(1);
    let second = client.ask(1, "tools/list", json!({}));
    assert_eq!(client.read(second).json()["error"]["code"], -32600);
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    assert_eq!(client.read(first).json()["result"]["content"][0]["text"], "done");
}

#[test]
fn several_requests_are_answered_each_on_its_own_stream() {
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

/// S3.22: what a request causes goes to its stream, anything else to the one that the client has opened.
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
    // Once its request is answered there is no such stream.
    let late = ask(&mut client, Some(call));
    assert_eq!(client.read(listening).messages().len(), 1);
    client.session.at(NOW).respond(other, Answer::Result(&result()));
    assert_eq!(client.read(second).json()["id"], 2);
    client.session.at(NOW).cancel(late, None);
    assert_eq!(client.read(listening).messages()[0]["method"], "notifications/cancelled");
}

#[test]
fn a_request_that_is_given_up_is_cancelled_where_it_was_made() {
    let mut client = SessionClient::at("2025-06-18");
    let (stream, call) = client.call(1);
    let params = ListRootsParams::new();
    let request = OutgoingRequest::new::<ListRoots>(&params, RequestOptions::default());
    let request = client.session.at(NOW).send(Some(call), request).unwrap();
    client.session.at(NOW).cancel(request, Some("never mind"));
    let messages = client.read(stream).messages();
    assert_eq!(messages[1]["params"], json!({"requestId": messages[0]["id"], "reason": "never mind"}));
}

/// S3.23
#[test]
fn a_disconnect_cancels_nothing_and_a_cancellation_does() {
    let mut client = SessionClient::at("2025-06-18");
    let (stream, call) = client.call(1);
    client.session.handle_disconnect(NOW, stream);
    assert!(client.session.poll_event().is_none());
    let (waiting, other) = client.call(2);
    client.post_for_answer(
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}),
    );
    assert!(matches!(client.session.poll_event(), Some(Event::Cancelled { id, .. }) if id == other));
    assert_eq!(client.session.poll_stream(), Some(waiting));
    let whole = client.read(waiting);
    assert_eq!((whole.head.status, whole.body.len(), whole.ended), (202, 0, true));
    client.session.at(NOW).respond(call, Answer::Result(&result()));
    assert_eq!(client.session.poll_stream(), None);
    // Both ids are free again.
    for id in [1, 2] {
        let stream = client.ask(id, "ping", json!({}));
        assert_eq!(client.read(stream).json()["result"], json!({}));
    }
}

#[test]
fn a_stream_that_is_cancelled_ends() {
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
fn a_client_that_takes_json_alone_is_told_nothing_else() {
    let mut client = SessionClient::at("2025-11-25");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "_meta": {"progressToken": 1}}});
    let alone =
        post(&call).with("Accept", "application/json").header("Mcp-Session-Id", client.id.to_string());
    let PostOutcome::Stream(stream) = client.post_request(&alone) else { panic!() };
    let call = expect_request(client.session.poll_event());
    client.session.at(NOW).progress(call, &progress(1));
    client.session.at(NOW).close_sse_stream(call);
    client.advance(Duration::from_secs(100));
    assert!(client.session.poll_head(stream).is_none());
    // A question has to reach somebody all the same.
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
fn a_session_that_was_ended_is_over_for_everybody() {
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
fn closing_lets_requests_finish_for_a_while() {
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

/// Neither while a stream is open nor while a handler works.
#[test]
fn a_session_expires_when_nobody_has_to_do_with_it_for_long() {
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
fn a_session_ends_as_its_driver_does() {
    let mut client = SessionClient::at("2025-11-25");
    let (stream, _) = client.call(1);
    client.session.at(seconds(1)).abort(LostReason::DriverDropped);
    assert_eq!(client.read(stream).json()["error"]["code"], -32603);
}

#[test]
fn the_table_makes_room_for_a_new_session_by_one_that_is_idle() {
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
fn sessions_that_are_not_there_are_answered_under_the_id_of_the_request() {
    let setup = Setup::new(config());
    let posted = post(&json!({"jsonrpc": "2.0", "id": "x", "method": "ping"}))
        .header("Mcp-Session-Id", "ab".repeat(16));
    let posted = posted.post(&setup);
    let (gone, full) = (Http::unknown_session(Some(&posted)), Http::too_many_sessions(Some(&posted)));
    assert_eq!((gone.status, &body(&gone)["id"]), (404, &json!("x")));
    assert_eq!((full.status, &body(&full)["id"]), (503, &json!("x")));
    assert!(full.headers.contains(&("retry-after", "5".into())));
}
