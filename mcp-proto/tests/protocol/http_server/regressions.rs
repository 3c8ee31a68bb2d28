//! An HTTP server where accepted requests, versions and polls meet in unusual orders.

use crate::common::http_server::{NOW, SessionClient, expect_request, modern, post, read, result, setup};
use crate::common::messages::{MODERN, request_meta};
use mcp_proto::peer::LostReason;
use mcp_proto::peer::server::Answer;
use mcp_proto::peer::server::ServerTransport as _;
use mcp_proto::transport::http::server::{BodyKind, Chunk};
use serde_json::{Value, json};

fn call(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}})
}

/// S1.1, S3.20: 404 says that the server did not accept a request, and a client sends it again in a new session. A
/// request whose handler has started is answered by an error instead, whichever side ends the session.
#[test]
fn server_never_answers_an_accepted_request_as_unaccepted() {
    for by_the_client in [true, false] {
        let mut client = SessionClient::at("2025-11-25");
        let (waiting, _) = client.call(1);
        let (begun, other) = client.call(2);
        let params = serde_json::from_value(json!({"progressToken": "p", "progress": 1})).unwrap();
        assert!(client.session.at(NOW).progress(other, &params));
        if by_the_client {
            assert_eq!(client.session.delete(NOW).status, 200);
        } else {
            client.session.at(NOW).abort(LostReason::DriverDropped);
        }
        let whole = client.read(waiting);
        assert_eq!(whole.head.status, 200);
        assert_eq!((&whole.json()["id"], &whole.json()["error"]["code"]), (&json!(1), &json!(-32603)));
        let whole = client.read(begun);
        assert!(whole.ended);
        let last = whole.messages().pop().unwrap();
        assert_eq!((&last["id"], &last["error"]["code"]), (&json!(2), &json!(-32603)));
        assert_eq!(client.post_for_answer(call(3)).status, 404);
    }
}

/// R1: responses of an array that exist already are not lost with the session.
#[test]
fn array_keeps_its_responses_when_the_session_ends() {
    let mut client = SessionClient::at("2025-03-26");
    let stream = client.stream(json!([call(1), call(2)]));
    let first = expect_request(client.session.poll_event());
    client.session.at(NOW).respond(first, Answer::Result(&result()));
    client.session.delete(NOW);
    let answers = client.read(stream).json();
    assert_eq!((&answers[0]["id"], &answers[0]["result"]["content"][0]["text"]), (&json!(1), &json!("done")));
    assert_eq!((&answers[1]["id"], &answers[1]["error"]["code"]), (&json!(2), &json!(-32603)));
    assert_eq!(answers.as_array().unwrap().len(), 2);
}

/// S3.6, S3.12
#[test]
fn server_refuses_a_notification_of_an_unsupported_version() {
    let setup = setup();
    for version in ["2099-01-01", "2025-11-25", ""] {
        let mut meta = request_meta();
        meta["io.modelcontextprotocol/protocolVersion"] = version.into();
        let asked = post(&json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": meta}}))
            .header("MCP-Protocol-Version", version);
        assert_eq!(asked.expect_refusal(&setup), (400, -32022), "{version}");
        let answer: Value = serde_json::from_slice(&asked.answer(&setup).body).unwrap();
        assert_eq!(answer["error"]["data"], json!({"supported": [MODERN], "requested": version}));
        assert!(answer.get("id").is_none_or(Value::is_null));
    }
}

/// The polls of an exchange do not depend on their order.
#[test]
fn head_has_the_length_of_a_body_that_was_polled_first() {
    let setup = setup();
    let whole = read(&mut modern(1, "server/discover", Value::Null).exchange(&setup));
    let mut exchange = modern(1, "server/discover", Value::Null).exchange(&setup);
    assert_eq!(exchange.poll_body(), Chunk::Bytes(whole.body.clone()));
    let head = exchange.poll_head().unwrap();
    assert_eq!((head.body, head.status), (BodyKind::Sized(whole.body.len()), 200));
}
