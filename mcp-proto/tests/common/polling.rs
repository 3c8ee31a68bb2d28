//! A clock that a test sets, and futures that it polls by hand.

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::task::Wake;

use mcp_proto::adapter::Clock;
use mcp_proto::{Instant, UnixTime};

pub use mcp_proto::testing::CountingEntropy;

/// A clock that a test sets.
#[derive(Default)]
pub struct TestClock {
    now: Mutex<Instant>,
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl TestClock {
    pub fn advance(&self, duration: Duration) {
        let mut now = self.now.lock().unwrap();
        *now = *now + duration;
    }

    /// Does this when it is read next: what another thread might do at that moment.
    pub fn meanwhile(&self, act: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::new(act));
    }
}

impl Clock for TestClock {
    fn now(&self) -> Instant {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(act) = meanwhile {
            act();
        }
        *self.now.lock().unwrap()
    }

    fn unix_time(&self) -> UnixTime {
        UnixTime::from_epoch(Duration::from_secs(1_785_240_000)) + self.now.lock().unwrap().since_origin()
    }
}

/// A waker that counts.
#[derive(Default)]
pub struct WakeCounter(AtomicUsize);

impl WakeCounter {
    pub fn new() -> (Arc<Self>, Waker) {
        let wakes = Arc::new(Self::default());
        (wakes.clone(), Waker::from(wakes))
    }

    /// How often it was called since the last time this was asked.
    pub fn take(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls a future once, without anybody to wake.
pub fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

pub fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[track_caller]
pub fn ready<T>(polled: Poll<T>) -> T {
    match polled {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future is not ready"),
    }
}

#[track_caller]
pub fn pending<T: core::fmt::Debug>(polled: Poll<T>) {
    if let Poll::Ready(value) = polled {
        panic!("the future is ready: {value:?}");
    }
}

/// A future that may be polled more than once by hand.
pub fn boxed<'a, T>(future: impl Future<Output = T> + 'a) -> Pin<Box<dyn Future<Output = T> + 'a>> {
    Box::pin(future)
}
