//! How handlers learn that their request was cancelled.

use core::future::poll_fn;
use core::task::{Poll, Waker};

use super::context::Context;

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

    /// Waits until the request is answered, cancelled or lost. See [`is_cancelled`](Self::is_cancelled).
    pub async fn cancelled(&self) {
        if let Some(task) = self.task() {
            return task.wait_ended().await;
        }
        let mut waiting = CancellationWaiter { context: self, key: None };
        poll_fn(|cx| waiting.poll(cx.waker())).await;
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
