//! The running handlers of a connection.

use alloc::sync::Arc;
use core::future::Future;
use core::task::{Context, Poll};

use super::handler_error::{HandlerPanic, catch_panic};
use super::trace::RequestSpan;
use super::wakers::{HandlerWaker, Signal, TaskWaker};
use crate::inline_map::{InlineMap, InlineQueue};
use crate::peer::InboundId;

struct RunningHandler<F> {
    future: F,
    state: HandlerWaker,
    span: RequestSpan,
}

impl<F: Future + Unpin> RunningHandler<F> {
    /// Polls the handler by `poll`. If it waits and has not woken itself, `stalled` may end it.
    fn poll(
        &mut self,
        poll: impl FnOnce(&mut F, &mut Context<'_>) -> Poll<F::Output>,
        stalled: impl FnOnce(&mut F) -> Option<F::Output>,
    ) -> Option<Result<F::Output, HandlerPanic>> {
        let Self { future, state, span } = self;
        let polled = span.in_scope(|| {
            catch_panic(|| match poll(future, &mut Context::from_waker(&state.waker())) {
                Poll::Pending if !state.is_queued() => stalled(future),
                Poll::Pending => None,
                Poll::Ready(output) => Some(output),
            })
        });
        polled.transpose()
    }

    /// Drops the handler, whose waker does nothing from now on. Returns that, for the next one.
    fn end(self) -> Option<Arc<TaskWaker>> {
        let Self { future, state, span } = self;
        state.retire();
        let _ = catch_panic(|| drop((future, span)));
        state.into_spare()
    }
}

/// The futures of handlers, each polled when it is new, and then when its own waker was called.
pub(crate) struct RunningHandlers<F> {
    tasks: InlineMap<InboundId, RunningHandler<F>>,
    /// The ready handlers, in the order in which they are polled.
    ready: InlineQueue<InboundId>,
    signal: Arc<Signal>,
    /// The waker of the handler that ended last, whose memory the next one takes over.
    spare: Option<Arc<TaskWaker>>,
}

impl<F: Future + Unpin> RunningHandlers<F> {
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        Self { tasks: InlineMap::new(), ready: InlineQueue::default(), signal, spare: None }
    }

    /// Adds the handler of a request, which is polled with the ready ones, within the request's span.
    pub(in crate::front) fn start(&mut self, request: InboundId, future: F, span: RequestSpan) {
        let state = HandlerWaker::new(request, &self.signal, self.spare.take());
        let task = RunningHandler { future, state, span };
        // The driver calls this and polls next, so it need not be woken.
        task.state.retire();
        self.signal.mark_ready(request);
        self.stop(request);
        self.tasks.insert(request, task);
    }

    /// Polls the handler of a new request by `poll`, as [`poll_next`](Self::poll_next) does. Adds it if it waits.
    pub(in crate::front) fn run(
        &mut self,
        request: InboundId,
        future: F,
        span: RequestSpan,
        poll: impl FnOnce(&mut F, &mut Context<'_>) -> Poll<F::Output>,
        stalled: impl FnOnce(&mut F) -> Option<F::Output>,
    ) -> Option<(Result<F::Output, HandlerPanic>, RequestSpan)> {
        let state = HandlerWaker::new(request, &self.signal, self.spare.take());
        let mut task = RunningHandler { future, state, span };
        // A part of the same request's work may have ended before.
        task.state.arm();
        let Some(output) = task.poll(poll, stalled) else {
            self.tasks.insert(request, task);
            return None;
        };
        let span = core::mem::replace(&mut task.span, RequestSpan::none());
        self.spare = task.end();
        Some((output, span))
    }

    /// Drops the handler of a request.
    pub(crate) fn stop(&mut self, request: InboundId) {
        if let Some(task) = self.tasks.remove(&request) {
            self.spare = task.end();
        }
    }

    /// Drops the handler of a request; returns its span.
    #[cfg(feature = "server")]
    pub(in crate::front) fn end(&mut self, request: InboundId) -> Option<RequestSpan> {
        let mut task = self.tasks.remove(&request)?;
        let span = core::mem::replace(&mut task.span, RequestSpan::none());
        self.spare = task.end();
        Some(span)
    }

    /// Drops every handler.
    pub(crate) fn stop_all(&mut self) {
        while let Some((request, _)) = self.tasks.first_key_value() {
            self.stop(*request);
        }
    }

    /// Queues the handlers that have become ready. Handlers that become ready later are polled after the next call.
    pub(crate) fn take_ready(&mut self) {
        let mut ready = self.signal.begin();
        while let Some(request) = ready.pop_front() {
            self.ready.push_back(request);
        }
    }

    /// Whether handlers are queued that have become ready.
    #[cfg(feature = "server")]
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Polls the ready handlers in turn by `poll` until one finishes, and returns its output and span; `None` once each was
    /// polled. `stalled` may end a handler that waits and has not woken itself.
    pub(in crate::front) fn poll_next(
        &mut self,
        mut poll: impl FnMut(InboundId, &mut F, &mut Context<'_>) -> Poll<F::Output>,
        mut stalled: impl FnMut(&mut F) -> Option<F::Output>,
    ) -> Option<(InboundId, Result<F::Output, HandlerPanic>, RequestSpan)> {
        while let Some(request) = self.ready.pop_front() {
            let Some(task) = self.tasks.get_mut(&request) else { continue };
            task.state.arm();
            let poll = |future: &mut F, cx: &mut Context<'_>| poll(request, future, cx);
            let Some(output) = task.poll(poll, &mut stalled) else { continue };
            let span = core::mem::replace(&mut task.span, RequestSpan::none());
            self.stop(request);
            return Some((request, output, span));
        }
        None
    }
}
