//! Content blocks of tool results, prompts and embedded resources.
//!
//! A kind of content that a revision does not have is written as a text that describes it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::json::{Json, Number};
use super::meta::Meta;
use super::object::{Object as _, names, object};
use super::read::{Fields, Fit, Read, ReadResult, UnexpectedJson};
use super::resources::{BlobResourceContents, ResourceContents};
use super::revision::Revision;
use super::write::{Projection, WriteAt, serde_impls};
use crate::rpc::json_reader::NotJson;
use crate::schema::Icon;

names! {
    /// Sender of a message.
    pub enum Role {
        /// The user, or a program that acts for the user.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

object! {
    /// Hints on the audience and importance of content or a resource.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#annotations>
    pub struct Annotations {
        required {}
        optional {
            /// Intended audience.
            audience: Option<Vec<Role>> = "audience";
            /// Importance, from 0 (optional) to 1 (required).
            priority: Option<Number> = "priority";
            /// Time of the last change, in ISO 8601.
            last_modified: Option<String> = "lastModified" since V2025_06_18;
        }
    }
}

object! {
    /// Text content.
    pub struct TextContent as "type" = "text" {
        required {
            /// The text.
            text: String = "text";
        }
        optional {
            /// Intended audience, priority and time of the last change.
            annotations: Option<Box<Annotations>> = "annotations";
            /// Metadata attached to it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

object! {
    /// Image content.
    pub struct ImageContent as "type" = "image" {
        required {
            /// The image, in base64.
            data: String = "data";
            /// Its media type.
            mime_type: String = "mimeType";
        }
        optional {
            /// Intended audience, priority and time of the last change.
            annotations: Option<Box<Annotations>> = "annotations";
            /// Metadata attached to it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

object! {
    /// Audio content. Revisions before 2025-03-26 receive a text instead.
    pub struct AudioContent as "type" = "audio" {
        required {
            /// The audio, in base64.
            data: String = "data";
            /// Its media type.
            mime_type: String = "mimeType";
        }
        optional {
            /// Intended audience, priority and time of the last change.
            annotations: Option<Box<Annotations>> = "annotations";
            /// Metadata attached to it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

object! {
    /// Link to a resource. Revisions before 2025-06-18 receive a text instead.
    pub struct ResourceLink as "type" = "resource_link" {
        required {
            /// URI of the resource.
            uri: String = "uri";
            /// Name for programmatic use.
            name: String = "name";
        }
        optional {
            /// Human-readable title.
            title: Option<String> = "title";
            /// Description for the model.
            description: Option<String> = "description";
            /// Icons to display.
            icons: Option<Vec<Icon>> = "icons" since V2025_11_25;
            /// Its media type.
            mime_type: Option<String> = "mimeType";
            /// Its size in bytes, before any encoding.
            size: Option<u64> = "size";
            /// Intended audience, priority and time of the last change.
            annotations: Option<Box<Annotations>> = "annotations";
            /// Metadata attached to it.
            meta: Meta = "_meta";
        }
    }
}

impl ResourceLink {
    /// Name to display: the title, or the name if there is no title.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

object! {
    /// The contents of a resource, embedded in the message.
    pub struct EmbeddedResource as "type" = "resource" {
        required {
            /// The contents.
            resource: ResourceContents = "resource";
        }
        optional {
            /// Intended audience, priority and time of the last change.
            annotations: Option<Box<Annotations>> = "annotations";
            /// Metadata attached to the contents.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

/// Declares an enum of objects that one field distinguishes. An object with an unknown value of that field, or without
/// a required field, is kept as `Unknown`.
macro_rules! tagged {
    ($(#[$attr:meta])* pub enum $name:ident by $field:literal as $tag:ident {
        $( $(#[$vattr:meta])* $variant:ident($type:ty) = $wire:literal, )*
    }) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $( $(#[$vattr])* $variant($type), )*
            /// A value of unknown kind, or an invalid value of a known kind: written back verbatim.
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

            //= C9.11 "unknown content types do not break the result"
            fn or_keep(unexpected: UnexpectedJson) -> ReadResult<Self> {
                Ok(Self::Unknown(unexpected.json))
            }

            fn from_object(fields: Fields<'_, '_>) -> Result<Fit<Self>, NotJson> {
                match fields.look_at::<$tag>($field)? {
                    $( Some(Ok($tag::$variant)) => Ok(<$type>::read_fields(fields)?.map(Self::$variant)), )*
                    Some(Err(unexpected)) => Ok(Err(format!(concat!("`", $field, "`: {}"), unexpected).into())),
                    None => Ok(Err(concat!("`", $field, "` is missing").into())),
                }
            }
        }

        serde_impls!($name);
    };
}
pub(crate) use tagged;

tagged! {
    /// One content block of a tool result or prompt message.
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
        /// Audio.
        Audio(AudioContent) = "audio",
        /// Link to a resource.
        ResourceLink(Box<ResourceLink>) = "resource_link",
        /// Embedded contents of a resource.
        Resource(EmbeddedResource) = "resource",
    }
}

impl ContentBlock {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// Creates an image block from base64 data and its media type.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::new(data, mime_type))
    }

    /// Creates an audio block from base64 data and its media type.
    pub fn audio(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Audio(AudioContent::new(data, mime_type))
    }

    /// Embeds the contents of a resource.
    pub fn resource(contents: impl Into<ResourceContents>) -> Self {
        Self::Resource(EmbeddedResource::new(contents))
    }

    /// The text of a text block.
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

/// Creates the text that replaces content of a kind that the revision does not have.
pub(crate) fn stand_in(text: String, annotations: Option<&Annotations>) -> TextContent {
    TextContent { annotations: annotations.cloned().map(Box::new), ..TextContent::new(text) }
}

impl AudioContent {
    /// The first revision with audio content.
    pub(crate) const SINCE: Revision = Revision::V2025_03_26;

    pub(crate) fn stand_in(&self) -> TextContent {
        let text = format!("[audio {}, {} bytes of base64]", self.mime_type, self.data.len());
        stand_in(text, self.annotations.as_deref())
    }
}

impl WriteAt for ContentBlock {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        match self {
            Self::Text(content) => content.write(view, out),
            Self::Image(content) => content.write(view, out),
            Self::Audio(content) if view.since(AudioContent::SINCE) => content.write(view, out),
            Self::Audio(content) => content.stand_in().write(view, out),
            Self::ResourceLink(link) if view.since(Revision::V2025_06_18) => link.write(view, out),
            Self::ResourceLink(link) => {
                let text = format!("[resource {}]", link.uri);
                stand_in(text, link.annotations.as_deref()).write(view, out)
            }
            Self::Resource(content) => content.write(view, out),
            Self::Unknown(json) => json.write(view, out),
        }
    }
}

/// Writes padding; accepts base64 with or without it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Error: the data is not valid base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Base64Error;

impl fmt::Display for Base64Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the data is not valid base64")
    }
}

impl core::error::Error for Base64Error {}

fn decode(text: &str) -> Result<Vec<u8>, Base64Error> {
    //= C9.11 "Base64 of blobs/images/audio decoded safely"
    BASE64.decode(text).map_err(|_| Base64Error)
}

impl ContentBlock {
    //= S8.15 "Image/audio base64 with MIME type"
    /// Creates an image from its bytes.
    ///
    /// ```
    /// use mcp_proto::schema::ContentBlock;
    ///
    /// let ContentBlock::Image(image) = ContentBlock::image_bytes(b"\x89PNG", "image/png") else { unreachable!() };
    /// assert_eq!(image.data, "iVBORw==");
    /// assert_eq!(image.bytes().unwrap(), b"\x89PNG");
    /// ```
    pub fn image_bytes(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::image(BASE64.encode(bytes), mime_type)
    }

    //= S8.15 "Image/audio base64 with MIME type"
    /// Creates audio from its bytes.
    pub fn audio_bytes(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::audio(BASE64.encode(bytes), mime_type)
    }
}

impl ImageContent {
    /// Decodes the image. The media type is only declared: check the kind of the bytes before rendering them.
    ///
    /// # Errors
    /// If the data is not valid base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Base64Error> {
        decode(&self.data)
    }
}

impl AudioContent {
    /// Decodes the audio.
    ///
    /// # Errors
    /// If the data is not valid base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Base64Error> {
        decode(&self.data)
    }
}

impl BlobResourceContents {
    //= S8.13 "blobs base64"
    /// Creates the contents of a resource from its bytes.
    pub fn from_bytes(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::new(uri, BASE64.encode(bytes))
    }

    /// Decodes the bytes.
    ///
    /// # Errors
    /// If the data is not valid base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Base64Error> {
        decode(&self.blob)
    }
}
