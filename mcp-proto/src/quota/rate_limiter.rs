//! A rate for each owner.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use super::QuotaOwner;
use crate::Instant;

/// A rate: so many a second on average, and so many at once after a pause. It is a token bucket.
///
/// ```
/// use mcp_proto::quota::RateLimit;
///
/// let limit = RateLimit::per_second(20).burst(40);
/// # let _ = limit;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The time in which a token is added.
    interval: Duration,
    burst: u32,
}

/// The interval of a rate of zero.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl RateLimit {
    /// So many a second, and as many at once. With zero only the burst passes, once.
    #[must_use]
    pub const fn per_second(rate: u32) -> Self {
        Self::per(Duration::from_secs(1), rate)
    }

    /// So many a minute, and as many at once.
    #[must_use]
    pub const fn per_minute(rate: u32) -> Self {
        Self::per(Duration::from_secs(60), rate)
    }

    const fn per(time: Duration, rate: u32) -> Self {
        let interval = match time.checked_div(rate) {
            Some(interval) => interval,
            None => CENTURY,
        };
        Self { interval, burst: if rate == 0 { 1 } else { rate } }
    }

    /// Sets how many pass at once after a pause, one at least.
    #[must_use]
    pub const fn burst(self, burst: u32) -> Self {
        Self { burst: if burst == 0 { 1 } else { burst }, ..self }
    }

    /// The time in which an empty bucket fills.
    const fn fill_time(self) -> Duration {
        self.interval.saturating_mul(self.burst)
    }
}

/// The use that each owner makes of a rate, in a bounded table.
///
/// An owner who has not used the rate for a while takes no memory. If more owners than the table holds use it at once,
/// the one that has used least is forgotten and may start afresh: no owner is ever refused on account of others.
///
/// Every operation takes time logarithmic in the number of owners.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::Instant;
/// use mcp_proto::quota::{QuotaOwner, RateLimit, RateLimiter};
///
/// let mut limiter = RateLimiter::new(RateLimit::per_second(10).burst(2));
/// let now = Instant::ORIGIN;
/// assert_eq!(limiter.try_take(&QuotaOwner::LOCAL, now), Ok(()));
/// assert_eq!(limiter.try_take(&QuotaOwner::LOCAL, now), Ok(()));
/// let wait = Duration::from_millis(100);
/// assert_eq!(limiter.try_take(&QuotaOwner::LOCAL, now), Err(wait));
/// assert_eq!(limiter.try_take(&QuotaOwner::LOCAL, now + wait), Ok(()));
/// ```
#[derive(Clone, Debug)]
pub struct RateLimiter {
    limit: RateLimit,
    capacity: usize,
    /// When the bucket of each owner is full again.
    full_at: BTreeMap<QuotaOwner, Instant>,
    /// The same, ordered by time.
    order: BTreeSet<(Instant, QuotaOwner)>,
}

/// The default number of owners: each takes about 200 bytes.
const OWNERS: usize = 16_384;

impl RateLimiter {
    /// A limiter for up to 16,384 owners at a time.
    #[must_use]
    pub const fn new(limit: RateLimit) -> Self {
        Self { limit, capacity: OWNERS, full_at: BTreeMap::new(), order: BTreeSet::new() }
    }

    /// Sets for how many owners at a time the limiter keeps their use, one at least.
    #[must_use]
    pub fn capacity(self, owners: usize) -> Self {
        Self { capacity: owners, ..self }
    }

    /// Takes one of the owner's tokens. All calls take readings of one clock.
    ///
    /// # Errors
    /// If none is left: the time until there is one.
    pub fn try_take(&mut self, owner: &QuotaOwner, now: Instant) -> Result<(), Duration> {
        let fill_time = self.limit.fill_time();
        // A clock that was set back must not block an owner for longer than an empty bucket does.
        let used = self.full_at.get(owner).map_or(Duration::ZERO, |full| full.saturating_since(now));
        let used = used.min(fill_time).saturating_add(self.limit.interval);
        if used > fill_time {
            return Err(used.saturating_sub(fill_time));
        }
        self.set(owner, now + used, now);
        Ok(())
    }

    fn set(&mut self, owner: &QuotaOwner, full_at: Instant, now: Instant) {
        match self.full_at.get_mut(owner) {
            Some(before) => {
                self.order.remove(&(*before, owner.clone()));
                *before = full_at;
            }
            None => {
                self.make_room(now);
                self.full_at.insert(owner.clone(), full_at);
            }
        }
        self.order.insert((full_at, owner.clone()));
    }

