//! A client whose server violates the protocol: it reports or survives each sequence, and loses no request.

use core::time::Duration;

use crate::common::client::{ClientHarness, config};
use crate::common::messages::{LEGACY, MODERN, discover_result, initialize_result};
use mcp_proto::Limits;
use mcp_proto::peer::client::{ClientConfig, Diagnostic, EraPolicy, Event, Keepalive, LinkAction, State};
use mcp_proto::peer::{LostReason, Outcome, RequestError, RequestId, RequestOptions};
use mcp_proto::schema::{Era, ListRoots, ListTools};
use serde_json::{Value, json};

fn list(s: &mut ClientHarness) -> RequestId {
    s.client.at(s.now).request::<ListTools>(&Default::default(), RequestOptions::default()).unwrap()
}

fn unknown_answers(events: &[Event]) -> usize {
    let unknown = |event: &&Event| matches!(event, Event::Diagnostic(Diagnostic::UnknownAnswer(_)));
    events.iter().filter(unknown).count()
}

/// Contract 9
#[test]
fn a_probe_that_is_answered_twice_counts_once() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.answer(&id, discover_result());
    s.answer(&id, discover_result());
    s.answer_error(&id, -32601, None);
    assert_eq!(s.client.peer().server().unwrap().era, Era::Modern);
    s.expect_silence();
}

/// Contract 9
#[test]
fn a_probe_answered_with_a_result_and_an_error_leads_to_the_handshake() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.send(&json!({"jsonrpc": "2.0", "id": id, "result": discover_result(), "error": {"code": 1, "message": "m"}}));
    let id = s.expect("initialize");
    s.send(&json!({"jsonrpc": "2.0", "id": id, "result": {}, "error": {"code": 1, "message": "m"}}));
    assert!(s.client.is_closed());
    assert_eq!(s.take_events().into_iter().filter(|event| matches!(event, Event::Closed(_))).count(), 1);
}

/// C1.1, contract 9
#[test]
fn client_does_not_match_ids_that_look_alike() {
    let mut s = ClientHarness::modern(config());
    let request = list(&mut s);
    let id = s.expect("tools/list");
    let text = id.to_string();
    for other in [json!(format!("0{text}")), json!(-1), json!(i64::MAX), json!(i64::MIN), json!("")] {
        s.answer(&other, json!({"tools": []}));
    }
    s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":{text}.5,"result":{{}}}}"#));
    s.send_text(r#"{"jsonrpc":"2.0","id":99999999999999999999,"result":{}}"#);
    let events = s.take_events();
    assert_eq!(unknown_answers(&events), 5);
    assert!(!events.iter().any(|event| matches!(event, Event::Outcome { .. })));
    s.answer(&id, json!({"tools": []}));
    assert!(matches!(s.outcome(request), Outcome::Result(_)));
}

/// Contract 1: what was never sent cannot have been answered.
#[test]
fn client_ignores_a_response_to_an_unsent_request() {
    let mut s = ClientHarness::open(config());
    let probe = s.expect("server/discover");
    let request = list(&mut s);
    for guess in 0..8 {
        if json!(guess) != probe {
            s.answer(&json!(guess), json!({"protocolVersion": LEGACY}));
            s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":{guess},"result":5,"error":5}}"#));
        }
    }
    let events = s.take_events();
    assert!(!events.iter().any(|event| matches!(event, Event::Outcome { .. })), "{events:?}");
    s.answer(&probe, discover_result());
    let id = s.expect("tools/list");
    s.answer(&id, json!({"tools": []}));
    assert!(matches!(s.outcome(request), Outcome::Result(_)));
}

/// C7.6
#[test]
fn a_server_that_cancels_the_probe_or_the_handshake_changes_nothing() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.notify("notifications/cancelled", json!({"requestId": id}));
    s.answer_error(&id, -32601, None);
    let id = s.expect("initialize");
    s.notify("notifications/cancelled", json!({"requestId": id}));
    s.answer(&id, initialize_result(LEGACY));
    assert_eq!(s.client.state(), State::Ready);
}

