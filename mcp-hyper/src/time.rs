//! The runtime's clock and timers, and pauses that grow.

use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use mcp_proto::UnixTime;
use mcp_proto::adapter::{Clock, SystemClock};

use crate::runtime::Runtime;

/// The timers of a runtime.
pub(crate) type Timers = Arc<dyn Timer + Send + Sync>;

/// The clock of a client or a server. It reads its runtime's time, so that a simulated time applies to all of it.
pub(crate) struct RuntimeClock {
    timers: Timers,
    origin: Instant,
    start_runtime: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
}

impl RuntimeClock {
    /// A clock whose origin is now.
    pub(crate) fn new(runtime: &Arc<impl Runtime>) -> Self {
        let (timers, runtime) = (runtime.timer(), runtime.clone());
        Self { origin: timers.now(), timers, start_runtime: Box::new(move || runtime.start()) }
    }

    pub(crate) fn timers(&self) -> &Timers {
        &self.timers
    }

    /// The runtime's instant for a protocol instant; `None` if the runtime's clock cannot represent it.
    pub(crate) fn at(&self, instant: mcp_proto::Instant) -> Option<Instant> {
        self.origin.checked_add(instant.since_origin())
    }

    /// Sleeps in a future of a handle, which any executor may poll: where the runtime has no timers, it never ends.
    pub(crate) async fn sleep_in_handle(&self, time: Duration) {
        match (self.start_runtime)() {
            Ok(()) => self.timers.sleep(time).await,
            // Without a timer, there is no report.
            Err(_) => pending().await,
        }
    }

    /// The instant after `delay` from now; `None` if the runtime's clock cannot represent it.
    pub(crate) fn after(&self, delay: Duration) -> Option<Instant> {
        self.timers.now().checked_add(delay)
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> mcp_proto::Instant {
        mcp_proto::Instant::from_origin(self.timers.now().saturating_duration_since(self.origin))
    }

    fn unix_time(&self) -> UnixTime {
        // Runtimes have no wall clock of their own.
        SystemClock::new().unix_time()
    }
}

/// A timer for the earliest deadline. It is reset only if it would fire too late: a deadline that each request
/// postpones costs nothing until the first one has passed. It allocates once.
#[derive(Default)]
pub(crate) struct Alarm {
    sleep: Option<Pin<Box<dyn Sleep>>>,
    /// When `sleep` ends, unless it has ended.
    at: Option<Instant>,
}

impl Alarm {
    /// Ready once `deadline` has passed.
    pub(crate) fn poll_until(
        &mut self,
        deadline: Option<Instant>,
        timers: &Timers,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let Some(deadline) = deadline else { return Poll::Pending };
        loop {
            let sleep = match &mut self.sleep {
                Some(sleep) => {
                    if self.at.is_none_or(|at| at > deadline) {
                        timers.reset(sleep, deadline);
                        self.at = Some(deadline);
                    }
                    sleep
                }
                none => {
                    self.at = Some(deadline);
                    none.insert(timers.sleep_until(deadline))
                }
            };
            ready!(sleep.as_mut().poll(cx));
            if self.at.take().is_some_and(|at| at >= deadline) {
                return Poll::Ready(());
            }
        }
    }
}

debug_fields! { Alarm { at } }

/// The pauses before pieces of work that a server can demand at will, such as reading its lists again.
///
/// Each is twice as long as the one before, up to the longest. After a quiet time of that length they begin anew. Work
/// that is demanded during a pause is done at its end.
#[cfg(feature = "host")]
#[derive(Debug)]
pub(crate) struct GrowingPause {
    first: Duration,
    longest: Duration,
    next: Duration,
    /// The end of the last pause.
    last_end: Option<mcp_proto::Instant>,
}

#[cfg(feature = "host")]
impl GrowingPause {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first, last_end: None }
    }

    /// Begins a pause now; returns its end.
    pub(crate) fn begin(&mut self, now: mcp_proto::Instant) -> mcp_proto::Instant {
        if self.last_end.is_none_or(|end| now.saturating_since(end) >= self.longest) {
            self.next = self.first;
        }
        let end = now + self.next;
        self.next = self.next.saturating_mul(2).min(self.longest);
        self.last_end = Some(end);
        end
    }
}

#[cfg(all(test, feature = "host"))]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_there_was_none_for_a_while() {
        let second = Duration::from_secs(1);
        let mut pause = GrowingPause::new(second, 6 * second);
        let mut now = mcp_proto::Instant::ORIGIN;
        for seconds in [1, 2, 4, 6, 6] {
            let end = pause.begin(now);
            assert_eq!(end, now + seconds * second);
            now = end + second;
        }
        now = now + 5 * second;
        assert_eq!(pause.begin(now), now + second);
    }
}
