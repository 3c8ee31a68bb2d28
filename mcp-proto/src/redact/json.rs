//! Secrets in JSON, by the names of members, by where they are, and by the schemas of fields.

use alloc::borrow::Cow;
use core::ops::Range;

use memchr::memmem;
use serde_json::Value;

use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::rpc::json_reader::{NotJson, Reader};

use super::names::{is_common_member, normal_name};
use super::{Findings, Hidden, Redactor, Search, StandIn};

/// Maximum nesting, as of serde_json.
const MAX_DEPTH: usize = 128;

/// Most fields that schemas of the other side mark.
const MAX_MARKED: usize = 1024;

/// The longest name of a field that a schema of the other side marks, in bytes.
const LONGEST_MARKED: usize = 256;

/// Members of a message with a meaning. `*` stands for any member or item.
const PLACES: [(&str, Effect); 9] = [
    ("/params/arguments", Effect::Fields),
    ("/params/inputResponses", Effect::Fields),
    ("/result/content", Effect::Fields),
    ("/result/structuredContent", Effect::Fields),
    ("/params/requestedSchema", Effect::Schema),
    ("/params/inputRequests/*/params/requestedSchema", Effect::Schema),
    ("/result/inputRequests/*/params/requestedSchema", Effect::Schema),
    ("/result/tools/*/inputSchema", Effect::Schema),
    ("/result/tools/*/outputSchema", Effect::Schema),
];

/// Members of a message that are identifiers.
#[cfg(feature = "std")]
const IDENTIFIERS: [&str; 16] = [
    "/params/cursor",
    "/params/notifications/taskIds/*",
    "/params/requestState",
    "/params/task/taskId",
    "/params/taskId",
    "/params/elicitationId",
    "/params/_meta/io.modelcontextprotocol~1related-task/taskId",
    "/result/_meta/io.modelcontextprotocol~1related-task/taskId",
    "/result/nextCursor",
    "/result/requestState",
    "/result/task/taskId",
    "/result/taskId",
    "/result/tasks/*/taskId",
    "/params/inputRequests/*/params/elicitationId",
    "/result/inputRequests/*/params/elicitationId",
    "/error/data/elicitations/*/elicitationId",
];

/// The meaning of a place in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The value is secret.
    Hide,
    /// The value has fields, which schemas describe.
    Fields,
    /// The value is a schema: its members are named like fields, but are none.
    Schema,
    /// The value is an identifier.
    #[cfg_attr(not(feature = "std"), expect(dead_code, reason = "without `std` there are no pseudonyms"))]
    Identifier,
}

/// JSON pointers and the meanings of their targets, as a tree of segments: a value is compared with few of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules(Vec<RuleNode>);

/// A segment of pointers.
#[derive(Clone, Debug, Default)]
struct RuleNode {
    /// The next segments, and where their nodes are.
    inside: Vec<(String, usize)>,
    effects: Vec<Effect>,
}

impl Rules {
    /// The rules of the protocol.
    pub(super) fn of_messages() -> Self {
        let mut rules = Self::default();
        PLACES.iter().for_each(|(pointer, effect)| rules.insert(pointer, *effect));
        rules
    }

    #[cfg(feature = "std")]
    pub(super) fn insert_identifiers(&mut self, effect: Effect) {
        IDENTIFIERS.iter().for_each(|pointer| self.insert(pointer, effect));
    }

    pub(super) fn insert(&mut self, pointer: &str, effect: Effect) {
        if self.0.is_empty() {
            self.0.push(RuleNode::default());
        }
        let decoded = |segment: &str| segment.replace("~1", "/").replace("~0", "~");
        let at =
            pointer.split('/').skip(1).map(decoded).fold(0, |at, segment| self.insert_segment(at, segment));
        if let Some(node) = self.0.get_mut(at) {
            node.effects.push(effect);
        }
    }

    /// Returns where the node of a segment behind another is.
    fn insert_segment(&mut self, at: usize, segment: String) -> usize {
        let new = self.0.len();
        let Some(node) = self.0.get_mut(at) else { return at };
        if let Some((_, known)) = node.inside.iter().find(|(known, _)| *known == segment) {
            return *known;
        }
        node.inside.push((segment, new));
        self.0.push(RuleNode::default());
        new
    }

