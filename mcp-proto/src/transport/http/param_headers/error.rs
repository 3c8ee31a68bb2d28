//! Errors in the marks of a schema, in mirrored arguments and in their headers.

use alloc::string::String;
use core::fmt;

use crate::codec::header::HeaderValueError;

/// Why a tool cannot be called over HTTP: a parameter has an invalid `x-mcp-header` mark.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParamHeaderError {
    /// The input schema is not JSON.
    Schema(String),
    /// The mark is not a string.
    NotText {
        /// The mark's path in the schema.
        at: String,
    },
    /// The mark is empty, or contains characters that header names do not allow.
    Name {
        /// The mark's path in the schema.
        at: String,
        /// The mark.
        name: String,
    },
    /// Another parameter has the same mark, ignoring case.
    Duplicate {
        /// The mark's path in the schema.
        at: String,
        /// The mark.
        name: String,
    },
    /// The parameter's declared type is not string, integer or boolean.
    Type {
        /// The mark's path in the schema.
        at: String,
    },
    /// The mark is not on a parameter, or keywords other than `properties` lead to that parameter.
    Unreachable {
        /// The mark's path in the schema.
        at: String,
    },
    /// More parameters are marked than [`ParamHeaders::MAX_HEADERS`](super::ParamHeaders::MAX_HEADERS).
    TooMany,
}

impl fmt::Display for ParamHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schema(error) => write!(f, "its input schema cannot be read: {error}"),
            Self::NotText { at } => write!(f, "the x-mcp-header of {at} is not text"),
            Self::Name { at, name } => {
                write!(f, "the x-mcp-header of {at} cannot be the name of a header: {name:?}")
            }
            Self::Duplicate { at, name } => {
                write!(f, "the x-mcp-header of {at} is that of another parameter: {name:?}")
            }
            Self::Type { at } => write!(
                f,
                "{at} has an x-mcp-header, and is declared neither as a string nor as an integer nor as a boolean"
            ),
            Self::Unreachable { at } => {
                write!(f, "{at} has an x-mcp-header, and is not reached through properties alone")
            }
            Self::TooMany => {
                write!(f, "more than {} parameters have an x-mcp-header", super::ParamHeaders::MAX_HEADERS)
            }
        }
    }
}

impl core::error::Error for ParamHeaderError {}

/// Why an argument cannot be mirrored in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderArgumentError {
    /// The arguments are not JSON.
    Json(String),
    /// The argument is an object, an array or a number with a fraction.
    Kind {
        /// The argument's path, names joined by dots.
        at: String,
    },
    /// The argument is an integer that a double-precision number cannot represent exactly.
    Range {
        /// The argument's path, names joined by dots.
        at: String,
    },
    /// The argument occurs twice: one reader would use the first value and another the last.
    Duplicate {
        /// The argument's path, names joined by dots.
        at: String,
    },
}

impl fmt::Display for HeaderArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the arguments cannot be read: {error}"),
            Self::Kind { at } => {
                write!(f, "the argument {at} is a header too, and neither text nor an integer nor a boolean")
            }
            Self::Range { at } => {
                write!(
                    f,
                    "the argument {at} is a header too, and beyond the integers that every side can read"
                )
            }
            Self::Duplicate { at } => write!(f, "the argument {at} is a header too, and is given twice"),
        }
    }
}

impl core::error::Error for HeaderArgumentError {}

/// How the headers of a call differ from its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderMismatchError {
    /// The argument is present, but its header is missing.
    Missing {
        /// The name of the header, in lower case.
        header: String,
    },
    /// The header is present, but its argument is absent or null.
    Unexpected {
        /// The name of the header, in lower case.
        header: String,
    },
    /// The header occurs more than once.
    Repeated {
        /// The name of the header, in lower case.
        header: String,
    },
    /// The value of the header cannot be decoded.
    Undecodable {
        /// The name of the header, in lower case.
        header: String,
        /// The decoding error.
        error: HeaderValueError,
    },
    /// The header and its argument have different values.
    Different {
        /// The name of the header, in lower case.
        header: String,
    },
    /// The argument cannot be mirrored in a header.
    Argument(HeaderArgumentError),
}

impl fmt::Display for HeaderMismatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { header } => write!(f, "the header {header} is missing"),
            Self::Unexpected { header } => write!(f, "the header {header} has no argument to repeat"),
            Self::Repeated { header } => write!(f, "the header {header} is given more than once"),
            Self::Undecodable { header, error } => {
                write!(f, "the header {header} cannot be read: {error}")
            }
            Self::Different { header } => write!(f, "the header {header} differs from its argument"),
            Self::Argument(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for HeaderMismatchError {}
