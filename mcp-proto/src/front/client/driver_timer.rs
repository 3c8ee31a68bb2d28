//! The timers of futures that wait for a connection whose driver is never polled.
//!
//! The driver fires the timeouts of a connection. Without it, a call would wait for ever and say nothing.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::ops::ControlFlow;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, ready};
use core::time::Duration;

use super::Connection;
use crate::Instant;

/// The time after which a driver without a first poll is reported.
const FIRST_POLL: Duration = Duration::from_secs(1);

/// A sleep on the adapter's runtime.
pub(super) type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Starts a sleep of this duration.
pub(super) type StartSleep = Arc<dyn Fn(Duration) -> Sleep + Send + Sync>;

/// Whether the driver may not have been polled yet. It saves calls the lock of the connection.
pub(super) struct FirstPoll(AtomicBool);

impl Default for FirstPoll {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl FirstPoll {
    /// Returns a timer for a call, unless the driver has been polled or the adapter has set no timer.
    pub(super) fn timer(&self, connection: &Arc<Connection>) -> Option<DriverTimer> {
        // A stale value costs one more look.
        if !self.0.load(Ordering::Relaxed) {
            return None;
        }
        let (start, polled) = connection.read(|core, _| (core.start_sleep.clone(), core.driver_polled));
        self.0.store(!polled && start.is_some(), Ordering::Relaxed);
        let start = start.filter(|_| !polled)?;
        let report_at = connection.now() + FIRST_POLL;
        Some(DriverTimer { connection: connection.clone(), start, sleep: None, report_at, limit: None })
    }
}

/// A timer of one waiting future. It reports an unpolled driver after a second, and fires the timeouts of the connection
/// in the driver's place.
pub(crate) struct DriverTimer {
    connection: Arc<Connection>,
    start: StartSleep,
    sleep: Option<Sleep>,
    report_at: Instant,
    /// The end of a wait that the machine does not limit.
    limit: Option<Instant>,
}

impl DriverTimer {
    /// Limits the wait.
    pub(super) fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = self.connection.now().after(limit);
        self
    }

    /// Ready once the timer is not needed any more; true if the driver was not polled before the limit.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            let (report_at, limit) = (self.report_at, self.limit);
            let next = self.connection.with(|core, machine, now, wakers| {
                if core.driver_polled {
                    return ControlFlow::Break(false);
                }
                if report_at <= now {
                    core.report_unpolled_driver(wakers);
                }
                machine.handle_timeout(now);
                if limit.is_some_and(|limit| limit <= now) {
                    return ControlFlow::Break(true);
                }
                let due = [Some(report_at), machine.poll_timeout(), limit].into_iter().flatten();
                match due.filter(|due| *due > now).min() {
                    Some(due) => ControlFlow::Continue(due.saturating_since(now)),
                    None => ControlFlow::Break(false),
                }
            });
            let pause = match next {
                ControlFlow::Break(expired) => return Poll::Ready(expired),
                ControlFlow::Continue(pause) => pause,
            };
            let sleep = self.sleep.get_or_insert_with(|| (self.start)(pause));
            ready!(sleep.as_mut().poll(cx));
            self.sleep = None;
        }
    }
}