    /// The nodes that apply to a member or item of this name, inside of the place of `node`.
    fn inside<'a>(&'a self, node: usize, name: &'a str) -> impl Iterator<Item = (usize, &'a RuleNode)> {
        let segments = self.0.get(node).into_iter().flat_map(|node| &node.inside);
        let apply = segments.filter(move |(segment, _)| segment == "*" || segment == name);
        apply.filter_map(|(_, at)| Some((*at, self.0.get(*at)?)))
    }
}

/// Where a value is.
#[derive(Clone, Default)]
struct MemberPosition {
    /// The segments of rules that lead here, if they may apply further in.
    rules: Vec<usize>,
    is_hidden: bool,
    has_fields: bool,
    is_schema: bool,
    is_identifier: bool,
    depth: usize,
}

/// A walk over a JSON text.
pub(super) struct Walk<'a> {
    redactor: &'a Redactor,
    reader: Reader<'a>,
    /// Where the text begins in its frame, and the findings of the frame.
    start: usize,
    of_frame: &'a Findings,
    /// Whether the text was cut off.
    is_cut: bool,
    /// Whether it has stopped at a place that is nested too deep.
    is_too_deep: bool,
    found: Vec<Hidden>,
    marked: OrderedSet<String>,
}

impl<'a> Walk<'a> {
    /// Finds the secrets in a JSON text that begins at `start` in its frame, and the names of the fields that its schemas mark
    /// as passwords; `None` if it is not valid, or nested too deeply.
    pub(super) fn find(
        redactor: &'a Redactor,
        text: &'a str,
        start: usize,
        of_frame: &'a Findings,
    ) -> Option<(Vec<Hidden>, OrderedSet<String>)> {
        let mut walk = Self::new(redactor, text, start, of_frame, false);
        walk.message().and_then(|()| walk.reader.end()).ok()?;
        Some((walk.found, walk.marked))
    }

    /// The same of the beginning of a JSON text that was cut off; `None` if it is nested too deep to be read up to there.
    pub(super) fn find_in_beginning(
        redactor: &'a Redactor,
        text: &'a str,
    ) -> Option<(Vec<Hidden>, OrderedSet<String>)> {
        const NONE: &Findings = &Findings { hidden: Vec::new(), is_free: false, across: Vec::new() };
        let mut walk = Self::new(redactor, text, 0, NONE, true);
        // It ends in an error, where the text ends.
        let _ = walk.message();
        (!walk.is_too_deep).then_some((walk.found, walk.marked))
    }

    fn new(
        redactor: &'a Redactor,
        text: &'a str,
        start: usize,
        of_frame: &'a Findings,
        is_cut: bool,
    ) -> Self {
        let (found, marked) = (Vec::new(), OrderedSet::new());
        Self {
            redactor,
            reader: Reader::new(text),
            start,
            of_frame,
            is_cut,
            is_too_deep: false,
            found,
            marked,
        }
    }

    /// Reads a message, or each of a batch.
    fn message(&mut self) -> Result<(), NotJson> {
        let place = MemberPosition { rules: vec![0], ..MemberPosition::default() };
        match self.reader.first_byte()? {
            b'[' => self.items(|_, _| place.clone()),
            _ => self.value(&place),
        }
    }

    fn value(&mut self, place: &MemberPosition) -> Result<(), NotJson> {
        if place.depth >= MAX_DEPTH {
            self.is_too_deep = true;
            return Err(NotJson);
        }
        match self.reader.first_byte()? {
            b'{' => self.members(place),
            b'[' => self.items(|redactor, index| redactor.place_of_item(place, index)),
            b'"' => self.string(place),
            b'-' | b'0'..=b'9' => self.number(place.is_hidden),
            _ => self.reader.skip().map(drop),
        }
    }

    fn items(&mut self, place: impl Fn(&Redactor, usize) -> MemberPosition) -> Result<(), NotJson> {
        self.reader.enter(b'[')?;
        let (mut is_first, mut index) = (true, 0_usize);
        while self.reader.item(&mut is_first, b']')? {
            self.value(&place(self.redactor, index))?;
            index = index.saturating_add(1);
        }
        Ok(())
    }

