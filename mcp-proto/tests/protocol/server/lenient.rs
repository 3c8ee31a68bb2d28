//! A server whose client deviates from the specification as clients in use do.

use core::time::Duration;

use crate::common::server::{ServerHarness, config, initialize};
use mcp_proto::peer::server::{Diagnostic, Event};
use mcp_proto::peer::{Leniency, Outcome, ProgressOption, RequestOptions, Strictness};
use mcp_proto::schema::{EmptyResult, ListRoots, Ping};
use serde_json::{Value, json};

fn strict() -> ServerHarness {
    let mut config = config();
    config.strictness = Strictness::Strict;
    ServerHarness::new(config)
}

fn handshake(mut s: ServerHarness) -> ServerHarness {
    s.request_with_id(1, "initialize", initialize("2025-11-25"));
    s.line();
    s.notify("notifications/initialized", json!({}));
    s.events();
    s
}

/// The events since the last call: tolerated deviations and outcomes.
fn take_reports(s: &mut ServerHarness) -> (Vec<Leniency>, Vec<Outcome>) {
    let (mut tolerated, mut outcomes) = (Vec::new(), Vec::new());
    for event in s.events() {
        match event {
            Event::Diagnostic(Diagnostic::Tolerated(leniency)) => tolerated.push(leniency),
            Event::Outcome { outcome, .. } => outcomes.push(outcome),
            _ => {}
        }
    }
    (tolerated, outcomes)
}

fn answer(s: &mut ServerHarness, id: &str, outcome: &str) {
    s.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#));
}

