//! Checking of JSON text throughout, in one pass and without decoding it.

use super::plain::find_special;

/// The deepest nesting that is checked: one bit each.
const MAX_DEPTH: u32 = u128::BITS;

/// Checks that `object` is an object of valid JSON, and finds its member `name`.
///
/// Returns `None` if the text is not valid, or if that cannot be told here: a name has escapes, `name` occurs twice or
/// the nesting is deeper than 128 levels. Decode the text then, which also tells the position of an error.
///
/// `skip_known` is called with the text from the value of `name` on: if that begins with a value which is known to be
/// valid, it returns the length of the value. The text must be UTF-8.
pub(crate) fn check_object<'a>(
    object: &'a [u8],
    name: &str,
    mut skip_known: impl FnMut(&[u8]) -> Option<usize>,
) -> Option<Option<&'a [u8]>> {
    let mut checker = Checker { text: object, at: 0 };
    let mut found = None;
    checker.space();
    checker.expect(b'{')?;
    checker.space();
    if checker.peek() == Some(b'}') {
        checker.advance();
    } else {
        loop {
            let (key, escaped) = checker.name()?;
            if escaped {
                return None;
            }
            if key == name.as_bytes() {
                let start = checker.at;
                match skip_known(object.get(start..)?) {
                    Some(bytes) => checker.at = start.saturating_add(bytes),
                    None => checker.value()?,
                }
                if found.replace(object.get(start..checker.at)?).is_some() {
                    return None;
                }
            } else {
                checker.value()?;
            }
            checker.space();
            match checker.next()? {
                b',' => checker.space(),
                b'}' => break,
                _ => return None,
            }
        }
    }
    checker.space();
    checker.peek().is_none().then_some(found)
}

/// A position in JSON text. Each method skips something and returns `None` if that is not there.
struct Checker<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Checker<'a> {
    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    #[inline(always)]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.advance();
        Some(byte)
    }

    #[inline(always)]
    fn expect(&mut self, expected: u8) -> Option<()> {
        (self.next()? == expected).then_some(())
    }

    #[inline(always)]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.advance();
        }
    }

    /// Skips a member's name, the colon and the space around it. Returns the name and whether it has escapes.
    #[inline(always)]
    fn name(&mut self) -> Option<(&'a [u8], bool)> {
        self.expect(b'"')?;
        let start = self.at;
        let escaped = self.string()?;
        let name = self.text.get(start..self.at.saturating_sub(1))?;
        self.space();
        self.expect(b':')?;
        self.space();
        Some((name, escaped))
    }

    /// Skips a value.
    fn value(&mut self) -> Option<()> {
        // One bit per open container: set for an object.
        let mut open = 0u128;
        let mut depth = 0u32;
        loop {
            match self.next()? {
                b'"' => _ = self.string()?,
                bracket @ (b'{' | b'[') => {
                    let is_object = bracket == b'{';
                    self.space();
                    if self.peek() == Some(if is_object { b'}' } else { b']' }) {
                        self.advance();
                    } else if depth == MAX_DEPTH {
                        return None;
                    } else {
                        depth = depth.saturating_add(1);
                        open = open << 1 | u128::from(is_object);
                        if is_object {
                            self.name()?;
                        }
                        continue;
                    }
                }
                b't' => self.literal(b"rue")?,
                b'f' => self.literal(b"alse")?,
                b'n' => self.literal(b"ull")?,
                b'-' => {
                    let first = self.next()?;
                    self.number(first)?;
                }
                first => self.number(first)?,
            }
            // Behind a value: skip to the next one of the innermost container that has one.
            loop {
                if depth == 0 {
                    return Some(());
                }
                self.space();
                let in_object = open & 1 == 1;
                match self.next()? {
                    b',' => {
                        self.space();
                        if in_object {
                            self.name()?;
                        }
                        break;
                    }
                    b'}' if in_object => {}
                    b']' if !in_object => {}
                    _ => return None,
                }
                depth = depth.saturating_sub(1);
                open >>= 1;
            }
        }
    }

    /// Skips the rest of a string and its closing quote. Returns whether it has escapes.
    fn string(&mut self) -> Option<bool> {
        let mut escaped = false;
        loop {
            self.at = self.at.saturating_add(find_special(self.text.get(self.at..)?)?);
            match self.next()? {
                b'"' => return Some(escaped),
                b'\\' => escaped = true,
                _ => return None,
            }
            match self.next()? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                b'u' => {
                    for _ in 0..4 {
                        self.next().filter(u8::is_ascii_hexdigit)?;
                    }
                }
                _ => return None,
            }
        }
    }

    /// Skips the rest of a number whose first digit is `first`.
    fn number(&mut self, first: u8) -> Option<()> {
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.advance();
            self.next().filter(u8::is_ascii_digit)?;
            self.digits();
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.advance();
            if let Some(b'+' | b'-') = self.peek() {
                self.advance();
            }
            self.next().filter(u8::is_ascii_digit)?;
            self.digits();
        }
        Some(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.advance();
        }
    }

    fn literal(&mut self, rest: &[u8]) -> Option<()> {
        self.text.get(self.at..)?.starts_with(rest).then(|| self.at = self.at.saturating_add(rest.len()))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    fn found<'a>(object: &'a str, name: &str) -> Option<Option<&'a str>> {
        check_object(object.as_bytes(), name, |_| None)
            .map(|found| found.map(|value| str::from_utf8(value).unwrap()))
    }

    #[test]
    fn check_finds_the_member_of_a_valid_object() {
        let object = r#" { "a" : [ 1 , -0.5e+3 , {} , [ ] ] , "_meta":{"x":"\"}\u00e9é"}, "b":true}  "#;
        assert_eq!(found(object, "_meta"), Some(Some(r#"{"x":"\"}\u00e9é"}"#)));
        assert_eq!(found(object, "a"), Some(Some("[ 1 , -0.5e+3 , {} , [ ] ]")));
        assert_eq!(found(object, "x"), Some(None));
        assert_eq!((found("{}", "a"), found("{\"a\":null}", "a")), (Some(None), Some(Some("null"))));
    }

    #[test]
    fn check_leaves_what_it_cannot_tell_to_the_decoder() {
        for object in [r#"{"\u0061":1}"#, r#"{"a":1,"a":2}"#, "[]", "null", "", "{", r#"{"b":tru}"#] {
            assert_eq!(found(object, "a"), None, "{object}");
        }
        let nested = |depth: usize| format!("{{\"b\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!((found(&nested(129), "a"), found(&nested(130), "a")), (Some(None), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn check_accepts_what_serde_json_accepts(
            parts in proptest::collection::vec(prop::sample::select(Vec::from([
                "{", "}", "[", "]", ":", ",", " ", "\"a\"", "\"\\", "\"", "\\u12", "0", "1", "-", ".", "e", "E+",
                "true", "nul", "l", "\n", "\u{1}", "é", "{\"a\":", "[1,", "\"b\":[]", "long text of a string",
            ])), 0..12)
        ) {
            let text: String = parts.concat();
            let object = format!("{{\"b\":{text}}}");
            let valid = serde_json::from_str::<IgnoredAny>(&object).is_ok();
            if check_object(object.as_bytes(), "x", |_| None).is_some() {
                prop_assert!(valid, "{}", object);
            } else if !object.contains('\\') {
                prop_assert!(!valid, "{}", object);
            }
        }
    }
}
