//! Reading one field of an object without decoding the others.

use core::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::read::{Attempt, Read, Seed};

/// Reads the first field `name` of the object `text`. Reading stops there.
///
/// # Errors
/// If the text read so far is not an object.
pub(crate) fn peek<T: Read>(text: &str, name: &'static str) -> Result<Option<Attempt<T>>, serde_json::Error> {
    let mut found = None;
    let read = serde_json::Deserializer::from_str(text).deserialize_map(Peek { name, found: &mut found });
    match found {
        // The parser reports the early return as an error; the value has been read.
        Some(found) => Ok(Some(found)),
        None => read.map(|()| None),
    }
}

struct Peek<'a, T> {
    name: &'static str,
    found: &'a mut Option<Attempt<T>>,
}

impl<'de, T: Read> Visitor<'de> for Peek<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(is_it) = map.next_key_seed(Is(self.name))? {
            if is_it {
                *self.found = Some(map.next_value_seed(Seed::NEW)?);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

struct Is(&'static str);

impl<'de> DeserializeSeed<'de> for Is {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}
