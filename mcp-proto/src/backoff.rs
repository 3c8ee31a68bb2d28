//! Exponential backoff with jitter, for everything that a client retries.

use core::time::Duration;

use crate::Instant;

config! {
    /// Exponential backoff between the attempts at an operation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
    pub struct Backoff {
        /// The first pause; each further pause is twice as long. Each is shortened at random by up to half. Default 500
        /// ms.
        pub first: Duration = Duration::from_millis(500),
        /// The longest pause. Default 30 s.
        pub longest: Duration = Duration::from_secs(30),
        /// The number of retries before the operation counts as failed. Default 5.
        ///
        /// While connecting it is at most 3, because a user who mistyped the address may be waiting.
        pub attempts: u32 = 5,
    }
}

impl Backoff {
    /// Returns the jittered pause after `failures` failures, the first of which is number 0.
    pub(crate) fn pause(&self, failures: u32, rng: &mut SplitMix64) -> Duration {
        let longest = self.first.saturating_mul(2u32.saturating_pow(failures)).min(self.longest);
        let half = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX) / 2;
        longest.saturating_sub(Duration::from_nanos(rng.up_to(half)))
    }
}

/// A `Backoff` that counts the failures of one operation and knows when its next attempt is due.
#[derive(Debug)]
pub struct BackoffTimer {
    backoff: Backoff,
    failures: u32,
    rng: SplitMix64,
    due: Option<Instant>,
}

impl BackoffTimer {
    /// The shortest pause, also if a shorter one is configured: without it the client would retry in a busy loop.
    pub(crate) const MIN_PAUSE: Duration = Duration::from_millis(10);

    /// Creates a timer whose jitter repeats with the seed.
    pub fn new(backoff: Backoff, seed: u64) -> Self {
        Self { backoff, failures: 0, rng: SplitMix64::new(seed), due: None }
    }

    /// When the next attempt is due, after a failure.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether the pause still lasts at `now`.
    pub(crate) fn is_waiting(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due > now)
    }

    /// Ends the pause.
    pub(crate) fn clear(&mut self) {
        self.due = None;
    }

    /// The operation succeeded: forgets its failures.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Whether the operation has failed as often as the backoff allows attempts.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.failures >= self.backoff.attempts
    }

    /// Records a failure and schedules the next attempt, not sooner than after `least`.
    pub fn fail(&mut self, now: Instant, least: Duration) {
        let pause = self.backoff.pause(self.failures, &mut self.rng);
        self.failures = self.failures.saturating_add(1);
        self.due = Some(now + pause.max(least).max(Self::MIN_PAUSE));
    }
}

/// A pseudo-random number generator whose sequence repeats with its seed: `SplitMix64`. Not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to `limit`, both included.
    pub(crate) fn up_to(&mut self, limit: u64) -> u64 {
        let number = self.next_u64();
        limit.checked_add(1).and_then(|limit| number.checked_rem(limit)).unwrap_or(number)
    }
}