    fn members(&mut self, place: &MemberPosition) -> Result<(), NotJson> {
        self.reader.enter(b'{')?;
        let mut is_first = true;
        let mut before = self.reader.at();
        loop {
            let Ok(name) = self.reader.name(&mut is_first) else {
                self.cut_off(before, false);
                return Err(NotJson);
            };
            let Some(name) = name else { return Ok(()) };
            // With escapes it may be a known secret, which the search in the frame has not found.
            let is_plain = matches!(name, Cow::Borrowed(_));
            if !self.of_frame.is_free || !is_plain || !is_common_member(&name) {
                self.name(before);
            }
            let inside = self.redactor.place_of(place, &name);
            if inside.is_schema && !place.is_schema {
                self.schema()?;
            }
            self.value(&inside)?;
            before = self.reader.at();
        }
    }

    /// Finds the secrets in the last name or string of a text that was cut off, which is behind `before`.
    fn cut_off(&mut self, before: usize, is_hidden: bool) {
        let mut rest = self.reader.clone();
        rest.go_to(before);
        let Some(open) = rest.rest().find('"').filter(|_| self.is_cut) else { return };
        let start = before.saturating_add(open).saturating_add(1);
        let text = rest.rest().get(open.saturating_add(1)..).unwrap_or_default();
        if is_hidden {
            return self.found.push(Hidden::text(start..start.saturating_add(text.len())));
        }
        let found = self.redactor.find_in_string(text.as_bytes(), Search::CUT);
        self.found.extend(found.into_iter().map(|part| part.moved(start)));
    }

    /// Finds secrets in the name of a member, which is behind `before`.
    fn name(&mut self, before: usize) {
        let text = self.reader.since(before);
        let mut quotes = text.bytes().enumerate().filter(|(_, byte)| *byte == b'"').map(|(at, _)| at);
        if let (Some(open), Some(close)) = (quotes.next(), quotes.next_back()) {
            let at = |offset: usize| before.saturating_add(offset);
            self.text(at(open.saturating_add(1))..at(close), text.get(open.saturating_add(1)..close), false);
        }
    }

    fn string(&mut self, place: &MemberPosition) -> Result<(), NotJson> {
        let start = self.reader.at();
        let Ok(text) = self.reader.skip() else {
            self.cut_off(start, place.is_hidden || place.is_identifier);
            return Err(NotJson);
        };
        let range = start.saturating_add(1)..self.reader.at().saturating_sub(1);
        let inside = text.get(1..text.len().saturating_sub(1));
        if place.is_identifier {
            let inside = inside.unwrap_or_default().as_bytes();
            let decoded = Decoded::from_json_string(inside);
            let identifier = decoded.as_ref().map_or(inside, |decoded| &decoded.text);
            self.found.extend(self.redactor.identifier(identifier, range));
        } else {
            self.text(range, inside, place.is_hidden);
        }
        Ok(())
    }

    /// Finds the secrets in a name or string, whose inside is at `range`.
    fn text(&mut self, range: Range<usize>, text: Option<&str>, is_hidden: bool) {
        if is_hidden || self.is_across(&range) {
            return self.found.push(Hidden::text(range));
        }
        let search = Search { is_free: self.of_frame.is_free, ..Search::WHOLE };
        let found = self.redactor.find_in_string(text.unwrap_or_default().as_bytes(), search);
        self.found.extend(found.into_iter().map(|part| part.moved(range.start)));
    }

    fn number(&mut self, is_hidden: bool) -> Result<(), NotJson> {
        let start = self.reader.at();
        let text = self.reader.skip()?;
        let range = start..self.reader.at();
        let is_known = || !self.of_frame.is_free && self.redactor.is_known(text.as_bytes());
        if is_hidden || is_known() || self.is_across(&range) {
            self.found.push(Hidden { range, stand_in: StandIn::QuotedMark });
        }
        Ok(())
    }

    /// Whether a known secret lies across the part of the text and others.
    fn is_across(&self, range: &Range<usize>) -> bool {
        let at = |offset: usize| self.start.saturating_add(offset);
        self.of_frame.is_across(&(at(range.start)..at(range.end)))
    }

