//! Framing: where one message ends and the next begins; header values and media types that describe a message.

pub mod header;
mod lines;
pub mod media;
mod partial;
pub mod sse;

use crate::prelude::*;

pub use lines::Lines;
pub use partial::Line;
pub use sse::{Sse, SseEvent, SseItem};

pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Decodes the percent-encoding of URIs; `None` if a `%` is not followed by two hexadecimal digits.
pub(crate) fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut input = text.bytes();
    while let Some(byte) = input.next() {
        if byte == b'%' {
            let high = char::from(input.next()?).to_digit(16)?;
            let low = char::from(input.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high.checked_mul(16)?.checked_add(low)?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}
