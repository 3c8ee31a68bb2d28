//! Metadata of protected resources and of authorization servers: well-known URLs and contents.

mod resource;
mod server;

use alloc::string::String;
use core::fmt;

use super::FetchPolicyError;
use super::members::MemberError;
use super::url;

pub use resource::{ResourceIdentity, ResourceMetadata};
pub use server::{IssuerMatch, ServerMetadata};

/// The canonical URL of a server, which token requests name as their resource (RFC 8707): scheme and host in lower
/// case, no default port, no fragment, no slash in place of an empty path.
///
/// ```
/// use mcp_proto::auth::canonical_resource;
///
/// assert_eq!(canonical_resource("HTTPS://MCP.Example.com:443/").as_deref(), Ok("https://mcp.example.com"));
/// assert_eq!(canonical_resource("https://example.com/Server/mcp").as_deref(), Ok("https://example.com/Server/mcp"));
/// ```
///
/// # Errors
/// If it is not an HTTP URL, or has a user name.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#canonical-server-uri>
pub fn canonical_resource(url: &str) -> Result<String, FetchPolicyError> {
    let parts = url::parse(url)?;
    if parts.user.is_some() {
        return Err(FetchPolicyError::UserInfo);
    }
    //= C12.11 "canonical URI, no fragment, SHOULD no trailing slash"
    let mut canonical = parts.origin();
    // A slash that is the whole path has no meaning, unless a query follows it.
    if parts.path != "/" || parts.query.is_some() {
        canonical.push_str(parts.path);
    }
    if let Some(query) = parts.query {
        canonical.push('?');
        canonical.push_str(query);
    }
    Ok(canonical)
}

/// Why metadata is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetadataError {
    /// The document is longer than [`DOCUMENT_BYTES`](super::DOCUMENT_BYTES).
    TooLong,
    /// The document is not a JSON object.
    Json,
    /// A member occurs twice.
    Duplicate(&'static str),
    /// A member is missing.
    Missing(&'static str),
    /// A member has the wrong type, or is too long.
    InvalidMember(&'static str),
    /// The URL that the metadata would be derived from is invalid.
    Url(FetchPolicyError),
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the metadata is too long"),
            Self::Json => f.write_str("the metadata is no JSON object"),
            Self::Duplicate(name) => write!(f, "the metadata says twice what {name} is"),
            Self::Missing(name) => write!(f, "the metadata lacks {name}"),
            Self::InvalidMember(name) => write!(f, "in the metadata, {name} is invalid"),
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
