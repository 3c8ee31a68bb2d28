//! The handshake, batches, and how a connection ends.

use core::time::Duration;

use mcp_proto::peer::server::{Answer, CloseReason, Eras, Event, ListKind};
use serde_json::{Value, json};

use crate::common::server::{ServerHarness, config, initialize, tools};

#[derive(Clone, Copy, Debug)]
enum Step {
    Initialize,
    Initialized,
    Request,
}

/// The phase of the session as the server reports it.
fn phase(s: &ServerHarness) -> &'static str {
    match s.server.peer().session() {
        None => "none",
        Some(session) if session.initialized => "operating",
        Some(_) => "awaiting",
    }
}

/// The table at the head of `session.rs`, row by row: the message, its response, the next phase.
#[test]
fn a_session_goes_through_its_phases() {
    use Step::{Initialize, Initialized, Request};
    let table: &[(&[Step], Step, &str, &str)] = &[
        (&[], Initialize, "result", "awaiting"),
        (&[], Initialized, "nothing", "none"),
        (&[], Request, "error", "none"),
        (&[Initialize], Initialize, "result", "awaiting"),
        (&[Initialize], Initialized, "nothing", "operating"),
        (&[Initialize], Request, "request", "awaiting"),
        (&[Initialize, Initialized], Initialize, "result", "awaiting"),
        (&[Initialize, Initialized], Initialized, "nothing", "operating"),
        (&[Initialize, Initialized], Request, "request", "operating"),
    ];
    for (before, comes, answer, follows) in table {
        let mut s = ServerHarness::new(config());
        let take = |s: &mut ServerHarness, step| {
            match step {
                Initialize => s.request_with_id(1, "initialize", initialize("2025-06-18")),
                Initialized => s.notify("notifications/initialized", json!({})),
                Request => s.request_with_id(2, "tools/list", json!({})),
            }
            let asked = s.events().into_iter().any(|event| matches!(event, Event::Request { .. }));
            match s.try_line() {
                Some(line) if line["error"].is_object() => "error",
                Some(_) => "result",
                None if asked => "request",
                None => "nothing",
            }
        };
        for step in *before {
            take(&mut s, *step);
        }
        assert_eq!((take(&mut s, *comes), phase(&s)), (*answer, *follows), "{before:?} {comes:?}");
    }
}

#[test]
fn a_legacy_only_server_has_no_modern_methods_before_the_handshake_either() {
    let mut config = config();
    config.eras = Eras::LegacyOnly;
    let mut s = ServerHarness::new(config);
    s.modern(1, "server/discover", json!({}));
    assert_eq!(s.code(), -32601);
    s.modern(2, "tools/list", json!({}));
    let code = s.code();
    assert!(code == -32600 || code == -32602, "{code}");
}

/// S1.11
#[test]
fn parameters_are_an_object_of_valid_json() {
    let mut s = ServerHarness::new(config());
    // The first element does not count as a named member.
    let positional = json!([crate::common::messages::request_meta()]);
    s.request_with_id(1, "server/discover", positional);
    assert_eq!(s.code(), -32602);
    s.send(r#"{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{"a":tru}}"#);
    let line = s.line();
    assert_eq!((&line["id"], &line["error"]["code"]), (&json!(2), &json!(-32700)), "{line}");
}

// --- Batches ---

fn request(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// R1
#[test]
fn server_refuses_a_modern_request_in_a_batch() {
    let mut s = ServerHarness::legacy_at("2025-03-26");
    let modern = request(2, "tools/list", json!({"_meta": crate::common::messages::request_meta()}));
    let batch = json!([request(1, "ping", json!({})), modern]);
    s.send(&batch.to_string());
    let line = s.line();
    assert_eq!((&line[0]["result"], &line[1]["error"]["code"]), (&json!({}), &json!(-32600)), "{line}");
}

/// R1
#[test]
fn closing_server_answers_a_batch_in_full() {
    let mut s = ServerHarness::legacy_at("2025-03-26");
    s.request_with_id(9, "tools/list", json!({}));
    s.request();
    s.server.at(s.now).close();
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    let batch = json!([request(1, "tools/list", json!({})), cancelled, request(2, "tools/list", json!({}))]);
    s.send(&batch.to_string());
    let line = s.line();
    assert_eq!(
        (&line[0]["error"]["code"], &line[1]["error"]["code"]),
        (&json!(-32603), &json!(-32603)),
        "{line}"
    );
    assert!(s.server.is_closed());
}

/// R1
#[test]
fn batch_may_mix_invalid_messages_requests_and_notifications() {
    let mut s = ServerHarness::legacy_at("2025-03-26");
    s.send(
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},5,{"jsonrpc":"2.0","method":"notifications/nonsense"},
            {"jsonrpc":"2.0","id":2,"method":7},{"jsonrpc":"2.0","id":3,"result":{}},
            {"jsonrpc":"2.0","id":4,"method":"tools/list"}]"#
            .replace('\n', " ")
            .as_str(),
    );
    s.expect_silence();
    let asked = s.request();
    s.server.at(s.now).respond(asked, Answer::Result(&tools()));
    let line = s.line();
    let ids: Vec<_> = line.as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [json!(1), Value::Null, json!(2), json!(4)]);
    s.expect_silence();
}

