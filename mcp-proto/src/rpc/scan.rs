//! The structural scan: finds where values end without decoding them.

use alloc::borrow::Cow;

use memchr::memchr2;

use super::MalformedKind;
use super::blocks::{BLOCK, Carry};
use super::json_reader::Reader;
use super::members::{KnownObject, NotedMembers};
use crate::prelude::*;

/// The deepest nesting that the scan can follow, and one more than serde_json decodes: the values inside an envelope of
/// this depth are within its limit.
pub(super) const MAX_DEPTH: usize = 128;

/// Why a scan stopped, and at which offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScanError {
    pub(super) offset: usize,
    pub(super) kind: MalformedKind,
}

/// The type of a value, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Object,
    Array,
    String { escaped: bool },
    Number,
    Bool,
    Null,
}

/// A delimited value: `start..end` of the scanned text, including the quotes of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) shape: Shape,
}

/// How strictly a scan checks the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanMode {
    /// Nesting of at most this many levels, matching brackets and no stray bytes.
    Strict { max_depth: usize },
    /// Any text in which the end of a value can be guessed.
    Lenient,
}

/// A position in JSON text.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    mode: ScanMode,
    /// The number of containers entered by [`enter`](Self::enter).
    depth: usize,
    /// Whether the text so far has an escape of the form `\u`. Not maintained for lenient scans.
    has_unicode_escapes: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8], at: usize, mode: ScanMode) -> Self {
        let mode = match mode {
            ScanMode::Strict { max_depth } => ScanMode::Strict { max_depth: max_depth.min(MAX_DEPTH) },
            ScanMode::Lenient => ScanMode::Lenient,
        };
        Self { text, at, mode, depth: 0, has_unicode_escapes: false }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Whether a string that was scanned has an escape of the form `\u`.
    pub(super) fn has_unicode_escapes(&self) -> bool {
        self.has_unicode_escapes
    }

    #[inline(always)]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    /// Skips whitespace.
    #[inline(always)]
    pub(super) fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.advance();
        }
    }

    /// The error for a missing `expected` at the cursor.
    #[cold]
    pub(super) fn stop(&self, expected: &'static str) -> ScanError {
        let kind = match self.peek() {
            Some(_) => MalformedKind::Syntax { expected },
            None => MalformedKind::Truncated,
        };
        ScanError { offset: self.at, kind }
    }

    /// Skips a container's opening bracket.
    pub(super) fn enter(&mut self) -> Result<(), ScanError> {
        if let ScanMode::Strict { max_depth } = self.mode
            && self.depth >= max_depth
        {
            return Err(ScanError { offset: self.at, kind: MalformedKind::TooDeep { limit: max_depth } });
        }
        self.depth = self.depth.saturating_add(1);
        self.advance();
        Ok(())
    }

    /// Skips whitespace and checks that the text ends there.
    pub(super) fn finish(&mut self) -> Result<(), ScanError> {
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.stop("the end of the message")),
        }
    }

    /// Skips to the next item of the entered container (`true`), or behind its closing bracket (`false`).
    #[inline(always)]
    pub(super) fn item(&mut self, first: bool, close: u8, expected: &'static str) -> Result<bool, ScanError> {
        self.space();
        match self.peek() {
            Some(byte) if byte == close => {
                self.depth = self.depth.saturating_sub(1);
                self.advance();
                Ok(false)
            }
            Some(b',') if !first => {
                self.advance();
                self.space();
                Ok(true)
            }
            Some(_) if first => Ok(true),
            _ => Err(self.stop(expected)),
        }
    }

    /// Reads the next member of the entered object: its name (with its quotes) and its value.
    #[inline(always)]
    pub(super) fn member(&mut self, first: bool) -> Result<Option<(Value, Value)>, ScanError> {
        let Some(name) = self.name(first)? else { return Ok(None) };
        let value = self.value()?;
        Ok(Some((name, value)))
    }

    /// Reads the name of the next member and skips the colon.
    #[inline(always)]
    pub(super) fn name(&mut self, first: bool) -> Result<Option<Value>, ScanError> {
        if self.next_member(first)? { self.any_name().map(Some) } else { Ok(None) }
    }

    /// Skips to the name of the next member (`true`), or behind the object (`false`).
    #[inline(always)]
    pub(super) fn next_member(&mut self, first: bool) -> Result<bool, ScanError> {
        self.item(first, b'}', "a comma or the end of the object")
    }

    /// Reads the name at the cursor and skips the colon.
    #[inline]
    pub(super) fn any_name(&mut self) -> Result<Value, ScanError> {
        if self.peek() != Some(b'"') {
            return Err(self.stop("a member name"));
        }
        let name = self.value()?;
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.stop("a colon"));
        }
        self.advance();
        self.space();
        Ok(name)
    }

    /// Skips a text that lies at the cursor, and the space behind it.
    #[inline(always)]
    pub(super) fn skip(&mut self, text: &[u8]) {
        self.at = self.at.saturating_add(text.len());
        self.space();
    }

    /// The text that has not been scanned.
    #[inline(always)]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Delimits one value. A number or literal on this level is checked fully; the inside of a container only for its
    /// structure.
    #[inline(always)]
    pub(super) fn value(&mut self) -> Result<Value, ScanError> {
        let start = self.at;
        let shape = match self.peek() {
            Some(b'"') => {
                self.advance();
                Shape::String { escaped: self.string()? }
            }
            Some(open @ (b'{' | b'[')) => {
                match self.mode {
                    ScanMode::Strict { max_depth } => self.container(max_depth)?,
                    ScanMode::Lenient => self.guess_container()?,
                }
                if open == b'{' { Shape::Object } else { Shape::Array }
            }
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal(b"true", Shape::Bool)?,
            Some(b'f') => self.literal(b"false", Shape::Bool)?,
            Some(b'n') => self.literal(b"null", Shape::Null)?,
            _ => return Err(self.stop("a value")),
        };
        Ok(Value { start, end: self.at, shape })
    }

    /// Scans the object at the cursor as valid JSON, and notes its members. `None`, without moving,
    /// if it is no object or not valid.
    pub(super) fn note_members(
        &mut self,
        text: &str,
        known: KnownObject<'_>,
    ) -> Option<(Value, NotedMembers)> {
        let ScanMode::Strict { max_depth } = self.mode else { return None };
        let (start, mut reader) = (self.at, Reader::new(text));
        reader.go_to(start);
        let noted = reader.note_members(max_depth.saturating_sub(self.depth), known).ok()?;
        self.at = reader.at();
        self.has_unicode_escapes |= reader.has_unicode_escapes();
        Some((Value { start, end: self.at, shape: Shape::Object }, noted))
    }

    /// Skips the rest of a string and its closing quote. Returns whether it has escapes.
    #[inline(always)]
    fn string(&mut self) -> Result<bool, ScanError> {
        let mut escaped = false;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let Some(near) = quote_or_backslash(rest) else {
                self.at = self.text.len();
                return Err(self.stop("a quote"));
            };
            self.at = self.at.saturating_add(near);
            if self.peek() == Some(b'"') {
                self.advance();
                return Ok(escaped);
            }
            escaped = true;
            self.advance();
            self.has_unicode_escapes |= self.peek() == Some(b'u');
            self.advance();
        }
    }

    /// Skips a container: strings are skipped, brackets must match and control characters are refused; the decoder
    /// checks the rest.
    fn container(&mut self, max_depth: usize) -> Result<(), ScanError> {
        // One bit per open container: set for an object.
        let mut open = 0u128;
        let mut depth = self.depth;
        let mut carry = Carry::default();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let mut padded = [b' '; BLOCK];
            let block = match rest.first_chunk() {
                Some(block) => block,
                None if rest.is_empty() => return Err(self.stop("a closing bracket")),
                None => {
                    if let Some(padded) = padded.get_mut(..rest.len()) {
                        padded.copy_from_slice(rest);
                    }
                    &padded
                }
            };
            let marks = carry.marks(block);
            // Ignore the brackets behind the first stray byte.
            let mut brackets = marks.brackets & (marks.strays.wrapping_sub(1) & !marks.strays);
            while brackets != 0 {
                let near = brackets.trailing_zeros() as usize;
                brackets &= brackets.wrapping_sub(1);
                let byte = block.get(near).copied().unwrap_or_default();
                if byte | 0x20 == b'{' {
                    if depth >= max_depth {
                        self.at = self.at.saturating_add(near);
                        return Err(ScanError {
                            offset: self.at,
                            kind: MalformedKind::TooDeep { limit: max_depth },
                        });
                    }
                    depth = depth.saturating_add(1);
                    open = open << 1 | u128::from(byte & 0x20 != 0);
                    continue;
                }
                if (open & 1 == 1) != (byte & 0x20 != 0) {
                    self.at = self.at.saturating_add(near);
                    return Err(self.stop("the closing bracket that matches the opening one"));
                }
                open >>= 1;
                depth = depth.saturating_sub(1);
                if depth == self.depth {
                    self.has_unicode_escapes |= carry.has_unicode_escapes();
                    self.at = self.at.saturating_add(near).saturating_add(1);
                    return Ok(());
                }
            }
            if marks.strays != 0 {
                self.at = self.at.saturating_add(marks.strays.trailing_zeros() as usize);
                return Err(self.stop("no control character outside of a string"));
            }
            self.at = self.at.saturating_add(BLOCK.min(rest.len()));
            if marks.in_long_string {
                // `memchr2` finds its end much faster.
                let rest = self.text.get(self.at..).unwrap_or_default();
                self.at = self.at.saturating_add(memchr2(b'"', b'\\', rest).unwrap_or(rest.len()));
            }
        }
    }

    /// Skips a container by counting its brackets, whether they match or not.
    fn guess_container(&mut self) -> Result<(), ScanError> {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                None => return Err(self.stop("a closing bracket")),
                Some(b'"') => {
                    self.advance();
                    self.string()?;
                    continue;
                }
                Some(b'{' | b'[') => depth = depth.saturating_add(1),
                Some(b'}' | b']') => depth = depth.saturating_sub(1),
                Some(_) => {}
            }
            self.advance();
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn literal(&mut self, literal: &'static [u8], shape: Shape) -> Result<Shape, ScanError> {
        for expected in literal {
            if self.peek() != Some(*expected) {
                return Err(self.stop("true, false or null"));
            }
            self.advance();
        }
        Ok(shape)
    }

    fn number(&mut self) -> Result<Shape, ScanError> {
        if self.peek() == Some(b'-') {
            self.advance();
        }
        if self.peek() == Some(b'0') {
            self.advance();
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.advance();
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.advance();
            if let Some(b'+' | b'-') = self.peek() {
                self.advance();
            }
            self.digits()?;
        }
        Ok(Shape::Number)
    }

    fn digits(&mut self) -> Result<(), ScanError> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.stop("a digit"));
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.advance();
        }
        Ok(())
    }
}

