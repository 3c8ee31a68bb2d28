//! The reader of JSON text: it goes from value to value in one pass and checks everything that it passes.

use alloc::borrow::Cow;

use serde::de::{Error as _, IgnoredAny};

use crate::prelude::*;

/// The text is not valid JSON. [`Reader::error`] tells where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

/// A position in JSON text. After an error it is of no use.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Values in the text that are known to be valid.
    known: &'a [Span],
    has_unicode_escapes: bool,
}

/// The range of a value in a text of at most 64 KiB; empty if there is none. In larger texts, noting it would save little.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    start: u16,
    end: u16,
}

impl Span {
    /// The range of a value that is not noted.
    pub(super) const TOO_FAR: Self = Self { start: u16::MAX, end: 0 };

    pub(super) fn new(start: usize, end: usize) -> Self {
        match (start.try_into(), end.try_into()) {
            (Ok(start), Ok(end)) => Self { start, end },
            _ => Self::TOO_FAR,
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self.start == 0
    }

    /// Whether the range of the value is not noted.
    pub(super) fn is_too_far(self) -> bool {
        self.start == u16::MAX
    }

    /// The value; `None` if there is none.
    pub(super) fn of(self, text: &str) -> Option<&str> {
        text.get(self.start.into()..self.end.into()).filter(|value| !value.is_empty())
    }

    /// The end of the value that begins at `start`, if it is this one.
    fn end_from(self, start: usize) -> Option<usize> {
        (usize::from(self.start) == start && self.end != 0).then_some(self.end.into())
    }
}

/// A number that has been read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ReadNumber {
    I64(i64),
    U64(u64),
    F64(f64),
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, known: &[], has_unicode_escapes: false }
    }

    /// A reader that does not scan values again that are known to be valid.
    pub(super) fn with_known(text: &'a str, known: &'a [Span]) -> Self {
        Self { known, ..Self::new(text) }
    }

    /// Whether a string that was skipped has an escape of the form `\u`.
    pub(super) fn has_unicode_escapes(&self) -> bool {
        self.has_unicode_escapes
    }

    /// The error of a text that a reader has refused, with its position.
    #[cold]
    pub(crate) fn error(text: &str) -> serde_json::Error {
        match serde_json::from_str::<IgnoredAny>(text) {
            Err(error) => error,
            Ok(_) => serde_json::Error::custom("invalid JSON"),
        }
    }

    /// The offset of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The text that has not been read.
    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Goes to an offset at which a value begins or has ended.
    pub(crate) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Skips a value of this length, which is known to be valid.
    pub(crate) fn skip_known(&mut self, length: usize) {
        self.at = self.at.saturating_add(length);
    }

    /// The text from `start` to the reader.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    #[inline(always)]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    #[inline(always)]
    fn next(&mut self) -> Result<u8, NotJson> {
        let byte = self.peek().ok_or(NotJson)?;
        self.advance();
        Ok(byte)
    }

    #[inline(always)]
    fn expect(&mut self, expected: u8) -> Result<(), NotJson> {
        if self.next()? == expected { Ok(()) } else { Err(NotJson) }
    }

    #[inline(always)]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.advance();
        }
    }

    /// Skips space. Returns the first byte of the value behind it, which tells its type.
    #[inline(always)]
    pub(crate) fn first_byte(&mut self) -> Result<u8, NotJson> {
        self.space();
        self.peek().ok_or(NotJson)
    }

    /// Skips space and checks that the text ends there.
    pub(crate) fn end(&mut self) -> Result<(), NotJson> {
        self.space();
        if self.peek().is_none() { Ok(()) } else { Err(NotJson) }
    }

    /// Enters an object or a list.
    #[inline(always)]
    pub(crate) fn enter(&mut self, open: u8) -> Result<(), NotJson> {
        self.space();
        self.expect(open)
    }

    /// Goes to the next item of the entered container (`true`), or behind its closing bracket (`false`).
    #[inline(always)]
    pub(crate) fn item(&mut self, is_first: &mut bool, close: u8) -> Result<bool, NotJson> {
        self.space();
        match self.peek() {
            Some(byte) if byte == close => {
                self.advance();
                return Ok(false);
            }
            Some(b',') if !*is_first => {
                self.advance();
                self.space();
            }
            Some(_) if *is_first => *is_first = false,
            _ => return Err(NotJson),
        }
        Ok(true)
    }

    /// Goes to the value of the next member of the entered object, and returns the member's name.
    #[inline]
    pub(crate) fn name(&mut self, is_first: &mut bool) -> Result<Option<Cow<'a, str>>, NotJson> {
        if !self.item(is_first, b'}')? {
            return Ok(None);
        }
        let name = self.string()?;
        self.colon()?;
        Ok(Some(name))
    }

    /// Like [`name`](Self::name); a name with escapes is an error.
    #[inline(always)]
    pub(super) fn plain_name(&mut self, is_first: &mut bool) -> Result<Option<&'a [u8]>, NotJson> {
        if !self.item(is_first, b'}')? {
            return Ok(None);
        }
        self.expect(b'"')?;
        let start = self.at;
        if self.skip_string()? {
            return Err(NotJson);
        }
        let name = self.text.as_bytes().get(start..self.at.saturating_sub(1));
        self.colon()?;
        Ok(name)
    }

    #[inline(always)]
    fn colon(&mut self) -> Result<(), NotJson> {
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(())
    }

    /// Reads a string, borrowed unless it has escapes.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, NotJson> {
        self.expect(b'"')?;
        let inside = self.rest();
        match short_string(inside.as_bytes()) {
            Ok(length) => {
                self.skip_known(length.saturating_add(1));
                Ok(Cow::Borrowed(inside.get(..length).unwrap_or_default()))
            }
            Err(plain) => self.long_string(plain),
        }
    }

    /// Reads the rest of a string, of which the first bytes stand for themselves.
    #[inline(never)]
    fn long_string(&mut self, plain: usize) -> Result<Cow<'a, str>, NotJson> {
        let inside = self.rest();
        let unread = inside.as_bytes().get(plain..).unwrap_or_default();
        let length = plain.saturating_add(find_special(unread).ok_or(NotJson)?);
        if inside.as_bytes().get(length) == Some(&b'"') {
            self.skip_known(length.saturating_add(1));
            return Ok(Cow::Borrowed(inside.get(..length).unwrap_or_default()));
        }
        let start = self.at.saturating_sub(1);
        let quoted = self.text.get(start..).unwrap_or_default();
        let mut strings = serde_json::Deserializer::from_str(quoted).into_iter();
        let Some(Ok(string)) = strings.next() else { return Err(NotJson) };
        self.at = start.saturating_add(strings.byte_offset());
        Ok(Cow::Owned(string))
    }

    /// Reads a number, as an integer if it is written as one that fits.
    pub(crate) fn number(&mut self) -> Result<ReadNumber, NotJson> {
        let start = self.at;
        self.value()?;
        let text = self.since(start);
        if let Ok(number) = text.parse::<i64>() {
            // There is a negative zero among the floating-point numbers alone.
            return Ok(if text == "-0" { ReadNumber::F64(-0.0) } else { ReadNumber::I64(number) });
        }
        match text.parse::<u64>() {
            Ok(number) => Ok(ReadNumber::U64(number)),
            Err(_) => text.parse().map(ReadNumber::F64).map_err(|_| NotJson),
        }
    }

    /// Skips a value and returns its text.
    pub(crate) fn skip(&mut self) -> Result<&'a str, NotJson> {
        self.space();
        let start = self.at;
        self.value()?;
        Ok(self.since(start))
    }

    /// Skips a value.
    #[inline]
    fn value(&mut self) -> Result<(), NotJson> {
        match self.known.iter().find_map(|span| span.end_from(self.at)) {
            Some(end) => self.at = end,
            None => self.value_within(usize::MAX)?,
        }
        Ok(())
    }

    /// Skips a value in which at most `levels` containers are nested.
    #[inline]
    pub(super) fn value_within(&mut self, levels: usize) -> Result<(), NotJson> {
        if self.peek() == Some(b'"') {
            self.advance();
            return self.skip_string().map(drop);
        }
        self.any_value_within(levels)
    }

    #[inline(never)]
    fn any_value_within(&mut self, levels: usize) -> Result<(), NotJson> {
        let mut open = OpenContainers::default();
        // A copy whose position stays in a register.
        let mut reader = Self { has_unicode_escapes: false, ..*self };
        loop {
            match reader.next()? {
                b'"' => _ = reader.skip_string()?,
                bracket @ (b'{' | b'[') => {
                    if open.depth >= levels {
                        return Err(NotJson);
                    }
                    let is_object = bracket == b'{';
                    reader.space();
                    if reader.peek() == Some(if is_object { b'}' } else { b']' }) {
                        reader.advance();
                    } else {
                        open.push(is_object);
                        if is_object {
                            reader.skip_name()?;
                        }
                        continue;
                    }
                }
                b't' => reader.literal("rue")?,
                b'f' => reader.literal("alse")?,
                b'n' => reader.literal("ull")?,
                b'-' => {
                    let first = reader.next()?;
                    reader.skip_number(first)?;
                }
                first => reader.skip_number(first)?,
            }
            // Behind a value: go to the next one of the innermost container that has one.
            loop {
                let Some(in_object) = open.innermost() else {
                    self.at = reader.at;
                    self.has_unicode_escapes |= reader.has_unicode_escapes;
                    return Ok(());
                };
                reader.space();
                match reader.next()? {
                    b',' => {
                        reader.space();
                        if in_object {
                            reader.skip_name()?;
                        }
                        break;
                    }
                    b'}' if in_object => open.pop(),
                    b']' if !in_object => open.pop(),
                    _ => return Err(NotJson),
                }
            }
        }
    }

    #[inline(always)]
    fn skip_name(&mut self) -> Result<(), NotJson> {
        self.expect(b'"')?;
        self.skip_string()?;
        self.colon()
    }

    /// Skips the rest of a string and its closing quote. Returns whether it has escapes.
    #[inline(always)]
    fn skip_string(&mut self) -> Result<bool, NotJson> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        // Most strings are short.
        match short_string(rest) {
            Ok(length) => {
                self.at = self.at.saturating_add(length).saturating_add(1);
                Ok(false)
            }
            Err(plain) => self.skip_long_string(plain),
        }
    }

    /// Like [`skip_string`](Self::skip_string), for one of which the first bytes stand for themselves.
    #[inline(always)]
    fn skip_long_string(&mut self, plain: usize) -> Result<bool, NotJson> {
        let (end, escapes) = long_string_end(self.text.as_bytes(), self.at.saturating_add(plain))?;
        self.at = end;
        self.has_unicode_escapes |= escapes == Escapes::Unicode;
        Ok(escapes != Escapes::None)
    }

    /// Skips the rest of a number whose first digit is `first`.
    fn skip_number(&mut self, first: u8) -> Result<(), NotJson> {
        match first {
            b'0' => {}
            b'1'..=b'9' => self.skip_digits(),
            _ => return Err(NotJson),
        }
        if self.peek() == Some(b'.') {
            self.advance();
            self.digit()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.advance();
            if let Some(b'+' | b'-') = self.peek() {
                self.advance();
            }
            self.digit()?;
        }
        Ok(())
    }

    /// Skips at least one digit.
    fn digit(&mut self) -> Result<(), NotJson> {
        let is_digit = self.next()?.is_ascii_digit();
        self.skip_digits();
        if is_digit { Ok(()) } else { Err(NotJson) }
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.advance();
        }
    }

    fn literal(&mut self, rest: &str) -> Result<(), NotJson> {
        let matches = self.rest().as_bytes().starts_with(rest.as_bytes());
        self.skip_known(rest.len());
        if matches { Ok(()) } else { Err(NotJson) }
    }
}

