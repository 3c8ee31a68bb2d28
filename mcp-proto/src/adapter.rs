//! What adapters need: drivers, the machines that drivers poll, clocks and random seeds.
//!
//! An adapter makes a machine of [`transport`](crate::transport), joins it to a handle and a driver with `client` or
//! `server`, and polls the driver. [`front`](crate::front) has a complete one, and the [`guide`] explains how to write others.

#[cfg(doc)]
pub mod guide;
#[cfg(doc)]
pub mod web;

use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::{Context, Poll, Waker};
use std::io;

#[cfg(feature = "client")]
pub use crate::backoff::BackoffTimer;
#[cfg(feature = "client")]
pub use crate::front::client::{CacheContextEnder, ClientDriver, client};
pub use crate::front::clock::{Clock, Entropy};
#[cfg(feature = "server")]
pub use crate::front::server::{ServerDriver, server};
#[cfg(any(feature = "js", not(all(target_family = "wasm", target_os = "unknown"))))]
pub use crate::front::system_clock::SystemClock;
#[cfg(feature = "client")]
pub use crate::peer::client::ClientTransport;
#[cfg(feature = "server")]
pub use crate::peer::server::ServerTransport;
use crate::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use crate::sync::{Mutex, PoisonError};

/// The error that ended a server: an invalid [router](crate::front::Router::check), or an error of its sockets or streams.
///
/// Its `Debug` is its `Display`, because a program prints the error that its `main` returns by `Debug`:
///
/// ```
/// use std::io;
///
/// use mcp_proto::adapter::ServeError;
///
/// let error = ServeError::from(io::Error::new(io::ErrorKind::InvalidInput, "two tools have the name \"add\""));
/// assert_eq!(format!("{error:?}"), "two tools have the name \"add\"");
/// assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
/// ```
pub struct ServeError(io::Error);

impl ServeError {
    /// Its kind; [`io::ErrorKind::InvalidInput`] for an invalid router.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind()
    }
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl From<ServeError> for io::Error {
    fn from(error: ServeError) -> Self {
        error.0
    }
}

display_text! { ServeError(error) => "{error}" }

debug_fields! { ServeError(error) => "{error}" }

impl core::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.0.source()
    }
}

// Wakers between a task and its work: work that is polled again, and the source that has woken a task.

/// The waker of the task that polled last.
struct LatestTask(Mutex<Waker>);

impl Default for LatestTask {
    fn default() -> Self {
        Self(Mutex::new(Waker::noop().clone()))
    }
}

impl LatestTask {
    fn set(&self, task: &Waker) {
        let displaced = {
            let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (!own.will_wake(task)).then(|| core::mem::replace(&mut *own, task.clone()))
        };
        drop(displaced);
    }

    fn wake(&self) {
        let task = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        task.wake();
    }
}

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
    state: Arc<RepollState>,
    waker: Waker,
}

struct RepollState {
    state: AtomicU8,
    task: LatestTask,
}

impl Default for Repoll {
    fn default() -> Self {
        let state = Arc::new(RepollState { state: AtomicU8::new(IDLE), task: LatestTask::default() });
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
        self.state.task.set(cx.waker());
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

impl Wake for RepollState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == IDLE {
            self.task.wake();
        }
    }
}

debug_fields! { Repoll {} }

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
    state: Arc<FlagState>,
    waker: Waker,
    /// [`poll_woken`](Self::poll_woken) has got `Pending` from its source.
    awaits_wake: bool,
}

struct FlagState {
    is_woken: AtomicBool,
    task: LatestTask,
}

impl Default for WakeFlag {
    fn default() -> Self {
        let state = Arc::new(FlagState { is_woken: AtomicBool::new(false), task: LatestTask::default() });
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
        self.state.task.set(cx.waker());
        let polled = source(&mut Context::from_waker(&self.waker));
        if self.take_wake() && polled.is_pending() { Poll::Ready(Ok(())) } else { polled }
    }

    /// Polls a source whose every poll costs a system call: again only after it was ready, or has called its waker.
    pub fn poll_woken<T>(
        &mut self,
        cx: &mut Context<'_>,
        source: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.state.task.set(cx.waker());
        // A wake from here on wakes the task, whose next call finds it.
        if !self.take_wake() && self.awaits_wake {
            return Poll::Pending;
        }
        let polled = source(&mut Context::from_waker(&self.waker));
        self.awaits_wake = polled.is_pending();
        polled
    }

    fn take_wake(&self) -> bool {
        self.state.is_woken.swap(false, Ordering::SeqCst)
    }
}

impl Wake for FlagState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.task.wake();
    }
}

debug_fields! { WakeFlag {} }

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