    /// Notes the fields that the schema at the reader marks as passwords.
    fn schema(&mut self) -> Result<(), NotJson> {
        let mut reader = self.reader.clone();
        let text = reader.skip()?;
        // Few schemas have any.
        if memmem::find(text.as_bytes(), b"password").is_some()
            && let Ok(schema) = serde_json::from_str(text)
        {
            self.marked.append(&mut marked_fields(&schema));
        }
        Ok(())
    }
}

impl Redactor {
    /// The place of a member.
    fn place_of(&self, outer: &MemberPosition, name: &str) -> MemberPosition {
        let mut place = self.place_inside(outer, name);
        place.is_hidden |= !place.is_schema && self.is_secret_name(name);
        place.is_hidden |= place.has_fields && self.is_marked(name);
        place
    }

    fn place_of_item(&self, outer: &MemberPosition, index: usize) -> MemberPosition {
        let name = if outer.rules.is_empty() { String::new() } else { index.to_string() };
        self.place_inside(outer, &name)
    }

    /// The place of a member or item, by the rules alone.
    fn place_inside(&self, outer: &MemberPosition, name: &str) -> MemberPosition {
        let mut place = MemberPosition {
            rules: Vec::new(),
            is_hidden: outer.is_hidden,
            has_fields: outer.has_fields,
            is_schema: outer.is_schema,
            is_identifier: false,
            depth: outer.depth.saturating_add(1),
        };
        for (at, node) in outer.rules.iter().flat_map(|node| self.rules.inside(*node, name)) {
            if !node.inside.is_empty() {
                place.rules.push(at);
            }
            for effect in &node.effects {
                match effect {
                    Effect::Hide => place.is_hidden = true,
                    Effect::Fields => place.has_fields = true,
                    Effect::Schema => place.is_schema = true,
                    Effect::Identifier => place.is_identifier = true,
                }
            }
        }
        place
    }

    pub(super) fn is_marked(&self, name: &str) -> bool {
        !self.marked.is_empty() && self.marked.contains(&normal_name(name))
    }

    /// Hides the values of these fields from now on, of as many as there is room for.
    pub(super) fn mark(&mut self, names: OrderedSet<String>) {
        let room = MAX_MARKED.saturating_sub(self.marked.len());
        let new =
            names.into_iter().filter(|name| name.len() <= LONGEST_MARKED && !self.marked.contains(name));
        let new: Vec<_> = new.take(room).collect();
        self.marked.extend(new);
    }
}

/// The names of the fields that a schema marks by `"format": "password"`, directly or by a reference.
pub(super) fn marked_fields(schema: &Value) -> OrderedSet<String> {
    let mut fields = Fields::default();
    fields.read(schema, "");
    // References may lead to references.
    for _ in 0..8 {
        let marked = |(_, definition): &&(&str, &str)| fields.marked.contains(*definition);
        let more: Vec<_> = fields.references.iter().filter(marked).map(|(name, _)| *name).collect();
        fields.marked.extend(more);
    }
    fields.marked.iter().filter(|name| !name.is_empty()).map(|name| normal_name(name)).collect()
}

/// The fields of a schema.
#[derive(Default)]
struct Fields<'a> {
    marked: OrderedSet<&'a str>,
    /// Fields, and the names of the definitions that they refer to.
    references: Vec<(&'a str, &'a str)>,
}

impl<'a> Fields<'a> {
    /// Reads the schema of a field; nested at most as deeply as serde_json reads.
    fn read(&mut self, schema: &'a Value, field: &'a str) {
        match schema {
            Value::Object(members) => {
                for (name, value) in members {
                    match (&**name, value) {
                        ("format", Value::String(format)) if format == "password" => {
                            _ = self.marked.insert(field)
                        }
                        // The header by which requests repeat the field is as secret.
                        ("x-mcp-header", Value::String(header)) => self.references.push((header, field)),
                        ("$ref", Value::String(to)) => {
                            self.references.push((field, to.rsplit('/').next().unwrap_or_default()));
                        }
                        (
                            "properties" | "patternProperties" | "$defs" | "definitions",
                            Value::Object(fields),
                        ) => {
                            fields.iter().for_each(|(name, schema)| self.read(schema, name));
                        }
                        _ => self.read(value, field),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.read(item, field)),
            _ => {}
        }
    }
}

// Texts whose escapes are decoded, so that a value is found in each of its spellings.

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
