//! A registry of items that are listed in order and found by key.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::rpc::{ErrorObject, code};

/// Items by key, in the order of their registration.
pub(crate) struct Registry<T, H> {
    entries: Vec<Entry<T, H>>,
    index: BTreeMap<String, usize>,
}

pub(crate) struct Entry<T, H> {
    key: String,
    pub(crate) item: T,
    pub(crate) handler: H,
}

impl<T, H> Registry<T, H> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), index: BTreeMap::new() }
    }

    /// Adds an item, or returns the key if it is registered already.
    pub(crate) fn insert(&mut self, key: String, item: T, handler: H) -> Result<(), String> {
        if self.index.contains_key(&key) {
            return Err(key);
        }
        self.index.insert(key.clone(), self.entries.len());
        self.entries.push(Entry { key, item, handler });
        Ok(())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Entry<T, H>> {
        self.entries.get(*self.index.get(key)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry<T, H>> {
        self.entries.iter()
    }

    /// Returns one page and the cursor of the next: the key of the last item on this page, which stays valid while that
    /// item is registered, on any instance of the server.
    pub(crate) fn page(
        &self,
        cursor: Option<&str>,
        size: usize,
    ) -> Result<(Vec<&T>, Option<String>), ErrorObject> {
        let start = match cursor {
            None => 0,
            Some(cursor) => {
                let last = self.index.get(cursor).ok_or_else(|| {
                    ErrorObject::new(code::INVALID_PARAMS, format!("unknown cursor {cursor:?}"))
                })?;
                last.saturating_add(1)
            }
        };
        let rest = self.entries.get(start..).unwrap_or_default();
        let page = rest.get(..size.max(1)).unwrap_or(rest);
        let next = page.last().filter(|_| page.len() < rest.len()).map(|entry| entry.key.clone());
        Ok((page.iter().map(|entry| &entry.item).collect(), next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters() -> Registry<char, ()> {
        let mut registry = Registry::new();
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
    fn page_of_size_zero_still_advances() {
        assert_eq!(page(None, 0), ("c".into(), Some("c".into())));
    }

    #[test]
    fn registry_refuses_a_duplicate_key() {
        assert_eq!(letters().insert("a".into(), 'x', ()), Err("a".into()));
    }
}