/// Finds the first quote or backslash; cheap if it is near, as in member names.
#[inline]
fn quote_or_backslash(text: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = ONES << 7;
    const QUOTES: u64 = ONES * b'"' as u64;
    const BACKSLASHES: u64 = ONES * b'\\' as u64;
    // The lowest top bit that is set stands for the first byte that was zero.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & TOPS;
    let mut rest = text;
    for before in [0usize, 8] {
        let Some((word, behind)) = rest.split_first_chunk() else { break };
        let word = u64::from_le_bytes(*word);
        let hits = zeros(word ^ QUOTES) | zeros(word ^ BACKSLASHES);
        if hits != 0 {
            return Some(before.saturating_add(hits.trailing_zeros() as usize / 8));
        }
        rest = behind;
    }
    memchr2(b'"', b'\\', rest).map(|near| text.len().saturating_sub(rest.len()).saturating_add(near))
}

impl Value {
    /// The value's text.
    pub(super) fn of<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        text.get(self.start..self.end).unwrap_or_default()
    }

    /// The range of a string without its quotes.
    pub(super) fn inside(&self) -> core::ops::Range<usize> {
        self.start.saturating_add(1)..self.end.saturating_sub(1)
    }

    /// The value as a string, borrowed unless it has escapes; `None` if it is not a valid string.
    pub(super) fn unescaped<'a>(&self, text: &'a [u8]) -> Option<Cow<'a, str>> {
        match self.shape {
            Shape::String { escaped: false } => {
                let inside = text.get(self.inside())?;
                if inside.iter().any(|byte| *byte < b' ') {
                    return None;
                }
                core::str::from_utf8(inside).ok().map(Cow::Borrowed)
            }
            Shape::String { escaped: true } => {
                serde_json::from_slice::<String>(self.of(text)).ok().map(Cow::Owned)
            }
            _ => None,
        }
    }

    /// The value as an integer if it is a number without a fractional part, such as `1.0` or `1e3`, of at most 2⁵³:
    /// every integer up to there is a float.
    pub(super) fn integral_float(&self, text: &[u8]) -> Option<i64> {
        const MOST: u64 = 1 << 53;
        let float: f64 = match self.shape {
            Shape::Number => core::str::from_utf8(self.of(text)).ok()?.parse().ok()?,
            _ => return None,
        };
        // A float beyond 64 bits saturates: the comparison then fails.
        let whole = float as i64;
        (whole as f64 == float && whole.unsigned_abs() <= MOST).then_some(whole)
    }

    /// The value as an integer of 64 bits, if it is one.
    pub(super) fn integer(&self, text: &[u8]) -> Option<i64> {
        let (Shape::Number, number) = (self.shape, self.of(text)) else { return None };
        let digits = number.strip_prefix(b"-");
        let negative = digits.is_some();
        digits.unwrap_or(number).iter().try_fold(0i64, |sum, byte| {
            let digit = i64::from(byte.checked_sub(b'0').filter(|digit| *digit <= 9)?);
            let sum = sum.checked_mul(10)?;
            // Downwards for negative numbers: the smallest one has no positive counterpart.
            if negative { sum.checked_sub(digit) } else { sum.checked_add(digit) }
        })
    }
}

