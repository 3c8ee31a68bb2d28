//! Fair shares of a server's memory, so that no client starves another.
//!
//! Everything that outlives a request (a session, a connection, a cached answer, a task, a replay record) belongs to a
//! [`QuotaOwner`]: the principal of the request, or the address that it came from. There are two rules:
//!
//! - Entries that can be evicted are evicted from the largest owner. A full [`FairTable`] evicts the oldest idle entry
//!   of the owner that needs room; only an owner below its fair share, which is the capacity divided by the number of
//!   owners, displaces an entry of the owner that holds most.
//! - Entries that must be kept are refused early ([`Shares::try_take`]): a single owner holds three fifths of the
//!   capacity at most, and each of several greedy owners holds so much less that there is room for the next.
//!
//! Every operation takes time logarithmic in the number of entries and owners.
//!
//! A [`ByteBudget`] limits the bytes that a server holds for its owners, a [`RateLimiter`] how often they do something.

mod byte_budget;
mod shares;

use crate::Instant;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;

pub use byte_budget::{ByteAccount, ByteBudget, ByteLimits, BytePermit, BytePurpose, OverBudgetError};
#[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
pub(crate) use shares::SharedLimiter;
pub use shares::{EvictionTarget, QuotaError, QuotaOwner, RateLimit, RateLimiter, Shares};

// A bounded table whose owners do not displace each other's entries.

/// A bounded table of entries with owners.
///
/// An entry is busy, or [idle](Self::set_idle) since an instant. If the table is full and another entry is
/// [inserted](Self::insert), its owner's oldest idle entry is displaced. If the owner has less than its fair share, an
/// entry of the owner that holds most is displaced instead: its oldest idle entry, or its oldest if all are busy.
///
/// Every operation takes logarithmic time.
///
/// ```
/// use mcp_proto::Instant;
/// use mcp_proto::quota::{FairTable, QuotaError, QuotaOwner};
///
/// let [ada, eve] = ["192.0.2.1", "192.0.2.66"].map(|text| QuotaOwner::from_client(None, text.parse().ok()));
/// let mut table = FairTable::new(2);
/// assert_eq!(table.insert(1, &ada, "a"), Ok(None));
/// assert_eq!(table.insert(2, &eve, "b"), Ok(None));
/// table.set_idle(1, Some(Instant::ORIGIN));
/// // Eve's own entry is in use, and Ada has no more than her share.
/// assert_eq!(table.insert(3, &eve, "c"), Err(QuotaError));
/// table.set_idle(2, Some(Instant::ORIGIN));
/// assert_eq!(table.insert(3, &eve, "c"), Ok(Some((2, "b"))));
/// ```
#[derive(Debug)]
pub struct FairTable<K, V> {
    entries: OrderedMap<K, Entry<V>>,
    /// The idle entries of all owners.
    idle: OrderedSet<(Instant, K)>,
    /// The entries of each owner, in the order in which they are displaced.
    owners: OrderedMap<QuotaOwner, OrderedSet<(State, K)>>,
    shares: Shares,
    /// Counts transitions to busy: the order of busy entries.
    turns: u64,
}

#[derive(Debug)]
struct Entry<V> {
    owner: QuotaOwner,
    state: State,
    value: V,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Idle(Instant),
    Busy(u64),
}

