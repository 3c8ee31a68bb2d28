//! Lists that keep their valid items when another item cannot be read.

use alloc::boxed::Box;
use alloc::vec::{self, Vec};
use core::ops::{Deref, DerefMut};
use core::slice;

use super::json::Json;
use super::read::{Fit, Items, Read};
use super::write::{Projection, WriteAt};
use crate::rpc::reader::NotJson;

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
