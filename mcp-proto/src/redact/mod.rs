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
//! | sessions, tasks, cursors, states of requests and ids of events, by pseudonyms if it has any | messages, headers, event streams, URLs; then everything |
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
#[cfg(feature = "std")]
mod pseudonyms;
mod shapes;

/// Identifiers are shared under a lock, which is the standard library's.
#[cfg(not(feature = "std"))]
mod pseudonyms {
    use super::{Hidden, KeyedHasher};

    #[derive(Clone)]
    pub(super) enum Pseudonyms {}

    impl Pseudonyms {
        pub(super) fn number_of(&self, _: &[u8]) -> Option<u64> {
            match *self {}
        }

        pub(super) fn find(&self, _: &[u8], _: &mut crate::prelude::Vec<Hidden>) {
            match *self {}
        }

        pub(super) fn hasher(&self) -> KeyedHasher {
            match *self {}
        }
    }
}

use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use core::hash::Hasher as _;
use core::ops::Range;

use serde::de::IgnoredAny;

use crate::ordered_set::OrderedSet;
use crate::prelude::*;

use self::json::{Decoded, Decoder, Effect, Rules, Walk, marked_fields};
pub(crate) use self::names::is_form_secret;
use self::names::{KnownSecrets, is_secret_member, joined, normal_name};
pub use self::names::{is_secret_header, url_without_secrets};
#[cfg(not(feature = "std"))]
use self::pseudonyms::Pseudonyms;
#[cfg(feature = "std")]
pub use self::pseudonyms::Pseudonyms;
#[cfg(all(feature = "trace-file", feature = "std", feature = "client"))]
pub(crate) use self::pseudonyms::stand_in_length;

/// What stands in the place of a secret.
const MARK: &str = "[redacted]";

/// The beginning of the names of headers that repeat arguments of tools.
const PARAM_PREFIX: &str = "mcp-param-";

/// How many times a text is decoded: a string in JSON that is a string in JSON, in a URL.
const MAX_DECODINGS: usize = 3;

/// Most secrets that a redactor learns. A login has one token at a time; a new one replaces it.
const MAX_LEARNED: usize = 8;

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
    /// The last secrets that passed, beside those that the application named.
    learned: VecDeque<(Vec<u8>, KnownSecrets)>,
    /// Whether it hides known secrets alone.
    known_only: bool,
    rules: Rules,
    /// Names that the application added, in their normal form.
    names: OrderedSet<String>,
    /// Names of fields that schemas mark, in their normal form.
    marked: OrderedSet<String>,
    pseudonyms: Option<Pseudonyms>,
}

/// The digest of a frame of which only the beginning is kept, while it passes: see [`Redactor::cut_frame`].
///
/// A redactor without pseudonyms (`Redactor::pseudonyms`), whose key it needs, makes an empty one.
#[derive(Clone, Default)]
pub struct FrameDigest(Option<KeyedHasher>);

#[expect(deprecated, reason = "the only function of the library whose key is the caller's")]
type KeyedHasher = core::hash::SipHasher;

impl FrameDigest {
    /// Adds the next bytes of the frame. How it is cut into pieces makes no difference.
    pub fn update(&mut self, bytes: &[u8]) {
        if let Some(hasher) = &mut self.0 {
            hasher.write(bytes);
        }
    }
}

debug_fields! { FrameDigest {} }

/// How a text is searched.
#[derive(Clone, Copy)]
struct Search {
    /// How many times it may be decoded.
    decodings: usize,
    /// Whether it was cut off.
    is_cut: bool,
    /// Whether it has no known secret as it is, which the search in the whole frame has shown.
    is_free: bool,
}

impl Search {
    const WHOLE: Self = Self { decodings: MAX_DECODINGS, is_cut: false, is_free: false };
    const CUT: Self = Self { is_cut: true, ..Self::WHOLE };
}

/// The findings in a frame.
#[derive(Default)]
struct Findings {
    hidden: Vec<Hidden>,
    /// Whether the frame has no known secret as it is. Few have one, and one search costs less than one in each string.
    is_free: bool,
    /// The known secrets that lie across parts of JSON, or across lines, in order: each part that they touch is hidden.
    across: Vec<Range<usize>>,
}

/// A part of a frame that is hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hidden {
    range: Range<usize>,
    stand_in: StandIn,
}

