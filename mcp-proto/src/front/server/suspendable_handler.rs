//! The handler of a request, as its driver polls it.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};

#[cfg(feature = "seal")]
use super::context::Context;
use crate::front::reply::Reply;

/// A handler that is running. If it asks a client of 2026-07-28 by its result, it ends where it can not go on.
pub(super) struct SuspendableHandler<F> {
    answering: F,
    /// Whose attempt it is part of.
    #[cfg(feature = "seal")]
    context: Option<Context>,
}

impl<F: Future<Output = Reply> + Unpin> SuspendableHandler<F> {
    #[cfg(feature = "seal")]
    pub(super) fn new(answering: F, context: Context) -> Self {
        Self { answering, context: context.input_rounds().is_some().then_some(context) }
    }

    #[cfg(not(feature = "seal"))]
    pub(super) fn new(answering: F) -> Self {
        Self { answering }
    }

    /// It waits, and has not woken itself: the answer, if only the client can help.
    pub(super) fn stalled(&mut self) -> Option<Reply> {
        #[cfg(feature = "seal")]
        if let Some(context) = &self.context
            && let Some(rounds) = context.input_rounds()
        {
            return rounds.suspend_if_stalled(context);
        }
        None
    }
}

impl<F: Future<Output = Reply> + Unpin> Future for SuspendableHandler<F> {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Reply> {
        let this = &mut *self;
        let answering = Pin::new(&mut this.answering);
        #[cfg(feature = "seal")]
        if let Some(rounds) = this.context.as_ref().and_then(Context::input_rounds) {
            rounds.start_poll();
            return match answering.poll(cx) {
                Poll::Ready(reply) => Poll::Ready(rounds.finish().unwrap_or(reply)),
                Poll::Pending => rounds.end_poll(cx).map_or(Poll::Pending, Poll::Ready),
            };
        }
        answering.poll(cx)
    }
}
