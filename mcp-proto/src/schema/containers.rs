//! Maps that keep the order of their names, and lists that keep their invalid items.

use alloc::borrow::Cow;
use core::ops::{Deref, DerefMut};
use core::{fmt, iter, slice};

use serde::ser::Serializer;

use super::read::{Fields, Fit, Items, Read};
use super::write::{member, serialize};
use super::{Json, Projection, WriteAt};
use crate::meta_keys::{CLIENT_CAPABILITIES, CLIENT_INFO, PROGRESS_TOKEN, PROTOCOL_VERSION, SERVER_INFO};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::rpc::json_reader::NotJson;

/// A name: borrowed from the program if it is a known one, which saves an allocation.
type Name = Cow<'static, str>;

/// A map from names to values that keeps the order in which they arrived.
///
/// A lookup walks the whole map, as maps are small. If a peer sends a name twice, both entries are kept and lookups
/// find the last one.
#[derive(Clone)]
pub struct Map<V> {
    /// Boxed, so that an empty map takes one word: every object has some maps, and most are empty.
    #[expect(clippy::box_collection)]
    entries: Option<Box<Vec<(Name, V)>>>,
}

impl<V> Map<V> {
    /// Creates an empty map.
    pub const fn new() -> Self {
        Self { entries: None }
    }

    fn entries(&self) -> &[(Name, V)] {
        self.entries.as_deref().map_or(&[], Vec::as_slice)
    }

    fn entries_mut(&mut self) -> &mut Vec<(Name, V)> {
        self.entries.get_or_insert_default()
    }

    /// The value of `name`; the last one if there are several.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Mutable access to the value of `name`.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.entries_mut().iter_mut().rev().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Whether there is a value for `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets the value of `name` and returns the old one.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<V>) -> Option<V> {
        let (name, value) = (Name::Owned(name.into()), value.into());
        match self.get_mut(&name) {
            Some(old) => Some(core::mem::replace(old, value)),
            None => {
                self.entries_mut().push((name, value));
                None
            }
        }
    }

    /// Removes all entries of `name` and returns the last value.
    pub fn remove(&mut self, name: &str) -> Option<V> {
        let mut found = None;
        for (key, value) in core::mem::take(self) {
            if key == name {
                found = Some(value);
            } else {
                self.push(key, value);
            }
        }
        found
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Iterates over the entries, in order.
    pub fn iter(&self) -> Iter<'_, V> {
        Iter(self.entries().iter())
    }

    /// Iterates over the entries with mutable values, in order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut V)> {
        self.entries.iter_mut().flat_map(|entries| entries.iter_mut()).map(|(name, value)| (&**name, value))
    }

    /// Appends an entry without looking for the name: a peer must not be able to make reading quadratic.
    pub(crate) fn push(&mut self, name: impl Into<Name>, value: V) {
        self.entries_mut().push((name.into(), value));
    }
}

impl<V: PartialEq> PartialEq for Map<V> {
    fn eq(&self, other: &Self) -> bool {
        self.entries() == other.entries()
    }
}

impl<V> Default for Map<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: fmt::Debug> fmt::Debug for Map<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Iterator over the entries of a [`Map`].
#[derive(Clone, Debug)]
pub struct Iter<'a, V>(slice::Iter<'a, (Name, V)>);

impl<'a, V> Iterator for Iter<'a, V> {
    type Item = (&'a str, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (&**name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<V> DoubleEndedIterator for Iter<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(name, value)| (&**name, value))
    }
}

impl<'a, V> IntoIterator for &'a Map<V> {
    type Item = (&'a str, &'a V);
    type IntoIter = Iter<'a, V>;

    fn into_iter(self) -> Iter<'a, V> {
        self.iter()
    }
}

impl<V> IntoIterator for Map<V> {
    type Item = (String, V);
    type IntoIter = iter::Map<vec::IntoIter<(Name, V)>, fn((Name, V)) -> (String, V)>;

    fn into_iter(self) -> Self::IntoIter {
        let entries = self.entries.map_or_else(Vec::new, |entries| *entries);
        entries.into_iter().map(|(name, value)| (name.into_owned(), value))
    }
}

impl<K: Into<String>, V> FromIterator<(K, V)> for Map<V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Into<String>, V> Extend<(K, V)> for Map<V> {
    /// Sets the value of each name, as [`insert`](Map::insert) does, in `n log n` steps for `n` names.
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        // For larger maps, an index is cheaper than walking the map.
        const FEW: usize = 16;
        let mut entries = entries.into_iter();
        while self.len() <= FEW {
            let Some((name, value)) = entries.next() else { return };
            self.insert(name, value);
        }
        let mut places: OrderedMap<Name, usize> =
            self.entries().iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
        let known = self.entries_mut();
        for (name, value) in entries {
            let name = Name::Owned(name.into());
            match places.get(&name).and_then(|&place| known.get_mut(place)) {
                Some((_, old)) => *old = value,
                None => {
                    places.insert(name.clone(), known.len());
                    known.push((name, value));
                }
            }
        }
    }
}

