//! Detection of replayed proofs.

use core::fmt;
use std::sync::{Mutex, PoisonError};

use crate::Instant;
use crate::auth::server::expiring_cache::{Digest, digest};
use crate::quota::{FairTable, QuotaError, QuotaOwner};

/// Recently used proofs of possession, by a hash: each is valid once (RFC 9449, section 11.1).
///
/// Each instance of a server has its own cache: behind a load balancer, a proof may be used once on each instance,
/// within the short time that it is valid. [Nonces](super::DpopConfig::nonces) shorten that time further.
///
/// It stores at most 65,536 proofs, enough for 500 requests a second over two minutes, in some 16 MiB. No proof is
/// evicted before it expires: a principal with [more than its share](crate::quota::Shares::try_take) gets 429. Only
/// proofs of valid tokens are recorded.
pub struct ReplayCache(Mutex<FairTable<Digest, ()>>);

/// Maximum number of recorded proofs.
const PROOFS: usize = 65_536;

/// The result of recording a proof.
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
        Self(Mutex::new(FairTable::new(PROOFS)))
    }

    /// Records the proof with this id, by this key, which is valid until the given time.
    pub(super) fn record(
        &self,
        now: Instant,
        owner: &QuotaOwner,
        key: &str,
        id: &str,
        until: Instant,
    ) -> ProofUse {
        let proof = digest([key, id]);
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while used.pop_idle(now).is_some() {}
        if used.get(proof).is_some() {
            return ProofUse::Replayed;
        }
        match used.try_insert(proof, owner, ()) {
            Ok(()) => {
                used.set_idle(proof, Some(until));
                ProofUse::First
            }
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
        let used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("ReplayCache").field("proofs", &used.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn cache_refuses_further_proofs_of_an_owner_with_too_many() {
        let cache = ReplayCache(Mutex::new(FairTable::new(8)));
        let at = |seconds| Instant::from_origin(Duration::from_secs(seconds));
        let owner = |number| QuotaOwner::from(core::net::IpAddr::from([192, 0, 2, number]));
        let record = |number, now, id| cache.record(at(now), &owner(number), "key", id, at(10));
        for id in ["a", "b", "c", "d", "e"] {
            assert_eq!(record(1, 0, id), ProofUse::First);
        }
        assert_eq!(record(1, 9, "g"), ProofUse::OverQuota);
        assert_eq!(record(2, 9, "h"), ProofUse::First);
        assert_eq!(record(2, 9, "a"), ProofUse::Replayed);
        assert_eq!(record(1, 10, "g"), ProofUse::First);
    }
}
