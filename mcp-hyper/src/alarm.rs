//! A machine's next timeout, on the timers of a runtime.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time;

use hyper::rt::{Sleep, Timer};
use mcp_proto::Instant;
use mcp_proto::front::Clock;

/// One timer, set anew only when the timeout has changed.
pub(crate) struct Alarm {
    clock: Arc<dyn Clock>,
    timer: Arc<dyn Timer + Send + Sync>,
    set: Option<(Instant, Pin<Box<dyn Sleep>>)>,
}

impl Alarm {
    pub(crate) fn new(clock: Arc<dyn Clock>, timer: Arc<dyn Timer + Send + Sync>) -> Self {
        Self { clock, timer, set: None }
    }

    /// Ready once the clock has reached `deadline`.
    pub(crate) fn poll_until(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = deadline else {
            self.set = None;
            return Poll::Pending;
        };
        if self.set.as_ref().is_none_or(|(set, _)| *set != deadline) {
            let left = deadline.saturating_since(self.clock.now());
            // One that is far beyond the life of the process never comes.
            let Some(at) = time::Instant::now().checked_add(left) else { return Poll::Pending };
            self.set = Some(match self.set.take() {
                Some((_, mut sleep)) => {
                    self.timer.reset(&mut sleep, at);
                    (deadline, sleep)
                }
                None => (deadline, self.timer.sleep_until(at)),
            });
        }
        let Some((_, sleep)) = &mut self.set else { return Poll::Pending };
        let rung = sleep.as_mut().poll(cx).is_ready();
        if rung {
            // The machine may still want the same deadline if its clock reads a little less: ask again then.
            self.set = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("set", &self.set.as_ref().map(|(at, _)| at)).finish_non_exhaustive()
    }
}
