//! Reading single members of an object without decoding the others.

use alloc::borrow::Cow;
use alloc::format;
use core::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::find_members;

/// Reads the members `names` of the object `text`. A member that is missing or null is `None`.
///
/// # Errors
/// If `text` is not an object, or repeats one of the names.
pub(crate) fn read_members<'a, const COUNT: usize>(
    text: &'a str,
    names: [&str; COUNT],
) -> Result<[Option<&'a RawValue>; COUNT], serde_json::Error> {
    let mut found = [None; COUNT];
    match collect_members(text, &names, &mut found)?.and_then(|index| names.get(index)) {
        Some(name) => Err(serde_json::Error::custom(format!("duplicate field `{name}`"))),
        None => Ok(found.map(|value| value.filter(|value: &&RawValue| value.get() != "null"))),
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
    found: &mut [Option<&'a RawValue>],
) -> Result<Option<usize>, serde_json::Error> {
    let mut visitor = MemberVisitor { names, found, repeated: None };
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.deserialize_map(&mut visitor)?;
    let repeated = visitor.repeated;
    reader.end().map(|()| repeated)
}

/// Finds the first member `name` of the object `text`. Reading stops there.
///
/// # Errors
/// If the member is missing because `text` is not an object.
pub(crate) fn first_member<'a>(text: &'a str, name: &str) -> Result<Option<&'a str>, serde_json::Error> {
    let [range] = find_members(text.as_bytes(), [name]);
    match range.and_then(|range| text.get(range)) {
        Some(value) => Ok(Some(value)),
        None => read_members(text, [name]).map(|[value]| value.map(RawValue::get)),
    }
}

/// Decodes a member; `None` if it is missing or not a `T`.
pub(crate) fn decode_member<'a, T: Deserialize<'a>>(value: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(value?.get()).ok()
}

/// A JSON string, borrowed if it has no escapes.
#[derive(Deserialize)]
pub(crate) struct JsonStr<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

struct MemberVisitor<'v, 'a> {
    names: &'v [&'v str],
    found: &'v mut [Option<&'a RawValue>],
    repeated: Option<usize>,
}

impl<'de> Visitor<'de> for &mut MemberVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(index) = map.next_key_seed(NameIndex(self.names))? {
            let Some(slot) = index.and_then(|index| self.found.get_mut(index)) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if slot.replace(map.next_value()?).is_some() {
                self.repeated = index;
            }
        }
        Ok(())
    }
}

/// Reads a key as its index among these names.
struct NameIndex<'v>(&'v [&'v str]);

impl<'de> DeserializeSeed<'de> for NameIndex<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameIndex<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| *name == key))
    }
}
