//! Deadlines that move often, on timers that are set seldom.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use hyper::rt::{Sleep, Timer};

/// The timers of a runtime.
pub(super) type Timers = Arc<dyn Timer + Send + Sync>;

/// One timer. It is set when there is something to wait for, and anew only if it would ring too late: a deadline that
/// is put off with each request costs nothing until the first one has passed.
#[derive(Default)]
pub(super) struct Alarm {
    set: Option<(Instant, Pin<Box<dyn Sleep>>)>,
}

impl Alarm {
    /// Ready once `deadline` has passed.
    pub(super) fn poll_until(
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
