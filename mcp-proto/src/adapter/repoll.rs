//! Polls work again that has woken itself, before its task returns to the executor.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, PoisonError};

/// Polls in a row before the task yields to others.
const POLLS: usize = 4;

/// No poll is running, and the work has not woken itself since the last one.
const IDLE: u8 = 0;
/// A poll is running.
const POLLING: u8 = 1;
/// The work was woken during the last poll, or after it.
const WOKEN: u8 = 2;

/// Polls the work of a task again if it has woken itself, without a detour through the executor.
///
/// An executor that waits for I/O between two polls asks the system for events each time: five system calls with
/// async-io. Work that one half of a driver leaves for the other needs none of them.
///
/// The work gets a waker of its own. A wake during a poll causes another poll, at most three in a row: after that the
/// task wakes itself, so that other tasks get a turn. A wake between two polls wakes the task of the latest poll, once.
///
/// ```
/// use std::task::{Context, Poll, Waker};
///
/// use mcp_proto::adapter::Repoll;
///
/// let mut repoll = Repoll::default();
/// let mut steps = 0;
/// let polled = repoll.poll(&mut Context::from_waker(Waker::noop()), |cx| {
///     steps += 1;
///     if steps < 3 {
///         cx.waker().wake_by_ref();
///     }
///     Poll::<()>::Pending
/// });
/// assert_eq!((polled, steps), (Poll::Pending, 3));
/// ```
pub struct Repoll {
    state: Arc<State>,
    waker: Waker,
}

struct State {
    state: AtomicU8,
    /// The waker of the task that polled last.
    task: Mutex<Waker>,
}

impl Default for Repoll {
    fn default() -> Self {
        let state = Arc::new(State { state: AtomicU8::new(IDLE), task: Mutex::new(Waker::noop().clone()) });
        Self { waker: Waker::from(state.clone()), state }
    }
}

impl Repoll {
    /// Calls `work` until it is ready, or pending without having woken itself; after four calls the task yields.
    pub fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut work: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.state.follow(cx.waker());
        let mut inner = Context::from_waker(&self.waker);
        for _ in 0..POLLS {
            self.state.state.store(POLLING, Ordering::SeqCst);
            let polled = work(&mut inner);
            let unwoken =
                self.state.state.compare_exchange(POLLING, IDLE, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            if polled.is_ready() || unwoken {
                return polled;
            }
        }
        // The state stays: further wakes add nothing to this one.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl State {
    /// Passes later wakes on to `task`.
    fn follow(&self, task: &Waker) {
        let displaced = {
            let mut own = self.task.lock().unwrap_or_else(PoisonError::into_inner);
            (!own.will_wake(task)).then(|| core::mem::replace(&mut *own, task.clone()))
        };
        drop(displaced);
    }
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == IDLE {
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
            task.wake();
        }
    }
}

impl fmt::Debug for Repoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repoll").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Polls work that wakes itself `times` times. Returns its polls, and the wakes of its task.
    fn polls(times: usize) -> (usize, usize) {
        let counter = Arc::new(CountingWaker::default());
        let task = Waker::from(counter.clone());
        let mut polls = 0;
        let polled = Repoll::default().poll(&mut Context::from_waker(&task), |cx| {
            polls += 1;
            if polls <= times {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        (polls, counter.0.load(Ordering::Relaxed))
    }

    #[test]
    fn work_that_wakes_itself_is_polled_again_without_its_task() {
        assert_eq!(polls(0), (1, 0));
        assert_eq!(polls(3), (4, 0));
    }

    #[test]
    fn work_that_always_wakes_itself_yields_to_other_tasks() {
        assert_eq!(polls(usize::MAX), (POLLS, 1));
    }

    #[test]
    fn wake_between_two_polls_reaches_the_task_of_the_latest_poll() {
        let counters = [Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default())];
        let mut repoll = Repoll::default();
        let mut inner = None;
        for counter in &counters {
            let task = Waker::from(counter.clone());
            let polled = repoll.poll(&mut Context::from_waker(&task), |cx| {
                inner = Some(cx.waker().clone());
                Poll::<()>::Pending
            });
            assert!(polled.is_pending());
        }
        let inner = inner.unwrap();
        inner.wake_by_ref();
        inner.wake();
        assert_eq!(counters.map(|counter| counter.0.load(Ordering::Relaxed)), [0, 1]);
    }
}
