//! Collections that store a single entry inline, without an allocation. Most maps and queues of an HTTP exchange or an
//! idle session have one entry at most.

use alloc::collections::vec_deque::VecDeque;
use alloc::collections::{BTreeMap, btree_map};
use core::borrow::Borrow;
use core::mem;

/// An ordered map that stores a single entry inline and several entries in a tree.
#[derive(Clone, Debug)]
pub(crate) struct InlineMap<K, V> {
    /// The only entry; if it is set, `tree` is empty.
    only: Option<(K, V)>,
    tree: BTreeMap<K, V>,
}

impl<K, V> Default for InlineMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> InlineMap<K, V> {
    pub(crate) const fn new() -> Self {
        Self { only: None, tree: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.tree.len().saturating_add(usize::from(self.only.is_some()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.only.is_none() && self.tree.is_empty()
    }

    pub(crate) fn iter(&self) -> Iter<'_, K, V> {
        Iter { only: self.only.as_ref(), tree: self.tree.iter() }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.only.iter_mut().map(|(_, value)| value).chain(self.tree.values_mut())
    }
}

impl<K: Ord, V> InlineMap<K, V> {
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match &self.only {
            Some((only, value)) => (only.borrow() == key).then_some(value),
            None => self.tree.get(key),
        }
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match &mut self.only {
            Some((only, value)) => ((*only).borrow() == key).then_some(value),
            None => self.tree.get_mut(key),
        }
    }

    pub(crate) fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    pub(crate) fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// Adds an entry. Returns the value that it replaces.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.only.take() {
            Some((only, before)) if only == key => {
                self.only = Some((only, value));
                return Some(before);
            }
            Some((only, before)) => {
                self.tree.insert(only, before);
            }
            None if self.tree.is_empty() => {
                self.only = Some((key, value));
                return None;
            }
            None => {}
        }
        self.tree.insert(key, value)
    }

    /// The value of a key; inserts the value of `make` if the key is absent.
    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if self.tree.is_empty() && self.only.as_ref().is_none_or(|(only, _)| *only == key) {
            return &mut self.only.get_or_insert_with(|| (key, make())).1;
        }
        if let Some((only, value)) = self.only.take() {
            self.tree.insert(only, value);
        }
        self.tree.entry(key).or_insert_with(make)
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
        if let Some(entry) = self.only.take_if(|(only, _)| (*only).borrow() == key) {
            return Some(entry);
        }
        let removed = self.tree.remove_entry(key);
        self.shrink();
        removed
    }

    pub(crate) fn pop_first(&mut self) -> Option<(K, V)> {
        if self.only.is_some() {
            return self.only.take();
        }
        let popped = self.tree.pop_first();
        self.shrink();
        popped
    }

    /// Frees the tree's memory when a single entry is left in it: a `BTreeMap` keeps a node even when it is empty.
    fn shrink(&mut self) {
        if self.tree.len() == 1 {
            self.only = mem::take(&mut self.tree).pop_first();
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for InlineMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<K, V> IntoIterator for InlineMap<K, V> {
    type Item = (K, V);
    type IntoIter = core::iter::Chain<core::option::IntoIter<(K, V)>, btree_map::IntoIter<K, V>>;

    fn into_iter(self) -> Self::IntoIter {
        self.only.into_iter().chain(self.tree)
    }
}

/// Iterator over the entries of an [`InlineMap`], in the order of their keys.
#[derive(Clone, Debug)]
pub(crate) struct Iter<'a, K, V> {
    only: Option<&'a (K, V)>,
    tree: btree_map::Iter<'a, K, V>,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match self.only.take() {
            Some((key, value)) => Some((key, value)),
            None => self.tree.next(),
        }
    }
}

/// A queue that stores a single item inline, and frees the memory of further items with the last of them.
#[derive(Clone, Debug)]
pub(crate) struct InlineQueue<T> {
    first: Option<T>,
    rest: VecDeque<T>,
}

impl<T> Default for InlineQueue<T> {
    fn default() -> Self {
        Self { first: None, rest: VecDeque::new() }
    }
}

impl<T> InlineQueue<T> {
    pub(crate) fn len(&self) -> usize {
        self.rest.len().saturating_add(usize::from(self.first.is_some()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }

    #[cfg(feature = "client")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    pub(crate) fn push_back(&mut self, item: T) {
        if self.is_empty() {
            self.first = Some(item);
        } else {
            self.rest.push_back(item);
        }
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        if self.first.is_some() {
            return self.first.take();
        }
        let item = self.rest.pop_front()?;
        if self.rest.is_empty() {
            self.rest = VecDeque::new();
        }
        Some(item)
    }
}

impl<T> IntoIterator for InlineQueue<T> {
    type Item = T;
    type IntoIter = core::iter::Chain<core::option::IntoIter<T>, alloc::collections::vec_deque::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn inline_map_behaves_like_a_tree_map(steps in prop::collection::vec((0u8..6, 0u8..4, any::<u8>()), 0..60)) {
            let (mut small, mut model) = (InlineMap::new(), BTreeMap::new());
            for (step, key, value) in steps {
                match step {
                    0 | 1 => prop_assert_eq!(small.insert(key, value), model.insert(key, value)),
                    2 | 3 => prop_assert_eq!(small.remove(&key), model.remove(&key)),
                    4 => prop_assert_eq!(small.pop_first(), model.pop_first()),
                    _ => prop_assert_eq!(
                        *small.get_or_insert_with(key, || value),
                        *model.entry(key).or_insert(value)
                    ),
                }
                prop_assert_eq!(small.get(&key), model.get(&key));
                prop_assert_eq!(small.get_mut(&key), model.get_mut(&key));
                prop_assert_eq!((small.len(), small.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(small.first_key_value(), model.first_key_value());
                prop_assert!(small.iter().eq(&model) && small.keys().eq(model.keys()));
                prop_assert!(small.values_mut().map(|value| *value).eq(model.values().copied()));
                prop_assert!(small.clone().into_iter().eq(model.clone()));
            }
        }

        #[test]
        fn inline_queue_behaves_like_a_deque(steps in prop::collection::vec(prop::option::weighted(0.6, any::<u8>()), 0..60)) {
            let (mut small, mut model) = (InlineQueue::default(), VecDeque::new());
            for step in steps {
                match step {
                    Some(item) => {
                        small.push_back(item);
                        model.push_back(item);
                    }
                    None => prop_assert_eq!(small.pop_front(), model.pop_front()),
                }
                prop_assert_eq!((small.len(), small.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(small.clone().into_iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            }
        }
    }
}
