//! The items of servers and their names for a model.

use alloc::borrow::Cow;
use alloc::sync::Arc;

use serde::Serialize;

use super::pin::ItemKind;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::schema::{Json, Prompt, Resource, ResourceTemplate, Tool};

/// An item of a server and its name for a model.
#[derive(Debug)]
pub struct Entry<'a, T> {
    /// The name for a model.
    pub name: &'a str,
    /// The server's name in the configuration.
    pub server: &'a str,
    /// The item as the server listed it, with the name for the wire.
    pub item: &'a T,
}

impl<T> Clone for Entry<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Entry<'_, T> {}

impl<'a> Entry<'a, Tool> {
    //= F95 "a missing description falls back to the title, then the name; a missing schema to an object"
    /// The definition for a model. A missing description falls back to the title or the name, a missing schema to one
    /// of any object.
    pub fn definition(self) -> ToolDefinition<'a> {
        let description = self.item.description.as_deref().filter(|text| !text.trim().is_empty());
        let schema = &self.item.input_schema;
        // The reader puts this in place of a missing schema. Some interfaces of models want `properties`.
        let input_schema = if schema.as_str() == r#"{"type":"object"}"# {
            Json::new(r#"{"type":"object","properties":{}}"#).map_or(Cow::Borrowed(schema), Cow::Owned)
        } else {
            Cow::Borrowed(schema)
        };
        ToolDefinition {
            name: self.name,
            description: description.unwrap_or_else(|| self.item.display_name()),
            input_schema,
        }
    }
}

/// The definition of a tool for a model.
///
/// The description is the server's text. Serialized, it has the members `name`, `description` and `input_schema`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolDefinition<'a> {
    /// The name for a model.
    pub name: &'a str,
    /// The description.
    pub description: &'a str,
    /// JSON Schema of the arguments.
    pub input_schema: Cow<'a, Json>,
}

impl ToolDefinition<'_> {
    /// The size in bytes that counts against a budget: of the texts, and 32 for what surrounds them.
    ///
    /// A token of a model is about four bytes.
    pub fn bytes(&self) -> usize {
        [self.name.len(), self.description.len(), self.input_schema.as_str().len(), 32].iter().sum()
    }
}

/// A type of items that a catalogue lists: [`Tool`], [`Prompt`], [`Resource`] or [`ResourceTemplate`].
pub trait CatalogueItem: Serialize + Sized + 'static {
    /// The kind.
    const KIND: ItemKind;

    /// What identifies the item within its server: the name, the URI or the URI template.
    fn key(&self) -> &str;

    #[doc(hidden)]
    fn is_for_model(&self) -> bool {
        true
    }

    #[doc(hidden)]
    fn section(sections: &Sections) -> &Section<Self>;

    #[doc(hidden)]
    fn section_mut(sections: &mut Sections) -> &mut Section<Self>;
}

macro_rules! items {
    ($($type:ty, $kind:ident, $key:ident, $section:ident $(, $is_for_model:expr)?;)*) => { $(
        impl CatalogueItem for $type {
            const KIND: ItemKind = ItemKind::$kind;

            fn key(&self) -> &str {
                &self.$key
            }

            $(fn is_for_model(&self) -> bool {
                $is_for_model(self)
            })?

            fn section(sections: &Sections) -> &Section<Self> {
                &sections.$section
            }

            fn section_mut(sections: &mut Sections) -> &mut Section<Self> {
                &mut sections.$section
            }
        }
    )* };
}

items! {
    Tool, Tool, name, tools, Tool::is_for_model;
    Prompt, Prompt, name, prompts;
    Resource, Resource, uri, resources;
    ResourceTemplate, ResourceTemplate, uri_template, templates;
}

/// Error: no item can be used by this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookupError {
    /// No item has the name.
    Unknown,
    /// Two items have the name by a collision of hashes, so both are hidden.
    Collision,
    /// The definition changed after it was approved, and is hidden until it is approved again.
    Blocked,
    /// The server's filter denies the item.
    Denied,
    /// The server has the tool for its [pages](crate::schema::apps) alone.
    ForPages,
}

error_text! { LookupError:
    Unknown => "no server has an item of this name: list or search the tools again";
    Collision => "two items have this name, so both are hidden: rename one of their servers";
    Blocked => "the definition changed after it was approved: ask the user to approve it again";
    Denied => "the configuration of the server denies this item";
    ForPages => "the server has this tool for its pages alone: no model may call it";
}

/// The lists, by kind.
#[derive(Debug, Default)]
pub struct Sections {
    pub(super) tools: Section<Tool>,
    pub(super) prompts: Section<Prompt>,
    pub(super) resources: Section<Resource>,
    pub(super) templates: Section<ResourceTemplate>,
}

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
    lists: OrderedMap<Arc<str>, Vec<Named<T>>>,
    /// Where the items of each name are: one, unless hashes collide.
    index: OrderedMap<String, Vec<Location>>,
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
        Self { lists: OrderedMap::new(), index: OrderedMap::new() }
    }
}

impl<T: CatalogueItem> Section<T> {
    /// Replaces the list of a server. Returns the names that collide.
    pub(super) fn replace(
        &mut self,
        server: &Arc<str>,
        items: Vec<T>,
        name: impl Fn(&T) -> String,
    ) -> Vec<Collision> {
        self.remove(server);
        let items: Vec<_> = items.into_iter().map(|item| Named { name: name(&item), item }).collect();
        let mut collided = OrderedSet::new();
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
        assert_eq!(section.replace(&a, [tool("x")].into(), same), []);
        let collisions = section.replace(&b, [tool("y")].into(), same);
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
        let collisions = section.replace(&Arc::from("a"), [tool("x"), tool("y")].into(), |_| "same".into());
        assert_eq!(collisions.len(), 1);
        assert_eq!(section.find("same").unwrap_err(), LookupError::Collision);
    }
}