#[test]
fn server_takes_the_decimal_string_and_the_float_of_its_id() {
    for form in ["\"ID\"", "ID.0"] {
        for lenient in [true, false] {
            let mut s = handshake(if lenient { ServerHarness::new(config()) } else { strict() });
            s.server.at(s.now).request::<ListRoots>(&Default::default(), RequestOptions::default()).unwrap();
            let id = s.line()["id"].to_string();
            answer(&mut s, &form.replace("ID", &id), r#""result":{"roots":[]}"#);
            let (tolerated, outcomes) = take_reports(&mut s);
            assert_eq!(
                (tolerated.len(), outcomes.len()),
                (usize::from(lenient), usize::from(lenient)),
                "{form}"
            );
        }
    }
}

#[test]
fn server_keeps_the_message_of_a_malformed_error() {
    let mut s = handshake(ServerHarness::new(config()));
    s.server.at(s.now).request::<ListRoots>(&Default::default(), RequestOptions::default()).unwrap();
    let id = s.line()["id"].to_string();
    answer(&mut s, &id, r#""error":"no roots here""#);
    let (tolerated, outcomes) = take_reports(&mut s);
    let ([Leniency::Response(_)], [Outcome::Error(error)]) = (&tolerated[..], &outcomes[..]) else {
        panic!("{tolerated:?} {outcomes:?}")
    };
    assert_eq!(error.to_string(), "no roots here");

    let mut s = handshake(strict());
    s.server.at(s.now).request::<ListRoots>(&Default::default(), RequestOptions::default()).unwrap();
    let id = s.line()["id"].to_string();
    answer(&mut s, &id, r#""error":"no roots here""#);
    assert!(matches!(take_reports(&mut s).1[..], [Outcome::Invalid(_)]));
}

/// S1.12
#[test]
fn server_takes_a_notification_with_the_id_null() {
    let text = r#"{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}"#;
    for lenient in [true, false] {
        let mut s = if lenient { ServerHarness::new(config()) } else { strict() };
        s.request_with_id(1, "initialize", initialize("2025-11-25"));
        s.line();
        s.send(text);
        let events = s.events();
        let initialized = events.iter().any(|event| matches!(event, Event::Initialized));
        let tolerated = events.iter().any(|event| {
            matches!(event, Event::Diagnostic(Diagnostic::Tolerated(Leniency::Notification(_))))
        });
        assert_eq!((initialized, tolerated), (lenient, lenient), "{events:?}");
        if !lenient {
            assert_eq!(s.line()["error"]["code"], -32600);
        }
    }
}

#[test]
fn log_line_with_the_id_of_a_request_does_not_end_the_request_of_the_server() {
    let mut s = handshake(ServerHarness::new(config()));
    s.server.at(s.now).request::<ListRoots>(&Default::default(), RequestOptions::default()).unwrap();
    let id = s.line()["id"].to_string();
    s.send(&format!(r#"{{"level":"info","id":{id}}}"#));
    assert!(take_reports(&mut s).1.is_empty());
}

#[test]
fn outcome_of_a_timeout_quotes_the_error_without_id() {
    let mut s = handshake(ServerHarness::new(config()));
    s.server.at(s.now).request::<ListRoots>(&Default::default(), RequestOptions::default()).unwrap();
    assert_eq!(s.line()["method"], "roots/list");
    s.send(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#);
    s.advance(Duration::from_secs(600));
    let (_, outcomes) = take_reports(&mut s);
    let [Outcome::TimedOut { error_without_id: Some(error), .. }] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(error.message, "what?");
}

#[test]
fn server_takes_a_null_result_of_ping_as_an_empty_object() {
    let mut s = handshake(ServerHarness::new(config()));
    s.server.at(s.now).request::<Ping>(&Default::default(), RequestOptions::default()).unwrap();
    let id = s.line()["id"].to_string();
    answer(&mut s, &id, r#""result":null"#);
    let (tolerated, mut outcomes) = take_reports(&mut s);
    assert_eq!(tolerated, [Leniency::NullResult { method: "ping" }]);
    assert_eq!(outcomes.remove(0).decode::<Ping>().unwrap(), EmptyResult::new());
}

#[test]
fn server_takes_progress_whose_token_became_a_string() {
    let mut s = handshake(ServerHarness::new(config()));
    s.server
        .at(s.now)
        .request::<ListRoots>(&Default::default(), RequestOptions::default().progress(ProgressOption::Always))
        .unwrap();
    let token = s.line()["params"]["_meta"]["progressToken"].to_string();
    s.notify("notifications/progress", json!({"progressToken": token, "progress": 1}));
    let events = s.events();
    assert!(events.iter().any(|event| matches!(event, Event::Progress { .. })), "{events:?}");
}

/// S1.17
#[test]
fn server_completes_the_client_info_that_lacks_members() {
    for (info, name, version) in [
        (json!({}), "unknown", "unknown"),
        (json!({"name": "c"}), "c", "unknown"),
        (json!({"version": "2", "title": "C"}), "unknown", "2"),
        (Value::Null, "unknown", "unknown"),
    ] {
        let mut params = initialize("2025-06-18");
        params["clientInfo"] = info;
        let mut s = ServerHarness::new(config());
        s.request_with_id(1, "initialize", params.clone());
        assert_eq!(s.line()["result"]["protocolVersion"], "2025-06-18");
        assert_eq!(take_reports(&mut s).0, [Leniency::ClientInfo]);
        let info = &s.server.peer().session().unwrap().info;
        assert_eq!((&*info.name, &*info.version), (name, version));

        let mut s = strict();
        s.request_with_id(1, "initialize", params);
        assert_eq!(s.code(), -32602);
    }
    let mut absent = initialize("2025-06-18");
    absent.as_object_mut().unwrap().remove("clientInfo");
    let mut s = ServerHarness::new(config());
    s.request_with_id(1, "initialize", absent);
    assert!(s.line()["result"].is_object());
}

#[test]
fn server_refuses_client_info_of_the_wrong_type() {
    for info in [json!("c"), json!({"name": 7}), json!({"name": 7, "version": "1"}), json!([])] {
        let mut params = initialize("2025-06-18");
        params["clientInfo"] = info.clone();
        let mut s = ServerHarness::new(config());
        s.request_with_id(1, "initialize", params);
        assert_eq!(s.code(), -32602, "{info}");
    }
    let mut params = initialize("2025-06-18");
    params["clientInfo"] = json!({});
    params["protocolVersion"] = json!(7);
    let mut s = ServerHarness::new(config());
    s.request_with_id(1, "initialize", params);
    assert_eq!(s.code(), -32602);
}
