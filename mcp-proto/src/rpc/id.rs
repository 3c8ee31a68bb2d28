//! Request ids on the wire.

use alloc::boxed::Box;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The id of a request on the wire, or a progress token: an integer or a string.
///
/// `0` and `""` are valid ids. Fractions, `null` and integers beyond 64 bits are not.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#requests>
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// An integer.
    Number(i64),
    /// A string, unescaped.
    String(Box<str>),
}

impl From<i64> for Id {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Id {
    /// As JSON: a string in quotes, so that `1` and `"1"` differ.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::String(text) => write!(f, "{text:?}"),
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer or a string")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Id, E> {
                Ok(Id::Number(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
                i64::try_from(number).map(Id::Number).map_err(|_| E::custom("id beyond 64 bits"))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
                Ok(Id::String(text.into()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}
