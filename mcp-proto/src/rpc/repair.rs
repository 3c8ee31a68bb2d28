//! The repair of JSON whose text is not Unicode: U+FFFD replaces lone surrogates, and bytes that are not UTF-8.

use core::ops::Range;

use super::MalformedKind;
use super::scan::{Cursor, ScanError, ScanMode, member_name};
use crate::prelude::*;

/// U+FFFD as an escape, which is as long as that of the surrogate.
const REPLACEMENT: &[u8] = b"\\ufffd";
/// The length of an escape of the form `\u`.
const ESCAPE: usize = 6;

/// The member of a result that goes back to its sender byte by byte.
const OPAQUE_MEMBER: &str = "requestState";

/// Whether a result's opaque member is not UTF-8, so that no valid text can keep it.
pub(super) fn is_opaque_member_lost(result: &[u8]) -> bool {
    core::str::from_utf8(result.get(find_member(result, OPAQUE_MEMBER)).unwrap_or_default()).is_err()
}

/// Where the first member of this name lies. The object may have names and text that are not Unicode.
fn find_member(object: &[u8], wanted: &str) -> Range<usize> {
    let mut cursor = Cursor::new(object, 0, ScanMode::Lenient);
    cursor.space();
    let mut first = cursor.peek() == Some(b'{') && cursor.enter().is_ok();
    if !first {
        return 0..0;
    }
    while let Ok(Some((name, value))) = cursor.member(first) {
        first = false;
        if member_name(&name, object).is_ok_and(|name| *name == *wanted.as_bytes()) {
            return value.start..value.end;
        }
    }
    0..0
}

/// Replaces all text in a JSON value that is not Unicode by U+FFFD, except in its opaque member. Returns the new text, with
/// what is replaced first; `None` if there is none.
pub(super) fn replace_non_unicode(value: &[u8], is_utf8: bool) -> Option<(ScanError, Vec<u8>)> {
    let error = if is_utf8 { None } else { core::str::from_utf8(value).err() };
    let lossy = error.as_ref().map(|_| String::from_utf8_lossy(value).into_owned().into_bytes());
    let surrogates = replace_lone_surrogates(lossy.as_deref().unwrap_or(value));
    match (error, surrogates) {
        (Some(error), surrogates) => {
            let text = surrogates.map(|(_, text)| text).or(lossy)?;
            Some((ScanError { offset: error.valid_up_to(), kind: MalformedKind::NotUtf8 }, text))
        }
        (None, surrogates) => {
            let (offset, text) = surrogates?;
            Some((ScanError { offset, kind: MalformedKind::LoneSurrogate }, text))
        }
    }
}

/// Like the reader of messages, replaces text that is not Unicode in the member `outcome` of an object, or in the whole
/// object if it has no such member. Returns the new object, with what is replaced first and where.
#[cfg(all(feature = "client", feature = "http"))]
pub(crate) fn repair_outcome(object: &[u8], outcome: &str) -> Option<(MalformedKind, usize, Vec<u8>)> {
    let member = find_member(object, outcome);
    let Range { start, end } = if member.is_empty() { 0..object.len() } else { member };
    let value = object.get(start..end).filter(|value| !is_opaque_member_lost(value))?;
    let (ScanError { offset, kind }, text) = replace_non_unicode(value, false)?;
    let repaired = [object.get(..start)?, &text, object.get(end..)?].concat();
    Some((kind, start.saturating_add(offset), repaired))
}

/// Replaces each lone surrogate in the strings of a JSON value by U+FFFD, except in its opaque member. Returns the
/// offset of the first one and the new text; `None` if the value has none.
fn replace_lone_surrogates(value: &[u8]) -> Option<(usize, Vec<u8>)> {
    lone_surrogate_from(value, 0)?;
    let opaque = find_member(value, OPAQUE_MEMBER);
    let mut first = None;
    let mut replaced = Vec::with_capacity(value.len());
    let mut copied = 0;
    let mut from = 0;
    while let Some(at) = lone_surrogate_from(value, from) {
        from = at.saturating_add(ESCAPE);
        if !opaque.contains(&at) {
            first.get_or_insert(at);
            replaced.extend_from_slice(value.get(copied..at).unwrap_or_default());
            replaced.extend_from_slice(REPLACEMENT);
            copied = from;
        }
    }
    replaced.extend_from_slice(value.get(copied..).unwrap_or_default());
    first.map(|first| (first, replaced))
}

/// Finds the first lone surrogate from `from` on, which is not within an escape.
fn lone_surrogate_from(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at = at.saturating_add(memchr::memchr(b'\\', text.get(at..)?)?);
        let next = at.saturating_add(ESCAPE);
        match code_unit(text, at) {
            Some(0xD800..=0xDBFF) => match code_unit(text, next) {
                Some(0xDC00..=0xDFFF) => at = next.saturating_add(ESCAPE),
                _ => return Some(at),
            },
            Some(0xDC00..=0xDFFF) => return Some(at),
            Some(_) => at = next,
            // Another escape: of two characters.
            None => at = at.saturating_add(2),
        }
    }
}

/// The UTF-16 code unit of the escape at `at`, if there is one of the form `\u`.
fn code_unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..)?.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0u16, |unit, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        for (text, repaired) in [
            (r#"["\ud83d"]"#, r#"["\ufffd"]"#),
            (
                r#"["\uDE00 \ud83d\ude00 \ud83d\ud83d\ude00"]"#,
                r#"["\ufffd \ud83d\ude00 \ufffd\ud83d\ude00"]"#,
            ),
            (r#"["\\ud83d \" \u00e9 \ud83"]"#, r#"["\\ud83d \" \u00e9 \ud83"]"#),
            (r#"{"requestState":"\ud83d","a":"\ud83d"}"#, r#"{"requestState":"\ud83d","a":"\ufffd"}"#),
            (r#"{"requestState":"\ud83d"}"#, r#"{"requestState":"\ud83d"}"#),
            (r#" {"requestState":"\ud83d"}"#, r#" {"requestState":"\ud83d"}"#),
            (r#"{"\ud83d":0,"requestState":"\ud83d"}"#, r#"{"\ufffd":0,"requestState":"\ud83d"}"#),
        ] {
            let replaced = replace_lone_surrogates(text.as_bytes()).map(|(_, replaced)| replaced);
            assert_eq!(replaced.as_deref().unwrap_or(text.as_bytes()), repaired.as_bytes());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn repaired_strings_decode(
            parts in proptest::collection::vec(
                prop::sample::select(Vec::from(["\\ud83d", "\\uDE00", "\\u0041", "\\\\", "\\\"", "u", "é", "dc00"])),
                0..12,
            )
        ) {
            let text = alloc::format!("\"{}\"", parts.concat());
            let valid = serde_json::from_str::<String>(&text).is_ok();
            match replace_lone_surrogates(text.as_bytes()) {
                Some((_, replaced)) => prop_assert!(serde_json::from_slice::<String>(&replaced).is_ok(), "{}", text),
                None => prop_assert!(valid, "{}", text),
            }
            prop_assert_eq!(replace_lone_surrogates(text.as_bytes()).is_none(), valid);
        }
    }
}
