//! What kind of result a result is.

use alloc::boxed::Box;
use core::fmt;

use serde::de;
use serde::ser::Serializer;

use super::peek::peek;
use super::read::{Attempt, Read};
use super::write::{Projection, WriteAt, serde_impls};
use crate::rpc::Raw;

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

impl ResultType {
    /// What kind of result `raw` is, without decoding the rest; reading ends where the kind is found.
    ///
    /// # Errors
    /// If it is not an object, or its `resultType` is not a string.
    pub fn of(raw: &Raw) -> Result<Self, serde_json::Error> {
        result_type(raw.as_str())
    }
}

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
    match peek(text, "resultType")? {
        Some(kind) => kind.map_err(de::Error::custom),
        None => Ok(ResultType::Complete),
    }
}
