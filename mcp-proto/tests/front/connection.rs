//! The connection behind a client's handle: its end, its wakers, its events and subscriptions.

use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;

use crate::common::front::{ClientHarness, config};
use crate::common::messages::{notification, text};
use crate::common::polling::{TestClock, WakeCounter, boxed, pending, poll, poll_with, ready};
use mcp_proto::adapter::{self, ClientDriver, Clock as _};
use mcp_proto::front::{Client, ClientHandlers, Error, ErrorOrigin, Event, SubscriptionUpdate};
use mcp_proto::peer::client::{CloseReason, Diagnostic, EraPolicy, LinkAction, State};
use mcp_proto::peer::{LostReason, RequestError};
use mcp_proto::schema::{Era, ResourceUpdated, RootsListChanged, SubscriptionFilter, ToolListChanged};
use mcp_proto::transport::StreamClient;
use serde_json::json;

// --- The connection ---

/// F17
#[test]
fn client_waits_for_the_server() {
    let mut s = ClientHarness::open(config(), ClientHandlers::new());
    let (wakes, waker) = WakeCounter::new();
    let client = s.client.clone();
    let mut known = boxed(client.ready());
    pending(poll_with(&mut known, &waker));
    assert_eq!((s.client.state(), s.client.server().is_none()), (State::Connected, true));
    let id = s.expect("server/discover");
    s.answer(
        &id,
        json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0,
            "cacheScope": "private",
        }),
    );
    assert!(wakes.take() > 0);
    assert_eq!(ready(poll(&mut known)).unwrap().era, Era::Modern);
    assert_eq!(s.client.known_era().unwrap().era, Era::Modern);
}

#[test]
fn failed_connection_wakes_all_waiting_futures() {
    let mut config = config();
    config.era_policy = EraPolicy::ModernOnly;
    let mut s = ClientHarness::open(config, ClientHandlers::new());
    let client = s.client.clone();
    let mut known = boxed(client.ready());
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll(&mut known));
    pending(poll(&mut call));
    s.end("exit status 1");
    let told = ready(poll(&mut known)).unwrap_err();
    assert!(matches!(told, Error::Closed(CloseReason::Connect(_))));
    assert!(told.to_string().contains("exit status 1"), "{told}");
    let refused = ready(poll(&mut call)).unwrap_err();
    assert!(refused.is_unsent() && refused.is_disconnect(), "{refused}");
    assert_eq!(refused.origin(), ErrorOrigin::Connection);
}

/// F23, contract 1
#[test]
fn lost_connection_ends_every_request() {
    let mut s = ClientHarness::modern();
    let (wakes, waker) = WakeCounter::new();
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll_with(&mut call, &waker));
    s.expect("tools/call");
    s.end("killed");
    assert_eq!(wakes.take(), 1);
    assert!(
        matches!(ready(poll(&mut call)), Err(Error::Lost(LostReason::Disconnected(detail))) if detail == "killed")
    );
    assert!(ready(poll(&mut s.client.call_tool("add", json!({})))).unwrap_err().is_unsent());
}

/// Contract 1
#[test]
fn dropping_the_driver_ends_everything_and_refuses_later_requests() {
    let mut s = ClientHarness::modern();
    let (wakes, waker) = WakeCounter::new();
    let client = s.client.clone();
    let mut events = client.events();
    let mut call = client.call_tool("add", json!({}));
    let mut closed = boxed(client.closed());
    pending(poll_with(&mut call, &waker));
    pending(poll(&mut closed));
    s.expect("tools/call");
    drop(s);
    assert_eq!(wakes.take(), 1);
    assert!(matches!(ready(poll(&mut call)), Err(Error::Lost(LostReason::DriverDropped))));
    assert_eq!(ready(poll(&mut closed)), CloseReason::Lost(LostReason::DriverDropped));
    let later = ready(poll(&mut client.call_tool("add", json!({})))).unwrap_err();
    assert!(matches!(later, Error::Closed(CloseReason::Lost(LostReason::DriverDropped))), "{later}");
    assert!(matches!(
        client.notify::<RootsListChanged>(&Default::default()),
        Err(Error::Closed(CloseReason::Lost(LostReason::DriverDropped)))
    ));
    assert!(matches!(
        events.drain().last(),
        Some(Event::Closed(CloseReason::Lost(LostReason::DriverDropped)))
    ));
    assert_eq!(ready(poll(&mut boxed(client.close()))), CloseReason::Lost(LostReason::DriverDropped));
}

