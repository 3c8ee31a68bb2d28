//! Metadata of authorization servers (RFC 8414, OpenID Connect Discovery).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::MetadataError;
use crate::auth::Scopes;
use crate::auth::members::{MemberError, Members};
use crate::auth::url;

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

const NAMES: [&str; 15] = [
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
        let Ok(parts) = url::parse(issuer) else { return Vec::new() };
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
        let members = Members::parse(bytes, &NAMES)?;
        Ok(Self {
            issuer: members.url("issuer")?.ok_or(MemberError::Missing("issuer"))?,
            authorization_endpoint: members.url("authorization_endpoint")?,
            token_endpoint: members.url("token_endpoint")?.ok_or(MemberError::Missing("token_endpoint"))?,
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
        let issuer = url::parse(server_url).map_err(MetadataError::Url)?.origin();
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
        self.issuer == issuer
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
