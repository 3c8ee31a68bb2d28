//! The rate of progress reports that reach the application.

use core::time::Duration;

use crate::common::client::{ClientHarness, config};
use mcp_proto::peer::client::{Diagnostic, Event};
use mcp_proto::peer::{RequestId, RequestOptions};
use mcp_proto::schema::{CallTool, CallToolParams};
use serde_json::{Value, json};

fn call(s: &mut ClientHarness) -> (RequestId, Value) {
    let options = RequestOptions::default();
    let request = s.client.at(s.now).request::<CallTool>(&CallToolParams::new("slow"), options).unwrap();
    let id = s.expect("tools/call");
    (request, id)
}

fn report(s: &mut ClientHarness, id: &Value, done: u64, message: &str) {
    let params = json!({"progressToken": id, "progress": done, "message": message});
    s.notify("notifications/progress", params);
}

/// The values of the reports among the events.
fn reports(events: &[Event]) -> Vec<i64> {
    let value = |event: &Event| match event {
        Event::Progress { params, .. } => params.progress.as_i64(),
        _ => None,
    };
    events.iter().filter_map(value).collect()
}

/// C7.9
#[test]
fn client_passes_on_a_hundred_reports_a_second_and_the_last() {
    let mut s = ClientHarness::modern(config());
    let (request, id) = call(&mut s);
    (0..5000).for_each(|done| report(&mut s, &id, done, ""));
    s.answer(&id, json!({"content": []}));
    let events = s.take_events();
    let values = reports(&events);
    assert_eq!(values.len(), 101);
    assert_eq!((values[..100].to_vec(), values[100]), ((0..100).collect(), 4999));
    let [.., Event::Progress { .. }, Event::Diagnostic(skipped), Event::Outcome { .. }] = &events[..] else {
        panic!("{events:?}")
    };
    let Diagnostic::ProgressSkipped { request: of, count: 4899 } = skipped else { panic!("{skipped:?}") };
    assert_eq!(*of, request);
}

/// C7.9: a server within the rate loses no report, and none waits.
#[test]
fn client_passes_on_each_report_within_the_rate_at_once() {
    let mut s = ClientHarness::modern(config());
    let (_, id) = call(&mut s);
    for done in 0..500 {
        report(&mut s, &id, done, "");
        assert_eq!(reports(&s.take_events()), [done as i64]);
        s.advance(Duration::from_millis(10));
    }
    s.answer(&id, json!({"content": []}));
    assert!(matches!(s.take_events()[..], [Event::Outcome { .. }]));
}

/// C7.9
#[test]
fn waiting_report_reaches_the_application_at_the_end_of_the_second() {
    let mut config = config();
    config.limits.progress_in = 1;
    let mut s = ClientHarness::modern(config);
    let (_, id) = call(&mut s);
    (0..3).for_each(|done| report(&mut s, &id, done, ""));
    assert_eq!(reports(&s.take_events()), [0]);
    s.advance(Duration::from_millis(999));
    assert!(s.take_events().is_empty());
    s.advance(Duration::from_millis(1));
    assert_eq!(reports(&s.take_events()), [2]);
    s.advance(Duration::from_secs(5));
    assert!(s.take_events().is_empty());
}

/// C7.9: a report that waits still extends the timeout of its request.
#[test]
fn skipped_reports_extend_the_timeout() {
    let mut config = config();
    config.limits.progress_in = 1;
    let mut s = ClientHarness::modern(config);
    let options = RequestOptions::default().timeout(Duration::from_millis(500));
    s.client.at(s.now).request::<CallTool>(&CallToolParams::new("slow"), options).unwrap();
    let id = s.expect("tools/call");
    for done in 0..4 {
        report(&mut s, &id, done, "");
        s.advance(Duration::from_millis(200));
    }
    s.expect_silence();
}

/// Contract 8: waiting reports count against the bytes of queued events.
#[test]
fn waiting_reports_are_bounded_in_bytes() {
    let mut config = config();
    config.limits.progress_in = 1;
    config.limits.event_bytes = 100_000;
    let mut s = ClientHarness::modern(config);
    let message = "x".repeat(10_000);
    let ids: Vec<Value> = (0..20).map(|_| call(&mut s).1).collect();
    for done in 0..2 {
        ids.iter().for_each(|id| report(&mut s, id, done, &message));
        s.take_events();
    }
    s.advance(Duration::from_secs(1));
    let waited = reports(&s.take_events()).len();
    assert!((1..=5).contains(&waited), "{waited} reports of 10 kB waited");
}

#[test]
fn rate_of_received_reports_can_be_switched_off() {
    let mut config = config();
    config.limits.progress_in = u32::MAX;
    let mut s = ClientHarness::modern(config);
    let (_, id) = call(&mut s);
    (0..1000).for_each(|done| report(&mut s, &id, done, ""));
    assert_eq!(reports(&s.take_events()).len(), 1000);
}
