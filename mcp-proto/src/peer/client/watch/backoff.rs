//! When something that failed is tried again.

use core::time::Duration;

use crate::Instant;
use crate::peer::{HttpError, LostReason, Outcome, RequestError};
use crate::rpc::code;

use super::WatchConfig;

/// What an outcome means for somebody who wants to go on.
#[derive(Debug)]
pub(super) enum RetryClass {
    /// The server has ended it of its own accord, or has done what it was asked.
    Done,
    /// It may work the next time, after at least this long.
    Lost(Duration),
    /// The server answered that it will not; whether it might change its mind.
    Refused(Outcome, RefusalKind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusalKind {
    Permanent,
    Transient,
}

impl From<Outcome> for RetryClass {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            // Either is the server's own doing: one page wants the result, another the notification.
            Outcome::Result(_) | Outcome::Lost(LostReason::Ended) => Self::Done,
            Outcome::Http(HttpError { status: 408 | 425 | 429 | 500.., retry_after, .. }) => {
                Self::Lost(retry_after.unwrap_or_default())
            }
            Outcome::Lost(_)
            | Outcome::TimedOut { .. }
            | Outcome::Cancelled
            | Outcome::Refused(RequestError::Overloaded { .. } | RequestError::InFlight { .. }) => {
                Self::Lost(Duration::ZERO)
            }
            Outcome::Error(error) => {
                let made = matches!(
                    error.code,
                    code::METHOD_NOT_FOUND
                        | code::INVALID_PARAMS
                        | code::INVALID_REQUEST
                        | code::MISSING_REQUIRED_CLIENT_CAPABILITY
                        | code::UNSUPPORTED_PROTOCOL_VERSION
                        | code::HEADER_MISMATCH
                );
                Self::Refused(
                    Outcome::Error(error),
                    if made { RefusalKind::Permanent } else { RefusalKind::Transient },
                )
            }
            outcome @ Outcome::Invalid(_) => Self::Refused(outcome, RefusalKind::Transient),
            outcome => Self::Refused(outcome, RefusalKind::Permanent),
        }
    }
}

/// Pauses that grow from one failure to the next, half of each left to chance.
#[derive(Debug)]
pub(super) struct BackoffTimer {
    first: Duration,
    longest: Duration,
    failures: u32,
    /// The state of `SplitMix64`.
    rng_state: u64,
    due: Option<Instant>,
}

impl BackoffTimer {
    /// How often a server that answers may say no before it is believed.
    const MAX_REFUSALS: u32 = 5;

    /// The shortest pause, whatever is configured: without one nothing else would be done.
    const MIN_PAUSE: Duration = Duration::from_millis(10);

    pub(super) fn new(config: &WatchConfig) -> Self {
        let WatchConfig { first_pause: first, longest_pause: longest, seed: chance, .. } = *config;
        Self { first, longest, failures: 0, rng_state: chance, due: None }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether it is to be waited still.
    pub(super) fn is_waiting(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due > now)
    }

    /// Nothing is waited for any more.
    pub(super) fn clear(&mut self) {
        self.due = None;
    }

    /// It has worked.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Whether a server that says no is to be believed.
    pub(super) fn is_exhausted(&self) -> bool {
        self.failures >= Self::MAX_REFUSALS
    }

    /// It has failed: it is tried again after a pause, which is not shorter than `least`.
    pub(super) fn fail(&mut self, now: Instant, least: Duration) {
        let whole = self.first.saturating_mul(2u32.saturating_pow(self.failures)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        let half = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX) / 2;
        let pause = whole.saturating_sub(Duration::from_nanos(self.random_below(half)));
        self.due = Some(now + pause.max(least).max(Self::MIN_PAUSE));
    }

    /// A number from 0 to `limit`, both included.
    fn random_below(&mut self, limit: u64) -> u64 {
        self.rng_state = self.rng_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.rng_state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        limit.checked_add(1).and_then(|limit| mixed.checked_rem(limit)).unwrap_or(mixed)
    }
}