/// Calls that waited for the connection, calls that follow and `ready` report one reason.
#[test]
fn waiting_requests_fail_with_the_reason_of_ready() {
    /// Ends a connection.
    type End = fn(ClientHarness);
    let ends: [(End, &str); 3] = [
        (|mut s| s.end("exit status 1"), "exit status 1"),
        (
            |mut s| {
                s.driver.lock(|machine, now| machine.at(now).abort(LostReason::Failed("no reactor".into())))
            },
            "no reactor",
        ),
        (drop, "the driver of the connection was dropped"),
    ];
    let policies = [EraPolicy::ModernOnly, EraPolicy::LegacyOnly, EraPolicy::Auto];
    for ((end, reason), policy) in ends.into_iter().flat_map(|end| policies.map(|policy| (end, policy))) {
        let mut config = config();
        config.era_policy = policy;
        let s = ClientHarness::open(config, ClientHandlers::new());
        let client = s.client.clone();
        let mut known = boxed(client.ready());
        let mut call = client.call_tool("add", json!({}));
        let task = client.resume_task("task-1");
        let mut status = boxed(task.status());
        pending(poll(&mut known));
        pending(poll(&mut call));
        pending(poll(&mut status));
        end(s);
        let known = ready(poll(&mut known)).unwrap_err();
        assert!(known.to_string().contains(reason), "{known}");
        for error in [
            ready(poll(&mut call)).unwrap_err(),
            ready(poll(&mut status)).unwrap_err(),
            ready(poll(&mut client.call_tool("add", json!({})))).unwrap_err(),
            client.notify::<RootsListChanged>(&Default::default()).unwrap_err(),
            client.watch().open().err().unwrap(),
        ] {
            assert_eq!(format!("{error:?}"), format!("{known:?}"));
            assert!(error.is_unsent() && error.is_disconnect(), "{error}");
        }
    }
}

/// A client whose driver is not polled, with a timer for its calls.
fn unpolled() -> (Client, ClientDriver<StreamClient>, Arc<TestClock>) {
    let clock = Arc::new(TestClock::default());
    let (client, mut driver) =
        adapter::client(StreamClient::new(config()), clock.clone(), ClientHandlers::new());
    let timers = clock.clone();
    driver.set_handle_timer(move |time| {
        let (clock, due) = (timers.clone(), timers.now() + time);
        Box::pin(poll_fn(move |_| if due <= clock.now() { Poll::Ready(()) } else { Poll::Pending }))
    });
    (client, driver, clock)
}

#[test]
fn call_without_a_polled_driver_ends_at_its_timeout_and_names_the_driver() {
    let (client, _driver, clock) = unpolled();
    let mut events = client.events();
    let mut call = client.call_tool("add", json!({})).timeout(Duration::from_secs(10));
    let mut known = boxed(client.ready());
    pending(poll(&mut call));
    pending(poll(&mut known));
    clock.advance(Duration::from_millis(999));
    pending(poll(&mut call));
    assert!(events.drain().is_empty());
    clock.advance(Duration::from_millis(1));
    pending(poll(&mut call));
    pending(poll(&mut known));
    let reports = events.drain();
    assert!(matches!(reports[..], [Event::Diagnostic(Diagnostic::DriverNotPolled)]), "{reports:?}");
    clock.advance(Duration::from_secs(9));
    let refused = ready(poll(&mut call)).unwrap_err();
    assert!(refused.is_timeout() && refused.is_unsent(), "{refused:?}");
    assert!(refused.to_string().contains("`driver`"), "{refused}");
    clock.advance(config().connect.total);
    let unknown = ready(poll(&mut known)).unwrap_err();
    assert_eq!(unknown.to_string(), refused.to_string());
    assert_eq!(ready(poll(&mut boxed(client.close()))), CloseReason::Done);
}

