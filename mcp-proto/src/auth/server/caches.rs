//! Bounded caches by digest: entries that expire, and used proofs.

use core::fmt;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use crate::Instant;
use crate::quota::{FairTable, QuotaError, QuotaOwner};

/// The hash that identifies an entry. Secrets are stored only in this form.
pub(super) type Digest = [u8; 32];

/// The digest of several texts. Their boundaries are part of the input, so that they cannot shift.
pub(super) fn digest<const PARTS: usize>(parts: [&str; PARTS]) -> Digest {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

/// A cache whose entries expire, with a capacity that is shared fairly between owners.
#[derive(Debug)]
pub(super) struct ExpiringCache<V>(FairTable<Digest, (Instant, V)>);

impl<V> ExpiringCache<V> {
    pub(super) fn new(most: usize) -> Self {
        Self(FairTable::new(most))
    }

    pub(super) fn get(&self, now: Instant, key: &Digest) -> Option<&V> {
        self.0.get(*key).filter(|(until, _)| *until > now).map(|(_, value)| value)
    }

    pub(super) fn remove(&mut self, key: &Digest) {
        self.0.remove(*key);
    }

    /// Removes expired entries.
    fn expire(&mut self, now: Instant) {
        while self.0.pop_idle(now).is_some() {}
    }

    /// Inserts a value. If the cache is full, it evicts an entry of this owner, or of the owner that has most.
    pub(super) fn insert(&mut self, now: Instant, owner: &QuotaOwner, key: Digest, until: Instant, value: V) {
        self.expire(now);
        if !self.0.has_room(owner) {
            // Every owner has its share. As this is a cache, the entry that expires first is evicted.
            self.0.pop_idle(Instant::from_origin(core::time::Duration::MAX));
        }
        // The table orders entries by their expiry, so that the first to expire is evicted first.
        if self.0.insert(key, owner, (until, value)).is_ok() {
            self.0.set_idle(key, Some(until));
        }
    }
}

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
    use alloc::string::ToString as _;
    use core::time::Duration;

    use super::*;

    impl<V> ExpiringCache<V> {
        fn len(&self) -> usize {
            self.0.len()
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    fn owner(number: u8) -> QuotaOwner {
        QuotaOwner::from(core::net::IpAddr::from([192, 0, 2, number]))
    }

    #[test]
    fn value_is_found_until_it_expires() {
        let mut recent = ExpiringCache::new(2);
        recent.insert(at(0), &owner(1), digest(["a"]), at(10), 'a');
        assert_eq!(recent.get(at(9), &digest(["a"])), Some(&'a'));
        assert_eq!(recent.get(at(10), &digest(["a"])), None);
        recent.expire(at(10));
        assert_eq!(recent.len(), 0);
    }

    #[test]
    fn full_cache_drops_the_value_that_expires_next() {
        let mut recent = ExpiringCache::new(2);
        recent.insert(at(0), &owner(1), digest(["a"]), at(30), 'a');
        recent.insert(at(0), &owner(1), digest(["b"]), at(20), 'b');
        recent.insert(at(0), &owner(1), digest(["c"]), at(40), 'c');
        assert_eq!(recent.get(at(1), &digest(["b"])), None);
        assert_eq!(recent.get(at(1), &digest(["a"])), Some(&'a'));
        assert_eq!(recent.len(), 2);
    }

    #[test]
    fn values_of_one_owner_do_not_evict_those_of_another() {
        let mut recent = ExpiringCache::new(4);
        recent.insert(at(0), &owner(1), digest(["a"]), at(10), 0);
        for number in 0..100 {
            recent.insert(at(0), &owner(2), digest([&number.to_string()]), at(1000), number);
        }
        assert_eq!(recent.get(at(1), &digest(["a"])), Some(&0));
        assert_eq!(recent.len(), 4);
    }

    #[test]
    fn new_owner_gets_room_when_all_others_use_their_shares() {
        let mut recent = ExpiringCache::new(2);
        for number in 1..=3 {
            recent.insert(
                at(0),
                &owner(number),
                digest([&number.to_string()]),
                at(u64::from(number)),
                number,
            );
        }
        assert_eq!(recent.get(at(0), &digest(["1"])), None);
        assert_eq!(recent.get(at(0), &digest(["3"])), Some(&3));
    }

    #[test]
    fn inserting_a_key_again_takes_no_room() {
        let mut recent = ExpiringCache::new(1);
        recent.insert(at(0), &owner(1), digest(["a"]), at(30), 'a');
        recent.insert(at(0), &owner(1), digest(["a"]), at(10), 'b');
        assert_eq!(recent.get(at(1), &digest(["a"])), Some(&'b'));
        assert_eq!(recent.len(), 1);
    }

    #[test]
    fn digest_separates_its_parts() {
        assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
    }

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
