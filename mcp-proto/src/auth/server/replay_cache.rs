//! The proofs that came lately.

use core::fmt;
use std::sync::{Mutex, PoisonError};

use super::expiring_cache::ExpiringCache;
#[cfg(feature = "auth-jwt")]
use super::expiring_cache::{Digest, digest};
#[cfg(feature = "auth-jwt")]
use crate::Instant;
#[cfg(feature = "auth-jwt")]
use crate::quota::{QuotaError, QuotaOwner};

/// The proofs of possession that came lately, by a hash: each is good once (RFC 9449, section 11.1).
///
/// It is what one server on one instance keeps: behind a balancer, a proof may be used once on each, within the short time
/// that it is good for. [Nonces](super::Protection) shorten that further.
///
/// At most 65,536, so that 500 requests a second can be told apart for two minutes, in some 16 MiB. None goes before its
/// time: a principal with [more than its share](crate::quota::Shares::try_take) is answered with 429. Only proofs that came
/// with a good token count.
pub struct ReplayCache(Mutex<ExpiringCache<()>>);

/// How many are kept.
const PROOFS: usize = 65_536;

/// Whether a proof may be used.
#[cfg(feature = "auth-jwt")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProofUse {
    First,
    Replayed,
    /// It cannot be recorded: its owner has too many.
    OverQuota,
}

impl ReplayCache {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Mutex::new(ExpiringCache::new(PROOFS)))
    }

    /// Records the proof of this id, by this key, which is good until then.
    #[cfg(feature = "auth-jwt")]
    pub(super) fn record(
        &self,
        now: Instant,
        owner: &QuotaOwner,
        key: &str,
        id: &str,
        until: Instant,
    ) -> ProofUse {
        let name: Digest = digest([key, id]);
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.get(now, &name).is_some() {
            return ProofUse::Replayed;
        }
        match recent.try_insert(now, owner, name, until, ()) {
            Ok(()) => ProofUse::First,
            Err(QuotaError) => ProofUse::OverQuota,
        }
    }
}

impl Default for ReplayCache {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ReplayCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Proofs").field("kept", &recent.len()).finish()
    }
}
