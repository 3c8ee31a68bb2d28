//! The table of pending requests with their deadlines.

use core::borrow::Borrow;

use crate::Instant;
use crate::inline_map::{self, InlineMap};

//= F24 "Each pending request has a deadline"
/// Requests in flight by their wire number or another key, each with an optional deadline.
///
/// Methods take keys by value or by reference. Every operation takes logarithmic time, and
/// [`next_deadline`](Self::next_deadline) constant time.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::Instant;
/// use mcp_proto::rpc::Pending;
///
/// let start = Instant::ORIGIN;
/// let mut pending = Pending::new();
/// pending.insert(1, Some(start + Duration::from_secs(30)), "tools/list");
/// pending.insert(2, None, "subscriptions/listen");
/// assert_eq!(pending.next_deadline(), Some(start + Duration::from_secs(30)));
/// assert_eq!(pending.pop_expired(start), None);
/// assert_eq!(pending.pop_expired(start + Duration::from_secs(30)), Some((1, "tools/list")));
/// assert_eq!(pending.remove(2), Some("subscriptions/listen"));
/// assert!(pending.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Pending<T, K = i64> {
    entries: InlineMap<K, Entry<T>>,
    deadlines: InlineMap<(Instant, K), ()>,
    /// The earliest of `deadlines`.
    next: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    deadline: Option<Instant>,
    value: T,
}

impl<T, K> Default for Pending<T, K> {
    fn default() -> Self {
        Self { entries: InlineMap::new(), deadlines: InlineMap::new(), next: None }
    }
}

impl<T, K: Ord + Clone> Pending<T, K> {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: InlineMap::new(), deadlines: InlineMap::new(), next: None }
    }

    /// Adds an entry. Returns the value that it replaces.
    pub fn insert(&mut self, key: K, deadline: Option<Instant>, value: T) -> Option<T> {
        let replaced = self.entries.insert(key.clone(), Entry { deadline, value });
        if let Some(Entry { deadline: Some(before), .. }) = &replaced {
            self.unschedule(*before, key.clone());
        }
        if let Some(deadline) = deadline {
            self.schedule(deadline, key);
        }
        replaced.map(|entry| entry.value)
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: impl Borrow<K>) -> Option<&T> {
        self.entries.get(key.borrow()).map(|entry| &entry.value)
    }

    /// The value of a key, mutable.
    #[must_use]
    pub fn get_mut(&mut self, key: impl Borrow<K>) -> Option<&mut T> {
        self.entries.get_mut(key.borrow()).map(|entry| &mut entry.value)
    }

    /// Whether the table has an entry with this key.
    #[must_use]
    pub fn contains(&self, key: impl Borrow<K>) -> bool {
        self.entries.contains_key(key.borrow())
    }

    /// Removes an entry and returns its value.
    #[inline]
    pub fn remove(&mut self, key: impl Borrow<K>) -> Option<T> {
        let key = key.borrow();
        if let Some(deadline) = self.entries.get(key)?.deadline {
            self.unschedule(deadline, key.clone());
        }
        self.entries.remove(key).map(|entry| entry.value)
    }

    /// Changes or removes an entry's deadline. Returns whether the table has such an entry.
    pub fn set_deadline(&mut self, key: impl Borrow<K>, deadline: Option<Instant>) -> bool {
        let key = key.borrow();
        let Some(entry) = self.entries.get_mut(key) else { return false };
        let before = core::mem::replace(&mut entry.deadline, deadline);
        if before == deadline {
            return true;
        }
        if let Some(before) = before {
            self.unschedule(before, key.clone());
        }
        if let Some(deadline) = deadline {
            self.schedule(deadline, key.clone());
        }
        true
    }

    /// The deadline of an entry.
    #[must_use]
    pub fn deadline(&self, key: impl Borrow<K>) -> Option<Instant> {
        self.entries.get(key.borrow())?.deadline
    }

    /// The earliest deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.next
    }

    /// The keys whose deadlines are not later than `now`, the earliest first; of several, the one with the least key.
    pub fn due(&self, now: Instant) -> impl Iterator<Item = &K> {
        let are_due = self.next.is_some_and(|next| next <= now);
        let deadlines = are_due.then(|| self.deadlines.keys()).into_iter().flatten();
        deadlines.take_while(move |(deadline, _)| *deadline <= now).map(|(_, key)| key)
    }

    /// Removes the entry with the earliest deadline if that is not later than `now`; of several, the one with the least
    /// key.
    pub fn pop_expired(&mut self, now: Instant) -> Option<(K, T)> {
        if self.next? > now {
            return None;
        }
        let ((_, key), ()) = self.deadlines.pop_first()?;
        self.find_next();
        let entry = self.entries.remove(&key)?;
        Some((key, entry.value))
    }

    /// Removes the entry with the least key.
    pub fn pop_first(&mut self) -> Option<(K, T)> {
        let (key, entry) = self.entries.pop_first()?;
        if let Some(deadline) = entry.deadline {
            self.unschedule(deadline, key.clone());
        }
        Some((key, entry.value))
    }

    /// Removes all entries, in the order of their keys.
    pub fn drain(&mut self) -> impl Iterator<Item = (K, T)> + use<T, K> {
        core::mem::take(self).entries.into_iter().map(|(key, entry)| (key, entry.value))
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
    pub fn iter(&self) -> Iter<'_, T, K> {
        Iter(self.entries.iter())
    }

    fn schedule(&mut self, deadline: Instant, key: K) {
        self.deadlines.insert((deadline, key), ());
        self.next = Some(self.next.map_or(deadline, |next| next.min(deadline)));
    }

    fn unschedule(&mut self, deadline: Instant, key: K) {
        self.deadlines.remove(&(deadline, key));
        if self.next == Some(deadline) {
            self.find_next();
        }
    }

    fn find_next(&mut self) {
        self.next = self.deadlines.first_key_value().map(|((deadline, _), ())| *deadline);
    }
}