impl<K: Ord + Copy, V> FairTable<K, V> {
    /// An empty table for at most `capacity` entries.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self {
            entries: OrderedMap::new(),
            idle: OrderedSet::new(),
            owners: OrderedMap::new(),
            shares: Shares::new(capacity),
            turns: 0,
        }
    }

    /// Inserts a busy entry. Returns the entry that it displaces, or the previous one with the same key.
    ///
    /// # Errors
    /// If there is no room and no entry may be displaced.
    pub fn insert(&mut self, key: K, owner: &QuotaOwner, value: V) -> Result<Option<(K, V)>, QuotaError> {
        let displaced = match self.remove(key) {
            Some(before) => Some((key, before)),
            None => match self.shares.eviction_target(owner, 1) {
                EvictionTarget::Unneeded => None,
                payer => {
                    let key = self.candidate(owner, &payer).ok_or(QuotaError)?;
                    self.remove(key).map(|value| (key, value))
                }
            },
        };
        self.insert_over(key, owner, value);
        Ok(displaced)
    }

    /// Inserts a busy entry without displacing another; it replaces an entry with the same key.
    ///
    /// # Errors
    /// If the owner would hold too much of the table by the rule of [`Shares::try_take`].
    pub fn try_insert(&mut self, key: K, owner: &QuotaOwner, value: V) -> Result<(), QuotaError> {
        self.remove(key);
        if !self.shares.allows(owner, 1) {
            return Err(QuotaError);
        }
        self.insert_over(key, owner, value);
        Ok(())
    }

    /// Inserts a busy entry even if the table is full.
    pub fn insert_over(&mut self, key: K, owner: &QuotaOwner, value: V) {
        self.remove(key);
        self.turns = self.turns.saturating_add(1);
        let state = State::Busy(self.turns);
        self.entries.insert(key, Entry { owner: owner.clone(), state, value });
        self.shares.take(owner, 1);
        self.place(key, owner, state);
    }

    /// Whether an [insertion](Self::insert) by this owner would find room.
    #[must_use]
    pub fn has_room(&self, owner: &QuotaOwner) -> bool {
        self.shares.eviction_target(owner, 1) == EvictionTarget::Unneeded
            || self.next_displaced(owner).is_some()
    }

    /// The entry that an [insertion](Self::insert) by this owner would displace.
    #[must_use]
    pub fn next_displaced(&self, owner: &QuotaOwner) -> Option<K> {
        match self.shares.eviction_target(owner, 1) {
            EvictionTarget::Unneeded => None,
            payer => self.candidate(owner, &payer),
        }
    }

    /// Marks an entry as the most recent busy one: every other busy entry of its owner is displaced before it.
    pub fn renew(&mut self, key: K) {
        self.set_idle(key, Some(Instant::ORIGIN));
        self.set_idle(key, None);
    }

    /// The entry that an insertion by `owner` displaces if `payer` must make room.
    fn candidate(&self, owner: &QuotaOwner, payer: &EvictionTarget) -> Option<K> {
        let (payer, busy) = match payer {
            EvictionTarget::Other(other) => (other, true),
            EvictionTarget::Requester | EvictionTarget::Unneeded => (owner, false),
        };
        let (state, key) = self.owners.get(payer)?.first()?;
        (busy || matches!(state, State::Idle(_))).then_some(*key)
    }

    fn place(&mut self, key: K, owner: &QuotaOwner, state: State) {
        match self.owners.get_mut(owner) {
            Some(entries) => {
                entries.insert((state, key));
            }
            None => {
                self.owners.insert(owner.clone(), OrderedSet::from([(state, key)]));
            }
        }
        if let State::Idle(since) = state {
            self.idle.insert((since, key));
        }
    }

    fn displace(&mut self, key: K, owner: &QuotaOwner, state: State) {
        let Some(entries) = self.owners.get_mut(owner) else { return };
        entries.remove(&(state, key));
        if entries.is_empty() {
            self.owners.remove(owner);
        }
        if let State::Idle(since) = state {
            self.idle.remove(&(since, key));
        }
    }

    /// The value of an entry.
    #[must_use]
    pub fn get(&self, key: K) -> Option<&V> {
        self.entries.get(&key).map(|entry| &entry.value)
    }

    /// The value of an entry, mutable.
    #[must_use]
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.entries.get_mut(&key).map(|entry| &mut entry.value)
    }

    /// The owner of an entry.
    #[must_use]
    pub fn owner(&self, key: K) -> Option<&QuotaOwner> {
        self.entries.get(&key).map(|entry| &entry.owner)
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let Entry { owner, state, value } = self.entries.remove(&key)?;
        self.displace(key, &owner, state);
        self.shares.give_back(&owner, 1);
        Some(value)
    }

    /// Marks an entry as idle since an instant, or as busy (`None`). Idle entries are displaced in the order of these
    /// instants.
    pub fn set_idle(&mut self, key: K, since: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let state = match (since, entry.state) {
            (None, State::Busy(_)) => return,
            (Some(since), State::Idle(before)) if before == since => return,
            (Some(since), _) => State::Idle(since),
            (None, State::Idle(_)) => {
                self.turns = self.turns.saturating_add(1);
                State::Busy(self.turns)
            }
        };
        let before = core::mem::replace(&mut entry.state, state);
        let owner = entry.owner.clone();
        // In this order, so that an owner with one entry is not forgotten in between.
        self.place(key, &owner, state);
        self.displace(key, &owner, before);
    }

    /// Removes the oldest idle entry, if it is idle since `before` or earlier.
    pub fn pop_idle(&mut self, before: Instant) -> Option<(K, V)> {
        let &(_, key) = self.idle.first().filter(|(since, _)| *since <= before)?;
        self.remove(key).map(|value| (key, value))
    }

    /// The instant since which the oldest idle entry is idle.
    #[must_use]
    pub fn idle_since(&self) -> Option<Instant> {
        self.idle.first().map(|(since, _)| *since)
    }

    /// The number of entries of an owner.
    #[must_use]
    pub fn held(&self, owner: &QuotaOwner) -> usize {
        self.shares.held(owner)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.entries.iter().map(|(key, entry)| (*key, &entry.value))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn owner(number: u16) -> QuotaOwner {
        let [high, low] = number.to_be_bytes();
        QuotaOwner::from(core::net::IpAddr::from([10, 0, high, low]))
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn owner_displaces_its_own_oldest_idle_entries() {
        let mut table = FairTable::new(100);
        for number in 0..10 {
            table.insert(number, &owner(number as u16), ()).unwrap();
            table.set_idle(number, Some(at(number)));
        }
        for number in 1000..11_000 {
            let displaced = table.insert(number, &owner(99), ()).unwrap();
            assert!(displaced.is_none_or(|(key, ())| key >= 1000), "{number}");
            table.set_idle(number, Some(at(number)));
        }
        assert_eq!((table.len(), table.held(&owner(99))), (100, 90));
        assert!((0..10).all(|number| table.get(number).is_some()));
        assert_eq!(table.get(10_909), None, "the oldest entry is displaced");
        assert!(table.get(10_910).is_some());
    }

    #[test]
    fn owner_below_its_share_displaces_busy_entries_of_the_largest() {
        let mut table = FairTable::new(4);
        (0..4).for_each(|number| assert_eq!(table.insert(number, &owner(1), ()), Ok(None)));
        assert_eq!(table.insert(9, &owner(1), ()), Err(QuotaError));
        assert_eq!(table.insert(4, &owner(2), ()), Ok(Some((0, ()))));
        table.set_idle(3, Some(at(1)));
        assert_eq!(table.insert(5, &owner(2), ()), Ok(Some((3, ()))));
        assert_eq!(table.insert(6, &owner(2), ()), Err(QuotaError), "both owners have their shares");
        assert!(!table.has_room(&owner(1)));
    }

    #[test]
    fn entry_that_must_stay_displaces_no_other() {
        let mut table = FairTable::new(8);
        let mut number = 0;
        while table.try_insert(number, &owner(1), ()).is_ok() {
            table.set_idle(number, Some(at(number)));
            number += 1;
        }
        assert_eq!(number, 5);
        assert!(table.try_insert(100, &owner(2), ()).is_ok());
        assert_eq!(table.pop_idle(at(0)), Some((0, ())));
        assert_eq!(table.len(), 5);
    }

    #[test]
    fn table_forgets_owners_without_entries() {
        let mut table = FairTable::new(2);
        table.insert(1, &owner(1), 'a').unwrap();
        table.set_idle(1, Some(at(1)));
        table.set_idle(1, Some(at(1)));
        table.set_idle(1, None);
        assert_eq!((table.idle_since(), table.pop_idle(at(5))), (None, None));
        assert_eq!(table.insert(1, &owner(2), 'b'), Ok(Some((1, 'a'))));
        assert_eq!((table.held(&owner(1)), table.owner(1)), (0, Some(&owner(2))));
        assert_eq!(table.remove(1), Some('b'));
        assert!(table.is_empty() && table.owners.is_empty());
    }
}
