//! Content: what tools, prompts and resources are made of.
//!
//! Kinds that a revision does not have are written as a text that says what was there.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::de::{Deserializer, MapAccess};
use serde::ser::Serializer;

use super::json::{Json, Number};
use super::meta::Meta;
use super::object::{Object as _, names, object};
use super::read::{Attempt, Fields, Odd, Read};
use super::resources::ResourceContents;
use super::revision::Revision;
use super::write::{Projection, WriteAt, serde_impls};
use crate::schema::Icon;

names! {
    /// Who speaks.
    pub enum Role {
        /// The person, or the program in the person's place.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

object! {
    /// For whom something is, and how much it matters.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#annotations>
    pub struct Annotations {
        required {}
        optional {
            /// For whom it is.
            audience: Option<Vec<Role>> = "audience";
            /// From 0, hardly at all, to 1, very much.
            priority: Option<Number> = "priority";
            /// When it was last changed, in the form of ISO 8601.
            last_modified: Option<String> = "lastModified" since V2025_06_18;
        }
    }
}

object! {
    /// Text.
    pub struct TextContent as "type" = "text" {
        required {
            /// The text.
            text: String = "text";
        }
        optional {
            /// For whom it is.
            annotations: Option<Box<Annotations>> = "annotations";
            /// What else goes with it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

object! {
    /// An image.
    pub struct ImageContent as "type" = "image" {
        required {
            /// The image, in base64.
            data: String = "data";
            /// Its media type.
            mime_type: String = "mimeType";
        }
        optional {
            /// For whom it is.
            annotations: Option<Box<Annotations>> = "annotations";
            /// What else goes with it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

object! {
    /// Sound. Revisions before 2025-03-26 get a text in its place.
    pub struct AudioContent as "type" = "audio" {
        required {
            /// The sound, in base64.
            data: String = "data";
            /// Its media type.
            mime_type: String = "mimeType";
        }
        optional {
            /// For whom it is.
            annotations: Option<Box<Annotations>> = "annotations";
            /// What else goes with it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

object! {
    /// A resource that can be read. Revisions before 2025-06-18 get a text in its place.
    pub struct ResourceLink as "type" = "resource_link" {
        required {
            /// Where it is.
            uri: String = "uri";
            /// Its name for programs.
            name: String = "name";
        }
        optional {
            /// Its name for people.
            title: Option<String> = "title";
            /// What it is, for the model.
            description: Option<String> = "description";
            /// Pictures of it.
            icons: Option<Vec<Icon>> = "icons" since V2025_11_25;
            /// Its media type.
            mime_type: Option<String> = "mimeType";
            /// Its size in bytes, before any encoding.
            size: Option<u64> = "size";
            /// For whom it is.
            annotations: Option<Box<Annotations>> = "annotations";
            /// What else goes with it.
            meta: Meta = "_meta";
        }
    }
}

impl ResourceLink {
    /// What to show people.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

object! {
    /// The contents of a resource, right here.
    pub struct EmbeddedResource as "type" = "resource" {
        required {
            /// The contents.
            resource: ResourceContents = "resource";
        }
        optional {
            /// For whom they are.
            annotations: Option<Box<Annotations>> = "annotations";
            /// What else goes with them.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

/// Declares a union of objects that one of their fields tells apart. What it does not know, or what lacks a required
/// field, is kept as `Unknown`.
macro_rules! tagged {
    ($(#[$attr:meta])* pub enum $name:ident by $field:literal as $tag:ident {
        $( $(#[$vattr:meta])* $variant:ident($type:ty) = $wire:literal, )*
    }) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $( $(#[$vattr])* $variant($type), )*
            /// A kind that is unknown here, or one that is not what it should be: written as it came.
            Unknown(Json),
        }

        names! {
            #[allow(missing_docs)]
            pub(crate) enum $tag { $( $variant = $wire, )* }
        }

        $(
            impl From<$type> for $name {
                fn from(value: $type) -> Self {
                    Self::$variant(value)
                }
            }
        )*

        impl Read for $name {
            const EXPECTED: &'static str = "an object";
            const LIST_MAY_BE_NULL: bool = true;

            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attempt<Self>, D::Error> {
                let read = $crate::schema::read::read_shape(deserializer)?;
                Ok(Ok(read.unwrap_or_else(|odd| Self::Unknown(odd.json))))
            }

            fn from_map<'de, A: MapAccess<'de>>(map: A) -> Result<Attempt<Self>, A::Error> {
                let mut fields = Fields::new(map);
                if fields.decide(|name| (name == $field).then_some(()))?.is_none() {
                    return fields.into_odd(concat!("`", $field, "` is missing")).map(Err);
                }
                match fields.decisive::<$tag>()? {
                    $( Ok($tag::$variant) => Ok(<$type>::read_fields(fields)?.map(Self::$variant)), )*
                    Err(Odd { json, reason }) => {
                        fields.into_odd_with($field, &json, format!(concat!("`", $field, "`: {}"), reason)).map(Err)
                    }
                }
            }
        }

        serde_impls!($name);
    };
}
pub(crate) use tagged;

tagged! {
    /// One piece of content of a tool's result or of a prompt.
    ///
    /// ```
    /// use mcp_proto::schema::ContentBlock;
    ///
    /// let block: ContentBlock = serde_json::from_str(r#"{"type":"text","text":"hello"}"#)?;
    /// assert_eq!(block, ContentBlock::text("hello"));
    /// let hologram: ContentBlock = serde_json::from_str(r#"{"type":"hologram","beams":3}"#)?;
    /// assert_eq!(serde_json::to_string(&hologram)?, r#"{"type":"hologram","beams":3}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result>
    pub enum ContentBlock by "type" as ContentTag {
        /// Text.
        Text(TextContent) = "text",
        /// An image.
        Image(ImageContent) = "image",
        /// Sound.
        Audio(AudioContent) = "audio",
        /// A resource that can be read.
        ResourceLink(Box<ResourceLink>) = "resource_link",
        /// The contents of a resource.
        Resource(EmbeddedResource) = "resource",
    }
}

impl ContentBlock {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// An image: its data in base64 and its media type.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::new(data, mime_type))
    }

    /// Sound: its data in base64 and its media type.
    pub fn audio(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Audio(AudioContent::new(data, mime_type))
    }

    /// The contents of a resource.
    pub fn resource(contents: impl Into<ResourceContents>) -> Self {
        Self::Resource(EmbeddedResource::new(contents))
    }

    /// The text, if it is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            _ => None,
        }
    }
}

impl From<ResourceLink> for ContentBlock {
    fn from(link: ResourceLink) -> Self {
        Self::ResourceLink(Box::new(link))
    }
}

impl From<&str> for ContentBlock {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for ContentBlock {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// A text in place of content that a revision does not have.
pub(crate) fn stand_in(text: String, annotations: Option<&Annotations>) -> TextContent {
    TextContent { annotations: annotations.cloned().map(Box::new), ..TextContent::new(text) }
}

impl AudioContent {
    /// The first revision with sound.
    pub(crate) const SINCE: Revision = Revision::V2025_03_26;

    pub(crate) fn stand_in(&self) -> TextContent {
        let text = format!("[audio {}, {} bytes of base64]", self.mime_type, self.data.len());
        stand_in(text, self.annotations.as_deref())
    }
}

impl WriteAt for ContentBlock {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(content) => content.write(view, serializer),
            Self::Image(content) => content.write(view, serializer),
            Self::Audio(content) if view.since(AudioContent::SINCE) => content.write(view, serializer),
            Self::Audio(content) => content.stand_in().write(view, serializer),
            Self::ResourceLink(link) if view.since(Revision::V2025_06_18) => link.write(view, serializer),
            Self::ResourceLink(link) => {
                let text = format!("[resource {}]", link.uri);
                stand_in(text, link.annotations.as_deref()).write(view, serializer)
            }
            Self::Resource(content) => content.write(view, serializer),
            Self::Unknown(json) => json.write(view, serializer),
        }
    }
}
