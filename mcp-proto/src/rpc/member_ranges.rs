//! Members of an object, found by name without decoding it.

use core::ops::Range;

use super::read::member_name;
use super::scan::{Cursor, ScanMode};

/// Finds the members `names` of an object in one scan, which stops at the last of them.
///
/// The object must be valid JSON. Of members with the same name, the first is found.
pub(crate) fn find_members<const N: usize>(object: &[u8], names: [&str; N]) -> [Option<Range<usize>>; N] {
    let mut found = [const { None }; N];
    // Lenient: encoded values may be nested to any depth.
    let mut cursor = Cursor::new(object, 0, ScanMode::Lenient);
    let mut first = cursor.peek() == Some(b'{') && cursor.enter().is_ok();
    let mut left = if first { N } else { 0 };
    while left > 0
        && let Ok(Some((name, value))) = cursor.member(first)
        && let Ok(name) = member_name(&name, object)
    {
        first = false;
        let wanted = found.iter_mut().zip(names).find(|(_, wanted)| *name == *wanted.as_bytes());
        if let Some((slot @ None, _)) = wanted {
            *slot = Some(value.start..value.end);
            left = left.saturating_sub(1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a, const N: usize>(object: &'a str, names: [&str; N]) -> [Option<&'a str>; N] {
        find_members(object.as_bytes(), names).map(|range| object.get(range?))
    }

    #[test]
    fn members_are_found_by_their_unescaped_names() {
        let object = r#"{"name":"a\"b","_meta":{"uri":1},"\u0061rguments":{"name":[2]},"uri":null}"#;
        assert_eq!(found(object, ["name", "arguments"]), [Some(r#""a\"b""#), Some(r#"{"name":[2]}"#)]);
        assert_eq!(found(object, ["uri", "taskId"]), [Some("null"), None]);
    }

    #[test]
    fn first_of_two_members_with_one_name_is_found() {
        assert_eq!(found(r#"{"uri":1,"uri":2,"name":3}"#, ["uri", "name"]), [Some("1"), Some("3")]);
    }

    #[test]
    fn nothing_is_found_outside_of_an_object() {
        for text in ["", "[\"uri\",1]", "null", "{}", "{\"uri\""] {
            assert_eq!(found(text, ["uri"]), [None], "{text}");
        }
    }
}
