//! Secrets that a text shows by itself: behind a name, in a URL, or by the shape of a token.

use core::ops::Range;

use memchr::memmem;

use super::names::is_secret_header;
use crate::prelude::*;

/// The longest name before a value, in bytes.
const LONGEST_NAME: usize = 64;

/// The most bytes between a name and its value: quotes, their escapes, and space.
const LONGEST_GAP: usize = 16;

/// The least bytes of a token that no name and no beginning tells.
const SHORTEST_OPAQUE: usize = 16;

/// The beginnings of tokens that are issued with one, so that they are found.
const PREFIXES: [&str; 36] = [
    "AGE-SECRET-KEY-",
    "AIza",
    "AKIA",
    "ASIA",
    "SG.",
    "dop_v1_",
    "figd_",
    "ghp_",
    "gho_",
    "ghr_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "gsk_",
    "hf_",
    "lin_api_",
    "npm_",
    "ntn_",
    "pypi-",
    "r8_",
    "rk_",
    "shpat_",
    "sk-",
    "sk_",
    "sntrys_",
    "tvly-",
    "whsec_",
    "xai-",
    "xapp-",
    "xoxa-",
    "xoxb-",
    "xoxe-",
    "xoxp-",
    "xoxs-",
    "ya29.",
];

/// The schemes of HTTP authentication with credentials in one word.
const SCHEMES: [&str; 5] = ["basic", "bearer", "dpop", "negotiate", "token"];

/// Whether a text has a byte without which it has no secret by its shape, no identifier that is recognised in texts, and no
/// escape. Few words have one, and to look for it costs less than to look at each word.
pub(super) fn has_signs(text: &[u8]) -> bool {
    // Tokens have a digit or begin with `eyJ`, names stand before `=` or `:`, and the heading of a private key has a `V`.
    let is_sign = |byte: &u8| matches!(byte, b'0'..=b'9' | b'=' | b':' | b'%' | b'\\' | b'J' | b'V');
    text.iter().any(is_sign)
}

/// Finds the secrets in a text, in order. `is_secret` decides about the names of values.
pub(super) fn find(text: &[u8], is_secret: &dyn Fn(&str) -> bool, found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(word) = word_from(text, at) {
        let secret = Word { text, word: &word }.secret(is_secret);
        at = secret.as_ref().map_or(word.end, |secret| secret.end.max(word.end));
        found.extend(secret);
    }
}

/// Returns the bytes before a value's credentials: its scheme and the space behind.
pub(super) fn scheme_length(value: &[u8]) -> usize {
    let word = run(value, 0, is_word);
    let is_scheme = is_scheme(value.get(..word).unwrap_or_default());
    let end = run(value, word, |byte| byte == b' ');
    if is_scheme && end > word { end } else { 0 }
}

/// Whether the value that begins at `start` is a session by its name: `?session_id=x`, `?sessionId=x`.
pub(super) fn is_session(text: &[u8], start: usize) -> bool {
    let before = text.get(..start).and_then(|before| before.strip_suffix(b"=")).unwrap_or_default();
    let name = before.get(before.len().saturating_sub(LONGEST_NAME)..).unwrap_or_default();
    let name = name.rsplit(|byte| !is_word(*byte)).next().unwrap_or_default();
    let is = |ending: &&[u8]| {
        name.get(name.len().saturating_sub(ending.len())..)
            .is_some_and(|last| last.eq_ignore_ascii_case(ending))
    };
    [&b"sessionid"[..], b"session_id", b"session-id"].iter().any(is)
}

/// Returns the run of characters of Base64 and of tokens around a range.
pub(super) fn token_around(text: &[u8], range: Range<usize>) -> Range<usize> {
    let before = text.get(..range.start).unwrap_or_default();
    let ends = |byte: &u8| *byte == b'=' || !is_base64(*byte);
    let start = before.iter().rposition(ends).map_or(0, |at| at.saturating_add(1));
    start..run(text, range.end, is_base64)
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// A character of a token that is no scheme, name or value in words.
fn is_token(byte: u8) -> bool {
    is_word(byte) || matches!(byte, b'+' | b'/' | b'=' | b'~' | b'%')
}

/// Returns the end of the bytes from `at` on for which `is` holds.
pub(super) fn run(text: &[u8], at: usize, is: impl Fn(u8) -> bool) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at.saturating_add(rest.iter().position(|byte| !is(*byte)).unwrap_or(rest.len()))
}

/// Returns the next word at or behind `at`.
fn word_from(text: &[u8], at: usize) -> Option<Range<usize>> {
    let start = run(text, at, |byte| !is_word(byte));
    (start < text.len()).then(|| start..run(text, start, is_word))
}

fn is_scheme(word: &[u8]) -> bool {
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme.as_bytes()))
}

/// Whether a text is long and mixed enough for a token.
pub(super) fn is_opaque(text: &[u8]) -> bool {
    text.len() >= SHORTEST_OPAQUE
        && text.iter().any(u8::is_ascii_digit)
        && text.iter().any(u8::is_ascii_alphabetic)
}

/// A word of a text.
struct Word<'a> {
    text: &'a [u8],
    word: &'a Range<usize>,
}

