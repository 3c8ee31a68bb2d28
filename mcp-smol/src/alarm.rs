//! A driver's next timeout, on the timer of the reactor.

use std::fmt;
use std::task::{Context, Poll, ready};

use mcp_proto::Instant;
use mcp_proto::adapter::{Clock as _, SystemClock};

use crate::reactor::{Reactor, Timer};

/// A timer that is set again only if it would fire too late.
///
/// Deadlines move with each request, mostly to later times. A timer that fires early costs one poll; setting one costs
/// a wake-up of the reactor.
pub(crate) struct Alarm {
    clock: SystemClock,
    /// When the timer fires.
    armed: Option<Instant>,
    timer: Timer,
}

impl Alarm {
    pub(crate) fn new(reactor: Reactor, clock: SystemClock) -> Self {
        Self { clock, armed: None, timer: Timer::new(reactor) }
    }

    /// Ready once the clock has reached `deadline`.
    pub(crate) fn poll_until(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = deadline else { return Poll::Pending };
        loop {
            if self.armed.is_none_or(|armed| armed > deadline) {
                let left = deadline.saturating_since(self.clock.now());
                if left.is_zero() {
                    return Poll::Ready(());
                }
                self.armed = Some(deadline);
                self.timer.set(left);
            }
            ready!(self.timer.poll(cx));
            self.armed = None;
        }
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("armed", &self.armed).finish_non_exhaustive()
    }
}