/// The entries of a [`Pending`], in the order of their keys.
#[derive(Clone, Debug)]
pub struct Iter<'a, T, K>(inline_map::Iter<'a, K, Entry<T>>);

impl<'a, T, K> Iterator for Iter<'a, T, K> {
    type Item = (&'a K, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, entry)| (key, &entry.value))
    }
}

impl<'a, T, K: Ord + Clone> IntoIterator for &'a Pending<T, K> {
    type Item = (&'a K, &'a T);
    type IntoIter = Iter<'a, T, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::rpc::Id;

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    /// F24
    #[test]
    fn pending_pops_the_earliest_expired_entry_first() {
        let mut pending = Pending::new();
        for (number, deadline) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
            pending.insert(number, Some(at(deadline)), ());
        }
        let order: Vec<i64> =
            core::iter::from_fn(|| pending.pop_expired(at(20))).map(|(number, ())| number).collect();
        assert_eq!(order, [2, 4, 3]);
        assert_eq!(pending.next_deadline(), Some(at(30)));
    }

    #[test]
    fn entry_without_deadline_never_expires() {
        let mut pending = Pending::new();
        pending.insert(1, Some(at(1)), ());
        assert!(pending.set_deadline(1, None));
        assert_eq!((pending.next_deadline(), pending.pop_expired(at(u64::MAX))), (None, None));
        assert!(pending.contains(1));
    }

    #[test]
    fn pending_moves_a_deadline_earlier_or_later() {
        let mut pending = Pending::new();
        pending.insert(1, None, ());
        for deadline in [5, 9, 3] {
            assert!(pending.set_deadline(1, Some(at(deadline))));
            assert_eq!(
                (pending.next_deadline(), pending.deadline(1)),
                (Some(at(deadline)), Some(at(deadline)))
            );
        }
        assert!(!pending.set_deadline(2, Some(at(1))));
        assert_eq!(pending.next_deadline(), Some(at(3)));
    }

    #[test]
    fn replaced_entry_leaves_no_deadline() {
        let mut pending = Pending::new();
        assert_eq!(pending.insert(1, Some(at(1)), "a"), None);
        assert_eq!(pending.insert(1, Some(at(2)), "b"), Some("a"));
        assert_eq!(pending.pop_expired(at(1)), None);
        assert_eq!(pending.pop_expired(at(2)), Some((1, "b")));
    }

    #[test]
    fn pending_accepts_ids_as_keys() {
        let mut pending = Pending::new();
        let (text, number) = (Id::from("1"), Id::from(1));
        pending.insert(text.clone(), None, "text");
        pending.insert(number.clone(), None, "number");
        assert_eq!(pending.get(&number), Some(&"number"));
        assert_eq!(pending.remove(&text), Some("text"));
        assert_eq!(pending.drain().collect::<Vec<_>>(), [(Id::from(1), "number")]);
        assert!(pending.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn pending_behaves_like_a_plain_list(
            steps in proptest::collection::vec((0..6u8, 0..8i64, proptest::option::of(0..10u64)), 0..60)
        ) {
            let mut pending = Pending::new();
            let mut list: Vec<(i64, Option<Instant>)> = Vec::new();
            for (step, number, seconds) in steps {
                let deadline = seconds.map(at);
                let place = list.iter().position(|(key, _)| *key == number);
                match step {
                    0 | 1 => {
                        prop_assert_eq!(pending.insert(number, deadline, number), place.map(|_| number));
                        place.map(|place| list.remove(place));
                        list.push((number, deadline));
                    }
                    2 => {
                        prop_assert_eq!(pending.remove(number), place.map(|place| list.remove(place).0));
                    }
                    3 => {
                        prop_assert_eq!(pending.set_deadline(number, deadline), place.is_some());
                        if let Some(place) = place {
                            list[place].1 = deadline;
                        }
                    }
                    4 => {
                        let now = deadline.unwrap_or_default();
                        let due = list.iter().filter(|entry| entry.1.is_some_and(|deadline| deadline <= now));
                        let due = due.min_by_key(|entry| (entry.1, entry.0)).copied();
                        list.retain(|entry| Some(*entry) != due);
                        prop_assert_eq!(pending.pop_expired(now), due.map(|(number, _)| (number, number)));
                    }
                    _ => {
                        let first = list.iter().min().copied();
                        list.retain(|entry| Some(*entry) != first);
                        prop_assert_eq!(pending.pop_first(), first.map(|(number, _)| (number, number)));
                    }
                }
                list.sort();
                prop_assert_eq!(pending.len(), list.len());
                prop_assert_eq!(pending.next_deadline(), list.iter().filter_map(|entry| entry.1).min());
                prop_assert!(pending.iter().map(|(number, _)| *number).eq(list.iter().map(|entry| entry.0)));
            }
        }
    }
}
