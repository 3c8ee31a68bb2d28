//! Redaction of secrets in logged traffic.
//!
//! A [`Redactor`] hides them in whole frames, texts and headers, and does not need to know the transport:
//!
//! | hidden | in |
//! |---|---|
//! | values of members that are named like secrets, such as `password` and `apiKey`, or [by the application](Redactor::name) | JSON |
//! | members at [JSON pointers](Redactor::pointer) | messages |
//! | fields that the schema of a tool or form marks by `"format": "password"` | arguments, answers of forms, structured results |
//! | [known](Redactor::known) secrets, plain, escaped as in JSON, percent-encoded or in Base64 | everything |
//! | `password=…`, `Authorization: …` and the like; users of URLs and secret parameters of queries | texts, strings in JSON, malformed frames |
//! | tokens by their shape: JSON Web Tokens, credentials behind `Bearer`, keys with the prefix of their issuer, private keys | the same |
//!
//! It guesses by names and shapes, and so hides some values that are no secrets. A secret without any of these signs is
//! shown: pass known ones to [`Redactor::known`].
//!
//! ```
//! use mcp_proto::redact::Redactor;
//!
//! let mut redactor = Redactor::new().known("hunter2");
//! let frame = br#"{"method":"tools/call","params":{"arguments":{"password":"x","note":"it is hunter2"}}}"#;
//! let shown = redactor.frame(frame);
//! let expected = br#"{"method":"tools/call","params":{"arguments":{"password":"[redacted]","note":"it is [redacted]"}}}"#;
//! assert_eq!(&*shown, expected);
//! ```

mod json;
mod names;
mod shapes;

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use core::ops::Range;

use crate::prelude::*;

use self::json::{Decoded, Decoder, Effect, Rule, Walk, marked_fields};
pub(crate) use self::names::is_form_secret;
use self::names::{KnownSecrets, is_secret_member, normal_name};
pub use self::names::{is_secret_header, url_without_secrets};

/// What stands in the place of a secret.
pub(crate) const MARK: &str = "[redacted]";

/// How many times a text is decoded: a string in JSON that is a string in JSON, in a URL.
const MAX_DECODINGS: usize = 3;

/// Hides secrets in frames, texts and headers: see the [module](self).
///
/// Valid JSON stays valid JSON, and UTF-8 stays UTF-8. The work for n bytes grows as n, or n log n if there are many
/// secrets in it, for each known secret.
///
/// A clone goes its own way: use one for each connection, as it learns from the schemas in its frames. It remembers at
/// most 1,024 names of fields.
#[derive(Clone)]
pub struct Redactor {
    known: KnownSecrets,
    /// Whether it hides known secrets alone.
    known_only: bool,
    rules: Vec<Rule>,
    /// Names that the application added, in their normal form.
    names: BTreeSet<String>,
    /// Names of fields that schemas mark, in their normal form.
    marked: BTreeSet<String>,
}

/// The findings in a frame.
#[derive(Default)]
struct Findings {
    hidden: Vec<Hidden>,
    /// The known secrets that lie across parts of JSON, or across lines, in order: each part that they touch is hidden.
    across: Vec<Range<usize>>,
}

/// A part of a frame that is hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hidden {
    range: Range<usize>,
    /// Whether it is a number in JSON, in whose place a string must stand.
    is_number: bool,
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new()
    }
}

/// # Configuration
impl Redactor {
    /// A redactor that goes by names and shapes, and knows no secret.
    pub fn new() -> Self {
        let rules = Rule::of_messages().collect();
        Self { known_only: false, rules, ..Self::known_only() }
    }

    /// A redactor that hides [known](Self::known) secrets alone, so that no other word of a text is lost.
    pub fn known_only() -> Self {
        Self {
            known: KnownSecrets::default(),
            known_only: true,
            rules: Vec::new(),
            names: BTreeSet::new(),
            marked: BTreeSet::new(),
        }
    }

    setters! {
        /// Hides a secret, in any spelling. Of `Bearer x` it also hides `x` alone. Values of less than four bytes are not
        /// searched for: they would be found everywhere. One that lies across several parts of JSON, such as a string and its
        /// quote, hides each name, string and number that it touches.
        pub fn known(self, secret: impl AsRef<[u8]>) { self.known.insert(secret.as_ref()) }

        /// Hides the values of members and headers of this name. Case, `_` and `-` make no difference.
        pub fn name(self, name: &str) { self.names.insert(normal_name(name)) }

        /// Hides the value at this [JSON pointer](https://www.rfc-editor.org/rfc/rfc6901) in each message; `*` stands for any
        /// member and any item: `/params/arguments/pin`, `/result/content/*/text`. In a batch it begins at each message.
        pub fn pointer(self, pointer: &str) { self.rules.push(Rule::new(pointer, Effect::Hide)) }
    }

