//! The bytes of images, sound and blobs, which travel as base64.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::content::{AudioContent, ContentBlock, ImageContent};
use super::resources::BlobResourceContents;

/// Written with padding; read with or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What was to be base64 is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Base64Error;

impl fmt::Display for Base64Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is not base64")
    }
}

impl core::error::Error for Base64Error {}

fn decode(text: &str) -> Result<Vec<u8>, Base64Error> {
    BASE64.decode(text).map_err(|_| Base64Error)
}

impl ContentBlock {
    /// An image of these bytes.
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

    /// Sound of these bytes.
    pub fn audio_bytes(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::audio(BASE64.encode(bytes), mime_type)
    }
}

impl ImageContent {
    /// The bytes of the image. What they are is for whoever renders it to find out: the media type is only said.
    ///
    /// # Errors
    /// If they are not in base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Base64Error> {
        decode(&self.data)
    }
}

impl AudioContent {
    /// The bytes of the sound.
    ///
    /// # Errors
    /// If they are not in base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Base64Error> {
        decode(&self.data)
    }
}

impl BlobResourceContents {
    /// The contents of a resource, of these bytes.
    pub fn of_bytes(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::new(uri, BASE64.encode(bytes))
    }

    /// The bytes.
    ///
    /// # Errors
    /// If they are not in base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Base64Error> {
        decode(&self.blob)
    }
}