#[test]
fn call_leaves_its_timeout_to_a_driver_that_is_polled() {
    let (client, mut driver, clock) = unpolled();
    let mut events = client.events();
    let mut call = client.call_tool("add", json!({})).timeout(Duration::from_secs(10));
    pending(poll(&mut call));
    pending(driver.poll(&mut Context::from_waker(Waker::noop()), |_, _| Poll::<()>::Pending));
    clock.advance(Duration::from_secs(10));
    pending(poll(&mut call));
    driver.lock(|machine, now| machine.handle_timeout(now));
    assert!(matches!(ready(poll(&mut call)), Err(Error::TimedOut { .. })));
    assert!(events.drain().is_empty());
}

#[test]
fn closing_client_lets_requests_finish_and_refuses_new_ones() {
    let mut s = ClientHarness::modern();
    let client = s.client.clone();
    let mut call = client.call_tool("add", json!({}));
    pending(poll(&mut call));
    let id = s.expect("tools/call");
    let mut closing = boxed(client.close());
    pending(poll(&mut closing));
    assert!(ready(poll(&mut client.call_tool("add", json!({})))).unwrap_err().is_unsent());
    s.answer(&id, text("5"));
    assert!(ready(poll(&mut call)).is_ok());
    assert_eq!(s.links, [LinkAction::CloseWrite]);
    s.end("");
    assert_eq!(ready(poll(&mut boxed(client.closed()))), CloseReason::Done);
    pending(poll(&mut closing));
    s.driver.handle_link_down();
    assert_eq!(ready(poll(&mut closing)), CloseReason::Done, "the driver has closed the link");
}

#[test]
fn close_returns_at_once_when_the_driver_was_dropped_after_the_end() {
    let mut s = ClientHarness::modern();
    let client = s.client.clone();
    let (wakes, waker) = WakeCounter::new();
    let mut closing = boxed(client.close());
    pending(poll_with(&mut closing, &waker));
    s.turn();
    s.end("");
    pending(poll_with(&mut closing, &waker));
    wakes.take();
    drop(s);
    assert_eq!(wakes.take(), 1);
    assert_eq!(ready(poll(&mut closing)), CloseReason::Done);
}

#[test]
fn dropping_the_last_client_closes_the_connection_despite_its_event_stream() {
    let mut s = ClientHarness::modern();
    let events = s.client.events();
    let second = s.client.clone();
    let first = core::mem::replace(&mut s.client, second);
    drop(first);
    s.turn();
    assert_eq!(s.links, []);
    let ClientHarness { client, mut driver, .. } = s;
    drop(client);
    let mut links = Vec::new();
    driver.lock(|machine, _| links.extend(machine.poll_link()));
    assert_eq!(links, [LinkAction::CloseWrite]);
    drop(events);
}

#[test]
fn a_request_in_flight_keeps_the_connection_open() {
    let s = ClientHarness::modern();
    let mut call = s.client.call_tool("add", json!({})).start().unwrap();
    let ClientHarness { client, mut driver, .. } = s;
    drop(client);
    assert_eq!(driver.lock(|machine, _| machine.poll_link()), None);
    pending(poll(&mut call));
    drop(call);
    assert_eq!(driver.lock(|machine, _| machine.state()), State::Ready, "queued output is written first");
    let mut out = Vec::new();
    assert!(driver.lock(|machine, _| machine.poll_transmit(&mut out)));
    assert_eq!(driver.lock(|machine, _| machine.poll_link()), Some(LinkAction::CloseWrite));
}

#[test]
fn aborting_ends_at_once() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll(&mut call));
    s.expect("tools/call");
    s.client.abort();
    assert!(matches!(ready(poll(&mut call)), Err(Error::Lost(_))));
    s.turn();
    assert_eq!(s.links, [LinkAction::Abort]);
}

// --- Waking ---

#[test]
fn command_wakes_the_driver_once_and_polling_does_not() {
    let mut s = ClientHarness::modern();
    s.turn();
    assert_eq!(s.wakes.take(), 0);
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll(&mut call));
    assert_eq!(s.wakes.take(), 1);
    pending(poll(&mut call));
    assert_eq!(s.wakes.take(), 0, "polling for a result is no work for the driver");
    s.turn();
    assert_eq!(s.wakes.take(), 0);
}

