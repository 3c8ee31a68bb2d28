//! The runtime's clock and timers.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use mcp_proto::UnixTime;
use mcp_proto::adapter::{Clock, SystemClock};

/// The timers of a runtime.
pub(crate) type Timers = Arc<dyn Timer + Send + Sync>;

/// The clock of a client or a server. It reads its runtime's time, so that a simulated time applies to all of it.
pub(crate) struct RuntimeClock {
    timers: Timers,
    origin: Instant,
}

impl RuntimeClock {
    /// A clock whose origin is now.
    pub(crate) fn new(timers: Timers) -> Self {
        let origin = timers.now();
        Self { timers, origin }
    }

    pub(crate) fn timers(&self) -> &Timers {
        &self.timers
    }

    /// The runtime's instant for a protocol instant; `None` if the runtime's clock cannot represent it.
    pub(crate) fn at(&self, instant: mcp_proto::Instant) -> Option<Instant> {
        self.origin.checked_add(instant.since_origin())
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
/// postpones costs nothing until the first one has passed.
#[derive(Default)]
pub(crate) struct Alarm {
    set: Option<(Instant, Pin<Box<dyn Sleep>>)>,
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
            let (at, sleep) = self.set.get_or_insert_with(|| (deadline, timers.sleep_until(deadline)));
            if *at > deadline {
                *at = deadline;
                timers.reset(sleep, deadline);
            }
            ready!(sleep.as_mut().poll(cx));
            if *at >= deadline {
                self.set = None;
                return Poll::Ready(());
            }
            *at = deadline;
            timers.reset(sleep, deadline);
        }
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("at", &self.set.as_ref().map(|(at, _)| at)).finish()
    }
}
