//! Encoding of header values that are not plain ASCII.
//!
//! A header can carry visible ASCII and spaces in between. Any other value of a mirrored header travels as
//! `=?base64?…?=`, with the base64 of its UTF-8 between the markers.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#value-encoding>

use alloc::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::prelude::*;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// Why a header value cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderValueError {
    /// A byte at this position that no header value may have.
    Character(usize),
    /// The text between the base64 markers is not base64.
    Base64,
    /// The decoded bytes are not UTF-8.
    NotUtf8,
}

/// Encodes a header value: unchanged if a header can carry it and no receiver takes it for base64, else as base64.
///
/// Tabs are encoded as well: a header may have them, but not every implementation passes them on.
///
/// ```
/// use mcp_proto::codec::header;
///
/// assert_eq!(header::encode("us-west1"), "us-west1");
/// assert_eq!(header::encode(" padded "), "=?base64?IHBhZGRlZCA=?=");
/// ```
#[must_use]
pub fn encode(value: &str) -> Cow<'_, str> {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let padded = value.starts_with(' ') || value.ends_with(' ');
    //= C4.8 "Values that are not safe ASCII, have leading/trailing space, control characters, or look like the sentinel"
    if plain && !padded && !is_marked(value) {
        return Cow::Borrowed(value);
    }
    let mut encoded = String::from(PREFIX);
    STANDARD.encode_string(value, &mut encoded);
    encoded.push_str(SUFFIX);
    Cow::Owned(encoded)
}

/// Decodes a header value as it was received. Spaces and tabs around it are not part of it.
///
/// The markers are case-sensitive; between them only the standard alphabet with its padding is accepted.
///
/// # Errors
/// If the value has a forbidden byte, or is marked as base64 and is not the base64 of UTF-8: [`HeaderValueError`].
///
/// ```
/// use mcp_proto::codec::header::{self, HeaderValueError};
///
/// assert_eq!(header::decode(b"us-west1").unwrap(), "us-west1");
/// assert_eq!(header::decode(b"=?base64?IHBhZGRlZCA=?=").unwrap(), " padded ");
/// assert_eq!(header::decode(b"=?base64?IHBhZGRlZCA?="), Err(HeaderValueError::Base64));
/// assert_eq!(header::decode(b"Seattle\x00"), Err(HeaderValueError::Character(7)));
/// ```
pub fn decode(value: &[u8]) -> Result<Cow<'_, str>, HeaderValueError> {
    if let Some(at) = value.iter().position(|byte| !matches!(byte, b'\t' | b' '..=b'~')) {
        return Err(HeaderValueError::Character(at));
    }
    let text = core::str::from_utf8(value.trim_ascii()).map_err(|_| HeaderValueError::NotUtf8)?;
    if !is_marked(text) {
        return Ok(Cow::Borrowed(text));
    }
    let encoded = text.strip_prefix(PREFIX).and_then(|text| text.strip_suffix(SUFFIX));
    let bytes = encoded.and_then(|encoded| STANDARD.decode(encoded).ok()).ok_or(HeaderValueError::Base64)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| HeaderValueError::NotUtf8)
}

/// Whether a receiver takes the value for base64. `=?base64?=` counts, since the specification requires only the prefix
/// and the suffix; no value is encoded like that.
fn is_marked(value: &str) -> bool {
    //= C4.8 "markers case-sensitive"
    value.starts_with(PREFIX) && value.ends_with(SUFFIX)
}

error_text! { HeaderValueError:
    Character(at) => "forbidden character at byte {at}";
    Base64 => "invalid base64 between the markers";
    NotUtf8 => "the base64 does not decode to UTF-8";
}
