//! What kind of result a result is.

use alloc::boxed::Box;
use core::fmt;

use serde::de::{self, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::Serializer;

use super::read::{Attempt, Read, Seed};
use super::write::{Projection, WriteAt, serde_impls};

/// What kind of result a result is.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#result-types>
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// The method's own: what results without a kind are, too.
    Complete,
    /// An [`InputRequiredResult`](super::InputRequiredResult).
    InputRequired,
    /// A [`CreateTaskResult`](super::tasks::CreateTaskResult) of the tasks extension.
    Task,
    /// Another, which makes the result invalid unless an extension has defined it.
    Other(Box<str>),
}

impl ResultType {
    /// The kind as it stands on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Complete => "complete",
            Self::InputRequired => "input_required",
            Self::Task => "task",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for ResultType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Read for ResultType {
    const EXPECTED: &'static str = "a string";

    fn from_text(name: &str) -> Attempt<Self> {
        Ok(match name {
            "complete" => Self::Complete,
            "input_required" => Self::InputRequired,
            "task" => Self::Task,
            _ => Self::Other(name.into()),
        })
    }
}

impl WriteAt for ResultType {
    fn write<S: Serializer>(&self, _: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

serde_impls!(ResultType);

/// What kind of result `text` is, without decoding the rest; reading ends where the kind is found.
///
/// ```
/// use mcp_proto::schema::{ResultType, result_type};
///
/// assert_eq!(result_type(r#"{"resultType":"input_required","requestState":"x"}"#)?, ResultType::InputRequired);
/// assert_eq!(result_type(r#"{"tools":[]}"#)?, ResultType::Complete);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
/// If `text` is not an object, or its `resultType` is not a string.
pub fn result_type(text: &str) -> Result<ResultType, serde_json::Error> {
    let mut found = None;
    let read = serde_json::Deserializer::from_str(text).deserialize_map(Peek(&mut found));
    match found {
        Some(kind) => kind.map_err(de::Error::custom),
        None => read.map(|()| ResultType::Complete),
    }
}

struct Peek<'a>(&'a mut Option<Attempt<ResultType>>);

impl<'de> Visitor<'de> for Peek<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a result: an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(is_kind) = map.next_key_seed(IsKind)? {
            if is_kind {
                *self.0 = Some(map.next_value_seed(Seed::NEW)?);
                // The parser takes an early return for an incomplete one; `found` speaks for it.
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

struct IsKind;

impl<'de> de::DeserializeSeed<'de> for IsKind {
    type Value = bool;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsKind {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == "resultType")
    }
}
