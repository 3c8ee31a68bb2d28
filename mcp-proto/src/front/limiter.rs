//! Rates by owner, which all connections share.

use core::time::Duration;
use std::sync::Mutex;

use super::wakers::lock;
use crate::quota::{QuotaOwner, RateLimit, RateLimiter};
use crate::{Instant, UnixTime};

/// A rate of each owner, by the time of day: that is the same for all connections.
#[derive(Debug)]
pub(super) struct SharedLimiter(Mutex<RateLimiter>);

impl SharedLimiter {
    pub(super) fn new(limit: RateLimit) -> Self {
        Self(Mutex::new(RateLimiter::new(limit)))
    }

    /// Takes a token of an owner; an error is the time until there is one.
    pub(super) fn take(&self, owner: &QuotaOwner, now: UnixTime) -> Result<(), Duration> {
        lock(&self.0).try_take(owner, Instant::from_origin(now.since_epoch()))
    }
}
