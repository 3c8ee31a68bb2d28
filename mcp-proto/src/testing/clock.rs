//! A simulated clock, entropy that counts, and tasks of a simulated executor.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::front::Clock;
use crate::front::clock::Entropy;
use crate::{Instant, UnixTime};

/// A clock that a test sets and handlers can wait on. It starts on 2026-01-01.
///
/// ```
/// use std::future::Future;
/// use std::pin::pin;
/// use std::task::{Context, Waker};
/// use std::time::Duration;
///
/// use mcp_proto::Instant;
/// use mcp_proto::testing::SimulatedClock;
///
/// let clock = SimulatedClock::default();
/// let mut sleep = pin!(clock.sleep(Duration::from_secs(1)));
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(sleep.as_mut().poll(&mut cx).is_pending());
/// clock.set(Instant::ORIGIN + Duration::from_secs(1));
/// assert!(sleep.as_mut().poll(&mut cx).is_ready());
/// ```
#[derive(Debug, Default)]
pub struct SimulatedClock(Mutex<ClockState>);

#[derive(Debug, Default)]
struct ClockState {
    now: Instant,
    next: u64,
    sleepers: BTreeMap<(Instant, u64), Waker>,
}

impl SimulatedClock {
    /// Waits for a duration of simulated time.
    pub async fn sleep(&self, duration: Duration) {
        let mut sleeper = None;
        let due = self.now() + duration;
        poll_fn(|cx| {
            let mut state = self.lock();
            if let Some(sleeper) = sleeper.take() {
                state.sleepers.remove(&sleeper);
            }
            if due <= state.now {
                return Poll::Ready(());
            }
            state.next = state.next.saturating_add(1);
            let key = (due, state.next);
            state.sleepers.insert(key, cx.waker().clone());
            sleeper = Some(key);
            Poll::Pending
        })
        .await;
    }

    /// Sets the time, and wakes the tasks whose deadline has passed.
    pub fn set(&self, now: Instant) {
        loop {
            let mut state = self.lock();
            state.now = now;
            let Some(due) = state.sleepers.first_entry().filter(|entry| entry.key().0 <= now) else { return };
            let waker = due.remove();
            drop(state);
            waker.wake();
        }
    }

    /// The earliest deadline that a task waits for.
    pub fn next_wake(&self) -> Option<Instant> {
        self.lock().sleepers.first_key_value().map(|(&(due, _), _)| due)
    }

    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Instant {
        self.lock().now
    }

    fn unix_time(&self) -> UnixTime {
        UnixTime::from_epoch(Duration::from_secs(1_767_225_600)) + self.now().since_origin()
    }
}

/// Entropy that counts from a seed: the same seed gives the same bytes.
#[derive(Debug)]
pub struct CountingEntropy(AtomicU64);

impl CountingEntropy {
    /// Creates entropy with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Default for CountingEntropy {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for (byte, random) in chunk.iter_mut().zip(word.to_be_bytes()) {
                *byte = random;
            }
        }
    }
}

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

    /// Polls the task as long as it was woken. It is polled again after an output, as there may be more.
    pub(super) fn poll<T>(&self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        while self.take_woken() {
            if let Poll::Ready(output) = poll(&mut Context::from_waker(&self.waker)) {
                self.wake();
                return Some(output);
            }
        }
        None
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
