//! Arguments of prompts and variables of templates: strings, as the fields of a handler's type.

use core::fmt;

use serde::de::value::{Error, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::schema::Map;

/// Decodes a struct or a map whose values are strings. A field that is a number or a `bool` is parsed.
pub(super) fn from_strings<A: DeserializeOwned>(strings: &Map<String>) -> Result<A, Error> {
    // Of a name that repeats, the last value counts.
    A::deserialize(Strings(strings.iter().map(|(name, text)| (name, text.as_str())).collect()))
}

/// Options and newtypes have the form of what they hold.
macro_rules! transparent {
    () => {
        fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.visit_some(self)
        }

        fn deserialize_newtype_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            visitor: V,
        ) -> Result<V::Value, Error> {
            visitor.visit_newtype_struct(self)
        }
    };
}

struct Strings<'a>(OrderedMap<&'a str, &'a str>);

impl<'de> Deserializer<'de> for Strings<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let values = self.0.into_iter().map(|(name, text)| (name, Value { name, text }));
        visitor.visit_map(MapDeserializer::new(values))
    }

    transparent!();

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

/// A string, with the name that its errors have.
#[derive(Clone, Copy)]
struct Value<'a> {
    name: &'a str,
    text: &'a str,
}

impl Value<'_> {
    fn error(self, error: impl fmt::Display) -> Error {
        Error::custom(format_args!("{}: {error}", self.name))
    }

    /// Parses the text; `expected` names the type.
    fn parse<T: core::str::FromStr>(self, expected: &str) -> Result<T, Error> {
        let invalid = |_| self.error(Error::invalid_value(Unexpected::Str(self.text), &expected));
        self.text.parse().map_err(invalid)
    }
}

impl IntoDeserializer<'_> for Value<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parse {
    ($($method:ident $visit:ident $type:ident,)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let value = self.parse(stringify!($type))?;
            visitor.$visit(value).map_err(|error: Error| self.error(error))
        }
    )*};
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text).map_err(|error: Error| self.error(error))
    }

    parse! {
        deserialize_bool visit_bool bool,
        deserialize_i8 visit_i8 i8,
        deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64,
        deserialize_i128 visit_i128 i128,
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
        deserialize_u128 visit_u128 u128,
        deserialize_f32 visit_f32 f32,
        deserialize_f64 visit_f64 f64,
    }

    transparent!();

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let variant = IntoDeserializer::<Error>::into_deserializer(self.text);
        visitor.visit_enum(variant).map_err(|error| self.error(error))
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
