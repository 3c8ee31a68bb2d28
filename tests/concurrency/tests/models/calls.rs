//! Calls of a client, whose driver, server and handles are on different threads.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

use mcp_proto::front::{Client, Error};
use mcp_proto::peer::{LostReason, RequestError};
use serde_json::{Value, json};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::common::messages::{answer, progress, text};
use crate::explore::explore;
use crate::wire::{Inbox, client, poll_client, spawn_client, spawn_echo};

/// Calls the tool, whose answer must be its own.
fn call(client: &Client, say: &str) -> Result<(), Error> {
    let result = block_on(client.call_tool("echo", json!({ "say": say })))?;
    assert_eq!(result.text_content(), say);
    Ok(())
}

/// Contract 1: every call has its own answer. Fails if a wake-up is lost between a command and the driver, or between the
/// driver and a call.
#[test]
fn calls_of_two_threads_get_their_own_answers() {
    explore(|| {
        let (client, driver, wire) = client();
        let threads = [spawn_client(driver, &wire), spawn_echo(&wire)];
        let other = client.clone();
        let caller = thread::spawn(move || call(&other, "theirs").unwrap());
        call(&client, "ours").unwrap();
        caller.join().unwrap();
        drop(client);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A call that has moved to another task wakes that. Fails if the waker of its first poll stays.
#[test]
fn call_that_moves_between_tasks_is_woken() {
    explore(|| {
        let (client, driver, wire) = client();
        let threads = [spawn_client(driver, &wire), spawn_echo(&wire)];
        let mut call = client.call_tool("echo", json!({"say": "ours"}));
        let mut polled = Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop()));
        if polled.is_pending() {
            polled = Poll::Ready(block_on(call));
        }
        assert!(matches!(polled, Poll::Ready(Ok(result)) if result.text_content() == "ours"));
        drop(client);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// No waker is called or dropped under a lock: these lock their client. Fails if a lock is released after its wakers.
#[test]
fn wakers_use_their_client() {
    struct UsingWaker(Client, Waker);

    impl Wake for UsingWaker {
        fn wake(self: Arc<Self>) {
            self.0.state();
            self.1.wake_by_ref();
        }
    }

    impl Drop for UsingWaker {
        fn drop(&mut self) {
            self.0.state();
        }
    }

    explore(|| {
        let (client, mut driver, wire) = client();
        let server = spawn_echo(&wire);
        let using = client.clone();
        let driven = thread::spawn(move || {
            block_on(poll_fn(|cx| {
                let waker = Waker::from(Arc::new(UsingWaker(using.clone(), cx.waker().clone())));
                poll_client(&mut driver, &wire, &mut Context::from_waker(&waker))
            }));
        });
        let mut call = client.call_tool("echo", json!({"say": "ours"}));
        let result = block_on(poll_fn(|cx| {
            let waker = Waker::from(Arc::new(UsingWaker(client.clone(), cx.waker().clone())));
            Pin::new(&mut call).poll(&mut Context::from_waker(&waker))
        }));
        assert_eq!(result.unwrap().text_content(), "ours");
        client.abort();
        for thread in [driven, server] {
            thread.join().unwrap();
        }
    });
}

/// A call's progress arrives before its outcome. Fails if it does not wake the call: the server answers when all of it was received.
#[test]
fn progress_of_a_call_arrives_before_its_outcome() {
    explore(|| {
        let (client, driver, wire) = client();
        let driven = spawn_client(driver, &wire);
        let received = Arc::<Inbox>::default();
        let receiver = received.clone();
        let server = thread::spawn(move || {
            let call = wire.to_server.next().unwrap();
            for step in 1..3 {
                wire.to_client.push(progress(&call["params"]["_meta"]["progressToken"], step));
                received.next();
            }
            wire.to_client.push(answer(&call["id"], text("done")));
            assert!(wire.to_server.next().is_none());
            wire.to_client.close();
        });
        let mut running = client.call_tool("echo", json!({})).start().unwrap();
        block_on(async {
            while running.progress().await.is_some() {
                receiver.push(Value::Null);
            }
            assert_eq!(running.await.unwrap().text_content(), "done");
        });
        drop(client);
        for thread in [driven, server] {
            thread.join().unwrap();
        }
    });
}

/// A call that is dropped at any time before or after its answer takes nothing from the others.
#[test]
fn call_dropped_at_any_time_leaves_the_others_their_answers() {
    explore(|| {
        let (client, driver, wire) = client();
        let threads = [spawn_client(driver, &wire), spawn_echo(&wire)];
        let other = client.clone();
        let caller = thread::spawn(move || {
            let polls = thread_rng().gen_range(0..3);
            let mut dropped = pin!(other.call_tool("echo", json!({"say": "dropped"})));
            block_on(polled(polls, |cx| dropped.as_mut().poll(cx).map(drop)));
        });
        call(&client, "ours").unwrap();
        caller.join().unwrap();
        drop(client);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Contract 1 while the client closes: a call is answered, lost or refused, and `close` returns.
#[test]
fn call_has_an_outcome_when_its_client_closes() {
    explore(|| {
        let (client, driver, wire) = client();
        let threads = [spawn_client(driver, &wire), spawn_echo(&wire)];
        let other = client.clone();
        let closer = thread::spawn(move || block_on(other.close()));
        match call(&client, "ours") {
            Ok(()) | Err(Error::NotSent(RequestError::Closed) | Error::Closed(_) | Error::Lost(_)) => {}
            Err(error) => panic!("{error}"),
        }
        closer.join().unwrap();
        assert!(matches!(call(&client, "late"), Err(Error::Closed(_))));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Contract 1 when the driver is dropped after any number of polls: a call is answered or lost, and `close` returns. Fails if the
/// drop does not wake those that wait for the end.
#[test]
fn call_has_an_outcome_when_its_driver_is_dropped() {
    explore(|| {
        let (client, mut driver, wire) = client();
        let server = spawn_echo(&wire);
        let driven = thread::spawn(move || {
            let polls = thread_rng().gen_range(0..4);
            block_on(polled(polls, |cx| poll_client(&mut driver, &wire, cx)));
            drop(driver);
            wire.to_server.close();
        });
        let other = client.clone();
        let caller = thread::spawn(move || drop(outcome(&other)));
        drop(outcome(&client));
        caller.join().unwrap();
        block_on(client.close());
        driven.join().unwrap();
        assert!(outcome(&client).is_err());
        server.join().unwrap();
    });
}

fn outcome(client: &Client) -> Result<(), Error> {
    let outcome = call(client, "either");
    if let Err(error) = &outcome {
        assert!(matches!(error, Error::Lost(LostReason::DriverDropped) | Error::Closed(_)), "{error}");
    }
    outcome
}

/// Polls as often as this, at the most, and each time after a wake-up.
fn polled(polls: usize, mut poll: impl FnMut(&mut Context<'_>) -> Poll<()>) -> impl Future<Output = ()> {
    let mut left = polls;
    poll_fn(move |cx| {
        let Some(rest) = left.checked_sub(1) else { return Poll::Ready(()) };
        left = rest;
        let polled = poll(cx);
        // Whether it is woken or not, the last poll is the last.
        if left == 0 { Poll::Ready(()) } else { polled }
    })
}
