//! The values that rules compare: names, arguments by their meaning, and URIs in all ways in which they can be written.

use serde_json::{Number, Value};

use crate::peer::Principal;
use crate::prelude::*;

/// The names that a [rule](super::RuleMatch) concerns: one, or all with the same beginning.
///
/// Text with `*` at its end is the beginning of names; any other text, and a principal, is one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    pub(super) text: String,
    pub(super) is_start: bool,
}

impl NamePattern {
    /// Creates the pattern of one name, also if that ends in `*`.
    pub fn exact(name: impl Into<String>) -> Self {
        Self { text: name.into(), is_start: false }
    }

    pub(super) fn fits(&self, name: &str) -> bool {
        if self.is_start { name.starts_with(&self.text) } else { name == self.text }
    }
}

impl From<&str> for NamePattern {
    fn from(pattern: &str) -> Self {
        let start = pattern.strip_suffix('*');
        Self { text: start.unwrap_or(pattern).into(), is_start: start.is_some() }
    }
}

impl From<String> for NamePattern {
    fn from(pattern: String) -> Self {
        pattern.as_str().into()
    }
}

impl From<&String> for NamePattern {
    fn from(pattern: &String) -> Self {
        pattern.as_str().into()
    }
}

impl From<&Principal> for NamePattern {
    fn from(principal: &Principal) -> Self {
        Self::exact(principal.as_str())
    }
}

/// Why a [rule](super::RuleMatch::argument) cannot look for an argument: the text is no JSON pointer. One is empty, or begins
/// with `/`; `0` or `1` follows each `~` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPointer(String);

error_text! { InvalidPointer(text) => "{text:?} is no JSON pointer, such as \"/filter/folder\"" }

/// Checks a JSON pointer after RFC 6901.
pub(super) fn check_pointer(text: String) -> Result<String, InvalidPointer> {
    let is_rooted = text.is_empty() || text.starts_with('/');
    let is_escaped = text.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
    if is_rooted && is_escaped { Ok(text) } else { Err(InvalidPointer(text)) }
}

/// Whether two values are the same; numbers are compared by value, so that `1` and `1.0` are.
pub(super) fn is_same_value(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => is_same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same_value(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(name, value)| other.get(name).is_some_and(|other| is_same_value(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => one == other,
    }
}

fn is_same_number(one: &Number, other: &Number) -> bool {
    // Integers beyond 2^53 differ although the nearest floating-point numbers are the same.
    one == other || ((one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64())
}

/// The forms of a URI, or of the start of one, that rules compare: with percent-encoding only where it is needed, and wholly
/// decoded, as the variables of a template are; and each of them without dot segments. All have scheme and authority in
/// lower case.
pub(super) fn uri_forms(uri: &str, is_start: bool) -> [String; 4] {
    let decoded_uri = decoded(uri, is_unreserved);
    let (head, path) = split_before_path(&decoded_uri);
    let head = head.to_ascii_lowercase();
    let whole = decoded(path, |_| true);
    let (plain, plain_whole) = (without_dot_segments(path, is_start), without_dot_segments(&whole, is_start));
    let whole_head = decoded(&head, |_| true);
    [
        format!("{head}{path}"),
        format!("{whole_head}{whole}"),
        format!("{head}{plain}"),
        format!("{whole_head}{plain_whole}"),
    ]
}

/// Splits a URI after scheme and authority.
fn split_before_path(uri: &str) -> (&str, &str) {
    let scheme = uri.find(':').map_or(uri.len(), |at| at.saturating_add(1));
    let rest = uri.get(scheme..).unwrap_or_default();
    let authority = match rest.strip_prefix("//") {
        Some(after) => after.find(['/', '?', '#']).unwrap_or(after.len()).saturating_add(2),
        None => 0,
    };
    uri.split_at_checked(scheme.saturating_add(authority)).unwrap_or((uri, ""))
}

/// Removes the segments `.` and `..` of a path, as RFC 3986 does. The last segment of the start of a path may go on.
fn without_dot_segments(path: &str, is_start: bool) -> String {
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let (path, after) = path.split_at_checked(end).unwrap_or((path, ""));
    let root = usize::from(path.starts_with('/'));
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        let may_go_on = is_last && is_start && after.is_empty();
        match segment {
            "." | ".." if !may_go_on => {
                if segment == ".." && kept.len() > root {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("{}{after}", kept.join("/"))
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Decodes the bytes that `decodes` chooses. What stays encoded has upper-case digits; what is no percent-encoding stays.
fn decoded(text: &str, decodes: impl Fn(u8) -> bool) -> String {
    let mut parts = text.split('%');
    let mut out = Vec::from(parts.next().unwrap_or_default());
    for part in parts {
        let encoded = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match encoded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if decodes(byte) => out.push(byte),
            Some(byte) => out.extend(format!("%{byte:02X}").into_bytes()),
            None => out.push(b'%'),
        }
        out.extend(part.get(if encoded.is_some() { 2 } else { 0 }..).unwrap_or_default().bytes());
    }
    String::from_utf8_lossy(&out).into_owned()
}
