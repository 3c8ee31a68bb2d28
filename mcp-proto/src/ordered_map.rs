//! Ordered maps whose code is small.
//!
//! A B-tree of the standard library compiles to several kilobytes for each type of keys and values, and the machines have
//! dozens of these: they were a fifth of a client for WebAssembly. Here entries stand in sorted runs of at most 64. A search
//! takes log n steps. An insertion or removal moves entries of one run; what splits or joins runs moves the list of the runs as
//! well. A split takes 32 insertions, unless it is at the end of the list, where nothing moves; no more runs are joined than were
//! split. Growth to 100,000 entries in any order moves at most 120 MB of the list.

use alloc::vec;
use core::borrow::Borrow;
use core::fmt;
use core::iter::{Chain, Flatten};
use core::marker::PhantomData;
use core::mem;
use core::ops::{Bound, RangeBounds};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::prelude::*;

/// The most entries of a run.
const RUN: usize = 64;

type Run<K, V> = Vec<(K, V)>;

/// An ordered map, as `BTreeMap`.
#[derive(Clone)]
pub(crate) struct OrderedMap<K, V> {
    /// The first run, which is empty only if the map is.
    first: Run<K, V>,
    rest: Option<Box<Rest<K, V>>>,
}

/// The runs behind the first, of which none is empty.
#[derive(Clone)]
struct Rest<K, V> {
    runs: Vec<Run<K, V>>,
    /// The number of entries in them.
    len: usize,
}

/// Where an entry is: its run, and its place in that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    run: usize,
    at: usize,
}

/// # Getters
impl<K, V> OrderedMap<K, V> {
    pub(crate) const fn new() -> Self {
        Self { first: Vec::new(), rest: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len().saturating_add(self.rest.as_ref().map_or(0, |rest| rest.len))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    pub(crate) fn iter(&self) -> Iter<'_, K, V> {
        Iter { map: self, from: Position { run: 0, at: 0 }, to: self.end() }
    }

    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    pub(crate) fn into_keys(self) -> impl Iterator<Item = K> {
        self.into_iter().map(|(key, _)| key)
    }

    pub(crate) fn into_values(self) -> impl Iterator<Item = V> {
        self.into_iter().map(|(_, value)| value)
    }

    pub(crate) fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// The entries with a key in the range, in order.
    pub(crate) fn range<Q: Ord + ?Sized>(&self, range: impl RangeBounds<Q>) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let from = match range.start_bound() {
            Bound::Unbounded => Position { run: 0, at: 0 },
            Bound::Included(key) => self.before(key),
            Bound::Excluded(key) => self.behind(key),
        };
        let to = match range.end_bound() {
            Bound::Unbounded => self.end(),
            Bound::Included(key) => self.behind(key),
            Bound::Excluded(key) => self.before(key),
        };
        Iter { map: self, from, to }
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.at(self.find(key).ok()?).map(|(_, value)| value)
    }

    pub(crate) fn get_key_value<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.at(self.find(key).ok()?).map(|(key, value)| (key, value))
    }

    pub(crate) fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }
}

/// # Commands
impl<K, V> OrderedMap<K, V> {
    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let Position { run, at } = self.find(key).ok()?;
        self.run_mut(run).get_mut(at).map(|(_, value)| value)
    }

    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut V)> {
        let rest = self.rest.iter_mut().flat_map(|rest| rest.runs.iter_mut().flatten());
        self.first.iter_mut().chain(rest).map(|(key, value)| (&*key, value))
    }

    pub(crate) fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// Adds an entry. Returns the value that it replaces; the key stays.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V>
    where
        K: Ord,
    {
        match self.entry(key) {
            Entry::Occupied(entry) => Some(mem::replace(entry.into_mut(), value)),
            Entry::Vacant(entry) => {
                entry.insert(value);
                None
            }
        }
    }

    pub(crate) fn entry(&mut self, key: K) -> Entry<'_, K, V>
    where
        K: Ord,
    {
        match self.find(&key) {
            Ok(place) => Entry::Occupied(OccupiedEntry { map: self, key, place }),
            Err(place) => Entry::Vacant(VacantEntry { map: self, key, place }),
        }
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.remove_entry(key).map(|(_, value)| value)
    }

    pub(crate) fn remove_entry<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key).ok()?;
        self.remove_at(at)
    }

    pub(crate) fn pop_first(&mut self) -> Option<(K, V)> {
        self.remove_at(Position { run: 0, at: 0 })
    }

    pub(crate) fn pop_last(&mut self) -> Option<(K, V)> {
        let Position { run, at } = self.end();
        self.remove_at(Position { run, at: at.checked_sub(1)? })
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        if self.rest.is_none() {
            self.first.retain_mut(|(key, value)| keep(key, value));
            return shrink(&mut self.first);
        }
        // Runs may be short then, so that all are filled again.
        for (key, mut value) in mem::take(self) {
            if keep(&key, &mut value) {
                let end = self.end();
                self.insert_at(end, (key, value));
            }
        }
    }

    pub(crate) fn append(&mut self, other: &mut Self)
    where
        K: Ord,
    {
        self.extend(mem::take(other));
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }
}

