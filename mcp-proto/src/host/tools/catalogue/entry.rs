//! Items of the catalogue, and the definitions of tools for a model.

use alloc::borrow::Cow;

use serde::Serialize;

use super::section::Section;
use super::{ItemKind, Sections};
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
        let lengths = [self.name.len(), self.description.len(), self.input_schema.as_str().len(), 32];
        lengths.iter().fold(0, |sum: usize, length| sum.saturating_add(*length))
    }
}

/// A type of items that a catalogue lists: [`Tool`], [`Prompt`], [`Resource`] or [`ResourceTemplate`].
pub trait CatalogueItem: Serialize + Sized + 'static {
    /// The kind.
    const KIND: ItemKind;

    /// What identifies the item within its server: the name, the URI or the URI template.
    fn key(&self) -> &str;

    #[doc(hidden)]
    fn section(sections: &Sections) -> &Section<Self>;

    #[doc(hidden)]
    fn section_mut(sections: &mut Sections) -> &mut Section<Self>;
}

macro_rules! items {
    ($($type:ty, $kind:ident, $key:ident, $section:ident;)*) => { $(
        impl CatalogueItem for $type {
            const KIND: ItemKind = ItemKind::$kind;

            fn key(&self) -> &str {
                &self.$key
            }

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
    Tool, Tool, name, tools;
    Prompt, Prompt, name, prompts;
    Resource, Resource, uri, resources;
    ResourceTemplate, ResourceTemplate, uri_template, templates;
}