/// Unescapes a member's name.
#[inline]
pub(super) fn member_name<'a>(name: &Value, text: &'a [u8]) -> Result<Cow<'a, [u8]>, ScanError> {
    match name.shape {
        Shape::String { escaped: true } => match name.unescaped(text) {
            Some(name) => Ok(Cow::Owned(name.into_owned().into_bytes())),
            None => Err(not_a_string(name)),
        },
        _ => Ok(Cow::Borrowed(text.get(name.inside()).unwrap_or_default())),
    }
}

pub(super) fn not_a_string(value: &Value) -> ScanError {
    ScanError {
        offset: value.start,
        kind: MalformedKind::Syntax { expected: "a string of valid characters and escapes" },
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use proptest::prelude::*;

    use super::*;

    /// Objects and arrays of strings that are shorter and longer than a block, with escapes anywhere.
    fn containers() -> impl Strategy<Value = String> {
        let string = proptest::collection::vec(
            prop_oneof![
                8 => prop::sample::select(&["\\\"", "\\\\", "{", "]", "a", "\\n", "é"][..]).prop_map(String::from),
                2 => (0usize..150).prop_map(|length| "x".repeat(length)),
            ],
            0..12,
        );
        let leaf = string.prop_map(|parts| format!("\"{}\"", parts.concat()));
        let value = leaf.prop_recursive(4, 24, 5, |inner| {
            let items = proptest::collection::vec(inner, 0..5);
            prop_oneof![
                items.clone().prop_map(|items| format!("[{}]", items.join(", "))),
                items.prop_map(|items| format!(
                    "{{{}}}",
                    items
                        .iter()
                        .map(|item| format!("\"n\":{item}"))
                        .collect::<alloc::vec::Vec<_>>()
                        .join(",\n")
                )),
            ]
        });
        value.prop_map(|value| format!("[{value}]"))
    }

    fn scanned(text: &str, mode: ScanMode) -> Result<Value, ScanError> {
        Cursor::new(text.as_bytes(), 0, mode).value()
    }

    const STRICT: ScanMode = ScanMode::Strict { max_depth: MAX_DEPTH };

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn scan_in_blocks_finds_the_end_that_a_scan_by_bytes_finds(text in containers(), cut in any::<prop::sample::Index>()) {
            let followed = format!("{text}]\"}}");
            let found = scanned(&followed, STRICT).unwrap();
            prop_assert_eq!(found.end, text.len());
            prop_assert_eq!(scanned(&followed, ScanMode::Lenient).unwrap(), found);
            let cut = cut.index(text.len());
            if let Some(part) = text.get(..cut).filter(|part| !part.is_empty()) {
                prop_assert_eq!(scanned(part, STRICT).unwrap_err().kind, MalformedKind::Truncated);
            }
        }

        #[test]
        fn integers_are_those_that_the_standard_library_reads(text in "-?(0|[1-9][0-9]{0,20})", near in -3i128..4) {
            for text in [text, (i128::from(i64::MAX) + near).to_string(), (i128::from(i64::MIN) + near).to_string()] {
                let value = scanned(&text, STRICT).unwrap();
                prop_assert_eq!(value.integer(text.as_bytes()), text.parse().ok());
            }
            prop_assert_eq!(scanned("1.0", STRICT).unwrap().integer(b"1.0"), None);
        }
    }
}
