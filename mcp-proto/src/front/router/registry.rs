//! A registry of items that are listed in order and found by key.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::ops::{Bound, Deref};

use super::RouterError;
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::rpc::{ErrorObject, code};

/// The number of removed items whose places in the list are remembered.
const REMEMBERED: usize = 256;

/// Items by key, in the order of their registration. Clones share them until one of them changes. `O` is where an item
/// comes from, if it was registered in another router.
pub(crate) struct Registry<T, H, O = ()> {
    /// The kind of the items, for errors.
    kind: &'static str,
    items: Arc<Items<T, H, O>>,
}

struct Items<T, H, O> {
    /// The items by their places, which increase in the order of registration.
    slots: OrderedMap<u64, Slot<T, H, O>>,
    index: OrderedMap<Arc<str>, u64>,
    next: u64,
    /// The keys and places of the items that were removed last: the cursor of a page that ended there stays valid, and
    /// an item that is registered again gets its place back.
    removed: VecDeque<(Arc<str>, u64)>,
}

/// An item, and whether it is enabled: a disabled item is registered, but neither listed nor found.
type Slot<T, H, O> = (Arc<Entry<T, H, O>>, bool);

pub(crate) struct Entry<T, H, O = ()> {
    key: Arc<str>,
    pub(crate) item: T,
    pub(crate) handler: H,
    /// The router that the item was registered in, unless it is this one.
    pub(super) origin: Option<Arc<O>>,
}

impl<T, H, O> Entry<T, H, O> {
    /// An item that was registered in another router.
    pub(super) fn moved(key: &str, item: T, handler: H, origin: Arc<O>) -> Self {
        Self { key: key.into(), item, handler, origin: Some(origin) }
    }

    /// The name, the URI or the template of the item.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Starts the handler; it is returned with the key.
    pub(super) fn start<P, C, F>(&self, params: P, context: C) -> (F, Option<Arc<str>>)
    where
        H: Deref<Target: Fn(P, C) -> F>,
    {
        ((self.handler)(params, context), Some(self.key.clone()))
    }
}

impl<T, H, O> Registry<T, H, O> {
    pub(crate) fn new(kind: &'static str) -> Self {
        let (slots, index, removed) = (OrderedMap::new(), OrderedMap::new(), VecDeque::new());
        Self { kind, items: Arc::new(Items { slots, index, next: 0, removed }) }
    }

    /// Adds an item.
    ///
    /// # Errors
    /// If its key is registered already.
    pub(crate) fn insert(&mut self, key: String, item: T, handler: H) -> Result<(), RouterError> {
        self.insert_entry(Entry { key: key.into(), item, handler, origin: None })
    }

    fn insert_entry(&mut self, entry: Entry<T, H, O>) -> Result<(), RouterError> {
        let key = entry.key.clone();
        if self.contains(&key) {
            return Err(RouterError::Duplicate { kind: self.kind, name: (&*key).into() });
        }
        let items = Arc::make_mut(&mut self.items);
        let removed = items.removed.iter().position(|(removed, _)| **removed == *key);
        let place = match removed.and_then(|at| items.removed.remove(at)) {
            Some((_, place)) => place,
            None => {
                items.next = items.next.saturating_add(1);
                items.next
            }
        };
        items.index.insert(key, place);
        items.slots.insert(place, (Arc::new(entry), true));
        Ok(())
    }

    /// Adds the items of another registry as `moved` returns them; what is disabled there is disabled here.
    ///
    /// # Errors
    /// If the key of one is registered already; then some may have been added.
    pub(super) fn absorb(
        &mut self,
        other: &Self,
        moved: impl Fn(&Entry<T, H, O>) -> Result<Entry<T, H, O>, RouterError>,
    ) -> Result<(), RouterError> {
        for (entry, enabled) in other.items.slots.values() {
            let entry = moved(entry)?;
            let key = entry.key.clone();
            self.insert_entry(entry)?;
            self.set_enabled(&key, *enabled)?;
        }
        Ok(())
    }

