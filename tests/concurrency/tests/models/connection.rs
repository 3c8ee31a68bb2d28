//! The tasks that wait for a change of a client's connection, and the listeners for its events.

use core::future::poll_fn;
use core::task::{Context, Poll, Waker};

use mcp_proto::adapter::{self, ClientDriver};
use mcp_proto::front::{Client, ClientHandlers, Error, Event};
use mcp_proto::peer::client::State;
use mcp_proto::transport::StreamClient;
use serde_json::json;
use shuttle::future::block_on;
use shuttle::thread;
use std::sync::Arc;

use crate::common::client::config;
use crate::common::messages::{answer, discover_result, notification};
use crate::common::polling::TestClock;
use crate::explore::explore;
use crate::wire::{Wire, client, poll_client, spawn_client};

/// A client whose link opens when its driver is polled.
fn unconnected() -> (Client, ClientDriver<StreamClient>) {
    adapter::client(StreamClient::new(config()), Arc::new(TestClock::default()), ClientHandlers::new())
}

/// All that wait for the handshake see it end. Fails if only one of them is woken, or is woken before it.
#[test]
fn handshake_wakes_every_task_that_waits_for_it() {
    explore(|| {
        let (client, mut driver) = unconnected();
        let wire = Arc::<Wire>::default();
        let other = client.clone();
        let waiter = thread::spawn(move || block_on(other.ready()).map(drop).unwrap());
        let answers = wire.clone();
        let server = thread::spawn(move || {
            let discover = answers.to_server.next().unwrap();
            answers.to_client.push(answer(&discover["id"], discover_result()));
            assert!(answers.to_server.next().is_none());
            answers.to_client.close();
        });
        let opened = driver.poll(&mut Context::from_waker(Waker::noop()), |machine, _| {
            machine.poll_link().map_or(Poll::Pending, Poll::Ready)
        });
        assert!(opened.is_ready());
        driver.lock(|machine, now| machine.handle_open(now));
        let driven = spawn_client(driver, &wire);
        block_on(client.ready()).unwrap();
        assert_eq!(client.state(), State::Ready);
        waiter.join().unwrap();
        drop(client);
        for thread in [server, driven] {
            thread.join().unwrap();
        }
    });
}

/// All that wait for the end see it, whether they begin before or after it. Fails if the end wakes only some of them, or a
/// listener that begins after it has no event of it.
#[test]
fn end_wakes_every_waiter_and_every_listener() {
    explore(|| {
        let (client, mut driver, wire) = client();
        let driven = thread::spawn(move || {
            block_on(poll_fn(|cx| poll_client(&mut driver, &wire, cx)));
            // Its drop would wake them, too.
            driver
        });
        let (waiting, listening) = (client.clone(), client.clone());
        let waiter = thread::spawn(move || drop(block_on(waiting.closed())));
        let listener = thread::spawn(move || {
            block_on(async {
                let mut events = listening.events();
                while let Some(event) = events.next().await {
                    if let Event::Closed(_) = event {
                        return;
                    }
                }
                panic!("the last event is missing");
            });
        });
        client.abort();
        let driver = driven.join().unwrap();
        for thread in [waiter, listener] {
            thread.join().unwrap();
        }
        drop(driver);
        assert!(matches!(block_on(client.ready()), Err(Error::Closed(_))));
    });
}

/// A listener misses no notification that arrives after it has begun, and leaving takes nothing from the others.
#[test]
fn listener_misses_no_notification() {
    explore(|| {
        let (client, driver, wire) = client();
        let driven = spawn_client(driver, &wire);
        let mut events = client.events();
        let leaving = client.clone();
        let leaver = thread::spawn(move || {
            let mut events = leaving.events();
            block_on(events.next());
        });
        for number in 0..2 {
            wire.to_client.push(notification("notifications/custom", json!({ "number": number })));
        }
        for number in 0..2 {
            let event = block_on(events.next());
            let Some(Event::Notification(notification)) = event else { panic!("{event:?}") };
            assert_eq!(notification.params.unwrap().as_str(), json!({ "number": number }).to_string());
        }
        drop((events, client));
        wire.to_client.close();
        driven.join().unwrap();
        leaver.join().unwrap();
    });
}
