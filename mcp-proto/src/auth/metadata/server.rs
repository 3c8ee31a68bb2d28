//! Metadata of authorization servers (RFC 8414, OpenID Connect Discovery).

use alloc::string::String;
use alloc::vec::Vec;

use super::MetadataError;
use crate::auth::Scopes;

/// How the issuer that a document names is compared with the one it was looked for under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IssuerMatch {
    /// Character by character, as the specification has it.
    #[default]
    Exact,
    /// The same, but a slash that is the whole path may be missing in either.
    RootSlash,
}

/// What an authorization server says of itself.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerMetadata {
    /// Who it is.
    pub issuer: String,
    /// The page on which a person agrees.
    pub authorization_endpoint: Option<String>,
    /// Where grants are turned into tokens.
    pub token_endpoint: String,
    /// Where clients register (RFC 7591).
    pub registration_endpoint: Option<String>,
    /// Where tokens are given back (RFC 7009).
    pub revocation_endpoint: Option<String>,
    /// Where resource servers ask about tokens (RFC 7662).
    pub introspection_endpoint: Option<String>,
    /// Its keys.
    pub jwks_uri: Option<String>,
    /// The scopes that it knows.
    pub scopes_supported: Option<Scopes>,
    /// How code challenges may be made (RFC 7636).
    pub code_challenge_methods: Option<Vec<String>>,
    /// How clients may show who they are at the token endpoint.
    pub token_auth_methods: Option<Vec<String>>,
    /// The algorithms that assertions of clients may be signed with.
    pub token_auth_algorithms: Option<Vec<String>>,
    /// Whether it takes URLs of documents as ids of clients.
    pub client_id_documents: bool,
    /// Whether it names itself in every answer of the authorization endpoint (RFC 9207).
    pub iss_in_answers: bool,
    /// The algorithms that proofs of possession may be signed with (RFC 9449).
    pub dpop_algorithms: Option<Vec<String>>,
    /// The grants that it takes.
    pub grant_types: Option<Vec<String>>,
}

impl ServerMetadata {
    /// Where it is looked for, in order. None if `issuer` is no issuer: a URL without query and fragment.
    pub fn places(issuer: &str) -> Vec<String> {
        let _ = issuer;
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

    /// What holds for a server of 2025-03-26 that has no metadata: it is its own authorization server.
    ///
    /// # Errors
    /// If this is no URL.
    pub fn at_origin(server_url: &str) -> Result<Self, MetadataError> {
        let _ = server_url;
        Ok(Self::default())
    }

    /// Whether it is of the issuer that it was looked for under. If it is not, it must not be used.
    pub fn is_of(&self, issuer: &str, how: IssuerMatch) -> bool {
        let _ = how;
        self.issuer == issuer
    }

    /// Whether code challenges may be made with S256. If not, no code may be asked for.
    pub fn offers_s256(&self) -> bool {
        self.code_challenge_methods.iter().flatten().any(|method| method == "S256")
    }
}