/// S6.1: the application does not see a request that the server cancelled before the era was known.
#[test]
fn client_never_delivers_a_request_cancelled_while_held() {
    let mut roots = config();
    roots.capabilities.roots = Some(Default::default());
    let mut s = ClientHarness::open(roots);
    let id = s.expect("server/discover");
    s.send(&json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"}));
    s.notify("notifications/cancelled", json!({"requestId": "r"}));
    s.answer_error(&id, -32601, None);
    let id = s.expect("initialize");
    s.answer(&id, initialize_result(LEGACY));
    s.expect("notifications/initialized");
    assert!(!s.take_events().into_iter().any(|event| matches!(event, Event::Request { .. })));
    s.expect_silence();
}

/// Contract 8
#[test]
fn messages_held_before_the_era_is_known_are_bounded_in_bytes() {
    let mut small = config();
    small.limits = Limits { event_bytes: 10_000, ..Limits::default() };
    let mut s = ClientHarness::open(small);
    s.expect("server/discover");
    for id in 0..20 {
        let request = json!({"jsonrpc": "2.0", "id": format!("r{id}"), "method": "roots/list", "params": {"p": "x".repeat(1000)}});
        s.send(&request);
    }
    let refused = s.line();
    assert_eq!(refused["error"]["code"], -32603);
}

/// Contract 8: each part of a message counts if it is long.
#[test]
fn every_part_of_an_unread_event_counts_towards_the_limit() {
    let long = "x".repeat(1000);
    let messages: [&dyn Fn(&Value) -> Value; 5] = [
        &|_| json!({"jsonrpc": "2.0", "method": long}),
        &|_| json!({"jsonrpc": "2.0", "id": long, "result": {}}),
        &|_| json!({"jsonrpc": "2.0", "error": {"code": 1, "message": long}}),
        &|_| json!({"jsonrpc": "2.0", "id": long, "method": "roots/list"}),
        &|id| {
            json!({"jsonrpc": "2.0", "method": "notifications/progress",
                     "params": {"progressToken": id, "progress": 1, "message": long}})
        },
    ];
    for message in messages {
        let mut small = config();
        small.limits = Limits { event_bytes: 20_000, ..Limits::default() };
        let mut s = ClientHarness::modern(small);
        let params = mcp_proto::schema::CallToolParams::new("t");
        s.client
            .at(s.now)
            .request::<mcp_proto::schema::CallTool>(&params, RequestOptions::default())
            .unwrap();
        let id = s.expect("tools/call");
        for _ in 0..100 {
            s.send(&message(&id));
        }
        let events = s.take_events();
        let (last, before) = events.split_last().unwrap();
        assert!(matches!(last, Event::Diagnostic(Diagnostic::NotificationsDropped { .. })), "{last:?}");
        assert!(before.len() < 20, "{} of {:?}", before.len(), before.first());
    }
}

/// Contract 8
#[test]
fn unread_errors_are_bounded_like_results() {
    let mut small = config();
    small.limits = Limits { event_bytes: 20_000, ..Limits::default() };
    let mut s = ClientHarness::modern(small);
    let requests: Vec<RequestId> = (0..100).map(|_| list(&mut s)).collect();
    for _ in &requests {
        let id = s.expect("tools/list");
        s.answer_error(&id, -32603, Some(json!("x".repeat(1000))));
    }
    let events = s.take_events();
    let lost = |event: &&Event| {
        matches!(event, Event::Outcome { outcome: Outcome::Lost(LostReason::LimitExceeded), .. })
    };
    let kept = |event: &&Event| matches!(event, Event::Outcome { outcome: Outcome::Error(_), .. });
    assert!(events.iter().filter(kept).count() < 20);
    assert!(events.iter().filter(lost).count() > 80);
}

/// Contract 8: a limit of a few events still lets each request end with its result.
#[test]
fn a_small_limit_of_events_leaves_room_for_a_result() {
    let mut small = config();
    small.limits = Limits { events: 3, ..Limits::default() };
    let mut s = ClientHarness::modern(small);
    let request = list(&mut s);
    let id = s.expect("tools/list");
    assert!(s.client.wants_read());
    s.answer(&id, json!({"tools": []}));
    assert!(matches!(s.outcome(request), Outcome::Result(_)));
}

/// C2.14
#[test]
fn client_does_not_send_requests_reserved_for_servers() {
    let mut s = ClientHarness::legacy(config());
    let refused = s.client.at(s.now).request::<ListRoots>(&Default::default(), RequestOptions::default());
    assert!(matches!(refused, Err(RequestError::Revision { .. })), "{refused:?}");
    s.expect_silence();
}

/// Contract 9; C1.18
#[test]
fn client_survives_malformed_metadata_and_tokens() {
    let mut s = ClientHarness::modern(config());
    let request = list(&mut s);
    let id = s.expect("tools/list");
    for token in ["null", "1.5", "{}", "[1]", "99999999999999999999"] {
        let params = format!(r#"{{"progressToken":{token},"progress":1}}"#);
        s.send_text(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#));
    }
    for params in ["null", "[]", r#"{"_meta":5}"#, r#"{"_meta":{},"_meta":{}}"#, r#"{"_meta":null}"#] {
        for method in
            ["notifications/tools/list_changed", "notifications/cancelled", "Benachrichtigung/é\u{1F980}"]
        {
            s.send_text(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
        }
    }
    s.answer(&id, json!({"tools": []}));
    assert!(matches!(s.outcome(request), Outcome::Result(_)));
    s.expect_silence();
}

/// Contract 5: a timeout of zero is a timeout like any other.
#[test]
fn timeouts_of_zero_let_time_advance() {
    let mut hasty = config();
    hasty.close_timeout = Duration::ZERO;
    hasty.keepalive = Some(Keepalive {
        interval: Duration::ZERO,
        timeout: Duration::from_secs(1),
        misses: 2,
        ..Keepalive::PRESET
    });
    let mut s = ClientHarness::legacy(hasty.clone());
    s.advance(Duration::from_secs(10));
    assert!(s.client.is_closed(), "the pings were missed");

    hasty.keepalive = None;
    let mut s = ClientHarness::legacy(hasty.clone());
    list(&mut s);
    s.client.at(s.now).close();
    s.advance(Duration::ZERO);
    assert!(s.client.is_closed());

    hasty.connect.probe = Duration::ZERO;
    hasty.connect.initialize = Duration::ZERO;
    let mut s = ClientHarness::open(hasty);
    s.advance(Duration::ZERO);
    assert!(s.client.is_closed());
}

/// Output queued for the first process is useless to the second.
#[test]
fn client_sends_no_output_of_one_link_on_the_next() {
    let mut reopening = config();
    reopening.can_reopen = true;
    let mut s = ClientHarness::open(reopening);
    s.end("gone before it took the probe");
    assert_eq!(s.client.poll_link(), Some(LinkAction::Open));
    s.expect_silence();
    s.client.handle_open(s.now);
    s.expect("initialize");
    s.expect_silence();
}

/// C1.6: once the sending half is closed, the client writes nothing more.
#[test]
fn a_server_that_asks_after_the_end_of_input_is_not_answered() {
    let mut roots = config();
    roots.capabilities.roots = Some(Default::default());
    let mut s = ClientHarness::legacy(roots);
    s.send(&json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"}));
    let events = s.take_events();
    let asked = events.into_iter().find_map(|event| match event {
        Event::Request { id, .. } => Some(id),
        _ => None,
    });
    s.client.at(s.now).close();
    assert_eq!(s.client.poll_link(), Some(LinkAction::CloseWrite));
    s.send(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    s.client.at(s.now).respond(asked.unwrap(), Ok(&mcp_proto::schema::ListRootsResult::new(Vec::new())));
    s.expect_silence();
}

/// No event follows the end.
#[test]
fn closed_is_the_last_event_whatever_the_batch_still_contains() {
    let mut small: ClientConfig = config();
    small.era_policy = EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(small);
    let id = s.expect("initialize");
    s.send(&json!([{"jsonrpc": "2.0", "id": id, "result": initialize_result(MODERN)}, 5, {"a": 1}]));
    assert!(matches!(s.take_events().last(), Some(Event::Closed(_))));
}

/// A0.1: results and lists are objects and lists, not anything that happens to decode as one.
#[test]
fn array_is_neither_a_discovery_nor_an_initialize_result() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    s.answer(&id, json!(["complete", [MODERN], null, {}, null, null, null]));
    let id = s.expect("initialize");
    s.answer(&id, json!([null, null, LEGACY, {}, null, null, null]));
    assert!(s.client.is_closed());
}