/// # Runs
impl<K, V> OrderedMap<K, V> {
    /// The runs behind the first.
    fn later(&self) -> &[Run<K, V>] {
        self.rest.as_ref().map_or(&[], |rest| &rest.runs)
    }

    /// A run; empty if there is no such run.
    fn run(&self, run: usize) -> &[(K, V)] {
        match run.checked_sub(1) {
            None => &self.first,
            Some(at) => self.later().get(at).map_or(&[], |run| run),
        }
    }

    fn at(&self, Position { run, at }: Position) -> Option<&(K, V)> {
        self.run(run).get(at)
    }

    /// A run; the first if there is no such run.
    fn run_mut(&mut self, run: usize) -> &mut Run<K, V> {
        let rest = self.rest.as_mut().zip(run.checked_sub(1));
        rest.and_then(|(rest, at)| rest.runs.get_mut(at)).unwrap_or(&mut self.first)
    }

    /// Where the entry of a key is, or where it would be inserted.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<Position, Position>
    where
        K: Borrow<Q>,
    {
        let begins_before = |run: &Run<K, V>| run.first().is_some_and(|(first, _)| first.borrow() <= key);
        let run = self.rest.as_ref().map_or(0, |rest| rest.runs.partition_point(begins_before));
        let found = self.run(run).binary_search_by(|(entry, _)| entry.borrow().cmp(key));
        found.map(|at| Position { run, at }).map_err(|at| Position { run, at })
    }

    /// The place of the first entry whose key is not less.
    fn before<Q: Ord + ?Sized>(&self, key: &Q) -> Position
    where
        K: Borrow<Q>,
    {
        self.find(key).unwrap_or_else(|place| place)
    }

    /// The place of the first entry whose key is greater.
    fn behind<Q: Ord + ?Sized>(&self, key: &Q) -> Position
    where
        K: Borrow<Q>,
    {
        let after = |Position { run, at }| Position { run, at: at.saturating_add(1) };
        self.find(key).map_or_else(|place| place, after)
    }

    fn end(&self) -> Position {
        let run = self.later().len();
        Position { run, at: self.run(run).len() }
    }

    fn insert_at(&mut self, mut place: Position, entry: (K, V)) -> &mut V {
        if self.run(place.run).len() >= RUN {
            place = self.split(place);
        }
        if let Some(rest) = self.rest.as_mut().filter(|_| place.run > 0) {
            rest.len = rest.len.saturating_add(1);
        }
        let run = self.run_mut(place.run);
        let at = place.at.min(run.len());
        &mut run.insert_mut(at, entry).1
    }

    /// Splits a full run. Returns where an entry of that place is inserted afterwards.
    #[cold]
    #[inline(never)]
    fn split(&mut self, place: Position) -> Position {
        let Position { run, at } = place;
        // Keys that ascend fill one run after the other.
        let half = if place == self.end() { at } else { RUN / 2 };
        let upper = self.run_mut(run).split_off(half);
        let rest = self.rest.get_or_insert_with(|| Box::new(Rest { runs: Vec::new(), len: 0 }));
        rest.len = rest.len.saturating_add(if run == 0 { upper.len() } else { 0 });
        rest.runs.insert(run.min(rest.runs.len()), upper);
        match at.checked_sub(half) {
            None => place,
            Some(at) => Position { run: run.saturating_add(1), at },
        }
    }

    fn remove_at(&mut self, Position { run, at }: Position) -> Option<(K, V)> {
        let entries = self.run_mut(run);
        let removed = (at < entries.len()).then(|| entries.remove(at))?;
        shrink(entries);
        let left = entries.len();
        if let Some(rest) = &mut self.rest {
            rest.len = rest.len.saturating_sub(usize::from(run > 0));
            if left <= RUN / 4 {
                self.join(run);
            }
        }
        Some(removed)
    }

