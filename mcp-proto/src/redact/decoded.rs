//! Texts whose escapes are decoded, so that a value is found in each of its spellings.

use core::ops::Range;

use crate::prelude::*;

/// Decodes the escapes of a text; `None` if it has none.
pub(super) type Decoder = fn(&[u8]) -> Option<Decoded>;

/// A decoded text, and the offset in the original of each of its bytes and of its end.
#[derive(Default)]
pub(super) struct Decoded {
    pub(super) text: Vec<u8>,
    starts: Vec<usize>,
}

impl Decoded {
    /// Decodes the escapes of a JSON string; `None` if it has none. Other characters stand for themselves.
    pub(super) fn from_json_string(text: &[u8]) -> Option<Self> {
        memchr::memchr(b'\\', text)?;
        Some(Self::decode(text, json_escape))
    }

    /// Decodes percent-encoded bytes; `None` if it has none.
    pub(super) fn from_percent_encoded(text: &[u8]) -> Option<Self> {
        memchr::memchr(b'%', text)?;
        Some(Self::decode(text, |text, decoded| {
            let digits = text.get(..3)?.strip_prefix(b"%")?;
            decoded.push(u8::try_from(hex(digits)?).ok()?);
            Some(3)
        }))
    }

    /// Decodes a text by `escape`, which decodes the escape at the beginning of a text and returns its length.
    fn decode(text: &[u8], escape: impl Fn(&[u8], &mut Vec<u8>) -> Option<usize>) -> Self {
        let mut decoded = Self::default();
        let mut rest = text;
        while let Some(first) = rest.first() {
            let at = text.len().saturating_sub(rest.len());
            let length = escape(rest, &mut decoded.text).unwrap_or_else(|| {
                decoded.text.push(*first);
                1
            });
            decoded.starts.resize(decoded.text.len(), at);
            rest = rest.get(length..).unwrap_or_default();
        }
        decoded.starts.push(text.len());
        decoded
    }

    /// Converts a range of the decoded text to that of the original.
    pub(super) fn original(&self, range: &Range<usize>) -> Range<usize> {
        let at = |at: usize| self.starts.get(at).copied().unwrap_or_default();
        at(range.start)..at(range.end)
    }
}

/// Decodes the escape at the beginning of a text; returns its length.
fn json_escape(text: &[u8], decoded: &mut Vec<u8>) -> Option<usize> {
    let [b'\\', kind, rest @ ..] = text else { return None };
    let (character, length) = match kind {
        b'"' | b'\\' | b'/' => (char::from(*kind), 2),
        b'b' => ('\u{8}', 2),
        b'f' => ('\u{c}', 2),
        b'n' => ('\n', 2),
        b'r' => ('\r', 2),
        b't' => ('\t', 2),
        b'u' => unicode_escape(rest)?,
        _ => return None,
    };
    decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(length)
}

/// The character of the digits behind `\u`, and the length with it.
fn unicode_escape(digits: &[u8]) -> Option<(char, usize)> {
    let unit = hex(digits.get(..4)?)?;
    if let Some(character) = char::from_u32(unit) {
        return Some((character, 6));
    }
    let low = digits.get(4..10)?.strip_prefix(b"\\u").and_then(hex)?;
    let pair = char::decode_utf16([u16::try_from(unit).ok()?, u16::try_from(low).ok()?]).next()?;
    Some((pair.ok()?, 12))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits
        .iter()
        .try_fold(0_u32, |value, digit| value.checked_mul(16)?.checked_add(char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_lead_back_to_the_original() {
        let text = br#"a\n\u00fc\ud83d\ude00\"\x\ud83d"#;
        let decoded = Decoded::from_json_string(text).unwrap();
        assert_eq!(decoded.text, "a\nü😀\"\\x\\ud83d".as_bytes());
        assert_eq!(decoded.original(&(1..4)), 1..9);
        assert_eq!(decoded.original(&(4..8)), 9..21);
        assert_eq!(decoded.original(&(0..decoded.text.len())), 0..text.len());
        let decoded = Decoded::from_percent_encoded(b"%70w%3D%3d%zz%").unwrap();
        assert_eq!(decoded.text, b"pw==%zz%");
        assert_eq!(decoded.original(&(0..2)), 0..4);
    }
}
