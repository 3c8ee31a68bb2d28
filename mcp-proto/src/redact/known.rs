//! Values that are known to be secret, in each of their spellings.

use core::ops::Range;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use memchr::memmem;

use super::shapes::{scheme_length, token_around};
use crate::prelude::*;

/// The shortest value that is searched for, in bytes: a shorter one would be found everywhere.
const SHORTEST: usize = 4;

/// The values that are searched for.
#[derive(Clone, Default)]
pub(super) struct KnownSecrets {
    /// As they are, and with `+` for each space, as forms have them.
    plain: Vec<Vec<u8>>,
    /// What Base64 makes of them, at each of the three places that a byte can have in a group.
    base64: Vec<Vec<u8>>,
}

impl KnownSecrets {
    /// Adds a value, and the credentials in it if it begins with their scheme. Short ones are left out.
    pub(super) fn insert(&mut self, value: &[u8]) {
        for value in [value, value.get(scheme_length(value)..).unwrap_or_default()] {
            if value.len() < SHORTEST || self.plain.iter().any(|known| known == value) {
                continue;
            }
            let in_form: Vec<u8> =
                value.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte }).collect();
            if in_form != value {
                self.plain.push(in_form);
            }
            self.plain.push(value.to_vec());
            for before in 0..3 {
                self.insert_base64(value, before);
            }
        }
    }

    /// Adds the characters of Base64 that depend on the value alone if `before` bytes precede it in its group.
    fn insert_base64(&mut self, value: &[u8], before: usize) {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(value);
        // The first and the last character may have bits of other bytes.
        let first = before.saturating_add(usize::from(before > 0));
        let end = bytes.len().saturating_mul(8) / 6;
        let text = BASE64_STANDARD.encode(bytes);
        let own = text.get(first..end).unwrap_or_default();
        if own.len() < SHORTEST {
            return;
        }
        let url_safe = own.replace('+', "-").replace('/', "_");
        if url_safe != own {
            self.base64.push(url_safe.into_bytes());
        }
        self.base64.push(own.as_bytes().to_vec());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.plain.is_empty()
    }

    /// Finds the values in a text: the time is that of a search for each.
    pub(super) fn find(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        for value in &self.plain {
            found.extend(memmem::find_iter(text, value).map(|at| at..at.saturating_add(value.len())));
        }
        for value in &self.base64 {
            let mut end = 0;
            for at in memmem::find_iter(text, value) {
                if at >= end {
                    let token = token_around(text, at..at.saturating_add(value.len()));
                    end = token.end;
                    found.push(token);
                }
            }
        }
    }

    /// Finds the beginning of a value at the end of a text that was cut off.
    pub(super) fn find_at_cut(&self, text: &[u8]) -> Option<Range<usize>> {
        let whole = without_cut_escape(text);
        let longest = self.plain.iter().chain(&self.base64).filter_map(|value| {
            let most = value.len().min(whole.len());
            (SHORTEST..=most).rev().find(|length| whole.ends_with(value.get(..*length).unwrap_or(value)))
        });
        Some(whole.len().saturating_sub(longest.max()?)..text.len())
    }
}

/// A text without the beginning of an escape at its end: `\`, `\u00`, `%2`.
fn without_cut_escape(text: &[u8]) -> &[u8] {
    let digits = text.iter().rev().take(3).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (before, digits) = text.split_at(text.len().saturating_sub(digits));
    match before {
        [before @ .., b'\\', b'u'] | [before @ .., b'\\'] => before,
        [before @ .., b'%'] if digits.len() < 2 => before,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;

    #[test]
    fn value_is_found_in_base64_behind_any_number_of_bytes() {
        for value in ["hunter2", "ab?>", "ü~~?>>", "correct horse battery"] {
            let mut known = KnownSecrets::default();
            known.insert(value.as_bytes());
            for before in 0..7 {
                let whole = format!("{}{value}{}", "u".repeat(before), "v".repeat(before));
                for encoded in [BASE64_STANDARD.encode(&whole), BASE64_URL_SAFE_NO_PAD.encode(&whole)] {
                    let mut found = Vec::new();
                    known.find(format!("x {encoded}\n").as_bytes(), &mut found);
                    assert!(found.contains(&(2..2 + encoded.len())), "{value} {before} {encoded}");
                }
            }
        }
    }
}
