//! The order to end a connection.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use mcp_proto::host::control::Failure;

/// Ends the task of a connection, from outside of it. Only one future at a time waits for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_stopped: bool,
    failure: Option<Failure>,
    waker: Option<Waker>,
}

impl Stop {
    /// Orders the end, because of `failure` if there is one. Only the first order counts.
    pub(super) fn stop(&self, failure: Option<Failure>) {
        let waker = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !state.is_stopped {
                state.is_stopped = true;
                state.failure = failure;
            }
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Runs `work` until it is done, or until the end is ordered: returns the reason then.
    pub(super) async fn or<T>(&self, work: impl Future<Output = T>) -> Result<T, Option<Failure>> {
        let mut work = pin!(work);
        poll_fn(|cx| match self.poll(cx) {
            Poll::Ready(failure) => Poll::Ready(Err(failure)),
            Poll::Pending => work.as_mut().poll(cx).map(Ok),
        })
        .await
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Failure>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_stopped {
            return Poll::Ready(state.failure.clone());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}