impl<K: Into<String>, V, const N: usize> From<[(K, V); N]> for Map<V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<V: WriteAt> WriteAt for Map<V> {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        out.push(b'{');
        for (name, value) in self {
            member(out, name, value, view);
        }
        out.push(b'}');
    }
}

/// Reads a map; names in `known` take no allocation.
fn read_knowing<V: Read>(mut fields: Fields<'_, '_>, known: &[&'static str]) -> Result<Fit<Map<V>>, NotJson> {
    let mut entries = Map::new();
    while let Some(name) = fields.name()? {
        match fields.value::<V>()? {
            Ok(value) => match known.iter().find(|known| **known == name) {
                Some(name) => entries.push(*name, value),
                None => entries.push(name.into_owned(), value),
            },
            // One `UnexpectedJson` value makes the whole map an `UnexpectedJson`.
            Err(unexpected) => return Ok(Err(format!("`{name}`: {unexpected}").into())),
        }
    }
    Ok(Ok(entries))
}

impl<V: Read> Read for Map<V> {
    const EXPECTED: &'static str = "an object";

    fn from_object(fields: Fields<'_, '_>) -> Result<Fit<Self>, NotJson> {
        read_knowing(fields, &[])
    }
}

/// The keys that most messages have, which are read without allocation.
const FREQUENT: &[&str] = &[PROGRESS_TOKEN, PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, SERVER_INFO];

/// The entries of an object that is `_meta`; `null` has none.
pub(super) struct ParsedMeta(pub(super) Map<Json>);

impl Read for ParsedMeta {
    const EXPECTED: &'static str = "an object";

    fn from_null() -> Fit<Self> {
        Ok(Self(Map::new()))
    }

    fn from_object(fields: Fields<'_, '_>) -> Result<Fit<Self>, NotJson> {
        read_knowing(fields, FREQUENT).map(|read| read.map(Self))
    }
}

/// Unknown fields, and optional fields with unreadable values: written back verbatim.
pub type Extra = Map<Json>;

impl<V: WriteAt> serde::Serialize for Map<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self, Projection::Full, serializer)
    }
}

/// A list sent by a peer: the items that could be read, and those that could not.
///
/// It derefs to a [`Vec`] of the valid items. Invalid items are written back in their places.
///
/// ```
/// use mcp_proto::schema::ListToolsResult;
///
/// let text = r#"{"tools":[{"name":"add","inputSchema":{"type":"object"}},{"name":7}]}"#;
/// let result: ListToolsResult = serde_json::from_str(text)?;
/// assert_eq!(result.tools.len(), 1);
/// assert_eq!(result.tools.invalid()[0].index, 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct List<T> {
    items: Vec<T>,
    invalid: Vec<InvalidItem>,
}

/// An item of a [`List`] that could not be read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InvalidItem {
    /// Index in the list as received, from 0.
    pub index: usize,
    /// The item, verbatim.
    pub json: Json,
    /// Reason why it could not be read, as the end of a sentence.
    pub reason: Box<str>,
}

impl<T> List<T> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self { items: Vec::new(), invalid: Vec::new() }
    }

    /// The items that could not be read.
    pub fn invalid(&self) -> &[InvalidItem] {
        &self.invalid
    }

    /// Appends another list, such as the next page.
    pub fn append(&mut self, next: Self) {
        let length = self.items.len().saturating_add(self.invalid.len());
        self.items.extend(next.items);
        self.invalid.extend(
            next.invalid
                .into_iter()
                .map(|item| InvalidItem { index: item.index.saturating_add(length), ..item }),
        );
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for List<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.items
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.items
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, invalid: Vec::new() }
    }
}

impl<T, const N: usize> From<[T; N]> for List<T> {
    fn from(items: [T; N]) -> Self {
        Vec::from(items).into()
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Vec::from_iter(items).into()
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<T: WriteAt> WriteAt for List<T> {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        out.push(b'[');
        let mut invalid = self.invalid.iter().peekable();
        let mut items = self.items.iter();
        for index in 0_usize.. {
            let next = match invalid.next_if(|item| item.index <= index) {
                Some(item) => Some(&item.json as &dyn WriteAt),
                None => items.next().map(|item| item as &dyn WriteAt),
            };
            let Some(item) = next.or_else(|| invalid.next().map(|item| &item.json as &dyn WriteAt)) else {
                break;
            };
            if index > 0 {
                out.push(b',');
            }
            item.write(view, out);
        }
        out.push(b']');
    }
}

impl<T: Read> Read for List<T> {
    const EXPECTED: &'static str = "a list";

    /// Some languages encode an empty list as `null`.
    fn from_null() -> Fit<Self> {
        Ok(Self::new())
    }

    fn from_list(mut items: Items<'_, '_>) -> Result<Fit<Self>, NotJson> {
        let mut list = Self::new();
        let mut index = 0_usize;
        while let Some(item) = items.item()? {
            match item {
                Ok(item) => list.items.push(item),
                Err(unexpected) => {
                    list.invalid.push(InvalidItem { index, json: unexpected.json, reason: unexpected.reason })
                }
            }
            index = index.saturating_add(1);
        }
        Ok(Ok(list))
    }
}
