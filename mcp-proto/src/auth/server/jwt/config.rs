//! Configuration of signed tokens: issuers, algorithms and limits.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::JwtAlgorithm;

/// How signed tokens are verified.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JwtConfig {
    /// The trusted issuers.
    pub issuers: Vec<TrustedIssuer>,
    /// The algorithms that tokens may be signed with. Default: all.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The accepted types of tokens. Default: [`TokenTypes::Common`].
    pub types: TokenTypes,
    /// How far the issuers' clocks may differ from this server's. Default 30 s: more than any clock that is
    /// synchronised by the network differs.
    pub leeway: Duration,
    /// Maximum number of keys of one issuer. Default 64: issuers have two or three.
    pub max_keys: usize,
}

impl JwtConfig {
    /// Trusts this issuer, whose metadata names its keys.
    pub fn new(issuer: impl Into<String>) -> Self {
        Self::from_issuers([TrustedIssuer::new(issuer, KeySource::Metadata)])
    }

    /// Trusts these issuers.
    pub fn from_issuers(issuers: impl IntoIterator<Item = TrustedIssuer>) -> Self {
        Self {
            issuers: issuers.into_iter().collect(),
            algorithms: JwtAlgorithm::ALL.into(),
            types: TokenTypes::Common,
            leeway: Duration::from_secs(30),
            max_keys: 64,
        }
    }
}

/// An issuer whose tokens are accepted.
#[derive(Clone, Debug)]
pub struct TrustedIssuer {
    /// The issuer's identifier, exactly as in tokens.
    pub issuer: String,
    /// The source of the issuer's keys.
    pub keys: KeySource,
}

impl TrustedIssuer {
    /// An issuer with this identifier and source of keys.
    pub fn new(issuer: impl Into<String>, keys: KeySource) -> Self {
        Self { issuer: issuer.into(), keys }
    }
}

/// The source of an issuer's keys.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// The URL in the issuer's metadata (RFC 8414, OpenID Connect Discovery).
    Metadata,
    /// This URL.
    Url(String),
    /// This JSON Web Key Set, which does not change.
    Fixed(String),
}

/// The accepted types of tokens, by the header `typ`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenTypes {
    /// Access tokens by RFC 9068, and tokens of unspecified type: `JWT`, or none. Tokens of any other type, such as
    /// proofs or logout tokens, are rejected. OpenID Connect ID tokens have no type of their own; their audience, which
    /// is a client, excludes them.
    #[default]
    Common,
    /// Only `at+jwt`, as RFC 9068 requires.
    AccessTokens,
}

impl TokenTypes {
    pub(super) fn allows(self, typ: Option<&str>) -> bool {
        let typ = typ.map(|typ| typ.strip_prefix("application/").unwrap_or(typ));
        let is = |name: &str| typ.is_some_and(|typ| typ.eq_ignore_ascii_case(name));
        is("at+jwt") || (self == Self::Common && (typ.is_none() || is("JWT")))
    }
}