/// What stands in the place of a hidden part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StandIn {
    /// The pseudonym of an identifier, as a number.
    Pseudonym(u64),
    Mark,
    /// The mark as a string, in the place of a number in JSON.
    QuotedMark,
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
        Self { known_only: false, rules: Rules::of_messages(), ..Self::known_only() }
    }

    /// A redactor that hides [known](Self::known) secrets alone, so that no other word of a text is lost.
    pub fn known_only() -> Self {
        Self {
            known: KnownSecrets::default(),
            learned: VecDeque::new(),
            known_only: true,
            rules: Rules::default(),
            names: OrderedSet::new(),
            marked: OrderedSet::new(),
            pseudonyms: None,
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
        pub fn pointer(self, pointer: &str) { self.rules.insert(pointer, Effect::Hide) }
    }

    /// Hides the secrets that a URL or a word of a command shows by itself wherever they stand: users and passwords, secret
    /// parameters of queries, `--token=x`.
    ///
    /// ```
    /// use mcp_proto::redact::Redactor;
    ///
    /// let redactor = Redactor::new().known_in("https://me:hunter2@example.com/mcp?key=hunter3");
    /// assert_eq!(redactor.text("hunter2, hunter3"), "[redacted], [redacted]");
    /// ```
    pub fn known_in(mut self, text: &str) -> Self {
        let mut found = Vec::new();
        shapes::find(text.as_bytes(), &is_secret_header, &mut found);
        for secret in found.into_iter().filter_map(|range| text.as_bytes().get(range)) {
            let decoded = Decoded::from_percent_encoded(secret);
            let secret = decoded.as_ref().map_or(secret, |decoded| &decoded.text);
            self.known.insert(secret);
            if let Some(colon) = memchr::memchr(b':', secret) {
                self.known.insert(secret.get(colon.saturating_add(1)..).unwrap_or_default());
            }
        }
        self
    }

    /// Hides what stands behind the options of a command with secret names, such as `--api-key x`, and what [its words
    /// show](Self::known_in).
    pub fn known_in_command(mut self, words: &[impl AsRef<str>]) -> Self {
        let mut is_option = false;
        for word in words.iter().map(AsRef::as_ref) {
            if is_option {
                self.known.insert(word.as_bytes());
            }
            let name = word.strip_prefix('-').map(|name| name.trim_start_matches('-'));
            is_option = name.is_some_and(|name| !name.contains('=') && is_secret_header(name));
            self = self.known_in(word);
        }
        self
    }

    /// Puts pseudonyms in the places of sessions, tasks, cursors, states of requests and ids of events: see [`Pseudonyms`].
    #[cfg(feature = "std")]
    pub fn pseudonyms(mut self, pseudonyms: Pseudonyms) -> Self {
        if self.pseudonyms.is_none() {
            self.rules.insert_identifiers(Effect::Identifier);
        }
        self.pseudonyms = Some(pseudonyms);
        self
    }

    /// Hides what has a pseudonym in other redactors, if this one has none.
    #[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
    pub(crate) fn without_identifiers(mut self) -> Self {
        if self.pseudonyms.is_none() {
            self.rules.insert_identifiers(Effect::Hide);
        }
        self
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
    /// The beginning of JSON that broke off is read as JSON up to there. Any other frame that is not JSON, or is nested more
    /// than 128 deep, is treated as [text](Self::text), line by line if some lines are JSON. A secret that lies partly in
    /// another frame is hidden only if its beginning, at the end of this one, is known: pass whole messages.
    pub fn frame<'a>(&mut self, frame: &'a [u8]) -> Cow<'a, [u8]> {
        let find = |redactor: &mut Self, found: &mut Findings| {
            redactor.find_in_frame(frame, found);
            true
        };
        self.replace_found(frame, find).unwrap_or_default()
    }

    /// Hides the secrets in a frame that is JSON, alone or as the data of an event, as they are hidden in any
    /// [frame](Self::frame); `None` if it is no JSON, or nested more than 128 deep.
    ///
    /// ```
    /// use mcp_proto::redact::Redactor;
    ///
    /// let mut redactor = Redactor::new();
    /// let shown = redactor.message(br#"data: {"token":"hunter2"}"#);
    /// assert_eq!(shown.as_deref(), Some(&br#"data: {"token":"[redacted]"}"#[..]));
    /// assert_eq!(redactor.message(b"token: hunter2"), None);
    /// ```
    pub fn message<'a>(&mut self, frame: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let json = frame.strip_prefix(b"data:").unwrap_or(frame);
        let start = frame.len().saturating_sub(json.len());
        self.replace_found(frame, |redactor, found| redactor.find_in_json(json, start, found))
    }

    /// Replaces what `find` finds in a frame; `None` if it returns that it cannot read the frame.
    fn replace_found<'a>(
        &mut self,
        frame: &'a [u8],
        find: impl Fn(&mut Self, &mut Findings) -> bool,
    ) -> Option<Cow<'a, [u8]>> {
        let mut found = Findings { is_free: !self.is_known(frame), ..Findings::default() };
        if !find(self, &mut found) {
            return None;
        }
        if !found.is_free {
            found.across = self.find_uncovered(frame, &found.hidden);
        }
        if !found.across.is_empty() {
            find(self, &mut found);
        }
        Some(replace(frame, found.hidden))
    }

    /// Begins the digest of a frame.
    pub fn digest(&self) -> FrameDigest {
        FrameDigest(self.pseudonyms.as_ref().map(Pseudonyms::hasher))
    }

    /// Hides the secrets in the beginning of a frame that was cut off, as it does in a [whole](Self::frame) one. In the place of
    /// what is not the beginning of a JSON object or list, or of one as the data of an event, stands a pseudonym, by the
    /// [digest](Self::digest) of the whole frame, or a mark if the digest is empty: nothing tells where a secret begins in so
    /// long a text.
    ///
    /// ```
    /// use mcp_proto::redact::{Pseudonyms, Redactor};
    ///
    /// let mut redactor = Redactor::new().pseudonyms(Pseudonyms::new([7; 16]));
    /// let (beginning, rest) = (b"<html>", b"<p>hunter2</p></html>");
    /// let mut digest = redactor.digest();
    /// digest.update(beginning);
    /// digest.update(rest);
    /// assert!(redactor.cut_frame(beginning, &digest).starts_with(b"[id:"));
    /// ```
    pub fn cut_frame<'a>(&mut self, beginning: &'a [u8], digest: &FrameDigest) -> Cow<'a, [u8]> {
        let mut found = Findings::default();
        let Some(length) = self.find_in_beginning(beginning, &mut found) else {
            let range = 0..beginning.len();
            let number = digest.0.as_ref().map(|hasher| StandIn::Pseudonym(hasher.finish()));
            return replace(beginning, vec![Hidden { range, stand_in: number.unwrap_or(StandIn::Mark) }]);
        };
        let beginning = beginning.get(..length).unwrap_or_default();
        let across = self.find_uncovered(beginning, &found.hidden);
        found.hidden.extend(across.into_iter().map(Hidden::text));
        replace(beginning, found.hidden)
    }

    /// Finds the secrets in the beginning of a JSON text, alone or as the data of an event; returns where it ends in the frame,
    /// before a character that was cut. `None` if it is none, or nested more than 128 deep.
    fn find_in_beginning(&mut self, frame: &[u8], found: &mut Findings) -> Option<usize> {
        let (start, text) = beginning_of_json(frame)?;
        let (hidden, marked) = Walk::find_in_beginning(self, text)?;
        self.mark(marked);
        let length = start.saturating_add(text.len());
        let beginning = frame.get(..length).unwrap_or_default();
        let ends = self.all_known().filter_map(|known| known.find_at_cut(beginning));
        found.hidden.extend(hidden.into_iter().map(|part| part.moved(start)));
        // It is not valid JSON, and so need not stay so.
        found.hidden.extend(ends.chain(found.across.iter().cloned()).map(Hidden::text));
        Some(length)
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
        as_text(text, self.find(text.as_bytes(), Search::WHOLE))
    }

    /// Hides the secrets in the beginning of a text that was cut off: a known secret may be cut too.
    pub fn cut_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        as_text(text, self.find(text.as_bytes(), Search::CUT))
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
        let is_identifier =
            ["mcp-session-id", "last-event-id"].iter().any(|id| name.eq_ignore_ascii_case(id));
        if is_identifier && self.pseudonyms.is_some() {
            return as_text(value, self.identifier(value.as_bytes(), 0..value.len()));
        }
        if !self.known_only && (is_secret_header(name) || self.has_name(name) || self.is_marked_header(name))
        {
            let start = shapes::scheme_length(value.as_bytes());
            return as_text(value, Some(Hidden::text(start..value.len())));
        }
        self.text(value)
    }

    /// Returns the pseudonym of an identifier. A redactor without pseudonyms hides the secrets in it, as in any text.
    pub fn identifier_text<'a>(&self, identifier: &'a str) -> Cow<'a, str> {
        match &self.pseudonyms {
            Some(_) => as_text(identifier, self.identifier(identifier.as_bytes(), 0..identifier.len())),
            None => self.text(identifier),
        }
    }

    /// Hides an identifier whose spelling stands at `range`, unless it is a pseudonym already.
    fn identifier(&self, identifier: &[u8], range: Range<usize>) -> Option<Hidden> {
        let number = self.pseudonyms.as_ref()?.number_of(identifier)?;
        Some(Hidden { range, stand_in: StandIn::Pseudonym(number) })
    }

    /// Hides a secret that passed, such as a token in a header, from now on. Of these it remembers the last eight.
    pub fn learn(&mut self, secret: &[u8]) {
        if self.learned.iter().any(|(learned, _)| learned == secret) {
            return;
        }
        if self.learned.len() >= MAX_LEARNED {
            self.learned.pop_front();
        }
        let mut known = KnownSecrets::default();
        known.insert(secret);
        self.learned.push_back((secret.to_vec(), known));
    }

    /// The secrets that are known, of the application and of those that passed.
    fn all_known(&self) -> impl Iterator<Item = &KnownSecrets> {
        [&self.known]
            .into_iter()
            .chain(self.learned.iter().map(|(_, known)| known))
            .filter(|it| !it.is_empty())
    }

    fn find_in_frame(&mut self, frame: &[u8], found: &mut Findings) {
        if self.find_in_json(frame, 0, found) {
            return;
        }
        // A message that broke off tells by its structure where secrets are.
        if self.find_in_beginning(frame, found).is_none() {
            self.find_in_lines(frame, found);
        }
    }

    /// Finds the known secrets in a frame, as they are, that no hidden part covers.
    fn find_uncovered(&self, frame: &[u8], hidden: &[Hidden]) -> Vec<Range<usize>> {
        let ranges = || hidden.iter().map(|part| part.range.clone());
        joined(self.all_known().flat_map(|known| known.find_uncovered(frame, ranges())).collect())
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
            found.hidden.extend(self.find_event_id(line, at));
            if !is_whole && self.find_in_json(data, data_start, found) {
                self.find_in_text(frame, text_start..at, found);
                text_start = end;
            }
            at = end;
        }
        self.find_in_text(frame, text_start..frame.len(), found);
    }

    /// Finds the id of an event in a line of an event stream.
    fn find_event_id(&self, line: &[u8], at: usize) -> Option<Hidden> {
        let id = line.strip_prefix(b"id:")?.trim_ascii_end();
        let id = id.strip_prefix(b" ").unwrap_or(id);
        let end = line.trim_ascii_end().len();
        let start = end.checked_sub(id.len()).filter(|_| !id.is_empty())?;
        Some(self.identifier(id, start..end)?.moved(at))
    }

    /// Finds the secrets in a part of a frame that is not JSON.
    fn find_in_text(&self, frame: &[u8], range: Range<usize>, found: &mut Findings) {
        let text = frame.get(range.clone()).unwrap_or_default();
        let search = Search { is_cut: range.end == frame.len(), is_free: found.is_free, ..Search::WHOLE };
        let parts = self.find(text, search);
        found.hidden.extend(parts.into_iter().map(|part| part.moved(range.start)));
        let inside = |part: &Range<usize>| Hidden::text(part.start.max(range.start)..part.end.min(range.end));
        let across = found.across_from(range.start).take_while(|part| part.start < range.end);
        let across: Vec<_> = across.map(inside).collect();
        found.hidden.extend(across);
    }

    /// Finds the secrets in the inside of a JSON string.
    fn find_in_string(&self, text: &[u8], search: Search) -> Vec<Hidden> {
        let find = |text: &[u8], search: Search| {
            let mut found = self.find(text, search);
            if !self.marked.is_empty() {
                // A structured result stands in a text too.
                let mut marked = Vec::new();
                shapes::find(text, &|name| self.is_marked(name), &mut marked);
                found.extend(marked.into_iter().map(Hidden::text));
            }
            found
        };
        match Decoded::from_json_string(text) {
            None => find(text, search),
            Some(decoded) => find(&decoded.text, Search { is_free: false, ..search })
                .into_iter()
                .map(|part| part.of_original(&decoded))
                .collect(),
        }
    }

    /// Finds the secrets in a text, and in what its escapes stand for.
    fn find(&self, text: &[u8], search: Search) -> Vec<Hidden> {
        let has_signs = shapes::has_signs(text);
        let mut found = Vec::new();
        if !self.known_only && has_signs {
            shapes::find(text, &|name| self.is_secret_name(name), &mut found);
        }
        for known in self.all_known() {
            if !search.is_free {
                known.find(text, &mut found);
            }
            if search.is_cut {
                found.extend(known.find_at_cut(text));
            }
        }
        let mut found: Vec<_> = found.into_iter().filter_map(|part| self.secret_in(text, part)).collect();
        if !has_signs {
            return found;
        }
        if let Some(pseudonyms) = &self.pseudonyms {
            pseudonyms.find(text, &mut found);
        }
        let Some(decodings) = search.decodings.checked_sub(1) else { return found };
        let search = Search { decodings, is_free: false, ..search };
        let decoders: [Decoder; 2] = [Decoded::from_json_string, Decoded::from_percent_encoded];
        for decode in decoders {
            if let Some(decoded) = decode(text) {
                let inside = self.find(&decoded.text, search);
                found.extend(inside.into_iter().map(|part| part.of_original(&decoded)));
            }
        }
        found
    }

    /// Hides a secret in a text; the session in a query by its pseudonym.
    fn secret_in(&self, text: &[u8], part: Range<usize>) -> Option<Hidden> {
        if self.pseudonyms.is_some() && shapes::is_session(text, part.start) {
            let session = text.get(part.clone()).unwrap_or_default();
            let decoded = Decoded::from_percent_encoded(session);
            return self.identifier(decoded.as_ref().map_or(session, |decoded| &decoded.text), part);
        }
        Some(Hidden::text(part))
    }

    /// Whether a header repeats an argument that a schema marks.
    fn is_marked_header(&self, name: &str) -> bool {
        let (prefix, argument) = name.split_at_checked(PARAM_PREFIX.len()).unwrap_or_default();
        prefix.eq_ignore_ascii_case(PARAM_PREFIX) && self.is_marked(argument)
    }

    fn is_known(&self, text: &[u8]) -> bool {
        self.all_known().any(|known| known.is_in(text))
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
        Self { range, stand_in: StandIn::Mark }
    }

    /// The part of the original that a part of the decoded text stands for.
    fn of_original(self, decoded: &Decoded) -> Self {
        Self { range: decoded.original(&self.range), ..self }
    }

    fn moved(self, by: usize) -> Self {
        let Range { start, end } = self.range;
        Self { range: start.saturating_add(by)..end.saturating_add(by), ..self }
    }
}

