//! The waker of one source among those that a task waits for.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, PoisonError};

/// A waker of one source among those that a task waits for: it wakes the task, and notes that it was called.
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
/// let polled = flag.poll_ready(&mut cx, |cx| {
///     registered = Some(cx.waker().clone());
///     Poll::<Result<(), ()>>::Pending
/// });
/// assert_eq!(polled, Poll::Pending);
/// registered.unwrap().wake();
/// assert_eq!(flag.poll_ready(&mut cx, |_| Poll::<Result<(), ()>>::Pending), Poll::Ready(Ok(())));
/// ```
pub struct WakeFlag {
    state: Arc<State>,
    waker: Waker,
    /// [`poll_woken`](Self::poll_woken) has got `Pending` from its source.
    awaits_wake: bool,
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
        Self { waker: Waker::from(state.clone()), state, awaits_wake: false }
    }
}

impl WakeFlag {
    /// Polls for the readiness of a source. A source that has called its waker since the last call is ready, whatever
    /// it answers now; the operation that follows tells.
    pub fn poll_ready<E>(
        &mut self,
        cx: &mut Context<'_>,
        source: impl FnOnce(&mut Context<'_>) -> Poll<Result<(), E>>,
    ) -> Poll<Result<(), E>> {
        self.set_task(cx);
        let polled = source(&mut Context::from_waker(&self.waker));
        if self.take_wake() && polled.is_pending() { Poll::Ready(Ok(())) } else { polled }
    }

    /// Polls a source whose every poll costs a system call: again only after it was ready, or has called its waker.
    pub fn poll_woken<T>(
        &mut self,
        cx: &mut Context<'_>,
        source: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.set_task(cx);
        // A wake from here on wakes the task, whose next call finds it.
        if !self.take_wake() && self.awaits_wake {
            return Poll::Pending;
        }
        let polled = source(&mut Context::from_waker(&self.waker));
        self.awaits_wake = polled.is_pending();
        polled
    }

    /// Lets wakes reach the task of this call.
    fn set_task(&self, cx: &Context<'_>) {
        let displaced = {
            let mut task = self.state.task.lock().unwrap_or_else(PoisonError::into_inner);
            (!task.will_wake(cx.waker())).then(|| core::mem::replace(&mut *task, cx.waker().clone()))
        };
        drop(displaced);
    }

    fn take_wake(&self) -> bool {
        self.state.is_woken.swap(false, Ordering::SeqCst)
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
