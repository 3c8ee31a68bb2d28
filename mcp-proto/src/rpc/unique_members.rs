//! Members of an object, found by name in one scan that accepts none of them twice.

use super::read::member_name;
use super::scan::{Cursor, ScanMode};

/// A member that occurs twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DuplicateMember<'n>(pub(crate) &'n str);

/// Finds the members `names` of an object, which must be valid JSON. A member that is missing or null is `None`.
///
/// # Errors
/// If one of them occurs twice.
pub(crate) fn unique_members<'a, 'n, const N: usize>(
    object: &'a str,
    names: [&'n str; N],
) -> Result<[Option<&'a str>; N], DuplicateMember<'n>> {
    let mut found = [None; N];
    // Lenient: encoded values may be nested to any depth.
    let mut cursor = Cursor::new(object.as_bytes(), 0, ScanMode::Lenient);
    let mut first = true;
    if cursor.peek() != Some(b'{') || cursor.enter().is_err() {
        return Ok(found);
    }
    while let Ok(Some((name, value))) = cursor.member(first)
        && let Ok(name) = member_name(&name, object.as_bytes())
    {
        first = false;
        let wanted = found.iter_mut().zip(names).find(|(_, wanted)| *name == *wanted.as_bytes());
        if let Some((slot, wanted)) = wanted
            && slot.replace(object.get(value.start..value.end).unwrap_or_default()).is_some()
        {
            return Err(DuplicateMember(wanted));
        }
    }
    Ok(found.map(|value| value.filter(|value| *value != "null")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_their_unescaped_names() {
        let object = r#"{"a":"}","\u0062":{"a":2},"c":null,"d":[1,{"e":3}]}"#;
        assert_eq!(
            unique_members(object, ["a", "b", "c", "e"]),
            Ok([Some(r#""}""#), Some(r#"{"a":2}"#), None, None])
        );
    }

    #[test]
    fn member_that_occurs_twice_is_refused() {
        for object in [r#"{"a":1,"a":1}"#, r#"{"a":null,"b":2,"\u0061":3}"#] {
            assert_eq!(unique_members(object, ["b", "a"]), Err(DuplicateMember("a")), "{object}");
        }
        assert_eq!(unique_members(r#"{"a":1,"a":1}"#, ["b"]), Ok([None]));
    }

    #[test]
    fn nothing_is_found_outside_of_an_object() {
        for text in ["", "null", "[\"a\",1]", "{}", "{ }"] {
            assert_eq!(unique_members(text, ["a"]), Ok([None]), "{text}");
        }
    }
}
