//! Metadata of protected resources (RFC 9728).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{MetadataError, canonical_resource};
use crate::auth::members::{MemberError, Members};
use crate::auth::sanitize::sanitize;
use crate::auth::url;
use crate::auth::{Scopes, URL_BYTES};

/// Maximum number of authorization servers that are read.
const ISSUERS: usize = 16;

/// The protected resource metadata of a server.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-location>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// The identifier of the resource.
    pub resource: String,
    /// The issuers of tokens for it, the first 16. May be empty. None of them has been
    /// [checked](crate::auth::FetchPolicy::check).
    pub authorization_servers: Vec<String>,
    /// The scopes that the resource supports.
    pub scopes_supported: Option<Scopes>,
    /// Whether every token must be bound to a key (RFC 9449).
    pub dpop_bound: bool,
    /// The resource's name, sanitized for display.
    pub name: Option<String>,
}

/// The well-known path of an origin's metadata; the path of a resource below the origin is appended.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

const NAMES: [&str; 5] = [
    "resource",
    "authorization_servers",
    "scopes_supported",
    "dpop_bound_access_tokens_required",
    "resource_name",
];

impl ResourceMetadata {
    /// The URLs to try, in order, if no challenge names the metadata's URL. Empty if `server_url` is invalid.
    ///
    /// ```
    /// use mcp_proto::auth::ResourceMetadata;
    ///
    /// let places = ResourceMetadata::well_known_urls("https://example.com/public/mcp");
    /// assert_eq!(places, [
    ///     "https://example.com/.well-known/oauth-protected-resource/public/mcp",
    ///     "https://example.com/.well-known/oauth-protected-resource",
    /// ]);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements>
    pub fn well_known_urls(server_url: &str) -> Vec<String> {
        let Ok(parts) = url::parse(server_url) else { return Vec::new() };
        let root = format!("{}{WELL_KNOWN}", parts.origin());
        let path = if parts.path == "/" { "" } else { parts.path };
        let query = parts.query.map(|query| format!("?{query}")).unwrap_or_default();
        // RFC 9728 preserves a trailing slash of the path; many servers omit it.
        let places = [format!("{root}{path}{query}"), format!("{root}{}", path.trim_end_matches('/')), root];
        let mut distinct = Vec::new();
        for place in places {
            if !distinct.contains(&place) {
                distinct.push(place);
            }
        }
        distinct
    }

    /// Parses a document.
    ///
    /// # Errors
    /// If the document is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, MetadataError> {
        let members = Members::parse(bytes, &NAMES)?;
        let name = members.text("resource_name", URL_BYTES)?;
        Ok(Self {
            resource: members.url("resource")?.ok_or(MemberError::Missing("resource"))?,
            authorization_servers: members
                .list("authorization_servers", ISSUERS, URL_BYTES)?
                .unwrap_or_default(),
            scopes_supported: members.scopes("scopes_supported")?,
            dpop_bound: members.flag("dpop_bound_access_tokens_required")?,
            name: name.and_then(|name| sanitize(&name)),
        })
    }

    /// How the document identifies the server at `server_url`. `read_from` is the URL that the document was fetched
    /// from. Scheme and host are compared in their [canonical form](crate::auth::canonical_resource), the rest as it is
    /// written.
    ///
    /// ```
    /// use mcp_proto::auth::{ResourceIdentity, ResourceMetadata};
    ///
    /// let mut metadata = ResourceMetadata::default();
    /// metadata.resource = "https://example.com".into();
    /// let [_, root] = ResourceMetadata::well_known_urls("https://example.com/mcp").try_into().unwrap();
    /// assert_eq!(metadata.identity("https://example.com/mcp", &root), ResourceIdentity::Origin);
    /// ```
    ///
    /// RFC 9728, sections 3.3 and 7.3.
    pub fn identity(&self, server_url: &str, read_from: &str) -> ResourceIdentity {
        let Ok(server) = url::parse(server_url) else { return ResourceIdentity::Other };
        let (Ok(own), Some(named)) = (canonical_resource(server_url), canonical(&self.resource)) else {
            return ResourceIdentity::Other;
        };
        let origin = server.origin();
        let root = format!("{origin}{WELL_KNOWN}");
        if named == own {
            ResourceIdentity::Exact
        } else if with_slash(&named) == own || named == with_slash(&own) {
            ResourceIdentity::TrailingSlash
        } else if named == origin && canonical(read_from).is_some_and(|place| place == root) {
            ResourceIdentity::Origin
        } else {
            ResourceIdentity::Other
        }
    }

    /// Whether the document names this resource, wherever it was found.
    pub(crate) fn is_for(&self, resource: &str) -> bool {
        canonical(&self.resource).is_some_and(|named| canonical(resource) == Some(named))
    }
}

/// The canonical form of a resource identifier, which has neither user name nor fragment.
fn canonical(resource: &str) -> Option<String> {
    canonical_resource(resource).ok().filter(|_| !resource.contains('#'))
}

/// The same URL with another slash at the end of its path.
fn with_slash(url: &str) -> String {
    match url.split_once('?') {
        Some((path, query)) => format!("{path}/?{query}"),
        None => format!("{url}/"),
    }
}

/// How protected-resource metadata identifies a server: see [`ResourceMetadata::identity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceIdentity {
    /// The metadata names exactly the server's URL.
    Exact,
    /// The metadata names the server's URL with one trailing slash more or less.
    TrailingSlash,
    /// The metadata names the server's origin and was read from that origin's well-known path. No tenant of one path
    /// can publish it there.
    Origin,
    /// The metadata describes another resource, and must not be used.
    Other,
}
