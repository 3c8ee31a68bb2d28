//! Detection of replayed proofs.

use core::fmt;
use std::sync::{Mutex, PoisonError};

use super::expiring_cache::ExpiringCache;
#[cfg(feature = "auth-jwt")]
use super::expiring_cache::{Digest, digest};
#[cfg(feature = "auth-jwt")]
use crate::Instant;
#[cfg(feature = "auth-jwt")]
use crate::quota::{QuotaError, QuotaOwner};

/// Recently used proofs of possession, by a hash: each is valid once (RFC 9449, section 11.1).
///
/// Each instance of a server has its own cache: behind a load balancer, a proof may be used once on each instance,
/// within the short time that it is valid. [Nonces](super::Protection) shorten that time further.
///
/// It stores at most 65,536 proofs, enough for 500 requests a second over two minutes, in some 16 MiB. No proof is
/// evicted before it expires: a principal with [more than its share](crate::quota::Shares::try_take) gets 429. Only
/// proofs of valid tokens are recorded.
pub struct ReplayCache(Mutex<ExpiringCache<()>>);

/// Maximum number of recorded proofs.
const PROOFS: usize = 65_536;

/// The result of recording a proof.
#[cfg(feature = "auth-jwt")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProofUse {
    First,
    Replayed,
    /// The proof cannot be recorded: its owner has too many.
    OverQuota,
}

impl ReplayCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self(Mutex::new(ExpiringCache::new(PROOFS)))
    }

    /// Records the proof with this id, by this key, which is valid until the given time.
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
