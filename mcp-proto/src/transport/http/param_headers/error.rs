//! What can be wrong with a mark, with an argument and with a header.

use alloc::string::String;
use core::fmt;

use crate::codec::header::HeaderValueError;

/// Why a tool can not be called over HTTP: a parameter is marked to be a header as well, and can not be one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParamHeaderError {
    /// The input schema is not JSON.
    Schema(String),
    /// The mark is not text.
    NotText {
        /// Where it stands in the schema.
        at: String,
    },
    /// The mark is empty, or has characters that the name of a header may not have.
    Name {
        /// Where it stands in the schema.
        at: String,
        /// The mark.
        name: String,
    },
    /// Another parameter has the same mark, but for case.
    Duplicate {
        /// Where it stands in the schema.
        at: String,
        /// The mark.
        name: String,
    },
    /// The parameter is neither declared as a string nor as an integer nor as a boolean.
    Type {
        /// Where it stands in the schema.
        at: String,
    },
    /// It does not stand at a parameter, or at one that is not reached through `properties` alone.
    Unreachable {
        /// Where it stands in the schema.
        at: String,
    },
    /// More parameters are marked than [`ParamHeaders::MAX_HEADERS`](super::ParamHeaders::MAX_HEADERS).
    TooMany,
}

impl fmt::Display for ParamHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schema(error) => write!(f, "its input schema can not be read: {error}"),
            Self::NotText { at } => write!(f, "the x-mcp-header of {at} is not text"),
            Self::Name { at, name } => {
                write!(f, "the x-mcp-header of {at} can not be the name of a header: {name:?}")
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

/// Why an argument can not be repeated as a header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderArgumentError {
    /// The arguments are not JSON.
    Json(String),
    /// It is an object, an array, or a number with a fraction.
    Kind {
        /// The path of its names.
        at: String,
    },
    /// It is an integer that a double-precision number can not hold exactly.
    Range {
        /// The path of its names.
        at: String,
    },
    /// It is there twice: who reads the first one and who reads the last would not read the same.
    Duplicate {
        /// The path of its names.
        at: String,
    },
}

impl fmt::Display for HeaderArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the arguments can not be read: {error}"),
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

/// How the headers of a call fail to repeat its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderMismatchError {
    /// The argument is there, and its header is not.
    Missing {
        /// The name of the header, in lower case.
        header: String,
    },
    /// The header is there, and its argument is absent or null.
    Unexpected {
        /// The name of the header, in lower case.
        header: String,
    },
    /// The header is there more than once.
    Repeated {
        /// The name of the header, in lower case.
        header: String,
    },
    /// The value of the header can not be read.
    Undecodable {
        /// The name of the header, in lower case.
        header: String,
        /// What is wrong with it.
        error: HeaderValueError,
    },
    /// The header and its argument are not the same.
    Different {
        /// The name of the header, in lower case.
        header: String,
    },
    /// The argument is nothing that a header can repeat.
    Argument(HeaderArgumentError),
}

impl fmt::Display for HeaderMismatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { header } => write!(f, "the header {header} is missing"),
            Self::Unexpected { header } => write!(f, "the header {header} has no argument to repeat"),
            Self::Repeated { header } => write!(f, "the header {header} is given more than once"),
            Self::Undecodable { header, error } => {
                write!(f, "the header {header} can not be read: {error}")
            }
            Self::Different { header } => write!(f, "the header {header} differs from its argument"),
            Self::Argument(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for HeaderMismatchError {}
