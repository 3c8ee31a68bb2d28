//! Images, audio and blobs as bytes; on the wire they are base64.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::content::{AudioContent, ContentBlock, ImageContent};
use super::resources::BlobResourceContents;

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
