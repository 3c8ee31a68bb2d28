//! Reading single members of an object without decoding the others.

use alloc::borrow::Cow;

use serde::{Deserialize, de};

use crate::meta_keys::{CLIENT_CAPABILITIES, PROTOCOL_VERSION};
use crate::prelude::*;

use super::json_reader::{NotJson, Reader, Span};

/// Reads the members `names` of the object `text`. A member that is missing or null is `None`.
///
/// # Errors
/// If `text` is not an object, or repeats one of the names.
pub(crate) fn read_members<'a, const COUNT: usize>(
    text: &'a str,
    names: [&str; COUNT],
) -> Result<[Option<&'a str>; COUNT], serde_json::Error> {
    let mut found = [None; COUNT];
    match collect_members(text, &names, &mut found)?.and_then(|index| names.get(index)) {
        Some(name) => Err(de::Error::custom(format!("duplicate field `{name}`"))),
        None => Ok(found.map(|value| value.filter(|value| *value != "null"))),
    }
}

/// Reads the members `names` of the object `text` into `found`, in the order of the names.
///
/// Returns the index of a name that is repeated; its last value counts.
///
/// # Errors
/// If `text` is not an object.
pub(crate) fn collect_members<'a>(
    text: &'a str,
    names: &[&str],
    found: &mut [Option<&'a str>],
) -> Result<Option<usize>, serde_json::Error> {
    let mut repeated = None;
    let each = |name: Cow<'_, str>, value| {
        let index = names.iter().position(|wanted| *wanted == name);
        if let Some(slot) = index.and_then(|index| found.get_mut(index))
            && slot.replace(value).is_some()
        {
            repeated = index;
        }
        true
    };
    each_member(text, each)?;
    Ok(repeated)
}

/// Finds the first member `name` of the object `text`. Reading stops there.
///
/// # Errors
/// If the member is missing because `text` is not an object.
pub(crate) fn first_member<'a>(text: &'a str, name: &str) -> Result<Option<&'a str>, serde_json::Error> {
    // The members that are looked for often come first.
    if let Some(start) = after_first_name(text, name) {
        let mut reader = Reader::new(text);
        reader.go_to(start);
        return reader.skip().map(Some).map_err(|_| object_error(text));
    }
    let mut found = None;
    let each = |member: Cow<'_, str>, value| {
        let is_wanted = member == name;
        found = Some(value).filter(|_| is_wanted);
        !is_wanted
    };
    each_member(text, each)?;
    Ok(found)
}

/// The offset behind the colon of the first member, if that has this name, written without space and escapes.
fn after_first_name(text: &str, name: &str) -> Option<usize> {
    let rest = text.strip_prefix("{\"")?.strip_prefix(name)?.strip_prefix("\":")?;
    Some(text.len().saturating_sub(rest.len()))
}

/// Calls `each` with the name and the value of each member of the object `text`, until it returns false.
///
/// # Errors
/// If `text` is not an object.
pub(crate) fn each_member<'a>(
    text: &'a str,
    each: impl FnMut(Cow<'a, str>, &'a str) -> bool,
) -> Result<(), serde_json::Error> {
    visit_members(text, each).map_err(|_| object_error(text))
}

fn visit_members<'a>(
    text: &'a str,
    mut each: impl FnMut(Cow<'a, str>, &'a str) -> bool,
) -> Result<(), NotJson> {
    let mut reader = Reader::new(text);
    reader.enter(b'{')?;
    let mut is_first = true;
    while let Some(name) = reader.name(&mut is_first)? {
        if !each(name, reader.skip()?) {
            return Ok(());
        }
    }
    reader.end()
}

#[cold]
fn object_error(text: &str) -> serde_json::Error {
    match Reader::new(text).first_byte() {
        Ok(b'{') | Err(_) => Reader::error(text),
        Ok(_) => de::Error::custom("expected an object"),
    }
}

/// Decodes a member; `None` if it is missing or not a `T`.
pub(crate) fn decode_member<'a, T: Deserialize<'a>>(value: Option<&'a str>) -> Option<T> {
    serde_json::from_str(value?).ok()
}

/// A JSON string, borrowed if it has no escapes.
#[derive(Deserialize)]
pub(crate) struct JsonStr<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

// The members of parameters that several layers look for: the scan of the envelope notes where they lie, so that no layer
// scans for them again.

/// The size of the largest message in which members are noted, in bytes. In a larger one the parameters are only delimited.
pub(super) const MAX_NOTED_BYTES: usize = 64 * 1024 - 1;

/// Tells the length of a known `_meta` object if a text begins with it: an object that was valid in an earlier message, of
/// which the scan compares the bytes rather than read the members again.
pub(crate) type KnownObject<'a> = &'a dyn Fn(&str) -> Option<usize>;

/// The members of parameters that other layers look for, noted by the scan of the message if the object is valid JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotedMembers {
    /// The `_meta` and the `arguments`, and the `name` if there are no other members.
    spans: [Span; 3],
}

impl NotedMembers {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self { spans: [Span::TOO_FAR; 3] };

    /// Whether the text is an object of valid JSON, no name of which is escaped, with each member that is looked for at
    /// most once.
    pub(super) fn is_complete(&self) -> bool {
        self.spans.iter().all(|span| !span.is_too_far())
    }

