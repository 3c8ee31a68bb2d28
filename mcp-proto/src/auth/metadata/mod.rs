//! Metadata of resources and of authorization servers: where they are looked for and what they say.

mod resource;
mod server;

use alloc::string::String;
use core::fmt;

use super::FetchPolicyError;
use super::members::MemberError;
use super::url;

pub use resource::{ResourceIdentity, ResourceMetadata};
pub use server::{IssuerMatch, ServerMetadata};

/// The URL of a server as tokens are asked for it (RFC 8707): scheme and host in lower case, no port that goes without
/// saying, no fragment, no slash where there is no path.
///
/// ```
/// use mcp_proto::auth::canonical_resource;
///
/// assert_eq!(canonical_resource("HTTPS://MCP.Example.com:443/").as_deref(), Ok("https://mcp.example.com"));
/// assert_eq!(canonical_resource("https://example.com/Server/mcp").as_deref(), Ok("https://example.com/Server/mcp"));
/// ```
///
/// # Errors
/// If it is no URL of HTTP, or has a user name.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#canonical-server-uri>
pub fn canonical_resource(url: &str) -> Result<String, FetchPolicyError> {
    let parts = url::parse(url)?;
    if parts.user.is_some() {
        return Err(FetchPolicyError::UserInfo);
    }
    let mut canonical = parts.origin();
    // A slash that is the whole path means nothing, unless a query follows it.
    if parts.path != "/" || parts.query.is_some() {
        canonical.push_str(parts.path);
    }
    if let Some(query) = parts.query {
        canonical.push('?');
        canonical.push_str(query);
    }
    Ok(canonical)
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
    Duplicate(&'static str),
    /// A member is missing.
    Missing(&'static str),
    /// A member is of another type than it should be, or too long.
    InvalidMember(&'static str),
    /// The URL that it would be made of is none.
    Url(FetchPolicyError),
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the metadata is too long"),
            Self::Json => f.write_str("the metadata is no JSON object"),
            Self::Duplicate(name) => write!(f, "the metadata says twice what {name} is"),
            Self::Missing(name) => write!(f, "the metadata lacks {name}"),
            Self::InvalidMember(name) => write!(f, "in the metadata, {name} is not what it should be"),
            Self::Url(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MetadataError {}

impl From<MemberError> for MetadataError {
    fn from(fault: MemberError) -> Self {
        match fault {
            MemberError::TooLong => Self::TooLong,
            MemberError::Json => Self::Json,
            MemberError::Duplicate(name) => Self::Duplicate(name),
            MemberError::Missing(name) => Self::Missing(name),
            MemberError::InvalidMember(name) => Self::InvalidMember(name),
        }
    }
}
