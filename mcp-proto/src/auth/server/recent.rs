//! What was seen lately.

use alloc::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::Instant;

/// What things are known by: of what is secret, nothing else is kept.
pub(super) type Digest = [u8; 32];

/// The digest of several texts, told apart wherever one ends.
pub(super) fn digest<const PARTS: usize>(parts: [&str; PARTS]) -> Digest {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

/// Values that are kept for a while, each as long as it is to be, and no more of them than fit.
#[derive(Debug)]
pub(super) struct Recent<V> {
    values: BTreeMap<Digest, (Instant, V)>,
    /// When each goes.
    ends: BTreeSet<(Instant, Digest)>,
    most: usize,
}

impl<V> Recent<V> {
    pub(super) fn new(most: usize) -> Self {
        Self { values: BTreeMap::new(), ends: BTreeSet::new(), most }
    }

    pub(super) fn get(&self, now: Instant, key: &Digest) -> Option<&V> {
        self.values.get(key).filter(|(until, _)| *until > now).map(|(_, value)| value)
    }

    /// Whether there is room for one more, once what is over has gone.
    pub(super) fn has_room(&mut self, now: Instant) -> bool {
        while let Some(&(until, key)) = self.ends.first()
            && until <= now
        {
            self.ends.pop_first();
            self.values.remove(&key);
        }
        self.values.len() < self.most
    }

    /// Keeps a value, in place of the one that would go next if there is no room.
    pub(super) fn keep(&mut self, now: Instant, key: Digest, until: Instant, value: V) {
        if let Some((before, _)) = self.values.remove(&key) {
            self.ends.remove(&(before, key));
        }
        if !self.has_room(now)
            && let Some((_, first)) = self.ends.pop_first()
        {
            self.values.remove(&first);
        }
        self.values.insert(key, (until, value));
        self.ends.insert((until, key));
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn a_value_is_there_until_its_time() {
        let mut recent = Recent::new(2);
        recent.keep(at(0), digest(["a"]), at(10), 'a');
        assert_eq!(recent.get(at(9), &digest(["a"])), Some(&'a'));
        assert_eq!(recent.get(at(10), &digest(["a"])), None);
        assert!(recent.has_room(at(10)));
        assert_eq!(recent.len(), 0);
    }

    #[test]
    fn where_there_is_no_room_the_one_that_would_go_next_goes() {
        let mut recent = Recent::new(2);
        recent.keep(at(0), digest(["a"]), at(30), 'a');
        recent.keep(at(0), digest(["b"]), at(20), 'b');
        assert!(!recent.has_room(at(0)));
        recent.keep(at(0), digest(["c"]), at(40), 'c');
        assert_eq!(recent.get(at(1), &digest(["b"])), None);
        assert_eq!(recent.get(at(1), &digest(["a"])), Some(&'a'));
        assert_eq!(recent.len(), 2);
    }

    #[test]
    fn keeping_again_takes_no_room() {
        let mut recent = Recent::new(1);
        recent.keep(at(0), digest(["a"]), at(30), 'a');
        recent.keep(at(0), digest(["a"]), at(10), 'b');
        assert_eq!(recent.get(at(1), &digest(["a"])), Some(&'b'));
        assert_eq!(recent.len(), 1);
    }

    #[test]
    fn parts_are_told_apart() {
        assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
    }
}
