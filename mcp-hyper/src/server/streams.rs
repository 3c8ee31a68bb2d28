//! The streams of an HTTP/2 connection, polled by the connection itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::rt::Executor;
#[cfg(feature = "http2")]
use hyper::{body::Incoming, rt::bounds::Http2ServerConnExec};
use mcp_proto::front::{HandlerMode, LocalHandlers, SendHandlers};

use super::exchange::BodyDemand;
#[cfg(feature = "http2")]
use super::exchange::{ResponseBody, ResponseFuture};
use crate::task_set::TaskSet;
use crate::time::{Alarm, Timers};

/// Whether a server's futures are `Send`, as its router's handlers are: [`SendHandlers`] or [`LocalHandlers`].
/// Applications do not implement it.
pub trait ServerMode: HandlerMode {
    /// The task that answers one request.
    #[doc(hidden)]
    type Task: Future<Output = ()> + Unpin + 'static;

    /// The queue in which hyper leaves the tasks of HTTP/2 streams.
    #[doc(hidden)]
    #[cfg(feature = "http2")]
    type StreamQueue: Http2ServerConnExec<ResponseFuture<Incoming, Self>, ResponseBody<Self>>
        + From<Queue<Self::Task>>
        + Unpin
        + 'static;
}

impl ServerMode for SendHandlers {
    type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
    #[cfg(feature = "http2")]
    type StreamQueue = Queue<Self::Task>;
}

impl ServerMode for LocalHandlers {
    type Task = Pin<Box<dyn Future<Output = ()>>>;
    #[cfg(feature = "http2")]
    type StreamQueue = Queue<Self::Task>;
}

/// The queue from hyper, which starts streams while it is polled, to the connection, which polls them.
#[doc(hidden)]
pub struct Queue<T>(Arc<Mutex<Inbox<T>>>);

/// The queue of a connection, for its service.
pub(super) type DemandQueue<H> = Queue<<H as ServerMode>::Task>;

struct Inbox<T> {
    /// Body demand of the stream that hyper starts next.
    next_demand: Option<BodyDemand>,
    started: Vec<(T, Option<BodyDemand>)>,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Inbox { next_demand: None, started: Vec::new() })))
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox<T>> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the body demand of the stream that hyper starts next. hyper starts a stream right after it has called
    /// the service for it.
    pub(super) fn announce(&self) -> BodyDemand {
        let demand = BodyDemand::default();
        self.inbox().next_demand = Some(demand.clone());
        demand
    }

    fn start(&self, task: T) {
        let mut inbox = self.inbox();
        let demand = inbox.next_demand.take();
        inbox.started.push((task, demand));
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

debug_fields! { [T] Queue<T> {} }

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Queue<<SendHandlers as ServerMode>::Task> {
    fn execute(&self, future: F) {
        self.start(Box::pin(future));
    }
}

impl<F: Future<Output = ()> + 'static> Executor<F> for Queue<<LocalHandlers as ServerMode>::Task> {
    fn execute(&self, future: F) {
        self.start(Box::pin(future));
    }
}

/// The open streams of a connection.
pub(super) struct Streams<T> {
    queue: Queue<T>,
    open: TaskSet<DrivenStream<T>>,
    timers: Timers,
    stall_timeout: std::time::Duration,
}

impl<T: Future<Output = ()> + Unpin> Streams<T> {
    /// An empty set of streams, each of which may be blocked for up to `stall_timeout`.
    pub(super) fn new(queue: Queue<T>, timers: Timers, stall_timeout: std::time::Duration) -> Self {
        Self { queue, open: TaskSet::default(), timers, stall_timeout }
    }

    /// Advances every stream that is ready to progress. Ready if there was one.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let started = std::mem::take(&mut self.queue.inbox().started);
        let mut progress = !started.is_empty();
        for (task, demand) in started {
            self.open.insert(DrivenStream {
                task,
                body_demand: demand,
                timers: self.timers.clone(),
                stall_timeout: self.stall_timeout,
                alarm: Alarm::default(),
                deadline: None,
            });
        }
        while self.open.poll_next(cx).is_ready() {
            progress = true;
        }
        if progress { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A stream that the connection drives. When its client has read nothing of it for too long, it is dropped, which
/// resets it.
struct DrivenStream<T> {
    task: T,
    body_demand: Option<BodyDemand>,
    timers: Timers,
    stall_timeout: std::time::Duration,
    alarm: Alarm,
    deadline: Option<Instant>,
}

impl<T: Future<Output = ()> + Unpin> Future for DrivenStream<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if Pin::new(&mut this.task).poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if this.body_demand.as_ref().is_some_and(BodyDemand::is_waiting) {
            let (timers, stall_timeout) = (&this.timers, this.stall_timeout);
            let deadline = this.deadline.or_else(|| timers.now().checked_add(stall_timeout));
            this.deadline = deadline;
            return this.alarm.poll_until(deadline, timers, cx);
        }
        this.deadline = None;
        Poll::Pending
    }
}
