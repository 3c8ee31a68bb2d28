//! The items of one kind, of all servers.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::entry::{CatalogueItem, Entry};
use super::{ItemKind, LookupError, NameScheme};

/// Two items whose names for a model are equal, because 60 bits of their hashes are. Both are hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collision {
    /// Kind of the items.
    pub kind: ItemKind,
    /// Their name for a model.
    pub name: String,
    /// Server and key of each.
    pub items: Vec<(String, String)>,
}

/// The lists of one kind by server, and an index of their names.
#[derive(Debug)]
pub struct Section<T> {
    lists: BTreeMap<Arc<str>, Vec<Named<T>>>,
    /// Where the items of each name are: one, unless hashes collide.
    index: BTreeMap<String, Vec<Location>>,
}

#[derive(Debug)]
struct Named<T> {
    name: String,
    item: T,
}

/// A server and an index into its list.
#[derive(Debug)]
struct Location(Arc<str>, usize);

impl<T> Default for Section<T> {
    fn default() -> Self {
        Self { lists: BTreeMap::new(), index: BTreeMap::new() }
    }
}

impl<T: CatalogueItem> Section<T> {
    /// Replaces the list of a server. Returns the names that collide.
    pub(super) fn replace(
        &mut self,
        server: &Arc<str>,
        scheme: &NameScheme,
        items: Vec<T>,
    ) -> Vec<Collision> {
        self.insert(server, items, |item| scheme.name(server, item.key()))
    }

    fn insert(&mut self, server: &Arc<str>, items: Vec<T>, name: impl Fn(&T) -> String) -> Vec<Collision> {
        self.remove(server);
        let items: Vec<_> = items.into_iter().map(|item| Named { name: name(&item), item }).collect();
        let mut collided = BTreeSet::new();
        for (index, Named { name, .. }) in items.iter().enumerate() {
            let locations = self.index.entry(name.clone()).or_default();
            locations.push(Location(Arc::clone(server), index));
            if locations.len() > 1 {
                collided.insert(name.clone());
            }
        }
        self.lists.insert(Arc::clone(server), items);
        collided.into_iter().map(|name| self.collision(name)).collect()
    }

    fn collision(&self, name: String) -> Collision {
        let pair = |entry: Entry<'_, T>| (entry.server.into(), entry.item.key().into());
        let locations = self.index.get(&name).into_iter().flatten();
        let items = locations.filter_map(|location| self.entry(location)).map(pair).collect();
        Collision { kind: T::KIND, name, items }
    }

    /// Removes the list of a server.
    pub(super) fn remove(&mut self, server: &str) {
        for Named { name, .. } in self.lists.remove(server).into_iter().flatten() {
            if let Some(locations) = self.index.get_mut(&name) {
                locations.retain(|location| *location.0 != *server);
                if locations.is_empty() {
                    self.index.remove(&name);
                }
            }
        }
    }

    /// A copy of the list of a server.
    pub(super) fn copy(&self, server: &str) -> Option<Vec<T>>
    where
        T: Clone,
    {
        self.lists.get(server).map(|list| list.iter().map(|named| named.item.clone()).collect())
    }

    /// The items whose names are their own, sorted by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = Entry<'_, T>> {
        self.index.values().filter_map(|locations| match locations.as_slice() {
            [location] => self.entry(location),
            _ => None,
        })
    }

    pub(super) fn find(&self, name: &str) -> Result<Entry<'_, T>, LookupError> {
        match self.index.get(name).map(Vec::as_slice) {
            Some([location]) => self.entry(location).ok_or(LookupError::Unknown),
            Some(_) => Err(LookupError::Collision),
            None => Err(LookupError::Unknown),
        }
    }

    fn entry(&self, Location(server, index): &Location) -> Option<Entry<'_, T>> {
        let (server, list) = self.lists.get_key_value(server)?;
        let Named { name, item } = list.get(*index)?;
        Some(Entry { name, server, item })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Tool;

    fn tool(name: &str) -> Tool {
        Tool::new(name, "", serde_json::json!({}))
    }

    #[test]
    fn names_that_collide_hide_both_items_until_one_leaves() {
        let mut section = Section::default();
        let (a, b) = (Arc::from("a"), Arc::from("b"));
        let same = |_: &Tool| String::from("same");
        assert_eq!(section.insert(&a, [tool("x")].into(), same), []);
        let collisions = section.insert(&b, [tool("y")].into(), same);
        assert_eq!(collisions[0].items, [("a".into(), "x".into()), ("b".into(), "y".into())]);
        assert_eq!(section.find("same").unwrap_err(), LookupError::Collision);
        assert_eq!(section.iter().count(), 0);
        section.remove("a");
        assert_eq!(section.find("same").unwrap().server, "b");
        section.remove("b");
        assert_eq!(section.find("same").unwrap_err(), LookupError::Unknown);
        assert!(section.index.is_empty() && section.lists.is_empty());
    }

    #[test]
    fn names_that_collide_within_a_server_hide_both_items() {
        let mut section = Section::default();
        let collisions = section.insert(&Arc::from("a"), [tool("x"), tool("y")].into(), |_| "same".into());
        assert_eq!(collisions.len(), 1);
        assert_eq!(section.find("same").unwrap_err(), LookupError::Collision);
    }
}