    /// Forgets an owner or two whose buckets are full, and if the table is full the owner that has used least.
    fn make_room(&mut self, now: Instant) {
        for _ in 0..2 {
            let is_full = self.full_at.len() >= self.capacity;
            match self.order.first() {
                Some((full, _)) if *full <= now || is_full => {
                    if let Some((_, owner)) = self.order.pop_first() {
                        self.full_at.remove(&owner);
                    }
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::prelude::*;

    use super::*;
    use crate::peer::Principal;

    fn owner(name: u32) -> QuotaOwner {
        Principal::new(format!("p{name}")).into()
    }

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn owner_gets_the_burst_at_once_and_then_the_rate() {
        let mut limiter = RateLimiter::new(RateLimit::per_second(20).burst(40));
        let passed = |limiter: &mut RateLimiter, millis| {
            (0..1000).filter(|_| limiter.try_take(&owner(1), at(millis)).is_ok()).count()
        };
        assert_eq!(passed(&mut limiter, 0), 40);
        assert_eq!(limiter.try_take(&owner(1), at(0)), Err(Duration::from_millis(50)));
        assert_eq!(passed(&mut limiter, 49), 0);
        assert_eq!(passed(&mut limiter, 50), 1);
        assert_eq!(passed(&mut limiter, 1050), 20);
        assert_eq!(passed(&mut limiter, 1_000_000), 40);
    }

    #[test]
    fn owners_have_buckets_of_their_own() {
        let mut limiter = RateLimiter::new(RateLimit::per_second(1));
        assert!((0..100).all(|name| limiter.try_take(&owner(name), at(0)).is_ok()));
        assert!((0..100).all(|name| limiter.try_take(&owner(name), at(0)).is_err()));
    }

    #[test]
    fn rate_of_zero_lets_the_burst_pass() {
        let mut limiter = RateLimiter::new(RateLimit::per_second(0));
        assert!(limiter.try_take(&owner(1), at(0)).is_ok());
        assert!(limiter.try_take(&owner(1), at(1_000_000)).is_err());
    }

    #[test]
    fn table_forgets_the_owner_that_has_used_least() {
        let mut limiter = RateLimiter::new(RateLimit::per_second(1).burst(2)).capacity(2);
        for name in [1, 1, 2, 3] {
            assert!(limiter.try_take(&owner(name), at(0)).is_ok());
        }
        assert_eq!((limiter.full_at.len(), limiter.order.len()), (2, 2));
        assert!(limiter.try_take(&owner(1), at(0)).is_err(), "the greedy owner is remembered");
    }

    #[test]
    fn owners_with_full_buckets_take_no_memory() {
        let mut limiter = RateLimiter::new(RateLimit::per_second(1000).burst(1));
        for millis in 0..1000 {
            assert!(limiter.try_take(&owner(millis), at(2 * u64::from(millis))).is_ok());
            assert!(limiter.full_at.len() <= 2);
        }
    }

    #[test]
    fn clock_that_is_set_back_blocks_no_owner_for_long() {
        let mut limiter = RateLimiter::new(RateLimit::per_second(1).burst(2));
        assert!(limiter.try_take(&owner(1), at(3_600_000)).is_ok());
        assert_eq!(limiter.try_take(&owner(1), at(0)), Err(Duration::from_secs(1)));
    }

    proptest! {
        #[test]
        fn limiter_passes_no_more_than_burst_and_rate(
            (rate, burst) in (1u32..50, 1u32..50),
            pauses in prop::collection::vec(0u64..100, 1..200),
        ) {
            let mut limiter = RateLimiter::new(RateLimit::per_second(rate).burst(burst));
            let (mut now, mut passed) = (0, 0u64);
            for pause in pauses {
                now += pause;
                match limiter.try_take(&owner(1), at(now)) {
                    Ok(()) => passed += 1,
                    Err(wait) => prop_assert!(limiter.clone().try_take(&owner(1), at(now) + wait).is_ok()),
                }
                // Rounded up: an interval of a rate that does not divide a second is shorter by less than 1 ns.
                prop_assert!(passed <= u64::from(burst) + now * u64::from(rate) / 1000 + 1);
                prop_assert_eq!(limiter.full_at.len(), limiter.order.len());
            }
        }
    }
}
