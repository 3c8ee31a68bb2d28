//! The rate of progress reports, sent and received.

use core::time::Duration;

use crate::common::server::{ServerHarness, config};
use mcp_proto::peer::server::{Answer, Diagnostic, Event};
use mcp_proto::peer::{InboundId, ProgressOption, RequestOptions};
use mcp_proto::schema::{CallToolResult, ListRoots, ProgressParams};
use serde_json::{Value, json};

const MILLISECOND: Duration = Duration::from_millis(1);

fn call(s: &mut ServerHarness, id: i64) -> InboundId {
    s.modern(id, "tools/call", json!({"name": "t", "_meta": {"progressToken": id}}));
    s.request()
}

fn report(s: &mut ServerHarness, request: InboundId, done: u64) -> bool {
    s.server.at(s.now).progress(request, &ProgressParams::new(0, done))
}

/// The values of the reports among the lines, and `null` for an answer.
fn reports(s: &mut ServerHarness) -> Vec<Value> {
    s.lines().into_iter().map(|line| line["params"]["progress"].clone()).collect()
}

/// S6.2
#[test]
fn server_sends_the_first_and_the_last_report_of_a_burst() {
    let mut s = ServerHarness::new(config());
    let request = call(&mut s, 1);
    assert!((1..=1000).all(|done| report(&mut s, request, done)));
    assert_eq!(reports(&mut s), [json!(1)]);
    s.server.at(s.now).respond(request, Answer::Result(&CallToolResult::text("done")));
    assert_eq!(reports(&mut s), [json!(1000), Value::Null]);
    assert_eq!(s.server.poll_timeout(), None);
}

/// S6.2
#[test]
fn server_sends_at_most_fifty_reports_a_second_by_default() {
    let mut s = ServerHarness::new(config());
    let request = call(&mut s, 1);
    for done in 0..1000 {
        report(&mut s, request, done);
        s.advance(MILLISECOND);
    }
    let sent = reports(&mut s);
    assert_eq!(sent.len(), 51, "{sent:?}");
    assert_eq!((&sent[0], &sent[1], &sent[50]), (&json!(0), &json!(19), &json!(999)));
}

/// S6.2: the client sees the last report of a handler that then works without reporting.
#[test]
fn waiting_report_is_sent_without_another_one() {
    let mut s = ServerHarness::new(config());
    let request = call(&mut s, 1);
    report(&mut s, request, 1);
    report(&mut s, request, 2);
    assert_eq!(reports(&mut s), [json!(1)]);
    assert!(!report(&mut s, request, 2), "a report does not exceed the one that waits");
    s.advance(20 * MILLISECOND);
    assert_eq!(reports(&mut s), [json!(2)]);
    s.advance(Duration::from_secs(60));
    s.expect_silence();
}

/// S6.2
#[test]
fn waiting_report_of_a_cancelled_request_is_not_sent() {
    let mut s = ServerHarness::new(config());
    let request = call(&mut s, 1);
    report(&mut s, request, 1);
    report(&mut s, request, 2);
    s.notify("notifications/cancelled", json!({"requestId": 1}));
    assert_eq!(reports(&mut s), [json!(1)]);
    s.advance(Duration::from_secs(1));
    s.expect_silence();
    assert_eq!(s.server.poll_timeout(), None);
}

#[test]
fn requests_have_rates_of_their_own() {
    let mut s = ServerHarness::new(config());
    let (first, second) = (call(&mut s, 1), call(&mut s, 2));
    for done in 1..=2 {
        report(&mut s, first, done);
        report(&mut s, second, 10 * done);
    }
    assert_eq!(reports(&mut s), [json!(1), json!(10)]);
    s.advance(20 * MILLISECOND);
    assert_eq!(reports(&mut s), [json!(2), json!(20)]);
}

#[test]
fn closing_server_sends_the_last_report_before_its_error() {
    let mut config = config();
    config.limits.progress_out = 0;
    let mut s = ServerHarness::new(config);
    let request = call(&mut s, 1);
    report(&mut s, request, 1);
    s.server.at(s.now).close();
    report(&mut s, request, 2);
    s.advance(Duration::from_secs(2));
    assert_eq!(reports(&mut s), [json!(1), json!(2), Value::Null]);
}

#[test]
fn rate_of_reports_can_be_set_and_switched_off() {
    let sent_of_ten = |per_second: u32| {
        let mut config = config();
        config.limits.progress_out = per_second;
        let mut s = ServerHarness::new(config);
        let request = call(&mut s, 1);
        for done in 0..10 {
            report(&mut s, request, done);
            s.advance(Duration::from_millis(100));
        }
        reports(&mut s).len()
    };
    assert_eq!((sent_of_ten(0), sent_of_ten(1), sent_of_ten(5)), (1, 2, 6));
    assert_eq!((sent_of_ten(10), sent_of_ten(u32::MAX)), (10, 10));
    let mut config = config();
    config.limits.progress_out = u32::MAX;
    let mut s = ServerHarness::new(config);
    let request = call(&mut s, 1);
    (0..100).for_each(|done| assert!(report(&mut s, request, done)));
    assert_eq!(reports(&mut s).len(), 100);
}

/// C7.9, S6.2
#[test]
fn server_bounds_the_reports_of_its_client() {
    let mut s = ServerHarness::legacy_with(config(), "2025-11-25", json!({"roots": {}}));
    let options = RequestOptions::default().progress(ProgressOption::Always);
    s.server.at(s.now).request::<ListRoots>(&Default::default(), options).unwrap();
    let id = s.line()["id"].clone();
    for done in 0..1000 {
        s.notify("notifications/progress", json!({"progressToken": id, "progress": done}));
    }
    s.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"roots": []}}).to_string());
    let events = s.events();
    let passed = events.iter().filter(|event| matches!(event, Event::Progress { .. })).count();
    assert_eq!(passed, 101);
    let [.., Event::Progress { params, .. }, Event::Diagnostic(skipped), Event::Outcome { .. }] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(params.progress.as_i64(), Some(999));
    assert!(matches!(skipped, Diagnostic::ProgressSkipped { count: 899, .. }), "{skipped:?}");
}
