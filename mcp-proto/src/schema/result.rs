//! The `resultType` of results.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt;

use super::read::{Fit, Read, read_text};
use super::write::text_impls;
use crate::rpc::{Raw, first_member};

/// Kind of a result: its `resultType`.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#result-types>
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// The method's own result. A result without `resultType` is of this kind.
    Complete,
    /// An [`InputRequiredResult`](super::InputRequiredResult).
    InputRequired,
    /// A [`CreateTaskResult`](super::tasks::CreateTaskResult) of the tasks extension.
    Task,
    /// Another kind; the result is invalid unless an extension defines it.
    Other(Box<str>),
}

impl ResultType {
    /// The kind as written on the wire.
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

    fn from_text(name: Cow<'_, str>) -> Fit<Self> {
        Ok(match &*name {
            "complete" => Self::Complete,
            "input_required" => Self::InputRequired,
            "task" => Self::Task,
            _ => Self::Other(name.into()),
        })
    }
}

text_impls!(ResultType);

impl ResultType {
    /// Reads the kind of the result `raw` without decoding the rest; reading stops at `resultType`.
    ///
    /// # Errors
    /// If it is not an object, or its `resultType` is not a string.
    pub fn from_result(raw: &Raw) -> Result<Self, serde_json::Error> {
        result_type(raw.as_str())
    }
}

/// Reads the kind of the result `text` without decoding the rest; reading stops at `resultType`.
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
    match first_member(text, "resultType")? {
        Some("\"complete\"") | None => Ok(ResultType::Complete),
        Some(kind) => read_text(kind),
    }
}
