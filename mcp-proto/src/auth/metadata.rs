//! Metadata of protected resources (RFC 9728) and of authorization servers (RFC 8414, OpenID Connect Discovery).

use serde_json::value::RawValue;

use crate::codec::BYTE_ORDER_MARK;
use crate::prelude::*;
use crate::rpc::members::collect_members;

use super::{DOCUMENT_BYTES, FetchPolicyError, Scopes, URL_BYTES, fetch, sanitize};

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
    let parts = fetch::parse_url(url)?;
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

error_text! { MetadataError:
    TooLong => "the metadata is too long";
    Json => "the metadata is no JSON object";
    Duplicate(name) => "the metadata says twice what {name} is";
    Missing(name) => "the metadata lacks {name}";
    InvalidMember(name) => "in the metadata, {name} is invalid";
    Url(error) => "{error}";
}

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

const RESOURCE_NAMES: [&str; 5] = [
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
        let Ok(parts) = fetch::parse_url(server_url) else { return Vec::new() };
        let root = format!("{}{WELL_KNOWN}", parts.origin());
        let path = if parts.path == "/" { "" } else { parts.path };
        let query = parts.query.map(|query| format!("?{query}")).unwrap_or_default();
        // RFC 9728 preserves a trailing slash of the path; many servers omit it.
        let bare = format!("{root}{}", path.trim_end_matches('/'));
        let mut places = Vec::from([format!("{root}{path}{query}"), bare, root]);
        places.dedup();
        places
    }

    /// Parses a document.
    ///
    /// # Errors
    /// If the document is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, MetadataError> {
        let members = Members::parse(bytes, &RESOURCE_NAMES)?;
        let name = members.text("resource_name", URL_BYTES)?;
        Ok(Self {
            resource: members.url("resource")?.ok_or(MetadataError::Missing("resource"))?,
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
        let Ok(server) = fetch::parse_url(server_url) else { return ResourceIdentity::Other };
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

/// How a document's issuer is compared with the expected one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IssuerMatch {
    /// Character by character, as the specification requires.
    #[default]
    Exact,
    /// Like `Exact`, but either may omit a slash that is the whole path.
    RootSlash,
}

/// The metadata of an authorization server. Lists contain at most the first 64 items. None of the URLs has been
/// [checked](crate::auth::FetchPolicy::check).
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerMetadata {
    /// The issuer's identifier.
    pub issuer: String,
    /// The page on which a user consents.
    pub authorization_endpoint: Option<String>,
    /// The endpoint that issues tokens.
    pub token_endpoint: String,
    /// The endpoint that registers clients (RFC 7591).
    pub registration_endpoint: Option<String>,
    /// The endpoint that revokes tokens (RFC 7009).
    pub revocation_endpoint: Option<String>,
    /// The endpoint that describes tokens to resource servers (RFC 7662).
    pub introspection_endpoint: Option<String>,
    /// The URL of the issuer's keys.
    pub jwks_uri: Option<String>,
    /// The scopes that the server supports.
    pub scopes_supported: Option<Scopes>,
    /// The supported methods of code challenges (RFC 7636).
    pub code_challenge_methods: Option<Vec<String>>,
    /// The supported methods of client authentication at the token endpoint.
    pub token_auth_methods: Option<Vec<String>>,
    /// The algorithms accepted for client assertions.
    pub token_auth_algorithms: Option<Vec<String>>,
    /// Whether the server accepts URLs of metadata documents as client ids.
    pub client_id_documents: bool,
    /// Whether every response of the authorization endpoint names the issuer (RFC 9207).
    pub iss_in_answers: bool,
    /// The algorithms accepted for proofs of possession (RFC 9449).
    pub dpop_algorithms: Option<Vec<String>>,
    /// The supported grant types.
    pub grant_types: Option<Vec<String>>,
}

const SERVER_NAMES: [&str; 15] = [
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
    "introspection_endpoint",
    "jwks_uri",
    "scopes_supported",
    "code_challenge_methods_supported",
    "token_endpoint_auth_methods_supported",
    "token_endpoint_auth_signing_alg_values_supported",
    "client_id_metadata_document_supported",
    "authorization_response_iss_parameter_supported",
    "dpop_signing_alg_values_supported",
    "grant_types_supported",
];

impl ServerMetadata {
    /// The URLs to try for an issuer's metadata, in order. Empty if `issuer` is invalid: it must be a URL without user,
    /// query and fragment.
    ///
    /// ```
    /// use mcp_proto::auth::ServerMetadata;
    ///
    /// let places = ServerMetadata::well_known_urls("https://auth.example.com/tenant1");
    /// assert_eq!(places, [
    ///     "https://auth.example.com/.well-known/oauth-authorization-server/tenant1",
    ///     "https://auth.example.com/.well-known/openid-configuration/tenant1",
    ///     "https://auth.example.com/tenant1/.well-known/openid-configuration",
    /// ]);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery>
    pub fn well_known_urls(issuer: &str) -> Vec<String> {
        let Ok(parts) = fetch::parse_url(issuer) else { return Vec::new() };
        if parts.user.is_some() || parts.query.is_some() || parts.has_fragment {
            return Vec::new();
        }
        let (origin, path) = (parts.origin(), parts.path.strip_suffix('/').unwrap_or(parts.path));
        //= C12.5 "AS metadata: path issuer → RFC 8414 insert, OIDC insert, OIDC append; no path → 8414, OIDC"
        let mut places = Vec::from([
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
        ]);
        if !path.is_empty() {
            places.push(format!("{origin}{path}/.well-known/openid-configuration"));
        }
        places
    }

    /// Parses a document.
    ///
    /// # Errors
    /// If the document is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, MetadataError> {
        let members = Members::parse(bytes, &SERVER_NAMES)?;
        Ok(Self {
            issuer: members.url("issuer")?.ok_or(MetadataError::Missing("issuer"))?,
            authorization_endpoint: members.url("authorization_endpoint")?,
            token_endpoint: members.url("token_endpoint")?.ok_or(MetadataError::Missing("token_endpoint"))?,
            registration_endpoint: members.url("registration_endpoint")?,
            revocation_endpoint: members.url("revocation_endpoint")?,
            introspection_endpoint: members.url("introspection_endpoint")?,
            jwks_uri: members.url("jwks_uri")?,
            scopes_supported: members.scopes("scopes_supported")?,
            code_challenge_methods: members.names("code_challenge_methods_supported")?,
            token_auth_methods: members.names("token_endpoint_auth_methods_supported")?,
            token_auth_algorithms: members.names("token_endpoint_auth_signing_alg_values_supported")?,
            client_id_documents: members.flag("client_id_metadata_document_supported")?,
            iss_in_answers: members.flag("authorization_response_iss_parameter_supported")?,
            dpop_algorithms: members.names("dpop_signing_alg_values_supported")?,
            grant_types: members.names("grant_types_supported")?,
        })
    }

    //= R3 "without it `/authorize`, `/token`, `/register` there"
    /// The defaults for a server of 2025-03-26 without metadata: it is its own authorization server, at the paths
    /// `/authorize`, `/token` and `/register` of its origin, and names no methods of code challenges.
    ///
    /// # Errors
    /// If the URL is invalid.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery>
    pub fn at_origin(server_url: &str) -> Result<Self, MetadataError> {
        let issuer = fetch::parse_url(server_url).map_err(MetadataError::Url)?.origin();
        Ok(Self {
            authorization_endpoint: Some(format!("{issuer}/authorize")),
            token_endpoint: format!("{issuer}/token"),
            registration_endpoint: Some(format!("{issuer}/register")),
            issuer,
            ..Self::default()
        })
    }

    /// Whether the document belongs to the issuer that it was fetched for. If not, it must not be used.
    pub fn matches_issuer(&self, issuer: &str, how: IssuerMatch) -> bool {
        //= K23 "Issuers are compared exactly"
        self.issuer == issuer
            //= K23 "a trailing slash is tolerated by choice"
            || how == IssuerMatch::RootSlash && without_root_slash(&self.issuer) == without_root_slash(issuer)
    }

    /// Whether the server supports code challenges by S256. If not, no code may be requested.
    pub fn offers_s256(&self) -> bool {
        self.code_challenge_methods.iter().flatten().any(|method| method == "S256")
    }
}

