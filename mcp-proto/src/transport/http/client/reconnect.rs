//! Pauses between an event stream and the next one that resumes it.
//!
//! | the stream delivered | the pause before the next one |
//! |---|---|
//! | a message | the server's `retry` |
//! | only a new event id, `retry` or comments | the server's `retry` the first time, then from 100 ms doubling up to [`MAX_IDLE_PAUSE`] |
//! | nothing, or an error | the server's `retry` the first time, then the backoff |
//!
//! No pause is shorter than the server's `retry`, and none but the first is shorter than [`MIN_PAUSE`].
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>

use core::time::Duration;

use crate::backoff::{Backoff, SplitMix64};

use super::response::ResumePoint;

/// The shortest pause, which limits the rate of requests to a server that ends every stream at once.
pub(super) const MIN_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause added because streams carry no message.
///
/// It is the maximum delay of an answer from a server that is polled this way.
const MAX_IDLE_PAUSE: Duration = Duration::from_secs(2);

/// How long a stream must last to count as working, with or without events.
pub(super) const STABLE_AFTER: Duration = Duration::from_secs(10);

/// The most useful item that a stream has delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamProgress {
    /// At least one event with data.
    Message,
    /// A new position to resume from.
    Position,
    Nothing,
}

impl From<&ResumePoint> for StreamProgress {
    fn from(trail: &ResumePoint) -> Self {
        match trail {
            ResumePoint { has_events: true, .. } => Self::Message,
            ResumePoint { last_event: Some(_), .. } => Self::Position,
            ResumePoint { last_event: None, .. } => Self::Nothing,
        }
    }
}

/// The streams that have ended so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reconnects {
    /// Whether a stream has ended before.
    has_reconnected: bool,
    /// The number of streams in a row that delivered no message but a position.
    idle: u32,
    /// The number of streams in a row that delivered nothing, plus the stream before them.
    failures: u32,
}

impl Reconnects {
    /// The number of streams in a row that delivered nothing, plus the stream before them.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Records the end of a stream; returns the pause before the next, given the server's `retry` in `wish`.
    pub(super) fn next_pause(
        &mut self,
        brought: StreamProgress,
        wish: Duration,
        backoff: &Backoff,
        rng: &mut SplitMix64,
    ) -> Duration {
        let pause = match brought {
            StreamProgress::Message => {
                (self.idle, self.failures) = (0, 0);
                Duration::ZERO
            }
            StreamProgress::Position => {
                let doubled = MIN_PAUSE.saturating_mul(2u32.saturating_pow(self.idle.saturating_sub(1)));
                let pause = if self.idle == 0 { Duration::ZERO } else { doubled.min(MAX_IDLE_PAUSE) };
                self.idle = self.idle.saturating_add(1);
                self.failures = 0;
                pause
            }
            StreamProgress::Nothing if self.failures == 0 => Duration::ZERO,
            StreamProgress::Nothing => backoff.pause(self.failures, rng),
        };
        self.failures = self.failures.saturating_add(1);
        let floor =
            if core::mem::replace(&mut self.has_reconnected, true) { MIN_PAUSE } else { Duration::ZERO };
        //= C4.22 "SSE `retry` respected before reconnect"
        pause.max(wish).max(floor)
    }
}