/// The kinds of escapes in a string.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Escapes {
    None,
    Short,
    /// Those of the form `\u`, and perhaps others.
    Unicode,
}

/// The offset behind the closing quote of the string around `at`, and the escapes from there on.
#[inline(never)]
fn long_string_end(text: &[u8], mut at: usize) -> Result<(usize, Escapes), NotJson> {
    let mut escapes = Escapes::None;
    loop {
        let special = find_special(text.get(at..).unwrap_or_default()).ok_or(NotJson)?;
        at = at.saturating_add(special).saturating_add(2);
        match (text.get(at.saturating_sub(2)), text.get(at.saturating_sub(1))) {
            (Some(b'"'), _) => return Ok((at.saturating_sub(1), escapes)),
            (Some(b'\\'), Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => {
                escapes = escapes.max(Escapes::Short);
            }
            (Some(b'\\'), Some(b'u')) => {
                let digits = text.get(at..).and_then(<[u8]>::first_chunk::<4>).ok_or(NotJson)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(NotJson);
                }
                at = at.saturating_add(digits.len());
                escapes = Escapes::Unicode;
            }
            _ => return Err(NotJson),
        }
    }
}

/// The length of a string without escapes whose closing quote is among the next 16 bytes, or else the number of bytes, at
/// most 16, that stand for themselves.
#[inline(always)]
fn short_string(text: &[u8]) -> Result<usize, usize> {
    let Some((near, rest)) = text.split_first_chunk() else { return Err(0) };
    let mut hits = specials(u64::from_le_bytes(*near));
    let mut length = 0;
    if hits == 0 {
        let Some(word) = rest.first_chunk() else { return Err(8) };
        hits = specials(u64::from_le_bytes(*word));
        length = 8;
        if hits == 0 {
            return Err(16);
        }
    }
    length |= hits.trailing_zeros() as usize >> 3;
    if text.get(length) == Some(&b'"') { Ok(length) } else { Err(length) }
}

