//! Metadata of protected resources (RFC 9728).

use alloc::string::String;
use alloc::vec::Vec;

use super::MetadataError;
use crate::auth::Scopes;

/// What a server says of itself as a resource that is protected.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-location>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// Which resource it is about.
    pub resource: String,
    /// The issuers of tokens for it, at most 16. May be empty.
    pub authorization_servers: Vec<String>,
    /// The scopes that it knows.
    pub scopes_supported: Option<Scopes>,
    /// Whether every token has to be bound to a key (RFC 9449).
    pub dpop_bound: bool,
    /// Its name for people.
    pub name: Option<String>,
}

impl ResourceMetadata {
    /// Where it is looked for if no challenge says where it is, in order. None if `server_url` is no URL.
    pub fn places(server_url: &str) -> Vec<String> {
        let _ = server_url;
        Vec::new()
    }

    /// Reads a document.
    ///
    /// # Errors
    /// If it can not be used.
    pub fn read(bytes: &[u8]) -> Result<Self, MetadataError> {
        let _ = bytes;
        Err(MetadataError::Json)
    }

    /// Whether it is about the server at this URL: its resource is that URL, or a path above it on the same origin.
    pub fn is_for(&self, server_url: &str) -> bool {
        let _ = server_url;
        false
    }
}