#[test]
fn response_wakes_only_the_future_that_awaits_it() {
    let mut s = ClientHarness::modern();
    let ((first_wakes, first), (second_wakes, second)) = (WakeCounter::new(), WakeCounter::new());
    let mut one = s.client.call_tool("add", json!({}));
    let mut two = s.client.call_tool("add", json!({}));
    pending(poll_with(&mut one, &first));
    pending(poll_with(&mut two, &second));
    let id = s.expect("tools/call");
    s.expect("tools/call");
    s.answer(&id, text("1"));
    assert_eq!((first_wakes.take(), second_wakes.take()), (1, 0));
}

#[test]
fn response_calls_the_waker_of_the_last_poll() {
    let mut s = ClientHarness::modern();
    let ((old_wakes, old), (new_wakes, new)) = (WakeCounter::new(), WakeCounter::new());
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll_with(&mut call, &old));
    pending(poll_with(&mut call, &new));
    let id = s.expect("tools/call");
    s.answer(&id, text("1"));
    assert_eq!((old_wakes.take(), new_wakes.take()), (0, 1));
}

/// A waker that uses the client when it is called, cloned or dropped.
struct ReentrantWaker(Client);

impl std::task::Wake for ReentrantWaker {
    fn wake(self: Arc<Self>) {
        let _ = self.0.state();
    }
}

impl Drop for ReentrantWaker {
    fn drop(&mut self) {
        let _ = self.0.state();
    }
}

#[test]
fn client_calls_and_drops_no_waker_under_the_lock() {
    let mut s = ClientHarness::modern();
    let nosy = || core::task::Waker::from(Arc::new(ReentrantWaker(s.client.clone())));
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll_with(&mut call, &nosy()));
    pending(poll_with(&mut call, &nosy()));
    let mut abandoned = s.client.call_tool("add", json!({}));
    pending(poll_with(&mut abandoned, &nosy()));
    drop(abandoned);
    let mut events = s.client.events();
    pending(poll_with(&mut boxed(events.next()), &nosy()));
    pending(poll_with(&mut boxed(events.next()), &nosy()));
    let client = s.client.clone();
    let mut closed = boxed(client.closed());
    pending(poll_with(&mut closed, &nosy()));
    pending(poll_with(&mut closed, &nosy()));
    drop(closed);
    let id = s.expect("tools/call");
    s.answer(&id, text("1"));
    assert!(ready(poll(&mut call)).is_ok());
    drop(events);
}

// --- Events ---

#[test]
fn notifications_of_the_server_are_events() {
    let mut s = ClientHarness::legacy();
    let mut events = s.client.events();
    s.receive(&[
        notification("notifications/tools/list_changed", json!({})),
        notification("notifications/resources/updated", json!({"uri": "note:///1"})),
    ]);
    let Some(Event::Notification(changed)) = ready(poll(&mut boxed(events.next()))) else { panic!() };
    assert!(changed.is::<ToolListChanged>());
    assert!(changed.decode::<ResourceUpdated>().is_none());
    let Some(Event::Notification(updated)) = ready(poll(&mut boxed(events.next()))) else { panic!() };
    assert_eq!(updated.decode::<ResourceUpdated>().unwrap().unwrap().uri, "note:///1");
    pending(poll(&mut boxed(events.next())));
}

#[test]
fn notification_without_params_decodes() {
    let mut s = ClientHarness::legacy();
    let mut events = s.client.events();
    s.receive(&[json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})]);
    let [Event::Notification(changed)] = &events.drain()[..] else { panic!() };
    assert!(changed.decode::<ToolListChanged>().unwrap().is_ok());
}

#[test]
fn every_event_stream_receives_every_event() {
    let mut s = ClientHarness::legacy();
    let mut listeners = [s.client.events(), s.client.events()];
    s.receive(&[notification("notifications/tools/list_changed", json!({}))]);
    for events in &mut listeners {
        assert_eq!(events.drain().len(), 1);
    }
}

/// Contract 8
#[test]
fn slow_event_stream_learns_how_many_events_it_missed() {
    let mut s = ClientHarness::legacy();
    let mut events = s.client.events();
    for number in 0..3000 {
        s.receive(&[notification(
            "notifications/resources/updated",
            json!({"uri": format!("note:///{number}")}),
        )]);
    }
    let seen = events.drain();
    assert!(matches!(seen[0], Event::Missed { count: 1976 }), "{:?}", seen[0]);
    assert_eq!(seen.len(), 1 + 1024);
    let Some(Event::Notification(last)) = seen.last() else { panic!() };
    assert_eq!(last.decode::<ResourceUpdated>().unwrap().unwrap().uri, "note:///2999");
}

