//! The stream of what changes, as an application has it.
#![allow(clippy::unwrap_used, reason = "a test that fails shows where")]

use core::time::Duration;

use crate::front_common::{ClientHarness, WakeCounter, boxed, notification, pending, poll, poll_with, ready};
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

/// Answers the listen that was just asked for by granting all of it.
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
fn a_watch_tells_what_has_changed_and_nobody_else_hears_it() {
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

/// The driver and the one who waits are woken, and no more often than needed.
#[test]
fn whoever_waits_for_a_watch_is_woken() {
    let mut s = ClientHarness::modern();
    s.wakes.take();
    let mut watch = s.client.watch().tools().open().unwrap();
    assert_eq!(s.wakes.take(), 1, "the driver has something to send");
    let (wakes, waker) = WakeCounter::new();
    {
        let mut waiting = boxed(watch.next());
        pending(poll_with(&mut waiting, &waker));
        let id = acknowledge(&mut s);
        assert_eq!(wakes.take(), 1);
        ready(poll_with(&mut waiting, &waker));
        tell(&mut s, &id, "tools/list_changed", json!({}));
        assert_eq!(wakes.take(), 0, "nobody waits");
    }
    let WatchUpdate::Changed { change: Change::Tools, .. } = next(&mut watch) else { panic!() };
}

/// Contract 8: a change that is not taken waits once.
#[test]
fn changes_that_are_not_taken_coalesce() {
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
    // What lies below is as much as the server likes.
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
    s.receive(&[crate::front_common::error(&id, -32603)]);
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

/// C6.4: a graceful end is the end, and says so.
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
    s.receive(&[crate::front_common::error(&id, -32601)]);
    assert!(ready(poll(&mut boxed(refused.next()))).is_none());
    assert!(matches!(refused.outcome(), Some(Err(Error::Peer(_)))), "{refused:?}");

    let mut lost = s.client.watch().prompts().open().unwrap();
    s.end("gone");
    assert!(ready(poll(&mut boxed(lost.next()))).is_none());
    assert!(matches!(lost.outcome(), Some(Err(Error::Closed(_)))));
    assert!(s.client.watch().tools().open().is_err());
}

/// C3.7: on a connection made anew the same is watched, and counts as what may have changed.
#[test]
fn a_watch_is_opened_again_on_another_connection() {
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

/// C6.7: the same for a legacy server, and what is of interest may change.
#[test]
fn a_watch_of_a_legacy_server_subscribes_and_gives_up() {
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
    assert_eq!(events.drain().len(), 1, "a legacy notification belongs to everybody");
    s.receive(&[notification("notifications/resources/updated", json!({"uri": FILE}))]);
    quiet(&mut watch);
}

/// A watch keeps the connection open; with it the last handle is gone.
#[test]
fn a_watch_is_a_handle_of_its_connection() {
    let ClientHarness { client, mut driver, .. } = ClientHarness::modern();
    let watch = client.watch().tools().open().unwrap();
    drop(client);
    assert_eq!(driver.lock(|machine, _| machine.poll_link()), None);
    drop(watch);
    let mut out = Vec::new();
    driver.lock(|machine, _| machine.poll_transmit(&mut out));
    assert_eq!(driver.lock(|machine, _| machine.poll_link()), Some(LinkAction::CloseWrite));
}