    /// Hides the fields that this JSON Schema marks by `"format": "password"`, in arguments, answers of forms and structured
    /// results. Schemas in frames need not be added: a redactor learns from them.
    ///
    /// ```
    /// use mcp_proto::redact::Redactor;
    ///
    /// let schema = r#"{ "type": "object", "properties": { "pin": { "format": "password" } } }"#;
    /// let mut redactor = Redactor::new().schema(schema);
    /// let frame = redactor.frame(br#"{"params":{"arguments":{"pin":"1234"}}}"#);
    /// assert_eq!(&*frame, br#"{"params":{"arguments":{"pin":"[redacted]"}}}"#);
    /// ```
    pub fn schema(mut self, schema: &str) -> Self {
        if let Ok(schema) = serde_json::from_str(schema) {
            self.mark(marked_fields(&schema));
        }
        self
    }
}

/// # Redaction
impl Redactor {
    /// Hides the secrets in a frame: a message, a line of a stream, the body of a request or response, or several lines of
    /// them. Learns from the schemas in it.
    ///
    /// A frame that is not JSON, or nested more than 128 deep, is treated as [text](Self::text), line by line if some lines are
    /// JSON. A secret that lies partly in another frame is hidden only if its beginning, at the end of this one, is known:
    /// pass whole messages.
    pub fn frame<'a>(&mut self, frame: &'a [u8]) -> Cow<'a, [u8]> {
        let mut found = Findings::default();
        self.find_in_frame(frame, &mut found);
        found.across = self.known.find_uncovered(frame, found.hidden.iter().map(|part| part.range.clone()));
        if !found.across.is_empty() {
            self.find_in_frame(frame, &mut found);
        }
        replace(frame, found.hidden)
    }

    /// Hides the secrets in a text without structure: a line of a log, a URL, the text of an error.
    ///
    /// ```
    /// use mcp_proto::redact::Redactor;
    ///
    /// let text = "GET https://me:pw@example.com/mcp?session=1&page=2 failed: password=hunter2";
    /// let shown = "GET https://[redacted]@example.com/mcp?session=[redacted]&page=2 failed: password=[redacted]";
    /// assert_eq!(Redactor::new().text(text), shown);
    /// ```
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        as_text(text, self.find(text.as_bytes(), MAX_DECODINGS, false))
    }

    /// Hides the secrets in the beginning of a text that was cut off: a known secret may be cut too.
    pub fn cut_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        as_text(text, self.find(text.as_bytes(), MAX_DECODINGS, true))
    }

    /// Hides the value of a header that is secret by its [name](is_secret_header), up to the scheme of its credentials,
    /// and the secrets in any other value.
    ///
    /// ```
    /// use mcp_proto::redact::Redactor;
    ///
    /// let redactor = Redactor::new();
    /// assert_eq!(redactor.header("authorization", "Bearer x"), "Bearer [redacted]");
    /// assert_eq!(redactor.header("mcp-method", "tools/list"), "tools/list");
    /// ```
    pub fn header<'a>(&self, name: &str, value: &'a str) -> Cow<'a, str> {
        if !self.known_only && (is_secret_header(name) || self.has_name(name)) {
            let start = shapes::scheme_length(value.as_bytes());
            return as_text(value, Some(start..value.len()));
        }
        self.text(value)
    }

    fn find_in_frame(&mut self, frame: &[u8], found: &mut Findings) {
        if !self.find_in_json(frame, 0, found) {
            self.find_in_lines(frame, found);
        }
    }

    /// Finds the secrets in a part of a frame that begins at `start`; returns whether it is JSON.
    fn find_in_json(&mut self, json: &[u8], start: usize, found: &mut Findings) -> bool {
        let is_container = matches!(json.trim_ascii_start().first(), Some(b'{' | b'['));
        let Some(text) = str::from_utf8(json).ok().filter(|_| is_container) else { return false };
        let Some((hidden, marked)) = Walk::find(self, text, start, found) else { return false };
        found.hidden.extend(hidden.into_iter().map(|part| part.moved(start)));
        self.mark(marked);
        true
    }

    /// Finds the secrets in lines of which some may be JSON, alone or as the data of an event.
    fn find_in_lines(&mut self, frame: &[u8], found: &mut Findings) {
        let (mut at, mut text_start) = (0_usize, 0);
        for line in frame.split_inclusive(|byte| *byte == b'\n') {
            let data = line.strip_prefix(b"data:").unwrap_or(line);
            let data_start = at.saturating_add(line.len()).saturating_sub(data.len());
            let is_whole = data.len() == frame.len();
            let end = at.saturating_add(line.len());
            if !is_whole && self.find_in_json(data, data_start, found) {
                self.find_in_text(frame, text_start..at, found);
                text_start = end;
            }
            at = end;
        }
        self.find_in_text(frame, text_start..frame.len(), found);
    }

    /// Finds the secrets in a part of a frame that is not JSON.
    fn find_in_text(&self, frame: &[u8], range: Range<usize>, found: &mut Findings) {
        let text = frame.get(range.clone()).unwrap_or_default();
        let parts = self.find(text, MAX_DECODINGS, range.end == frame.len());
        found.hidden.extend(parts.into_iter().map(|part| Hidden::text(part).moved(range.start)));
        let inside = |part: &Range<usize>| Hidden::text(part.start.max(range.start)..part.end.min(range.end));
        let across = found.across_from(range.start).take_while(|part| part.start < range.end);
        let across: Vec<_> = across.map(inside).collect();
        found.hidden.extend(across);
    }

    /// Finds the secrets in the inside of a JSON string.
    fn find_in_string(&self, text: &[u8]) -> Vec<Range<usize>> {
        let find = |text: &[u8]| {
            let mut found = self.find(text, MAX_DECODINGS, false);
            if !self.marked.is_empty() {
                // A structured result stands in a text too.
                shapes::find(text, &|name| self.is_marked(name), &mut found);
            }
            found
        };
        match Decoded::from_json_string(text) {
            None => find(text),
            Some(decoded) => find(&decoded.text).iter().map(|part| decoded.original(part)).collect(),
        }
    }

    /// Finds the secrets in a text, which may be cut off, and in what its escapes stand for.
    fn find(&self, text: &[u8], decodings: usize, is_cut: bool) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        if !self.known_only {
            shapes::find(text, &|name| self.is_secret_name(name), &mut found);
        }
        self.known.find(text, &mut found);
        if is_cut {
            found.extend(self.known.find_at_cut(text));
        }
        let Some(decodings) = decodings.checked_sub(1) else { return found };
        let decoders: [Decoder; 2] = [Decoded::from_json_string, Decoded::from_percent_encoded];
        for decode in decoders {
            if let Some(decoded) = decode(text) {
                let inside = self.find(&decoded.text, decodings, is_cut);
                found.extend(inside.iter().map(|part| decoded.original(part)));
            }
        }
        found
    }

    fn is_known(&self, text: &[u8]) -> bool {
        let mut found = Vec::new();
        if !self.known.is_empty() {
            self.known.find(text, &mut found);
        }
        !found.is_empty()
    }

    fn is_secret_name(&self, name: &str) -> bool {
        !self.known_only && (is_secret_member(name) || self.has_name(name))
    }

    /// Whether the application added this name.
    fn has_name(&self, name: &str) -> bool {
        !self.names.is_empty() && self.names.contains(&normal_name(name))
    }
}