    /// Joins a run with the next or the previous one, if it is empty or both have half of a run together.
    #[cold]
    #[inline(never)]
    fn join(&mut self, run: usize) {
        for lower in [Some(run), run.checked_sub(1)].into_iter().flatten() {
            let [entries, others] = [lower, lower.saturating_add(1)].map(|run| self.run(run).len());
            let fits = entries.saturating_add(others) <= RUN / 2 || entries.min(others) == 0;
            if let Some(rest) = self.rest.as_mut().filter(|rest| fits && lower < rest.runs.len()) {
                let mut upper = rest.runs.remove(lower);
                rest.len = rest.len.saturating_sub(if lower == 0 { upper.len() } else { 0 });
                shrink(&mut rest.runs);
                if rest.runs.is_empty() {
                    self.rest = None;
                }
                return self.run_mut(lower).append(&mut upper);
            }
        }
    }
}

/// Frees most of the room of a list that has become short.
fn shrink<T>(list: &mut Vec<T>) {
    if list.capacity() > 8 && list.len() <= list.capacity() / 4 {
        list.shrink_to(list.len().saturating_mul(2).max(4));
    }
}

/// Iterator over entries of an [`OrderedMap`], in the order of their keys.
pub(crate) struct Iter<'a, K, V> {
    map: &'a OrderedMap<K, V>,
    from: Position,
    to: Position,
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        let Self { map, from, to } = *self;
        Self { map, from, to }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.from.run < self.to.run && self.from.at >= self.map.run(self.from.run).len() {
            self.from = Position { run: self.from.run.saturating_add(1), at: 0 };
        }
        if self.from >= self.to {
            return None;
        }
        let (key, value) = self.map.at(self.from)?;
        self.from.at = self.from.at.saturating_add(1);
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let is_last = self.from.run == self.to.run;
        let end = if is_last { self.to.at } else { self.map.run(self.from.run).len() };
        let left = end.saturating_sub(self.from.at);
        (left, is_last.then_some(left))
    }
}

impl<K, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.to.at == 0 && self.from.run < self.to.run {
            let run = self.to.run.saturating_sub(1);
            self.to = Position { run, at: self.map.run(run).len() };
        }
        if self.from >= self.to {
            return None;
        }
        self.to.at = self.to.at.checked_sub(1)?;
        self.map.at(self.to).map(|(key, value)| (key, value))
    }
}

impl<'a, K, V> IntoIterator for &'a OrderedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K, V> IntoIterator for OrderedMap<K, V> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> Self::IntoIter {
        let rest = self.rest.map(|rest| rest.runs).unwrap_or_default();
        self.first.into_iter().chain(rest.into_iter().flatten())
    }
}

pub(crate) type IntoIter<K, V> = Chain<vec::IntoIter<(K, V)>, Flatten<vec::IntoIter<Run<K, V>>>>;

impl<K, V> Default for OrderedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for OrderedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for OrderedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other)
    }
}

impl<K: Eq, V: Eq> Eq for OrderedMap<K, V> {}

impl<K: Serialize, V: Serialize> Serialize for OrderedMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Deserialize<'de> for OrderedMap<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor<K, V>(PhantomData<(K, V)>);

        impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Visitor<'de> for MapVisitor<K, V> {
            type Value = OrderedMap<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut map = OrderedMap::new();
                while let Some((key, value)) = entries.next_entry()? {
                    map.insert(key, value);
                }
                Ok(map)
            }
        }

        deserializer.deserialize_map(MapVisitor(PhantomData))
    }
}

impl<K: Ord, V> Extend<(K, V)> for OrderedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for OrderedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

/// The place of a key in an [`OrderedMap`].
pub(crate) enum Entry<'a, K, V> {
    Occupied(OccupiedEntry<'a, K, V>),
    Vacant(VacantEntry<'a, K, V>),
}

impl<'a, K, V> Entry<'a, K, V> {
    pub(crate) fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        match self {
            Self::Occupied(entry) => entry.into_mut(),
            Self::Vacant(entry) => entry.insert(make()),
        }
    }

    pub(crate) fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    pub(crate) fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

/// An entry that is there.
pub(crate) struct OccupiedEntry<'a, K, V> {
    map: &'a mut OrderedMap<K, V>,
    /// The key that was looked for.
    pub(crate) key: K,
    place: Position,
}

impl<'a, K, V> OccupiedEntry<'a, K, V> {
    #[expect(clippy::indexing_slicing, reason = "nothing was removed since it was found")]
    pub(crate) fn into_mut(self) -> &'a mut V {
        &mut self.map.run_mut(self.place.run)[self.place.at].1
    }
}