/// The containers around a position: one bit each, set for an object.
#[derive(Default)]
struct OpenContainers {
    depth: usize,
    /// The innermost ones, of which a full word is the last.
    word: u128,
    /// Full words further out: few texts are nested so deeply.
    outer: Vec<u128>,
}

impl OpenContainers {
    const WORD: usize = u128::BITS as usize;

    #[inline(always)]
    fn push(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(Self::WORD) {
            self.outer.push(self.word);
        }
        self.depth = self.depth.saturating_add(1);
        self.word = self.word << 1 | u128::from(is_object);
    }

    #[inline(always)]
    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.word >>= 1;
        if self.depth.is_multiple_of(Self::WORD) {
            self.word = self.outer.pop().unwrap_or_default();
        }
    }

    /// Whether the innermost container is an object; `None` outside of all.
    #[inline(always)]
    fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.word & 1 == 1)
    }
}

/// Unescapes a JSON string, borrowed unless it has escapes; `None` if `json` is not a string.
pub(crate) fn unescape(json: &str) -> Option<Cow<'_, str>> {
    match json.strip_prefix('"').and_then(|json| json.strip_suffix('"')) {
        Some(inside) if is_plain(inside.as_bytes()) => Some(Cow::Borrowed(inside)),
        _ => Reader::new(json).string().ok(),
    }
}

