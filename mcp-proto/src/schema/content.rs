//! Content blocks of tool results, prompts and embedded resources.
//!
//! A kind of content that a revision does not have is written as a text that describes it.

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::object::{names, object, tagged};
use super::{BlobResourceContents, Number, ResourceContents};
use crate::prelude::*;

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
        optional {
            /// Intended audience.
            audience: Option<Vec<Role>> = "audience";
            /// Importance, from 0 (optional) to 1 (required).
            priority: Option<Number> = "priority";
            /// Time of the last change, in ISO 8601.
            last_modified: Option<String> = "lastModified" since V2025_06_18;
        }
    }

    /// Text content.
    pub content TextContent as "type" = "text" {
        required {
            /// The text.
            text: String = "text";
        }
    }

    /// Image content.
    pub content ImageContent as "type" = "image" {
        required {
            /// The image, in base64.
            data: String = "data";
            /// Its media type.
            mime_type: String = "mimeType";
        }
    }

    /// Audio content. Revisions before 2025-03-26 receive a text instead.
    pub content AudioContent as "type" = "audio" {
        required {
            /// The audio, in base64.
            data: String = "data";
            /// Its media type.
            mime_type: String = "mimeType";
        }
    }

    /// Link to a resource. Revisions before 2025-06-18 receive a text instead.
    pub listed ResourceLink as "type" = "resource_link" {
        required {
            /// URI of the resource.
            uri: String = "uri";
            /// Name for programmatic use.
            name: String = "name";
        }
        optional {
            /// Its media type.
            mime_type: Option<String> = "mimeType";
            /// Its size in bytes, before any encoding.
            size: Option<u64> = "size";
            /// Intended audience, priority and time of the last change.
            annotations: Option<Box<Annotations>> = "annotations";
        }
    }
}

impl ResourceLink {
    fn stand_in(&self) -> TextContent {
        stand_in(format!("[resource {}]", self.uri), self.annotations.as_deref())
    }
}

object! {
    /// The contents of a resource, embedded in the message.
    pub content EmbeddedResource as "type" = "resource" {
        required {
            /// The contents.
            resource: ResourceContents = "resource";
        }
    }
}

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
    pub enum ContentBlock as ContentTag {
        /// Text.
        Text(TextContent) = "text",
        /// An image.
        Image(ImageContent) = "image",
        /// Audio.
        Audio(AudioContent) = "audio" since V2025_03_26,
        /// Link to a resource.
        ResourceLink(Box<ResourceLink>) = "resource_link" since V2025_06_18,
        /// Embedded contents of a resource.
        Resource(EmbeddedResource) = "resource",
    } chosen |fields| fields.tag("type")?.and_then(Result::ok)
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

/// Joins texts by line breaks.
pub(crate) fn lines<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join("\n")
}

/// Creates the text that replaces content of a kind that the revision does not have.
pub(crate) fn stand_in(text: String, annotations: Option<&Annotations>) -> TextContent {
    TextContent { annotations: annotations.cloned().map(Box::new), ..TextContent::new(text) }
}

impl AudioContent {
    pub(crate) fn stand_in(&self) -> TextContent {
        let text = format!("[audio {}, {} bytes of base64]", self.mime_type, self.data.len());
        stand_in(text, self.annotations.as_deref())
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

error_text! { Base64Error => "the data is not valid base64" }

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
