//! Wakes of a driver by its own work.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// No poll is running, and the task has not been woken since the last one.
const IDLE: u8 = 0;
/// A poll is running.
const POLLING: u8 = 1;
/// The task was woken.
const WOKEN: u8 = 2;

/// The waker that a driver gives to its parts. A wake during a poll lets the same poll go on: the task is not scheduled
/// again, and its thread does not return to the reactor, which costs system calls.
#[derive(Debug)]
pub(crate) struct InnerWaker {
    shared: Arc<Shared>,
    waker: Waker,
}

#[derive(Debug)]
struct Shared {
    state: AtomicU8,
    /// The waker of the driver's task.
    task: Mutex<Option<Waker>>,
}

impl Default for InnerWaker {
    fn default() -> Self {
        let shared = Arc::new(Shared { state: AtomicU8::new(IDLE), task: Mutex::new(None) });
        Self { waker: Waker::from(shared.clone()), shared }
    }
}

impl InnerWaker {
    /// Calls `poll` until it is ready, or pending without having been woken meanwhile, at most `rounds` times. After
    /// that other tasks get a turn.
    pub(crate) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        rounds: usize,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        {
            let mut task = self.shared.task.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *task {
                Some(task) => task.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
        }
        let mut inner = Context::from_waker(&self.waker);
        for _ in 0..rounds {
            self.shared.state.store(POLLING, Ordering::SeqCst);
            if let Poll::Ready(output) = poll(&mut inner) {
                return Poll::Ready(output);
            }
            let state = &self.shared.state;
            if state.compare_exchange(POLLING, IDLE, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == IDLE {
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(task) = task {
                task.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts its wakes.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn wake_during_a_poll_lets_it_go_on_and_a_later_one_wakes_the_task() {
        let task = Arc::new(Task::default());
        let waker = Waker::from(task.clone());
        let mut cx = Context::from_waker(&waker);
        let driver = InnerWaker::default();
        let mut polls = 0;
        let mut inner = None;
        let polled = driver.poll(&mut cx, 4, |cx| {
            polls += 1;
            if polls < 3 {
                cx.waker().wake_by_ref();
            }
            inner = Some(cx.waker().clone());
            Poll::<()>::Pending
        });
        assert_eq!((polled, polls, task.0.load(Ordering::SeqCst)), (Poll::Pending, 3, 0));
        let inner = inner.unwrap();
        inner.wake_by_ref();
        inner.wake_by_ref();
        assert_eq!(task.0.load(Ordering::SeqCst), 1, "one wake is enough until the next poll");
    }

    #[test]
    fn task_that_always_wakes_itself_lets_others_run() {
        let task = Arc::new(Task::default());
        let waker = Waker::from(task.clone());
        let driver = InnerWaker::default();
        let mut polls = 0;
        let polled = driver.poll(&mut Context::from_waker(&waker), 4, |cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert_eq!((polled, polls, task.0.load(Ordering::SeqCst)), (Poll::Pending, 4, 1));
    }
}