/// The JSON in the beginning of a frame that was cut off, and where it begins; `None` if it is no JSON.
fn beginning_of_json(frame: &[u8]) -> Option<(usize, &str)> {
    let json = frame.strip_prefix(b"data:").unwrap_or(frame);
    let text = match str::from_utf8(json) {
        Ok(text) => text,
        // A character may be cut too.
        Err(error) if error.error_len().is_none() => str::from_utf8(json.get(..error.valid_up_to())?).ok()?,
        Err(_) => return None,
    };
    let is_container = text.trim_ascii_start().starts_with(['{', '[']);
    let read = serde_json::from_str::<IgnoredAny>(text);
    let is_beginning = is_container && read.is_err_and(|error| error.is_eof());
    is_beginning.then_some((frame.len().saturating_sub(json.len()), text))
}

fn as_text(text: &str, found: impl IntoIterator<Item = Hidden>) -> Cow<'_, str> {
    match replace(text.as_bytes(), found.into_iter().collect()) {
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
    found.sort_by_key(|part| (part.range.start, part.stand_in));
    let mut shown = Vec::with_capacity(text.len());
    let mut at = 0;
    for Hidden { range, stand_in } in found {
        // The mark of the part before covers this one, or its beginning.
        if range.start >= at {
            shown.extend_from_slice(text.get(at..range.start).unwrap_or_default());
            match stand_in {
                StandIn::Pseudonym(number) => {
                    shown.extend_from_slice(format!("[id:{number:016x}]").as_bytes())
                }
                StandIn::Mark => shown.extend_from_slice(MARK.as_bytes()),
                StandIn::QuotedMark => shown.extend_from_slice(format!("\"{MARK}\"").as_bytes()),
            }
        }
        at = at.max(range.end);
    }
    shown.extend_from_slice(text.get(at..).unwrap_or_default());
    Cow::Owned(shown)
}

debug_fields! { Redactor(self) { names, marked = self.marked.len(), rules } }
