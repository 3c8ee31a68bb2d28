//! Errors of schemas and of checks.

use alloc::string::String;
use core::fmt;

use super::Bound;

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// The schema's dialect is not supported: see [the list](super#dialects).
    Dialect {
        /// The value of `$schema`.
        uri: String,
    },
    /// The schema refers to an outside schema, which is never fetched, or to a missing target.
    Reference {
        /// The reference, as far as it is known.
        reference: String,
    },
    /// The schema is not valid in its dialect, or has a regular expression that is not supported.
    Invalid {
        /// The invalid part of the schema, as a JSON Pointer; empty for the whole schema.
        pointer: String,
        /// Why that part is not valid.
        reason: String,
    },
    /// The schema exceeds a limit.
    Bound(Bound),
    /// The validator panicked on the schema.
    Failed,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dialect { uri } => write!(f, "the dialect {uri:?} of JSON Schema is not supported"),
            Self::Reference { reference } => {
                write!(f, "the schema refers to {reference:?}, which is not part of it")
            }
            Self::Invalid { pointer, reason } if pointer.is_empty() => {
                write!(f, "the schema is not valid: {reason}")
            }
            Self::Invalid { pointer, reason } => write!(f, "the schema is not valid at {pointer}: {reason}"),
            Self::Bound(bound) => write!(f, "the schema exceeds a limit: {bound}"),
            Self::Failed => f.write_str("the validator failed on the schema"),
        }
    }
}

impl core::error::Error for SchemaError {}

/// Why a value fails its check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckError {
    /// The value does not match the schema.
    Mismatch {
        /// The part of the value that does not match, as a JSON Pointer; empty for the whole value.
        pointer: String,
        /// Why that part does not match. It does not quote the value.
        reason: String,
    },
    /// The check exceeds a limit.
    Bound(Bound),
    /// The validator panicked on the value.
    Failed,
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch { pointer, reason } if pointer.is_empty() => f.write_str(reason),
            Self::Mismatch { pointer, reason } => write!(f, "{pointer}: {reason}"),
            Self::Bound(bound) => write!(f, "the value cannot be checked: {bound}"),
            Self::Failed => f.write_str("the value cannot be checked: the validator failed on it"),
        }
    }
}

impl core::error::Error for CheckError {}
