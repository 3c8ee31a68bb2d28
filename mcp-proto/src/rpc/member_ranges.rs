//! Members of an object, found by name without decoding it.

use core::ops::Range;

#[cfg(feature = "client")]
use memchr::memchr_iter;

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
    {
        first = false;
        let Ok(name) = member_name(&name, object) else { continue };
        let wanted = found.iter_mut().zip(names).find(|(_, wanted)| *name == *wanted.as_bytes());
        if let Some((slot @ None, _)) = wanted {
            *slot = Some(value.start..value.end);
            left = left.saturating_sub(1);
        }
    }
    found
}

/// Whether JSON text that this side has encoded may have a member `name` on some level: without this name before a
/// colon, it has none.
#[cfg(feature = "client")]
pub(crate) fn may_have_member(json: &[u8], name: &str) -> bool {
    memchr_iter(b':', json).any(|colon| {
        let quoted = json.get(..colon).and_then(|before| before.strip_suffix(b"\""));
        let before = quoted.and_then(|before| before.strip_suffix(name.as_bytes()));
        before.is_some_and(|before| before.ends_with(b"\""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a, const N: usize>(object: &'a str, names: [&str; N]) -> [Option<&'a str>; N] {
        find_members(object.as_bytes(), names).map(|range| object.get(range?))
    }

    #[test]
    fn members_behind_a_name_that_cannot_be_read_are_found() {
        assert_eq!(found(r#"{"\ud83d":0,"uri":1}"#, ["uri"]), [Some("1")]);
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

    #[test]
    #[cfg(feature = "client")]
    fn member_is_suspected_on_every_level_but_not_in_text() {
        let suspected = |json: &str| may_have_member(json.as_bytes(), "task");
        assert!(suspected(r#"{"name":"a","task":{}}"#) && suspected(r#"{"arguments":{"task":1}}"#));
        assert!(!suspected(r#"{"name":"task","other_task":1}"#) && !suspected(r#"{"text":"\"task\":"}"#));
    }
}
