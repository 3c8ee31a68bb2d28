//! How handlers learn that their request was cancelled, and why.

use core::future::poll_fn;
use core::task::{Poll, Waker};

use super::context::Context;
use crate::peer::server::Cancellation;

impl<S> Context<S> {
    /// Whether the request was answered, cancelled or lost, so that its answer is no longer awaited.
    ///
    /// The driver drops the handler at that point; this method is for work that the handler moved to a thread.
    pub fn is_cancelled(&self) -> bool {
        match self.task() {
            Some(task) => task.has_ended(),
            None => !self.connection().is_active(self.id()),
        }
    }

    /// Waits until the request is answered, cancelled or lost, and returns which of them. See
    /// [`is_cancelled`](Self::is_cancelled).
    ///
    /// ```
    /// use mcp_proto::front::Context;
    ///
    /// /// Logs why the work on a request can stop; runs beside its handler.
    /// async fn watch(cx: Context) {
    ///     eprintln!("{}", cx.cancelled().await);
    /// }
    /// ```
    pub async fn cancelled(&self) -> Cancellation {
        match self.task() {
            Some(task) => task.wait_ended().await,
            None => {
                let mut waiting = CancellationWaiter { context: self, key: None };
                poll_fn(|cx| waiting.poll(cx.waker())).await;
            }
        }
        self.cancellation().unwrap_or(Cancellation::Answered)
    }

    /// Why the answer to the request is no longer awaited; `None` while it is.
    ///
    /// The destructor of a handler's guard may call it, to learn why the handler is dropped.
    pub fn cancellation(&self) -> Option<Cancellation> {
        match self.task() {
            Some(task) => task.cancellation(),
            None => self.inbound_request().state.end().cloned(),
        }
    }
}

/// A task that waits for the end of a request.
struct CancellationWaiter<'a, S> {
    context: &'a Context<S>,
    key: Option<u64>,
}

impl<S> CancellationWaiter<'_, S> {
    fn poll(&mut self, waker: &Waker) -> Poll<()> {
        self.context.connection().poll_inactive(self.context.id(), &mut self.key, waker)
    }
}

impl<S> Drop for CancellationWaiter<'_, S> {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.context.connection().remove_waiter(self.context.id(), self.key);
        }
    }
}
