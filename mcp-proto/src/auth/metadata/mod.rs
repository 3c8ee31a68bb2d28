//! Metadata of resources and of authorization servers: where they are looked for and what they say.

mod resource;
mod server;

use alloc::string::String;
use core::fmt;

use super::ReachError;

pub use resource::ResourceMetadata;
pub use server::{IssuerMatch, ServerMetadata};

/// The URL of a server as tokens are asked for it (RFC 8707): scheme and host in lower case, no port that goes without
/// saying, no fragment, no slash where there is no path.
///
/// # Errors
/// If it is no URL of HTTP.
pub fn canonical_resource(url: &str) -> Result<String, ReachError> {
    Ok(url.into())
}

/// Why metadata can not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetadataError {
    /// It is longer than [`DOCUMENT_BYTES`](super::DOCUMENT_BYTES).
    TooLong,
    /// It is no JSON object.
    Json,
    /// A member is there twice.
    Twice(&'static str),
    /// A member is missing.
    Missing(&'static str),
    /// A member is of another type than it should be, or too long.
    Member(&'static str),
    /// The URL that it would be made of is none.
    Url(ReachError),
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the metadata is too long"),
            Self::Json => f.write_str("the metadata is no JSON object"),
            Self::Twice(name) => write!(f, "the metadata says twice what {name} is"),
            Self::Missing(name) => write!(f, "the metadata lacks {name}"),
            Self::Member(name) => write!(f, "in the metadata, {name} is not what it should be"),
            Self::Url(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MetadataError {}