    /// The `_meta`.
    pub(super) fn meta(&self) -> Span {
        let [meta, ..] = self.spans;
        meta
    }

    /// The `arguments`.
    #[cfg(all(feature = "server", any(feature = "http", feature = "std")))]
    pub(super) fn arguments(&self) -> Span {
        let [_, arguments, _] = self.spans;
        arguments
    }

    /// The `name`, if there are no members but these three.
    #[cfg(all(feature = "std", feature = "server"))]
    pub(super) fn only_name(&self) -> Span {
        let [.., name] = self.spans;
        name
    }

    /// The values that a reader need not scan again.
    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }
}

impl Reader<'_> {
    /// Skips the object that parameters are, in which at most `levels` containers are nested, and notes its members. A repeated
    /// member that other layers look for is an error.
    #[inline]
    pub(super) fn note_members(
        &mut self,
        levels: usize,
        known: KnownObject<'_>,
    ) -> Result<NotedMembers, NotJson> {
        let (base, within) = (self.at(), levels.checked_sub(1).ok_or(NotJson)?);
        let [mut meta, mut arguments, mut own_name, mut uri, mut task_id] = [Span::default(); 5];
        let (mut is_first, mut has_others) = (true, false);
        self.enter(b'{')?;
        while let Some(name) = self.plain_name(&mut is_first)? {
            let start = self.at();
            let slot = match name {
                b"_meta" => Some(&mut meta),
                b"arguments" => Some(&mut arguments),
                b"name" => Some(&mut own_name),
                b"uri" => Some(&mut uri),
                b"taskId" => Some(&mut task_id),
                _ => None,
            };
            has_others |= slot.is_none();
            match name {
                b"_meta" if self.peek() == Some(b'{') => match known(self.rest()) {
                    Some(length) => self.skip_known(length),
                    None => self.meta(within)?,
                },
                _ => self.value_within(within)?,
            }
            if let Some(slot) = slot {
                if !slot.is_empty() {
                    return Err(NotJson);
                }
                *slot = Span::new(start.saturating_sub(base), self.at().saturating_sub(base));
            }
        }
        if has_others || !uri.is_empty() || !task_id.is_empty() {
            own_name = Span::default();
        }
        Ok(NotedMembers { spans: [meta, arguments, own_name] })
    }

    /// Skips an object that is `_meta`. If one of the keys that tell the eras apart is repeated, that is an error.
    fn meta(&mut self, levels: usize) -> Result<(), NotJson> {
        let within = levels.checked_sub(1).ok_or(NotJson)?;
        let (mut is_first, mut seen) = (true, [false; 2]);
        self.enter(b'{')?;
        while let Some(name) = self.plain_name(&mut is_first)? {
            let keys = [PROTOCOL_VERSION, CLIENT_CAPABILITIES];
            let slot = keys.iter().zip(&mut seen).find(|(key, _)| key.as_bytes() == name);
            if slot.is_some_and(|(_, seen)| core::mem::replace(seen, true)) {
                return Err(NotJson);
            }
            self.value_within(within)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn members_are_found_by_their_unescaped_names() {
        let object = r#"{"a":"}","\u0062":{"a":2},"c":null,"d":[1,{"e":3}]}"#;
        let found = read_members(object, ["a", "b", "c", "e"]).unwrap();
        assert_eq!(found, [Some(r#""}""#), Some(r#"{"a":2}"#), None, None]);
        assert_eq!(first_member(object, "c").unwrap(), Some("null"));
    }

    #[test]
    fn members_that_several_layers_look_for_are_noted() {
        let object = r#"{"name":"a","_meta":{"b":1},"arguments":{}}"#;
        let noted = Reader::new(object).note_members(9, &|_| None).unwrap();
        let found: Vec<_> = noted.spans().iter().map(|span| span.of(object)).collect();
        assert_eq!(found, [Some(r#"{"b":1}"#), Some("{}"), Some(r#""a""#)]);
        assert!(noted.is_complete());
    }

    #[test]
    fn member_that_occurs_twice_is_refused() {
        for object in [r#"{"a":1,"a":1}"#, r#"{"a":null,"b":2,"\u0061":3}"#] {
            let error = read_members(object, ["b", "a"]).unwrap_err();
            assert_eq!(error.to_string(), "duplicate field `a`", "{object}");
        }
        assert_eq!(read_members(r#"{"a":1,"a":1}"#, ["b"]).unwrap(), [None]);
    }

    #[test]
    fn first_of_two_members_with_one_name_is_found_without_reading_on() {
        assert_eq!(first_member(r#"{"uri":1,"uri":2,"#, "uri").unwrap(), Some("1"));
    }

    #[test]
    fn members_of_what_is_no_object_are_an_error() {
        for text in ["", "[\"uri\",1]", "null", "{\"uri\"", "{\"\\ud83d\":0}"] {
            assert!(read_members(text, ["uri"]).is_err() && first_member(text, "uri").is_err(), "{text}");
        }
        let error = read_members("[1]", ["uri"]).unwrap_err();
        assert_eq!(error.to_string(), "expected an object");
    }
}
