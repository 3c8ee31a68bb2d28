//! Watches as an application uses them: a stream of changes.
#![allow(clippy::unwrap_used, reason = "a test that fails shows where")]

use core::time::Duration;

use crate::common::front::ClientHarness;
use crate::common::messages::notification;
use crate::common::polling::{WakeCounter, boxed, pending, poll, poll_with, ready};
use mcp_proto::front::{Error, Watch, WatchUpdate};
use mcp_proto::peer::client::{Change, ChangeEvidence, LinkAction, WatchFilter};
use serde_json::{Value, json};

const FILE: &str = "file:///project/config.json";

#[track_caller]
fn next(watch: &mut Watch) -> WatchUpdate {
    ready(poll(&mut boxed(watch.next()))).expect("the watch has ended")
}

#[track_caller]
fn quiet(watch: &mut Watch) {
    pending(poll(&mut boxed(watch.next())));
}

/// Answers the pending listen request by granting all of it.
#[track_caller]
fn acknowledge(s: &mut ClientHarness) -> Value {
    let line = s.line();
    assert_eq!(line["method"], "subscriptions/listen", "{line}");
    let filter = line["params"]["notifications"].clone();
    tell(s, &line["id"], "subscriptions/acknowledged", json!({"notifications": filter}));
    line["id"].clone()
}

fn tell(s: &mut ClientHarness, id: &Value, what: &str, mut params: Value) {
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
    s.receive(&[notification(&format!("notifications/{what}"), params)]);
}

/// C6.1, C6.2: watches and low-level subscriptions do not disturb each other.
#[test]
fn watch_reports_its_changes_and_no_other_stream_does() {
    let mut s = ClientHarness::modern();
    let mut events = s.client.events();
    let mut watch = s.client.watch().tools().resource(FILE).open().unwrap();
    let id = acknowledge(&mut s);
    let other = s.client.listen(mcp_proto::schema::SubscriptionFilter::new()).unwrap();
    s.expect("subscriptions/listen");
    let WatchUpdate::Active { missing } = next(&mut watch) else { panic!() };
    assert!(missing.is_empty());
    quiet(&mut watch);
    tell(&mut s, &id, "resources/updated", json!({"uri": FILE}));
    let WatchUpdate::Changed { change: Change::Resource(uri), evidence: ChangeEvidence::Notified } =
        next(&mut watch)
    else {
        panic!()
    };
    assert_eq!(uri, FILE);
    quiet(&mut watch);
    assert!(events.drain().is_empty());
    drop(other);
    assert_eq!(s.expect("notifications/cancelled"), Value::Null);
    drop(watch);
    assert_eq!(s.line()["params"]["requestId"], id, "C6.6");
}

/// The driver and the waiting future are woken, and no more often than needed.
#[test]
fn watch_wakes_its_waiting_future() {
    let mut s = ClientHarness::modern();
    s.wakes.take();
    let mut watch = s.client.watch().tools().open().unwrap();
    assert_eq!(s.wakes.take(), 1, "the driver has output to send");
    let (wakes, waker) = WakeCounter::new();
    {
        let mut waiting = boxed(watch.next());
        pending(poll_with(&mut waiting, &waker));
        let id = acknowledge(&mut s);
        assert_eq!(wakes.take(), 1);
        ready(poll_with(&mut waiting, &waker));
        tell(&mut s, &id, "tools/list_changed", json!({}));
        assert_eq!(wakes.take(), 0, "no future waits");
    }
    let WatchUpdate::Changed { change: Change::Tools, .. } = next(&mut watch) else { panic!() };
}

/// Contract 8: an unread change is queued once.
#[test]
fn unread_changes_coalesce() {
    let mut s = ClientHarness::modern();
    let mut watch = s.client.watch().tools().resource(FILE).open().unwrap();
    let id = acknowledge(&mut s);
    next(&mut watch);
    for _ in 0..2000 {
        tell(&mut s, &id, "tools/list_changed", json!({}));
        tell(&mut s, &id, "resources/updated", json!({"uri": FILE}));
    }
    assert!(matches!(next(&mut watch), WatchUpdate::Changed { change: Change::Tools, .. }));
    assert!(matches!(next(&mut watch), WatchUpdate::Changed { change: Change::Resource(_), .. }));
    quiet(&mut watch);
    // The server can name any number of resources below it.
    for number in 0..2000 {
        tell(&mut s, &id, "resources/updated", json!({"uri": format!("{FILE}#{number}")}));
    }
    let WatchUpdate::Missed { count } = next(&mut watch) else { panic!() };
    assert_eq!(count, 2000 - 1024);
}

