//! Pauses between one event stream and the next that goes on where it ended.
//!
//! | the stream brought | the pause before the next one |
//! |---|---|
//! | a message | what the server wants |
//! | no more than a new event id, `retry` or comments | what the server wants the first time, then twice as long each time, up to [`LONGEST_IDLE`] |
//! | nothing, or an error | what the server wants the first time, then the backoff |
//!
//! None is shorter than what the server wants, nor, but for the first, than [`FLOOR`].
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>

use core::time::Duration;

use super::answer::Trail;
use super::config::{Backoff, Chance};

/// The shortest pause: a server that ends every stream at once would otherwise be asked as fast as the network allows.
pub(super) const FLOOR: Duration = Duration::from_millis(100);
/// The longest pause that is added because streams bring no message. A server that is polled this way for an answer
/// is found to have it no later than this.
const LONGEST_IDLE: Duration = Duration::from_secs(2);

/// What a stream has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brought {
    /// At least one event with data.
    Message,
    /// A new position to go on from.
    Position,
    Nothing,
}

impl From<&Trail> for Brought {
    fn from(trail: &Trail) -> Self {
        match trail {
            Trail { heard: true, .. } => Self::Message,
            Trail { last_event: Some(_), .. } => Self::Position,
            Trail { last_event: None, .. } => Self::Nothing,
        }
    }
}

/// The streams that have ended so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reconnects {
    /// Whether a stream has ended before.
    any: bool,
    /// How many in a row brought a position at most.
    idle: u32,
    /// How many in a row brought nothing, counting the one before them.
    failures: u32,
}

impl Reconnects {
    /// How many in a row brought nothing, counting the one before them.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// A stream has ended: returns the pause before the next, where the server wants `wish`.
    pub(super) fn next_pause(
        &mut self,
        brought: Brought,
        wish: Duration,
        backoff: &Backoff,
        chance: &mut Chance,
    ) -> Duration {
        let pause = match brought {
            Brought::Message => {
                (self.idle, self.failures) = (0, 0);
                Duration::ZERO
            }
            Brought::Position => {
                let doubled = FLOOR.saturating_mul(2u32.saturating_pow(self.idle.saturating_sub(1)));
                let pause = if self.idle == 0 { Duration::ZERO } else { doubled.min(LONGEST_IDLE) };
                self.idle = self.idle.saturating_add(1);
                self.failures = 0;
                pause
            }
            Brought::Nothing if self.failures == 0 => Duration::ZERO,
            Brought::Nothing => backoff.pause(self.failures, chance),
        };
        self.failures = self.failures.saturating_add(1);
        let floor = if core::mem::replace(&mut self.any, true) { FLOOR } else { Duration::ZERO };
        pause.max(wish).max(floor)
    }
}
