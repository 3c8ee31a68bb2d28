//! Notes wakes of one source among those that a task waits for.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, PoisonError};

/// Polls a source of events with a waker of its own, and tells whether the source has called it.
///
/// A task that waits for several sources learns from it which of them has woken it. To ask the source again is not
/// always an answer: the reactor of async-io counts an event only if it came in a turn that began after the task had
/// registered. On a thread of its own it is in the next turn before the task asks, each time.
///
/// ```
/// use std::task::{Context, Poll, Waker};
///
/// use mcp_proto::adapter::WakeFlag;
///
/// let mut flag = WakeFlag::default();
/// let mut registered = None;
/// let mut cx = Context::from_waker(Waker::noop());
/// let polled = flag.poll(&mut cx, |cx| {
///     registered = Some(cx.waker().clone());
///     Poll::<()>::Pending
/// });
/// assert_eq!(polled, (Poll::Pending, false));
/// registered.unwrap().wake();
/// assert_eq!(flag.poll(&mut cx, |_| Poll::<()>::Pending), (Poll::Pending, true));
/// ```
pub struct WakeFlag {
    state: Arc<State>,
    waker: Waker,
}

struct State {
    is_woken: AtomicBool,
    /// The waker of the task that polled last.
    task: Mutex<Waker>,
}

impl Default for WakeFlag {
    fn default() -> Self {
        let state =
            Arc::new(State { is_woken: AtomicBool::new(false), task: Mutex::new(Waker::noop().clone()) });
        Self { waker: Waker::from(state.clone()), state }
    }
}

impl WakeFlag {
    /// Polls `source`. Also returns whether its waker was called since the last call returned; a wake before that
    /// wakes the task of this call.
    pub fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        source: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> (Poll<T>, bool) {
        let displaced = {
            let mut task = self.state.task.lock().unwrap_or_else(PoisonError::into_inner);
            (!task.will_wake(cx.waker())).then(|| core::mem::replace(&mut *task, cx.waker().clone()))
        };
        drop(displaced);
        let polled = source(&mut Context::from_waker(&self.waker));
        (polled, self.state.is_woken.swap(false, Ordering::SeqCst))
    }
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        task.wake();
    }
}

impl fmt::Debug for WakeFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeFlag").finish_non_exhaustive()
    }
}