/// Whether every character of a text stands for itself.
pub(super) fn is_plain(text: &[u8]) -> bool {
    find_special(text).is_none()
}

/// Finds the first byte that does not stand for itself: a quote, a backslash or a control character.
#[inline(always)]
pub(super) fn find_special(text: &[u8]) -> Option<usize> {
    let (pairs, rest) = text.as_chunks::<16>();
    let mut index = 0usize;
    while let Some(pair) = pairs.get(index) {
        // Two words at once: half the branches.
        let pair = u128::from_le_bytes(*pair);
        let (low, high) = (specials(pair as u64), specials((pair >> 64) as u64));
        if low | high != 0 {
            let bits = if low != 0 { low.trailing_zeros() } else { 64 | high.trailing_zeros() };
            return Some(index << 4 | bits as usize >> 3);
        }
        index = index.saturating_add(1);
        if index.is_multiple_of(4) {
            index = index.saturating_add(plain_pairs(pairs.get(index..).unwrap_or_default()));
        }
    }
    if let Some(word) = rest.first_chunk() {
        let hits = specials(u64::from_le_bytes(*word));
        if hits != 0 {
            return Some(pairs.len() << 4 | hits.trailing_zeros() as usize >> 3);
        }
    }
    let Some((before, word)) = text.split_last_chunk() else {
        return text.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '));
    };
    // It overlaps with bytes that are not special.
    let hits = specials(u64::from_le_bytes(*word));
    (hits != 0).then(|| before.len().saturating_add(hits.trailing_zeros() as usize >> 3))
}

/// The number of pairs of words at the beginning, a multiple of 4, without special bytes: for long texts.
#[inline(never)]
fn plain_pairs(pairs: &[[u8; 16]]) -> usize {
    let is_plain = |four: &&[[u8; 16]; 4]| {
        let bytes = four.as_flattened().iter();
        !bytes.fold(false, |any, byte| any | matches!(byte, b'"' | b'\\' | ..b' '))
    };
    pairs.as_chunks().0.iter().take_while(is_plain).count() << 2
}

