//! A handle that ends a process tree at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Kills the server of a [`ClientDriver`](crate::ClientDriver) and its whole process group at once, from any thread.
///
/// For programs that must end without delay, such as at a second Ctrl-C: the shutdown steps of
/// [`Client::close`](mcp_proto::front::Client::close) take up to the times in
/// [`ShutdownTimeouts`](crate::ShutdownTimeouts). After [`kill`](Self::kill) poll the driver to its end, which takes
/// milliseconds and reaps the process.
#[derive(Clone, Debug, Default)]
pub struct Killer(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    killed: bool,
    waker: Option<Waker>,
}

impl Killer {
    /// Kills the server, at once if it is running. The driver does not start it again.
    pub fn kill(&self) {
        let mut state = self.state();
        state.killed = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.state().killed
    }

    /// Ready once [`kill`](Self::kill) has been called. Wakes the task that polled last.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.killed {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// A poisoned lock is usable: no code under it can panic half-way through a change.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