impl Word<'_> {
    /// The secret that begins with this word, or stands behind it.
    fn secret(&self, is_secret: &dyn Fn(&str) -> bool) -> Option<Range<usize>> {
        if self.after().starts_with(b"://") {
            return self.user_info();
        }
        self.token()
            .or_else(|| self.private_key())
            .or_else(|| self.credentials())
            .or_else(|| self.value(is_secret))
    }

    fn bytes(&self) -> &[u8] {
        self.text.get(self.word.clone()).unwrap_or_default()
    }

    fn after(&self) -> &[u8] {
        self.text.get(self.word.end..).unwrap_or_default()
    }

    /// The user and password of a URL whose scheme is the word.
    fn user_info(&self) -> Option<Range<usize>> {
        let start = self.word.end.saturating_add("://".len());
        let end = run(self.text, start, |byte| byte.is_ascii_graphic() && !b"/?#\"'<>\\".contains(&byte));
        let user = self.text.get(start..end)?.iter().rposition(|byte| *byte == b'@')?;
        Some(start..start.saturating_add(user))
    }

    fn token(&self) -> Option<Range<usize>> {
        let word = self.bytes();
        let is_jwt = word.starts_with(b"eyJ") && word.contains(&b'.') && word.len() >= 20;
        // Few words are so long.
        let is_issued =
            || is_opaque(word) && PREFIXES.iter().any(|prefix| word.starts_with(prefix.as_bytes()));
        (is_jwt || is_issued()).then(|| self.word.start..run(self.text, self.word.end, is_token))
    }

    /// A private key in PEM format, up to its last line, or to the end of the text.
    fn private_key(&self) -> Option<Range<usize>> {
        if !self.bytes().ends_with(b"-----BEGIN") {
            return None;
        }
        let after = self.after();
        let heading = after.get(..40).unwrap_or(after);
        let begin = memmem::find(heading, b"PRIVATE KEY-----")?.saturating_add("PRIVATE KEY-----".len());
        let start = self.word.end.saturating_add(begin);
        let rest = self.text.get(start..).unwrap_or_default();
        Some(start..start.saturating_add(memmem::find(rest, b"-----END").unwrap_or(rest.len())))
    }

    /// The credentials behind a scheme of HTTP authentication.
    fn credentials(&self) -> Option<Range<usize>> {
        let space = run(self.text, self.word.end, |byte| byte == b' ');
        if !is_scheme(self.bytes()) || space == self.word.end {
            return None;
        }
        let end = run(self.text, space, is_token);
        is_opaque(self.text.get(space..end)?).then_some(space..end)
    }

    /// The value behind a secret's name: `password=x`, `"password": "x"`, `Authorization: Bearer x`, `?sid=x`.
    fn value(&self, is_secret: &dyn Fn(&str) -> bool) -> Option<Range<usize>> {
        let is_quote = |byte| matches!(byte, b'"' | b'\'' | b'\\' | b' ' | b'\t');
        let sign = run(self.text, self.word.end, is_quote);
        if sign.saturating_sub(self.word.end) > LONGEST_GAP || !matches!(self.text.get(sign)?, b'=' | b':') {
            return None;
        }
        let at = sign.saturating_add(1);
        // The end of a long name tells what it is.
        let name = self.bytes();
        let name = str::from_utf8(name.get(name.len().saturating_sub(LONGEST_NAME)..)?).ok()?;
        // The name decides first: every value that is read is passed over.
        if !is_secret(name) && !self.is_secret_parameter(name, at) {
            return None;
        }
        let value = self.text_from(at)?;
        (!matches!(self.text.get(value.clone())?, b"" | b"null" | b"true" | b"false")).then_some(value)
    }

    /// Whether the word is the name of a parameter in a query whose value, which begins at `at`, is secret.
    fn is_secret_parameter(&self, name: &str, at: usize) -> bool {
        let before = self.word.start.checked_sub(1).and_then(|before| self.text.get(before));
        let value = self.text.get(at..).unwrap_or_default();
        let value = value.get(..LONGEST_NAME).unwrap_or(value);
        let value = value.split(|byte| !is_token(*byte)).next().unwrap_or_default();
        matches!(before, Some(b'?' | b'&')) && (is_secret_header(name) || is_opaque(value))
    }

    /// The value that begins at `at`, in quotes or without; `None` for an object or a list.
    fn text_from(&self, at: usize) -> Option<Range<usize>> {
        let start = run(self.text, at, |byte| matches!(byte, b' ' | b'\t'));
        let escapes = run(self.text, start, |byte| byte == b'\\');
        match self.text.get(escapes)? {
            b'{' | b'[' if self.text.get(at.saturating_sub(1)) == Some(&b':') => None,
            quote @ (b'"' | b'\'') => {
                let inside = escapes.saturating_add(1);
                Some(inside..self.closing_quote(inside, *quote, escapes.saturating_sub(start)))
            }
            _ => Some(start..self.plain_end(start)),
        }
    }

    /// The end of a value without quotes: of the word, or of the line if it may have several.
    fn plain_end(&self, start: usize) -> usize {
        let end = run(self.text, start, |byte| !byte.is_ascii_whitespace() && !b"\"'`&<>".contains(&byte));
        let is_line = [&b"authorization"[..], b"cookie"].iter().any(|name| {
            let begin = self.word.end.saturating_sub(name.len());
            self.text.get(begin..self.word.end).is_some_and(|last| last.eq_ignore_ascii_case(name))
        });
        if is_line || is_scheme(self.text.get(start..end).unwrap_or_default()) {
            return run(self.text, start, |byte| !matches!(byte, b'\r' | b'\n' | b'"'));
        }
        end
    }

    /// The closing quote of a text whose opening one has `escapes` backslashes before it, or the end of the text.
    fn closing_quote(&self, start: usize, quote: u8, escapes: usize) -> usize {
        let mut backslashes = 0_usize;
        for (at, byte) in self.text.iter().enumerate().skip(start) {
            match *byte {
                b'\\' => backslashes = backslashes.saturating_add(1),
                byte if byte == quote && backslashes <= escapes => return at.saturating_sub(backslashes),
                _ => backslashes = 0,
            }
        }
        self.text.len()
    }
}