/// An issuer without the slash that is its whole path.
fn without_root_slash(issuer: &str) -> &str {
    let bare = issuer.strip_suffix('/').unwrap_or(issuer);
    let authority = bare.split_once("://").map(|(_, authority)| authority);
    if authority.is_some_and(|authority| !authority.contains(['/', '?', '#'])) { bare } else { issuer }
}

// Bounded access to members of untrusted JSON documents, and texts of other parties for display.

/// Maximum number of names in a list, maximum number of scopes, and maximum bytes of each.
const NAMES: usize = 64;
const SCOPES: usize = 1024;
const NAME_BYTES: usize = 256;

/// The text of a JSON document, without a byte order mark, as RFC 8259 allows (section 8.1). `None` if it is not UTF-8.
pub(crate) fn document_text(bytes: &[u8]) -> Option<&str> {
    core::str::from_utf8(bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)).ok()
}

/// The requested members of an object.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    names: &'static [&'static str],
    values: Vec<Option<&'a str>>,
}

impl<'a> Members<'a> {
    /// Collects the members with these names in one pass, without allocating for any others.
    pub(crate) fn parse(bytes: &'a [u8], names: &'static [&'static str]) -> Result<Self, MetadataError> {
        if bytes.len() > DOCUMENT_BYTES {
            return Err(MetadataError::TooLong);
        }
        let text = document_text(bytes).ok_or(MetadataError::Json)?;
        let mut values = vec![None; names.len()];
        let repeated = collect_members(text, names, &mut values).map_err(|_| MetadataError::Json)?;
        match repeated.and_then(|index| names.get(index)) {
            Some(name) => Err(MetadataError::Duplicate(name)),
            None => Ok(Self { names, values }),
        }
    }

    /// A member's raw JSON; `None` if it is null.
    pub(crate) fn get(&self, name: &'static str) -> Option<&'a str> {
        let index = self.names.iter().position(|known| *known == name)?;
        let value = (*self.values.get(index)?)?;
        Some(value).filter(|value| *value != "null")
    }

    fn typed<T: serde::Deserialize<'a>>(&self, name: &'static str) -> Result<Option<T>, MetadataError> {
        let value = self.get(name).map(serde_json::from_str).transpose();
        value.map_err(|_| MetadataError::InvalidMember(name))
    }

    /// A string of at most `most` bytes. An empty one counts as absent.
    pub(crate) fn text(&self, name: &'static str, most: usize) -> Result<Option<String>, MetadataError> {
        let text = self.typed::<String>(name)?.filter(|text| !text.is_empty());
        if text.as_ref().is_some_and(|text| text.len() > most) {
            Err(MetadataError::InvalidMember(name))
        } else {
            Ok(text)
        }
    }

    /// A URL, which has not been checked.
    pub(crate) fn url(&self, name: &'static str) -> Result<Option<String>, MetadataError> {
        self.text(name, URL_BYTES)
    }

    /// A boolean; false if absent.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, MetadataError> {
        Ok(self.typed(name)?.unwrap_or(false))
    }

    /// The first strings of a list, without those that are too long for a name.
    pub(crate) fn names(&self, name: &'static str) -> Result<Option<Vec<String>>, MetadataError> {
        self.list(name, NAMES, NAME_BYTES)
    }

    /// The first strings of a list, without those that are longer than the limit.
    pub(crate) fn list(
        &self,
        name: &'static str,
        items: usize,
        bytes: usize,
    ) -> Result<Option<Vec<String>>, MetadataError> {
        let Some(list) = self.typed::<Vec<&RawValue>>(name)? else { return Ok(None) };
        let texts = list.into_iter().map(|item| serde_json::from_str::<String>(item.get()));
        let fitting = texts.filter(|text| text.as_ref().map_or(true, |text| text.len() <= bytes));
        let kept: Result<Vec<_>, _> = fitting.take(items).collect();
        kept.map(Some).map_err(|_| MetadataError::InvalidMember(name))
    }

    /// The first scopes of an array.
    pub(crate) fn scopes(&self, name: &'static str) -> Result<Option<Scopes>, MetadataError> {
        let list = self.list(name, SCOPES, NAME_BYTES)?;
        Ok(list.map(|list| list.iter().map(String::as_str).collect()))
    }
}