/// Contract 8
#[test]
fn queue_of_an_event_stream_is_bounded_in_bytes() {
    let mut s = ClientHarness::legacy();
    let mut events = s.client.events();
    let long = "x".repeat(6 * 1024 * 1024);
    for number in 0..4 {
        let params = json!({"uri": format!("note:///{number}"), "_meta": {"com.example/pad": long}});
        s.receive(&[notification("notifications/resources/updated", params)]);
    }
    let seen = events.drain();
    assert!(matches!(seen[0], Event::Missed { count: 2 }));
    assert_eq!(seen.len(), 3);
}

/// Contract 9
#[test]
fn noise_is_an_event() {
    let mut s = ClientHarness::modern();
    let mut events = s.client.events();
    s.driver.lock(|machine, now| {
        machine.handle_input(now, mcp_proto::Bytes::from_static(b"Listening on port 1\n"))
    });
    assert!(matches!(events.drain()[..], [Event::Diagnostic(_)]));
}

#[test]
fn events_end_with_the_connection() {
    let mut s = ClientHarness::modern();
    let mut events = s.client.events();
    s.end("gone");
    let last = events.drain();
    assert!(matches!(last.last(), Some(Event::Closed(CloseReason::Lost(LostReason::Disconnected(_))))));
    assert!(ready(poll(&mut boxed(events.next()))).is_none());
    let late = s.client.events().drain();
    assert!(matches!(late[..], [Event::Closed(_)]), "{late:?}");
}

#[test]
fn client_refuses_a_notification_that_the_revision_lacks() {
    let mut s = ClientHarness::modern();
    let refused = s.client.notify::<RootsListChanged>(&Default::default()).unwrap_err();
    assert!(matches!(refused, Error::NotSent(RequestError::Revision { .. })), "{refused}");
    s.expect_silence();
}

// --- Subscriptions ---

/// C6.2, C6.3
#[test]
fn subscription_receives_notifications_with_its_id() {
    let mut s = ClientHarness::modern();
    let mut events = s.client.events();
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = Some(true);
    let mut subscription = s.client.listen(filter).unwrap();
    let line = s.line();
    assert_eq!(line["params"]["notifications"]["toolsListChanged"], true);
    let tag = json!({"io.modelcontextprotocol/subscriptionId": line["id"]});
    s.receive(&[
        notification(
            "notifications/subscriptions/acknowledged",
            json!({"notifications": {"toolsListChanged": true}, "_meta": tag}),
        ),
        notification("notifications/tools/list_changed", json!({"_meta": tag})),
    ]);
    let Some(SubscriptionUpdate::Acknowledged(granted)) = ready(poll(&mut boxed(subscription.next()))) else {
        panic!()
    };
    assert_eq!(granted.tools_list_changed, Some(true));
    let Some(SubscriptionUpdate::Notification(changed)) = ready(poll(&mut boxed(subscription.next()))) else {
        panic!()
    };
    assert!(changed.is::<ToolListChanged>());
    pending(poll(&mut boxed(subscription.next())));
    assert!(events.drain().is_empty());
    assert!(subscription.outcome().is_none());

    s.answer(&line["id"], json!({"resultType": "complete"}));
    assert!(ready(poll(&mut boxed(subscription.next()))).is_none());
    assert!(subscription.outcome().unwrap().is_ok());
}

/// C6.6
#[test]
fn dropping_a_subscription_ends_it_on_the_wire() {
    let mut s = ClientHarness::modern();
    let subscription = s.client.listen(SubscriptionFilter::new()).unwrap();
    let id = s.expect("subscriptions/listen");
    drop(subscription);
    assert_eq!(s.line()["params"]["requestId"], id);
}

#[test]
fn subscription_reports_its_loss() {
    let mut s = ClientHarness::modern();
    let mut subscription = s.client.listen(SubscriptionFilter::new()).unwrap();
    s.expect("subscriptions/listen");
    s.end("gone");
    assert!(ready(poll(&mut boxed(subscription.next()))).is_none());
    assert!(matches!(subscription.outcome(), Some(Err(Error::Lost(_)))));
    assert!(subscription.outcome().is_none());
}
