//! Handlers of a server, which other threads wake while its driver runs or sleeps.

use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::sync::Arc;

use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Context, NoArguments, Router};
use serde_json::{Value, json};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
use shuttle::thread;

use crate::common::messages::{notification, request, with_request_meta};
use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use crate::explore::explore;
use crate::wire::{Wire, poll_server, spawn_server};

/// Handlers that wait until another thread releases them, which has their contexts.
#[derive(Clone, Default)]
struct Latch(Arc<Mutex<LatchState>>);

#[derive(Default)]
struct LatchState {
    is_open: bool,
    contexts: Vec<Context>,
    wakers: Vec<Waker>,
}

impl Latch {
    fn router(&self) -> Router {
        let latch = self.clone();
        Router::new("latch", "1").tasks(TaskConfig::default()).task_tool(
            tool("wait"),
            TaskChoice::Optional,
            move |NoArguments {}, cx: Context| latch.clone().wait(cx),
        )
    }

    async fn wait(self, cx: Context) -> &'static str {
        self.0.lock().unwrap().contexts.push(cx);
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap();
            if state.is_open {
                return Poll::Ready("released");
            }
            state.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Wakes the handlers that wait so far, in vain.
    fn disturb(&self) {
        let wakers = self.0.lock().unwrap().wakers.clone();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn open(&self) {
        let wakers = {
            let mut state = self.0.lock().unwrap();
            state.is_open = true;
            core::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

fn call(id: u32) -> Value {
    let params = json!({"name": "wait", "arguments": {}, "_meta": {"progressToken": id}});
    request(&json!(id), "tools/call", with_request_meta(params))
}

/// A handler's wake-up is not lost while its driver polls it, stores its own waker, or sleeps. Fails if the driver does not
/// look for ready handlers under the lock in which it stores its waker, or if it makes a handler wakeable after the poll.
#[test]
fn handlers_woken_by_other_threads_answer() {
    explore(|| {
        let latch = Latch::default();
        let ServerHarness { driver, .. } = ServerHarness::modern(latch.router());
        let wire = Arc::<Wire>::default();
        // The first shares its waker with the driver's signal, the second does not.
        (0..2).for_each(|id| wire.to_server.push(call(id)));
        let driven = spawn_server(driver, &wire);
        let other = latch.clone();
        let waker = thread::spawn(move || {
            other.disturb();
            other.open();
        });
        latch.disturb();
        let mut answered: Vec<Value> = (0..2).map(|_| wire.to_client.next().unwrap()["id"].clone()).collect();
        answered.sort_by_key(Value::as_u64);
        assert_eq!(answered, [0, 1]);
        wire.to_server.close();
        for thread in [waker, driven] {
            thread.join().unwrap();
        }
        assert!(wire.to_client.next().is_none());
    });
}

/// Messages that a handler's context sends from another thread are written while the handler waits, before its answer.
#[test]
fn context_sends_from_another_thread() {
    explore(|| {
        let latch = Latch::default();
        let ServerHarness { driver, .. } = ServerHarness::modern(latch.router());
        let wire = Arc::<Wire>::default();
        wire.to_server.push(call(0));
        let driven = spawn_server(driver, &wire);
        let context = loop {
            let context = latch.0.lock().unwrap().contexts.pop();
            if let Some(context) = context {
                break context;
            }
            thread::yield_now();
        };
        let sender = thread::spawn(move || context.progress(1));
        // Without the answer: the driver must be woken for the progress itself.
        assert_eq!(wire.to_client.next().unwrap()["method"], "notifications/progress");
        sender.join().unwrap();
        latch.open();
        assert_eq!(wire.to_client.next().unwrap()["id"], 0);
        wire.to_server.close();
        driven.join().unwrap();
    });
}

/// Contract 1 when a request is cancelled while its handler is woken: it is answered once at the most, and the next one is
/// answered.
#[test]
fn cancelled_request_is_answered_once_at_most() {
    explore(|| {
        let latch = Latch::default();
        let ServerHarness { driver, .. } = ServerHarness::modern(latch.router());
        let wire = Arc::<Wire>::default();
        wire.to_server.push(call(0));
        let driven = spawn_server(driver, &wire);
        let other = latch.clone();
        let waker = thread::spawn(move || {
            other.disturb();
            other.open();
        });
        wire.to_server.push(notification("notifications/cancelled", json!({"requestId": 0})));
        wire.to_server.push(call(1));
        let mut answered = Vec::new();
        while answered.last() != Some(&json!(1)) {
            answered.push(wire.to_client.next().unwrap()["id"].clone());
        }
        assert!(answered == [0, 1] || answered == [1], "{answered:?}");
        waker.join().unwrap();
        wire.to_server.close();
        driven.join().unwrap();
        assert!(wire.to_client.next().is_none());
    });
}

/// A driver may be dropped at any time, while other threads wake its handlers and use their contexts.
#[test]
fn driver_can_be_dropped_while_its_handlers_are_woken() {
    explore(|| {
        let latch = Latch::default();
        let ServerHarness { mut driver, handle, .. } = ServerHarness::modern(latch.router());
        let wire = Arc::<Wire>::default();
        (0..2).for_each(|id| wire.to_server.push(call(id)));
        let other = latch.clone();
        let waker = thread::spawn(move || {
            let context = other.0.lock().unwrap().contexts.pop();
            other.disturb();
            if let Some(context) = context {
                context.progress(1);
            }
            other.open();
        });
        let waiter = thread::spawn(move || drop(block_on(handle.closed())));
        block_on(poll_fn(|cx| {
            for _ in 0..thread_rng().gen_range(0..3) {
                let _ = poll_server(&mut driver, &wire, cx);
            }
            Poll::Ready(())
        }));
        drop(driver);
        for thread in [waker, waiter] {
            thread.join().unwrap();
        }
    });
}

/// A handler that runs on a thread of its own ends when its request is cancelled, although nothing else wakes it. Fails if the
/// thread does not look for the cancellation when it stores its waker.
#[test]
fn spawned_handler_ends_when_its_request_is_cancelled() {
    explore(|| {
        let latch = Latch::default();
        // Shuttle reports a deadlock unless this thread ends, too.
        let router = latch.router().spawn_handlers(|task| drop(thread::spawn(move || block_on(task))));
        let ServerHarness { driver, .. } = ServerHarness::modern(router);
        let wire = Arc::<Wire>::default();
        wire.to_server.push(call(0));
        let driven = spawn_server(driver, &wire);
        wire.to_server.push(notification("notifications/cancelled", json!({"requestId": 0})));
        wire.to_server.close();
        driven.join().unwrap();
        assert!(wire.to_client.next().is_none());
    });
}

/// Handlers that run on threads of their own answer, or end when their requests are cancelled.
#[test]
fn spawned_handler_answers_or_is_cancelled() {
    explore(|| {
        let latch = Latch::default();
        let router = latch.router().spawn_handlers(|task| drop(thread::spawn(move || block_on(task))));
        let ServerHarness { driver, .. } = ServerHarness::modern(router);
        let wire = Arc::<Wire>::default();
        (0..2).for_each(|id| wire.to_server.push(call(id)));
        let driven = spawn_server(driver, &wire);
        let other = latch.clone();
        let waker = thread::spawn(move || other.open());
        wire.to_server.push(notification("notifications/cancelled", json!({"requestId": 0})));
        let mut answered = Vec::new();
        while !answered.contains(&json!(1)) {
            answered.push(wire.to_client.next().unwrap()["id"].clone());
        }
        waker.join().unwrap();
        wire.to_server.close();
        driven.join().unwrap();
        answered.extend(core::iter::from_fn(|| wire.to_client.next()).map(|message| message["id"].clone()));
        answered.sort_by_key(Value::as_u64);
        assert!(answered == [0, 1] || answered == [1], "{answered:?}");
    });
}

/// Every request that waits for a task's result is answered, whether the task ends before or after it.
#[test]
fn end_of_a_task_answers_every_request_for_its_result() {
    explore(|| {
        let latch = Latch::default();
        let mut server = ServerHarness::legacy(latch.router());
        let created = server.result("tools/call", json!({"name": "wait", "arguments": {}, "task": {}}));
        let task = created["task"]["taskId"].clone();
        let wire = Arc::<Wire>::default();
        for id in [8, 9] {
            wire.to_server.push(request(&json!(id), "tasks/result", json!({"taskId": task})));
        }
        let driven = spawn_server(server.driver, &wire);
        let waker = thread::spawn(move || latch.open());
        let mut answered = 0;
        while answered < 2 {
            let message = wire.to_client.next().unwrap();
            if message["id"].is_number() {
                assert_eq!(message["result"]["content"][0]["text"], "released", "{message}");
                answered += 1;
            }
        }
        waker.join().unwrap();
        wire.to_server.close();
        driven.join().unwrap();
    });
}
