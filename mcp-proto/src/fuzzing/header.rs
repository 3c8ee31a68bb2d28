//! Fuzzing of header values and media types.

use alloc::borrow::Cow;
use alloc::string::String;

use crate::codec::header::{HeaderValueError, decode, encode};
use crate::codec::media;

/// Reads the input as the value of a header, as text to encode and as lists of media types.
pub fn header(data: &[u8]) {
    check_round_trip(&String::from_utf8_lossy(data));
    match decode(data) {
        Ok(Cow::Borrowed(value)) => {
            assert_eq!(value.as_bytes(), trimmed(data), "another value is read");
            check_round_trip(value);
        }
        Ok(Cow::Owned(value)) => {
            check_round_trip(&value);
            let inner = trimmed(data).strip_prefix(b"=?base64?").and_then(|data| data.strip_suffix(b"?="));
            let inner = inner.expect("a value without markers is plain");
            assert_eq!(decode_base64(inner).as_deref(), Some(value.as_bytes()), "other bytes are read");
        }
        Err(HeaderValueError::Character(at)) => {
            assert!(!is_text(&data[at..=at]), "a character is refused that a header may have");
            assert!(is_text(&data[..at]), "an earlier one would have to be refused");
        }
        Err(error) => {
            let value = trimmed(data);
            assert!(value.starts_with(b"=?base64?") && value.ends_with(b"?="), "a plain value is refused");
            let inner = value.get(9..value.len() - 2).and_then(decode_base64);
            let utf8 = inner.as_ref().is_some_and(|bytes| core::str::from_utf8(bytes).is_ok());
            assert!(!utf8, "base64 of text is refused");
            assert_eq!(inner.is_some(), error == HeaderValueError::NotUtf8);
        }
    }
    media_types(data);
}

fn is_text(value: &[u8]) -> bool {
    value.iter().all(|byte| *byte == b'\t' || (b' '..=b'~').contains(byte))
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Encodes a value and reads it back.
fn check_round_trip(value: &str) {
    let encoded = encode(value);
    assert!(encoded.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "not for a header");
    assert_eq!(encoded.trim(), encoded, "a reader would trim it");
    assert_eq!(decode(encoded.as_bytes()).as_deref(), Ok(value), "another value comes back");
}

/// A reference decoder for Base64: whole groups of four, the last one padded, unused bits zero.
fn decode_base64(text: &[u8]) -> Option<alloc::vec::Vec<u8>> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let (mut bytes, mut held, mut count) = (alloc::vec::Vec::new(), 0u32, 0);
    for byte in &text[..text.len() - padding] {
        let value = ALPHABET.iter().position(|candidate| candidate == byte)?;
        (held, count) = (held << 6 | value as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((held >> count) as u8);
            held &= (1 << count) - 1;
        }
    }
    (held == 0).then_some(bytes)
}

fn media_types(data: &[u8]) {
    let full = "application/json";
    let _ = media::accepts([data], full);
    assert!(media::accepts([data, full.as_bytes()], full), "the type itself is refused");
    assert!(!media::accepts([data, b"APPLICATION/json; q=0"], "application/json") || names_type(data, full));
    let typed = [b"Application/JSON \t; ", data].concat();
    assert!(media::is_type(&typed, full), "parameters change a type");
    assert!(!media::is_type(&[b"x", data].concat(), full), "another type is taken for it");
}

/// Whether a list contains the name of the type anywhere, even with a weight of zero.
fn names_type(data: &[u8], full: &str) -> bool {
    data.to_ascii_lowercase().windows(full.len()).any(|window| window == full.as_bytes())
}
