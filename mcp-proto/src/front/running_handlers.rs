//! The running handlers of a connection.

use alloc::sync::Arc;
use core::future::Future;
use core::task::{Context, Poll, Waker};

use super::handler_error::{HandlerPanic, catch_panic};
use super::trace::RequestSpan;
use super::wakers::{Signal, TaskWaker};
use crate::inline_map::{InlineMap, InlineQueue};
use crate::peer::InboundId;

struct RunningHandler<F> {
    future: F,
    state: Arc<TaskWaker>,
    waker: Waker,
    span: RequestSpan,
}

/// The futures of handlers, each polled only when its own waker was called.
pub(crate) struct RunningHandlers<F> {
    tasks: InlineMap<InboundId, RunningHandler<F>>,
    /// The ready handlers, in the order in which they are polled.
    ready: InlineQueue<InboundId>,
    signal: Arc<Signal>,
}

impl<F: Future + Unpin> RunningHandlers<F> {
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        Self { tasks: InlineMap::new(), ready: InlineQueue::default(), signal }
    }

    /// Adds the handler of a request, which is polled with the ready ones, within the request's span.
    pub(in crate::front) fn start(&mut self, request: InboundId, future: F, span: RequestSpan) {
        let state = TaskWaker::new(request, self.signal.clone());
        let waker = Waker::from(state.clone());
        // The driver calls this and polls next, so it need not be woken.
        state.retire();
        self.signal.mark_ready(request);
        self.stop(request);
        self.tasks.insert(request, RunningHandler { future, state, waker, span });
    }

    /// Drops the handler of a request.
    pub(crate) fn stop(&mut self, request: InboundId) {
        if let Some(task) = self.tasks.remove(&request) {
            task.state.retire();
            let _ = catch_panic(|| drop(task));
        }
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
            let RunningHandler { future, state, waker, span } = task;
            let polled = span.in_scope(|| {
                catch_panic(|| {
                    let mut cx = Context::from_waker(waker);
                    match poll(request, future, &mut cx) {
                        Poll::Pending if !state.is_queued() => {
                            stalled(future).map_or(Poll::Pending, Poll::Ready)
                        }
                        polled => polled,
                    }
                })
            });
            let output = match polled {
                Ok(Poll::Pending) => continue,
                Ok(Poll::Ready(output)) => Ok(output),
                Err(panicked) => Err(panicked),
            };
            let span = core::mem::replace(span, RequestSpan::none());
            self.stop(request);
            return Some((request, output, span));
        }
        None
    }
}