/// The special bytes of a word: the lowest bit that is set stands for the first of them.
#[inline(always)]
pub(super) fn specials(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = ONES << 7;
    const QUOTES: u64 = ONES * b'"' as u64;
    const BACKSLASHES: u64 = ONES * b'\\' as u64;
    const SPACES: u64 = ONES * b' ' as u64;
    let quotes = (word ^ QUOTES).wrapping_sub(ONES);
    let backslashes = (word ^ BACKSLASHES).wrapping_sub(ONES);
    (quotes | backslashes | word.wrapping_sub(SPACES)) & !word & TOPS
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reader_goes_through_an_object_in_order() {
        let mut reader =
            Reader::new(r#" { "a" : [ 1 , -0.5e+3 , {} , [ ] ] , "\u0062":"\"}\u00e9é", "c":null}  "#);
        let mut is_first = true;
        reader.enter(b'{').unwrap();
        assert_eq!(reader.name(&mut is_first).unwrap().as_deref(), Some("a"));
        assert_eq!(reader.skip(), Ok("[ 1 , -0.5e+3 , {} , [ ] ]"));
        assert_eq!(reader.name(&mut is_first).unwrap().as_deref(), Some("b"));
        assert_eq!(reader.string().as_deref(), Ok("\"}éé"));
        assert_eq!(reader.name(&mut is_first).unwrap().as_deref(), Some("c"));
        assert_eq!((reader.first_byte(), reader.skip()), (Ok(b'n'), Ok("null")));
        assert_eq!((reader.name(&mut is_first), reader.end()), (Ok(None), Ok(())));
    }

    #[test]
    fn numbers_are_read_as_serde_json_reads_them() {
        for text in [
            "0",
            "-0",
            "-7",
            "18446744073709551615",
            "9223372036854775808",
            "1e3",
            "-2.5",
            "18446744073709551616",
        ] {
            let expected: serde_json::Number = serde_json::from_str(text).unwrap();
            let read = match Reader::new(text).number().unwrap() {
                ReadNumber::I64(number) => number.into(),
                ReadNumber::U64(number) => number.into(),
                ReadNumber::F64(number) => serde_json::Number::from_f64(number).unwrap(),
            };
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn deep_nesting_takes_no_recursion() {
        let nested = |depth: usize| alloc::format!("{}{}", "[{\"a\":".repeat(depth), "}]".repeat(depth));
        for depth in [1, 63, 64, 65, 128, 300] {
            let text = nested(depth).replace(":}", ":1}");
            assert_eq!(Reader::new(&text).skip(), Ok(&*text), "{depth}");
            let wrong = text.replacen("}]", "]}", 1);
            assert_eq!(Reader::new(&wrong).skip(), Err(NotJson), "{depth}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn reader_accepts_what_serde_json_accepts(
            parts in proptest::collection::vec(prop::sample::select(Vec::from([
                "{", "}", "[", "]", ":", ",", " ", "\"a\"", "\"\\", "\"", "\\u12", "0", "1", "-", ".", "e", "E+",
                "true", "nul", "l", "\n", "\u{1}", "é", "{\"a\":", "[1,", "\"b\":[]", "long text of a string",
            ])), 0..12)
        ) {
            let text: String = parts.concat();
            let mut reader = Reader::new(&text);
            let read = reader.skip().and_then(|_| reader.end()).is_ok();
            prop_assert_eq!(read, serde_json::from_str::<IgnoredAny>(&text).is_ok(), "{}", text);
        }
    }
}

#[cfg(test)]
mod plain_tests {
    use alloc::string::String;

    use super::*;

    #[test]
    fn special_characters_are_found_at_every_place() {
        for length in (0..40).chain([63, 64, 65, 100, 200, 213]) {
            let plain =
                "é]~ \u{7f}".repeat(40).into_bytes().into_iter().take(length).collect::<alloc::vec::Vec<_>>();
            assert!(is_plain(&plain), "{}", String::from_utf8_lossy(&plain));
            for (at, special) in (0..length).zip([b'"', b'\\', 0, b'\n', 0x1f].into_iter().cycle()) {
                let mut text = plain.clone();
                text[at] = special;
                assert_eq!(find_special(&text), Some(at));
                text[length - 1] = b'"';
                assert_eq!(find_special(&text), Some(at));
            }
        }
    }

    #[test]
    fn plain_pairs_are_counted_by_fours() {
        let mut pairs = [[b'a'; 16]; 11];
        assert_eq!(plain_pairs(&pairs), 8);
        pairs[5][3] = b'"';
        assert_eq!(plain_pairs(&pairs), 4);
    }
}