// --- The end ---

/// R1, contract 9
#[test]
fn unreadable_response_in_a_batch_ends_its_request() {
    let mut s = ServerHarness::legacy_at("2025-03-26");
    let options = mcp_proto::peer::RequestOptions::default();
    s.server.at(s.now).request::<mcp_proto::schema::Ping>(&Default::default(), options).unwrap();
    let id = s.line()["id"].clone();
    s.send(
        &json!([{"jsonrpc": "2.0", "id": id, "result": {}, "error": {"code": 1, "message": "m"}}])
            .to_string(),
    );
    s.expect_silence();
    let invalid =
        |event: &Event| matches!(event, Event::Outcome { outcome: mcp_proto::peer::Outcome::Invalid(_), .. });
    assert!(s.events().iter().any(invalid));
}

fn closed(s: &mut ServerHarness) -> Option<CloseReason> {
    let closed = |event| if let Event::Closed(closed) = event { Some(closed) } else { None };
    s.events().into_iter().find_map(closed)
}

/// S1.1, S1.11
#[test]
fn closed_server_answers_unanswered_requests_with_an_error() {
    for closing in [true, false] {
        let mut s = ServerHarness::new(config());
        s.modern(1, "tools/list", json!({}));
        let asked = s.request();
        if closing {
            s.server.at(s.now).close();
        } else {
            s.server.handle_eof(s.now, "");
        }
        s.expect_silence();
        s.advance(Duration::from_secs(60));
        let line = s.line();
        assert_eq!((&line["id"], &line["error"]["code"]), (&json!(1), &json!(-32603)));
        assert!(closed(&mut s).is_some());
        s.server.at(s.now).respond(asked, Answer::Result(&tools()));
        s.expect_silence();
    }
}

#[test]
fn server_answers_nothing_after_the_connection_ended() {
    let mut s = ServerHarness::new(config());
    s.server.at(s.now).close();
    assert_eq!(closed(&mut s), Some(CloseReason::Done));
    s.modern(1, "tools/list", json!({}));
    s.send("nonsense");
    s.server.handle_timeout(s.now);
    s.expect_silence();
    assert!(s.events().is_empty());
}

/// S1.18, S5.7: a change between the two halves of the handshake is reported after the second.
#[test]
fn server_reports_a_change_during_the_handshake_after_it() {
    let mut s = ServerHarness::new(config());
    s.request_with_id(1, "initialize", initialize("2025-11-25"));
    s.line();
    let now = s.now;
    s.server.at(now).list_changed(ListKind::Tools);
    s.server.at(now).list_changed(ListKind::Tools);
    s.expect_silence();
    assert_eq!(s.server.poll_timeout(), None);
    s.notify("notifications/initialized", json!({}));
    assert_eq!(s.line()["method"], "notifications/tools/list_changed");
    s.expect_silence();
}