    /// The keys of all items, also of the disabled ones.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.items.index.keys().map(|key| &**key)
    }

    /// Removes an item.
    ///
    /// # Errors
    /// If it is not registered.
    pub(crate) fn remove(&mut self, key: &str) -> Result<(), RouterError> {
        let (_, items) = self.place_of(key)?;
        if let Some((key, place)) = items.index.remove_entry(key) {
            items.slots.remove(&place);
            items.removed.push_back((key, place));
            if items.removed.len() > REMEMBERED {
                items.removed.pop_front();
            }
        }
        Ok(())
    }

    /// Enables or disables an item.
    ///
    /// # Errors
    /// If it is not registered.
    pub(crate) fn set_enabled(&mut self, key: &str, enabled: bool) -> Result<(), RouterError> {
        let (place, items) = self.place_of(key)?;
        if let Some(slot) = items.slots.get_mut(&place) {
            slot.1 = enabled;
        }
        Ok(())
    }

    /// The place of a registered item, and the items to change.
    fn place_of(&mut self, key: &str) -> Result<(u64, &mut Items<T, H, O>), RouterError> {
        match self.items.index.get(key) {
            Some(place) => Ok((*place, Arc::make_mut(&mut self.items))),
            None => Err(RouterError::NotRegistered { kind: self.kind, name: key.into() }),
        }
    }

    /// The item with this key, unless it is disabled.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry<T, H, O>> {
        let (entry, enabled) = self.items.slots.get(self.items.index.get(key)?)?;
        enabled.then_some(&**entry)
    }

    /// Whether an item with this key is registered, even if it is disabled.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.items.index.contains_key(key)
    }

    /// The items that are not disabled, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry<T, H, O>> {
        self.items.slots.values().filter(|(_, enabled)| *enabled).map(|(entry, _)| &**entry)
    }

    /// Whether both list the same items in the same order; `listed` is the part of an item that is listed.
    pub(crate) fn same_items<L: PartialEq>(&self, other: &Self, listed: impl Fn(&T) -> &L) -> bool {
        let (items, others) = (self.iter().map(|entry| &entry.item), other.iter().map(|entry| &entry.item));
        Arc::ptr_eq(&self.items, &other.items) || items.map(&listed).eq(others.map(&listed))
    }

    /// Returns one page and the cursor of the next: the key of the last item on this page. It stays valid on any
    /// instance of the server while that item is registered, and on this instance until 256 more items are removed.
    pub(crate) fn page(
        &self,
        cursor: Option<&str>,
        size: usize,
    ) -> Result<(Vec<&T>, Option<String>), ErrorObject> {
        let start = match cursor {
            None => Bound::Unbounded,
            Some(cursor) => Bound::Excluded(self.place(cursor).ok_or_else(|| {
                ErrorObject::new(code::INVALID_PARAMS, format!("unknown cursor {cursor:?}"))
            })?),
        };
        let slots = self.items.slots.range((start, Bound::Unbounded)).map(|(_, slot)| slot);
        let mut rest = slots.filter(|(_, enabled)| *enabled).map(|(entry, _)| &**entry);
        let page: Vec<&Entry<T, H, O>> = rest.by_ref().take(size.max(1)).collect();
        let next = rest.next().and(page.last()).map(|entry| String::from(&*entry.key));
        Ok((page.into_iter().map(|entry| &entry.item).collect(), next))
    }

    /// The place of an item that is registered, or was removed a short time ago.
    fn place(&self, key: &str) -> Option<u64> {
        let registered = self.items.index.get(key).copied();
        let removed = || self.items.removed.iter().find(|(removed, _)| **removed == *key);
        registered.or_else(|| removed().map(|(_, place)| *place))
    }
}

impl<T, H, O> Clone for Registry<T, H, O> {
    fn clone(&self) -> Self {
        Self { kind: self.kind, items: self.items.clone() }
    }
}

impl<T, H, O> Clone for Items<T, H, O> {
    fn clone(&self) -> Self {
        let (slots, index) = (self.slots.clone(), self.index.clone());
        Self { slots, index, next: self.next, removed: self.removed.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters() -> Registry<char, ()> {
        let mut registry = Registry::new("letter");
        for letter in ['c', 'a', 'b'] {
            registry.insert(letter.into(), letter, ()).unwrap();
        }
        registry
    }

    fn page(cursor: Option<&str>, size: usize) -> (String, Option<String>) {
        let registry = letters();
        let (items, next) = registry.page(cursor, size).unwrap();
        (items.into_iter().collect(), next)
    }

    /// S8.3
    #[test]
    fn pages_follow_the_order_of_registration() {
        assert_eq!(page(None, 2), ("ca".into(), Some("a".into())));
        assert_eq!(page(Some("a"), 2), ("b".into(), None));
        assert_eq!(page(None, 3), ("cab".into(), None));
        assert_eq!(page(Some("b"), 2), ("".into(), None));
    }

    /// S8.16
    #[test]
    fn registry_refuses_an_invalid_cursor() {
        for cursor in ["", "d", "0"] {
            assert_eq!(letters().page(Some(cursor), 2).unwrap_err().code, code::INVALID_PARAMS);
        }
    }

    #[test]
    fn cursor_of_a_removed_item_is_valid_until_as_many_are_removed_after_it() {
        let mut registry: Registry<usize, ()> = Registry::new("number");
        for number in 0..=REMEMBERED {
            registry.insert(number.to_string(), number, ()).unwrap();
        }
        for number in 0..REMEMBERED {
            registry.remove(&number.to_string()).unwrap();
        }
        assert_eq!(registry.page(Some("0"), 1).unwrap().0, [&REMEMBERED]);
        registry.remove(&REMEMBERED.to_string()).unwrap();
        assert_eq!(registry.page(Some("0"), 1).unwrap_err().code, code::INVALID_PARAMS);
        assert!(registry.page(Some("1"), 1).unwrap().0.is_empty());
    }

    #[test]
    fn page_of_size_zero_still_advances() {
        assert_eq!(page(None, 0), ("c".into(), Some("c".into())));
    }

    #[test]
    fn registry_refuses_a_duplicate_key() {
        let error = RouterError::Duplicate { kind: "letter", name: "a".into() };
        assert_eq!(letters().insert("a".into(), 'x', ()), Err(error));
    }
}
