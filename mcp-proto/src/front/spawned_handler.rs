//! Handlers that run as tasks of the application's executor, apart from their driver.

use alloc::sync::Arc;
use core::any::Any;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::handler::context::Context;
use super::handler_error::catch_panic;
use super::reply::Reply;
use super::trace::HandlerSpan;
use super::wakers::SendFuture;
use super::wakers::update;
use crate::prelude::*;
use crate::rpc::code;
use crate::sync::Mutex;

/// The application's function that starts the task of a handler.
pub(super) type Spawner = Arc<dyn Fn(SpawnedHandler) + Send + Sync>;

/// A running handler, as a future for the application's executor: see
/// [`Router::spawn_handlers`](super::Router::spawn_handlers).
///
/// It ends early when the request is cancelled. If the executor drops it, the request is answered with an error.
#[must_use = "the handler does not run unless its task is spawned"]
pub struct SpawnedHandler {
    handler: Option<SendFuture<Reply>>,
    /// The context of a request with input rounds.
    context: Option<Context>,
    span: HandlerSpan,
    link: Arc<TaskLink>,
}

/// The link between a handler's task and its driver.
#[derive(Default)]
struct TaskLink(Mutex<LinkState>);

#[derive(Default)]
struct LinkState {
    end: Option<TaskEnd>,
    /// Whether the driver no longer waits.
    is_cancelled: bool,
    driver: Option<Waker>,
    task: Option<Waker>,
}

enum TaskEnd {
    Reply(Reply),
    Panic(Box<dyn Any + Send>),
    /// The executor dropped the task.
    Dropped,
}

impl TaskLink {
    /// Passes the end of the task to the driver.
    fn finish(&self, end: TaskEnd) {
        update(&self.0, |state, wakers| {
            if !state.is_cancelled {
                state.end.get_or_insert(end);
            }
            wakers.wake(state.driver.take());
            wakers.discard(state.task.take());
        });
    }

    /// Stores the waker of the task. Returns whether the task is cancelled.
    fn park_task(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        update(&self.0, |state, wakers| {
            wakers.discard(state.task.replace(waker));
            state.is_cancelled
        })
    }
}

impl Future for SpawnedHandler {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let Self { handler, context, span, link } = &mut *self;
        if link.park_task(cx.waker()) {
            let handler = handler.take();
            let _ = catch_panic(|| drop(handler));
        }
        let Some(running) = handler else { return Poll::Ready(()) };
        let mut poll = || span.in_scope(|| catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))));
        let rounds = context.as_ref().and_then(|context| Some((context.input_rounds()?, context)));
        let polled = match rounds {
            Some((rounds, context)) => rounds.poll_in_task(context.inbound_request(), poll),
            None => poll(),
        };
        let end = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(reply)) => TaskEnd::Reply(reply),
            Err(payload) => TaskEnd::Panic(payload),
        };
        let handler = handler.take();
        let _ = catch_panic(|| drop(handler));
        link.finish(end);
        Poll::Ready(())
    }
}

impl Drop for SpawnedHandler {
    fn drop(&mut self) {
        let handler = self.handler.take();
        if handler.is_some() {
            let _ = catch_panic(|| drop(handler));
            self.link.finish(TaskEnd::Dropped);
        }
    }
}

debug_fields! { SpawnedHandler {} }

/// A handler whose task the driver awaits. Dropping it cancels the task.
pub(super) struct AwaitedHandler {
    /// The handler, until it is first polled.
    unstarted: Option<(SendFuture<Reply>, Option<Context>, Spawner)>,
    link: Arc<TaskLink>,
}

impl AwaitedHandler {
    pub(super) fn boxed(
        handler: SendFuture<Reply>,
        context: Option<Context>,
        spawner: Spawner,
    ) -> SendFuture<Reply> {
        Box::pin(Self { unstarted: Some((handler, context, spawner)), link: Arc::default() })
    }
}

impl Future for AwaitedHandler {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Reply> {
        let waker = cx.waker().clone();
        let end = update(&self.link.0, |state, wakers| {
            wakers.discard(state.driver.replace(waker));
            state.end.take()
        });
        match end {
            Some(TaskEnd::Reply(reply)) => return Poll::Ready(reply),
            // Handled like the panic of any handler. The panic hook has run.
            Some(TaskEnd::Panic(payload)) => resume_unwind(payload),
            Some(TaskEnd::Dropped) => {
                let message = "the executor of this server's handlers has ended";
                return Poll::Ready(Reply::error(code::INTERNAL_ERROR, message));
            }
            None => {}
        }
        if let Some((handler, context, spawner)) = self.unstarted.take() {
            let (span, link) = (HandlerSpan::current(), self.link.clone());
            spawner(SpawnedHandler { handler: Some(handler), context, span, link });
        }
        Poll::Pending
    }
}

impl Drop for AwaitedHandler {
    fn drop(&mut self) {
        update(&self.link.0, |state, wakers| {
            state.is_cancelled = true;
            wakers.wake(state.task.take());
            wakers.discard(state.driver.take());
        });
    }
}
