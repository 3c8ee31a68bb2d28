//! Collections that store a single entry inline, without an allocation. Most maps and queues of an HTTP exchange or an
//! idle session have one entry at most.

use alloc::collections::vec_deque::VecDeque;

use crate::ordered_map::{self, OrderedMap};

/// An ordered map that stores a single entry inline and several entries in an [`OrderedMap`].
#[derive(Clone, Debug)]
pub(crate) struct InlineMap<K, V>(Entries<K, V>);

#[derive(Clone, Debug)]
enum Entries<K, V> {
    Inline(Option<(K, V)>),
    Several(OrderedMap<K, V>),
}

impl<K, V> Default for InlineMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> InlineMap<K, V> {
    pub(crate) const fn new() -> Self {
        Self(Entries::Inline(None))
    }

    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Entries::Inline(only) => usize::from(only.is_some()),
            Entries::Several(several) => several.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn iter(&self) -> Iter<'_, K, V> {
        match &self.0 {
            Entries::Inline(only) => Iter { only: only.as_ref(), several: None },
            Entries::Several(several) => Iter { only: None, several: Some(several.iter()) },
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        let (only, several) = match &mut self.0 {
            Entries::Inline(only) => (only.as_mut(), None),
            Entries::Several(several) => (None, Some(several)),
        };
        let several = several.into_iter().flat_map(OrderedMap::values_mut);
        only.into_iter().map(|(_, value)| value).chain(several)
    }
}

impl<K: Ord, V> InlineMap<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        match &self.0 {
            Entries::Inline(Some((only, value))) => (only == key).then_some(value),
            Entries::Inline(None) => None,
            Entries::Several(several) => several.get(key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.0 {
            Entries::Inline(Some((only, value))) => (only == key).then_some(value),
            Entries::Inline(None) => None,
            Entries::Several(several) => several.get_mut(key),
        }
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// Adds an entry. Returns the value that it replaces.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.make_room(&key);
        match &mut self.0 {
            // Mostly there is none: then nothing is moved out.
            Entries::Inline(only @ None) => {
                *only = Some((key, value));
                None
            }
            Entries::Inline(only) => only.replace((key, value)).map(|(_, before)| before),
            Entries::Several(several) => several.insert(key, value),
        }
    }

    /// The value of a key; inserts the value of `make` if the key is absent.
    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.make_room(&key);
        match &mut self.0 {
            Entries::Inline(only) => &mut only.get_or_insert_with(|| (key, make())).1,
            Entries::Several(several) => several.entry(key).or_insert_with(make),
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        match &mut self.0 {
            Entries::Inline(Some((only, _))) if only != key => None,
            Entries::Inline(only) => only.take().map(|(_, value)| value),
            Entries::Several(several) => {
                let removed = several.remove(key);
                self.shrink();
                removed
            }
        }
    }

    pub(crate) fn pop_first(&mut self) -> Option<(K, V)> {
        match &mut self.0 {
            Entries::Inline(only) => only.take(),
            Entries::Several(several) => {
                let popped = several.pop_first();
                self.shrink();
                popped
            }
        }
    }

    /// Moves an inline entry into a map, unless its key is this one.
    fn make_room(&mut self, key: &K) {
        if let Entries::Inline(only) = &mut self.0
            && let Some(entry) = only.take_if(|(only, _)| only != key)
        {
            let mut several = OrderedMap::new();
            several.insert(entry.0, entry.1);
            self.0 = Entries::Several(several);
        }
    }

    /// Frees the map's memory when a single entry is left in it: an `OrderedMap` keeps its list even when it is empty.
    fn shrink(&mut self) {
        if let Entries::Several(several) = &mut self.0
            && several.len() <= 1
        {
            self.0 = Entries::Inline(several.pop_first());
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
    type IntoIter = core::iter::Chain<core::option::IntoIter<(K, V)>, ordered_map::IntoIter<K, V>>;

    fn into_iter(self) -> Self::IntoIter {
        let (only, several) = match self.0 {
            Entries::Inline(only) => (only, OrderedMap::new()),
            Entries::Several(several) => (None, several),
        };
        only.into_iter().chain(several)
    }
}

/// Iterator over the entries of an [`InlineMap`], in the order of their keys.
#[derive(Clone, Debug)]
pub(crate) struct Iter<'a, K, V> {
    only: Option<&'a (K, V)>,
    several: Option<ordered_map::Iter<'a, K, V>>,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match self.only.take() {
            Some((key, value)) => Some((key, value)),
            None => self.several.as_mut()?.next(),
        }
    }
}

/// A queue that stores a single item inline, and frees the memory of further items with the last of them.
#[derive(Clone, Debug)]
pub(crate) enum InlineQueue<T> {
    Inline(Option<T>),
    Several(VecDeque<T>),
}

impl<T> Default for InlineQueue<T> {
    fn default() -> Self {
        Self::Inline(None)
    }
}

impl<T> InlineQueue<T> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Inline(only) => usize::from(only.is_some()),
            Self::Several(items) => items.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let (only, several) = match self {
            Self::Inline(only) => (only.as_ref(), None),
            Self::Several(items) => (None, Some(items)),
        };
        only.into_iter().chain(several.into_iter().flatten())
    }

    #[inline]
    pub(crate) fn push_back(&mut self, item: T) {
        match self {
            Self::Inline(only @ None) => *only = Some(item),
            _ => self.push_behind(item),
        }
    }

    #[inline(never)]
    fn push_behind(&mut self, item: T) {
        match self {
            Self::Inline(only) => *self = Self::Several(only.take().into_iter().chain([item]).collect()),
            Self::Several(items) => items.push_back(item),
        }
    }

    /// Takes the first item. Most queues are empty when they are drained: then nothing is moved.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        match self {
            Self::Inline(None) => None,
            Self::Inline(only) => only.take(),
            Self::Several(_) => self.pop_several(),
        }
    }

    #[inline(never)]
    fn pop_several(&mut self) -> Option<T> {
        let Self::Several(items) = self else { return None };
        let item = items.pop_front();
        if items.is_empty() {
            *self = Self::Inline(None);
        }
        item
    }
}

impl<T> IntoIterator for InlineQueue<T> {
    type Item = T;
    type IntoIter = core::iter::Chain<core::option::IntoIter<T>, alloc::collections::vec_deque::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        let (only, several) = match self {
            Self::Inline(only) => (only, VecDeque::new()),
            Self::Several(items) => (None, items),
        };
        only.into_iter().chain(several)
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
            let (mut small, mut model) = (InlineMap::new(), OrderedMap::new());
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
