//! A machine's next timeout, on the timer of the reactor.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_io::Timer;
use futures_lite::Stream as _;
use mcp_proto::Instant;
use mcp_proto::adapter::{Clock, SystemClock};

/// A timer that is reset only when the deadline has changed.
pub(crate) struct Alarm {
    clock: Arc<SystemClock>,
    deadline: Option<Instant>,
    timer: Timer,
}

impl Alarm {
    pub(crate) fn new(clock: Arc<SystemClock>) -> Self {
        Self { clock, deadline: None, timer: Timer::never() }
    }

    /// Ready once the clock has reached `deadline`.
    pub(crate) fn poll_until(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        if self.deadline != deadline {
            self.deadline = deadline;
            match deadline {
                // A deadline far beyond the life of the process never fires.
                Some(deadline) => self.timer.set_after(deadline.saturating_since(self.clock.now())),
                None => self.timer = Timer::never(),
            }
        }
        let has_fired = Pin::new(&mut self.timer).poll_next(cx).is_ready();
        if has_fired {
            // The machine may still want the same deadline if its clock reads slightly less: set the timer again then.
            self.deadline = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
