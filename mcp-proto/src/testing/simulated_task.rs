//! A task of a simulated executor, which polls it only after it was woken.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;

/// Whether a task was woken since it was last polled.
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// A task of a simulated executor. It begins as woken.
pub(super) struct SimulatedTask {
    woken: Arc<WakeFlag>,
    waker: Waker,
}

impl SimulatedTask {
    pub(super) fn new() -> Self {
        let woken = Arc::new(WakeFlag(AtomicBool::new(true)));
        Self { waker: Waker::from(woken.clone()), woken }
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(super) fn wake(&self) {
        self.woken.0.store(true, Ordering::Release);
    }

    pub(super) fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::Acquire)
    }

    /// Returns whether the task was woken since the last call.
    pub(super) fn take_woken(&self) -> bool {
        self.woken.0.swap(false, Ordering::AcqRel)
    }
}
