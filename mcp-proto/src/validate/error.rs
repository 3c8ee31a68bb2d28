//! What can be wrong with a schema, and with a value.

use alloc::string::String;
use core::fmt;

use super::Bound;

/// Why a schema can not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// Its dialect is not supported: see [the list](super#dialects).
    Dialect {
        /// What `$schema` says.
        uri: String,
    },
    /// It refers to something outside itself, which is never fetched, or to nothing.
    Reference {
        /// What, as far as it is known.
        reference: String,
    },
    /// It is no valid schema in its dialect, or has a regular expression that is not supported.
    Invalid {
        /// Where in the schema, as a JSON Pointer; empty for the whole of it.
        pointer: String,
        /// What is wrong there.
        reason: String,
    },
    /// It is beyond a bound.
    Bound(Bound),
    /// The validator failed on it.
    Failed,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dialect { uri } => write!(f, "the dialect {uri:?} of JSON Schema is not supported"),
            Self::Reference { reference } => {
                write!(f, "the schema refers to {reference:?}, which is not part of it")
            }
            Self::Invalid { pointer: at, reason: why } if at.is_empty() => {
                write!(f, "the schema is not valid: {why}")
            }
            Self::Invalid { pointer: at, reason: why } => write!(f, "the schema is not valid at {at}: {why}"),
            Self::Bound(bound) => write!(f, "the schema is not used: {bound}"),
            Self::Failed => f.write_str("the validator failed on the schema"),
        }
    }
}

impl core::error::Error for SchemaError {}

/// Why a value does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckError {
    /// It is not what the schema describes.
    Mismatch {
        /// Where in the value, as a JSON Pointer; empty for the whole of it.
        pointer: String,
        /// What is wrong there. The value is not quoted.
        reason: String,
    },
    /// It can not be told within the bounds.
    Bound(Bound),
    /// The validator failed on it.
    Failed,
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch { pointer: at, reason: why } if at.is_empty() => f.write_str(why),
            Self::Mismatch { pointer: at, reason: why } => write!(f, "{at}: {why}"),
            Self::Bound(bound) => write!(f, "it can not be checked: {bound}"),
            Self::Failed => f.write_str("it can not be checked: the validator failed on it"),
        }
    }
}

impl core::error::Error for CheckError {}