impl Findings {
    /// The secrets across parts, from the first that ends behind `at`.
    fn across_from(&self, at: usize) -> impl Iterator<Item = &Range<usize>> {
        let first = self.across.partition_point(|part| part.end <= at);
        self.across.iter().skip(first)
    }

    fn is_across(&self, range: &Range<usize>) -> bool {
        self.across_from(range.start).next().is_some_and(|part| part.start < range.end)
    }
}

impl Hidden {
    fn text(range: Range<usize>) -> Self {
        Self { range, is_number: false }
    }

    fn moved(self, by: usize) -> Self {
        let Range { start, end } = self.range;
        Self { range: start.saturating_add(by)..end.saturating_add(by), ..self }
    }
}

fn as_text(text: &str, found: impl IntoIterator<Item = Range<usize>>) -> Cow<'_, str> {
    match replace(text.as_bytes(), found.into_iter().map(Hidden::text).collect()) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(shown) => Cow::Owned(String::from_utf8_lossy(&shown).into_owned()),
    }
}

/// Replaces the hidden parts of a text, of which some may overlap.
fn replace(text: &[u8], mut found: Vec<Hidden>) -> Cow<'_, [u8]> {
    found.retain(|part| !part.range.is_empty());
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_by_key(|part| part.range.start);
    let mut shown = Vec::with_capacity(text.len());
    let mut at = 0;
    for Hidden { range, is_number } in found {
        // The mark of the part before covers this one, or its beginning.
        if range.start >= at {
            shown.extend_from_slice(text.get(at..range.start).unwrap_or_default());
            let quote = if is_number { "\"" } else { "" };
            for piece in [quote, MARK, quote] {
                shown.extend_from_slice(piece.as_bytes());
            }
        }
        at = at.max(range.end);
    }
    shown.extend_from_slice(text.get(at..).unwrap_or_default());
    Cow::Owned(shown)
}

debug_fields! { Redactor(self) { names, marked = self.marked.len(), rules = self.rules.len() } }
