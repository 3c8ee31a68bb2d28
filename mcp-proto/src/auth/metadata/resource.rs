//! Metadata of protected resources (RFC 9728).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::MetadataError;
use crate::auth::members::{Fault, Members};
use crate::auth::text::shown;
use crate::auth::url::Parts;
use crate::auth::{Scopes, URL_BYTES};

/// How many authorization servers are considered.
const ISSUERS: usize = 16;

/// What a server says of itself as a resource that is protected.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-location>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// Which resource it is about.
    pub resource: String,
    /// The issuers of tokens for it, the first 16. May be empty. None has been [checked](crate::auth::Reach::check).
    pub authorization_servers: Vec<String>,
    /// The scopes that it knows.
    pub scopes_supported: Option<Scopes>,
    /// Whether every token has to be bound to a key (RFC 9449).
    pub dpop_bound: bool,
    /// Its name for people, fit to be shown.
    pub name: Option<String>,
}

const NAMES: [&str; 5] = [
    "resource",
    "authorization_servers",
    "scopes_supported",
    "dpop_bound_access_tokens_required",
    "resource_name",
];

impl ResourceMetadata {
    /// Where it is looked for if no challenge says where it is, in order. Nowhere if `server_url` is no URL.
    ///
    /// ```
    /// use mcp_proto::auth::ResourceMetadata;
    ///
    /// let places = ResourceMetadata::places("https://example.com/public/mcp");
    /// assert_eq!(places, [
    ///     "https://example.com/.well-known/oauth-protected-resource/public/mcp",
    ///     "https://example.com/.well-known/oauth-protected-resource",
    /// ]);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements>
    pub fn places(server_url: &str) -> Vec<String> {
        let Ok(parts) = Parts::of(server_url) else { return Vec::new() };
        let root = format!("{}/.well-known/oauth-protected-resource", parts.origin());
        let path = if parts.path == "/" { "" } else { parts.path };
        let query = parts.query.map(|query| format!("?{query}")).unwrap_or_default();
        // RFC 9728 keeps a slash at the end of a path; many servers leave it away.
        let places = [format!("{root}{path}{query}"), format!("{root}{}", path.trim_end_matches('/')), root];
        let mut distinct = Vec::new();
        for place in places {
            if !distinct.contains(&place) {
                distinct.push(place);
            }
        }
        distinct
    }

    /// Reads a document.
    ///
    /// # Errors
    /// If it can not be used.
    pub fn read(bytes: &[u8]) -> Result<Self, MetadataError> {
        let members = Members::read(bytes, &NAMES)?;
        let name = members.text("resource_name", URL_BYTES)?;
        Ok(Self {
            resource: members.url("resource")?.ok_or(Fault::Missing("resource"))?,
            authorization_servers: members
                .list("authorization_servers", ISSUERS, URL_BYTES)?
                .unwrap_or_default(),
            scopes_supported: members.scopes("scopes_supported")?,
            dpop_bound: members.flag("dpop_bound_access_tokens_required")?,
            name: name.and_then(|name| shown(&name)),
        })
    }

    /// Whether it is about the server at this URL: its resource is that URL, or a path above it on the same origin. If it
    /// is not, it must not be used (RFC 9728 section 3.3).
    pub fn is_for(&self, server_url: &str) -> bool {
        let (Ok(resource), Ok(server)) = (Parts::of(&self.resource), Parts::of(server_url)) else {
            return false;
        };
        if resource.has_user || resource.has_fragment || resource.origin() != server.origin() {
            return false;
        }
        let [above, path] = [resource.path, server.path].map(|path| path.strip_suffix('/').unwrap_or(path));
        match resource.query {
            Some(_) => above == path && resource.query == server.query,
            None => path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }
    }
}