/// C6.4, C6.5
#[test]
fn a_watch_survives_the_loss_of_its_subscription() {
    let mut s = ClientHarness::modern();
    let mut watch = s.client.watch().tools().open().unwrap();
    let id = acknowledge(&mut s);
    s.receive(&[crate::common::messages::error(&id, -32603)]);
    assert!(matches!(next(&mut watch), WatchUpdate::Active { .. }));
    assert!(matches!(next(&mut watch), WatchUpdate::Interrupted));
    quiet(&mut watch);
    s.advance(Duration::from_secs(1));
    acknowledge(&mut s);
    assert!(matches!(next(&mut watch), WatchUpdate::Active { .. }));
    assert!(matches!(
        next(&mut watch),
        WatchUpdate::Changed { change: Change::Tools, evidence: ChangeEvidence::MaybeMissed }
    ));
    quiet(&mut watch);
}

/// C6.4: a graceful end ends the watch, which reports so.
#[test]
fn a_watch_ends_with_the_server_or_the_connection() {
    let mut s = ClientHarness::modern();
    let mut watch = s.client.watch().tools().open().unwrap();
    let id = acknowledge(&mut s);
    s.answer(&id, json!({"resultType": "complete"}));
    assert!(matches!(next(&mut watch), WatchUpdate::Active { .. }));
    assert!(watch.outcome().is_none());
    assert!(ready(poll(&mut boxed(watch.next()))).is_none());
    assert!(watch.outcome().unwrap().is_ok());
    assert!(watch.outcome().is_none() && ready(poll(&mut boxed(watch.next()))).is_none());

    let mut refused = s.client.watch().prompts().open().unwrap();
    let id = s.expect("subscriptions/listen");
    s.receive(&[crate::common::messages::error(&id, -32601)]);
    assert!(ready(poll(&mut boxed(refused.next()))).is_none());
    assert!(matches!(refused.outcome(), Some(Err(Error::Peer(_)))), "{refused:?}");

    let mut lost = s.client.watch().prompts().open().unwrap();
    s.end("gone");
    assert!(ready(poll(&mut boxed(lost.next()))).is_none());
    assert!(matches!(lost.outcome(), Some(Err(Error::Closed(_)))));
    assert!(s.client.watch().tools().open().is_err());
}

/// C3.7: a new connection watches the same, and everything counts as changed.
#[test]
fn client_opens_a_watch_again_on_another_connection() {
    let mut s = ClientHarness::modern();
    let watch = s.client.watch().tools().open().unwrap();
    acknowledge(&mut s);
    s.end("gone");
    let mut next_one = ClientHarness::modern();
    let mut again = watch.reopen(&next_one.client).unwrap();
    acknowledge(&mut next_one);
    assert_eq!(again.filter(), &WatchFilter::new().tools());
    assert!(matches!(next(&mut again), WatchUpdate::Active { .. }));
    assert!(matches!(
        next(&mut again),
        WatchUpdate::Changed { change: Change::Tools, evidence: ChangeEvidence::MaybeMissed }
    ));
}

/// C6.7, F101: the same for a legacy server, and the filter may change.
#[test]
fn watch_of_a_legacy_server_subscribes_and_unsubscribes() {
    let mut s = ClientHarness::legacy();
    let mut watch = s.client.watch().resource(FILE).open().unwrap();
    let id = s.expect("resources/subscribe");
    s.answer(&id, json!({}));
    assert!(matches!(next(&mut watch), WatchUpdate::Active { .. }));
    watch.set_filter(WatchFilter::new().tools());
    assert_eq!(s.line()["method"], "resources/unsubscribe");
    assert!(matches!(next(&mut watch), WatchUpdate::Active { .. }));
    let mut events = s.client.events();
    s.receive(&[notification("notifications/tools/list_changed", json!({}))]);
    assert!(matches!(next(&mut watch), WatchUpdate::Changed { change: Change::Tools, .. }));
    assert_eq!(events.drain().len(), 1, "a legacy notification reaches every event stream");
    s.receive(&[notification("notifications/resources/updated", json!({"uri": FILE}))]);
    quiet(&mut watch);
}

/// A watch keeps the connection open; dropping it drops the last handle.
#[test]
fn watch_is_a_handle_of_its_connection() {
    let ClientHarness { client, mut driver, .. } = ClientHarness::modern();
    let watch = client.watch().tools().open().unwrap();
    drop(client);
    assert_eq!(driver.lock(|machine, _| machine.poll_link()), None);
    drop(watch);
    let mut out = Vec::new();
    driver.lock(|machine, _| machine.poll_transmit(&mut out));
    assert_eq!(driver.lock(|machine, _| machine.poll_link()), Some(LinkAction::CloseWrite));
}