/// The place of an entry that is not there.
pub(crate) struct VacantEntry<'a, K, V> {
    map: &'a mut OrderedMap<K, V>,
    pub(crate) key: K,
    place: Position,
}

impl<'a, K, V> VacantEntry<'a, K, V> {
    pub(crate) fn insert(self, value: V) -> &'a mut V {
        self.map.insert_at(self.place, (self.key, value))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    impl<K: Ord + fmt::Debug, V> OrderedMap<K, V> {
        fn check(&self) {
            let lengths: Vec<_> = self.later().iter().map(Vec::len).collect();
            assert!(self.first.len() <= RUN && lengths.iter().all(|length| (1..=RUN).contains(length)));
            assert!(self.rest.as_ref().is_none_or(|rest| {
                !self.first.is_empty() && !rest.runs.is_empty() && rest.len == lengths.iter().sum::<usize>()
            }));
            assert!(self.keys().is_sorted_by(|a, b| a < b));
            assert!(lengths.len() <= 1 + self.len() / (RUN / 8), "runs are short: {lengths:?}");
        }

        fn capacity(&self) -> usize {
            self.later().iter().map(Vec::capacity).sum::<usize>() + self.first.capacity()
        }
    }

    /// Does the same with a `BTreeMap`, by small steps whose choice is a simple generator.
    #[test]
    fn map_does_what_a_tree_does() {
        for (seed, keys) in [(1_u64, 30), (2, 300), (3, 2000)] {
            let (mut map, mut tree) = (OrderedMap::new(), BTreeMap::new());
            let mut state = seed;
            let mut next = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            for step in 0..6000 {
                let key = next(keys);
                // Grows and shrinks in turn.
                let grows = step / 1500 % 2 == 0;
                match next(20) {
                    0 => assert_eq!(map.pop_first(), tree.pop_first()),
                    1 => assert_eq!(map.pop_last(), tree.pop_last()),
                    2 => {
                        *map.entry(key).or_insert(0) += 1;
                        *tree.entry(key).or_insert(0) += 1;
                    }
                    3 => {
                        let to = key + next(100);
                        assert!(map.range(key..to).eq(tree.range(key..to)));
                        assert!(map.range(..=key).rev().eq(tree.range(..=key).rev()));
                        let behind = (Bound::Excluded(key), Bound::Unbounded);
                        assert!(map.range(behind).eq(tree.range(behind)));
                        map.values_mut().chain(tree.values_mut()).for_each(|value| *value += 1);
                    }
                    4 if next(50) == 0 => {
                        let odd = next(2);
                        map.retain(|key, _| key % 2 == odd);
                        tree.retain(|key, _| key % 2 == odd);
                    }
                    5 if next(50) == 0 => {
                        let mut later: OrderedMap<_, _> = (key..key + 100).map(|key| (key, step)).collect();
                        tree.extend(later.iter());
                        map.append(&mut later);
                    }
                    6..11 if grows => assert_eq!(map.insert(key, step), tree.insert(key, step)),
                    6..14 => assert_eq!(map.remove(&key), tree.remove(&key)),
                    _ => assert_eq!(map.insert(key, step), tree.insert(key, step)),
                }
                map.check();
                assert_eq!((map.len(), map.get(&key)), (tree.len(), tree.get(&key)));
            }
            assert!(map.iter().eq(&tree) && map.iter().rev().eq(tree.iter().rev()));
            assert!(map.into_iter().eq(tree));
        }
    }

    #[test]
    fn keys_that_ascend_fill_runs_and_removal_frees_them() {
        let mut map: OrderedMap<usize, ()> = (0..2000).map(|key| (key, ())).collect();
        assert_eq!(map.later().len(), 2000_usize.div_ceil(RUN) - 1);
        for key in 0..1990 {
            map.remove(&key);
            map.check();
        }
        assert!(map.rest.is_none() && map.capacity() <= RUN);
        for key in (0..1990).rev() {
            map.insert(key, ());
            map.check();
        }
        assert_eq!(map.len(), 2000);
        // One of each run stays.
        let mut filtered = map.clone();
        filtered.retain(|key, ()| key % RUN == 0);
        (0..2000).filter(|key| key % RUN != 0).for_each(|key| assert!(map.remove(&key).is_some()));
        for map in [map, filtered] {
            map.check();
            assert!(map.len() == 32 && map.capacity() <= 2 * RUN, "{}", map.capacity());
        }
    }
}
