//! One-shot timers.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::{Reactor, RuntimeKind};

/// How far ahead a timer is set at most. Its owner sets it again if it has fired too early.
const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A timer that never fires until it is set.
#[derive(Debug)]
pub(crate) enum Timer {
    #[cfg(feature = "smol")]
    Smol(async_io::Timer),
    /// `None` until it is first set, which must happen inside of the runtime.
    #[cfg(feature = "tokio")]
    Tokio(Option<Pin<Box<tokio::time::Sleep>>>),
    Thread(Option<Instant>),
}

impl Timer {
    pub(crate) fn new(reactor: Reactor) -> Self {
        match reactor {
            #[cfg(feature = "smol")]
            Reactor::Runtime(RuntimeKind::Smol) => Self::Smol(async_io::Timer::never()),
            #[cfg(feature = "tokio")]
            Reactor::Runtime(RuntimeKind::Tokio) => Self::Tokio(None),
            Reactor::Thread => Self::Thread(None),
        }
    }

    /// Makes it fire once, after this time.
    pub(crate) fn set(&mut self, after: Duration) {
        let after = after.min(FAR);
        match self {
            #[cfg(feature = "smol")]
            Self::Smol(timer) => timer.set_after(after),
            #[cfg(feature = "tokio")]
            Self::Tokio(Some(timer)) => timer.as_mut().reset(tokio::time::Instant::now() + after),
            #[cfg(feature = "tokio")]
            Self::Tokio(timer) => *timer = Some(Box::pin(tokio::time::sleep(after))),
            Self::Thread(timer) => *timer = Some(Instant::now() + after),
        }
    }

    /// Ready once it has fired. It must be set before it is polled again.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            #[cfg(feature = "smol")]
            Self::Smol(timer) => Pin::new(timer).poll(cx).map(drop),
            #[cfg(feature = "tokio")]
            Self::Tokio(Some(timer)) => timer.as_mut().poll(cx),
            #[cfg(feature = "tokio")]
            Self::Tokio(None) => Poll::Pending,
            Self::Thread(timer) if timer.is_some_and(|timer| timer <= Instant::now()) => Poll::Ready(()),
            Self::Thread(_) => Poll::Pending,
        }
    }
}

/// Waits for this time.
pub(crate) async fn sleep(reactor: Reactor, time: Duration) {
    let mut timer = Timer::new(reactor);
    timer.set(time);
    poll_fn(|cx| timer.poll(cx)).await;
}

/// Runs a future on this thread without a reactor: polls it whenever an interval is over, which grows to 50 ms.
pub(crate) fn poll_at_intervals<T>(future: impl Future<Output = T>) -> T {
    const FIRST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(50);
    let mut future = pin!(future);
    let mut interval = FIRST;
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
        thread::sleep(interval);
        interval = (interval * 2).min(LONGEST);
    }
}
