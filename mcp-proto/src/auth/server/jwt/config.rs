//! Whose tokens are taken, and how.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::JwtAlgorithm;
use crate::auth::PrivateNetworks;

/// How signed tokens are verified.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JwtConfig {
    /// Whose tokens are taken.
    pub issuers: Vec<TrustedIssuer>,
    /// Which algorithms they may be signed with. Default: all of them.
    pub algorithms: Vec<JwtAlgorithm>,
    /// Which types of tokens are taken. Default: [`TokenTypes::Common`].
    pub types: TokenTypes,
    /// By how much the clocks of issuers may differ from the one here. Default 30 s: what a clock that is set by the
    /// network never reaches.
    pub leeway: Duration,
    /// How old keys become before they are fetched again. Default 10 min: a key that was withdrawn is good for no longer.
    pub max_age: Duration,
    /// How old keys may become when they can not be fetched again. Default 1 h: by then the tokens that were signed while
    /// the issuer could be reached have lapsed mostly.
    pub max_stale: Duration,
    /// How long keys are left alone once they were fetched, or could not be, whatever tokens come. Default 30 s: a token
    /// by a new key waits no longer, and tokens by keys that never were have nothing fetched more often.
    pub min_refetch_interval: Duration,
    /// How many keys of an issuer are kept. Default 64: issuers have two or three.
    pub max_keys: usize,
    /// Whether keys may be fetched from private networks. Default: they may. It is the operator who names the issuers,
    /// and theirs are there often.
    pub private_networks: PrivateNetworks,
}

impl JwtConfig {
    /// Tokens of this issuer, whose keys are found by its metadata.
    pub fn new(issuer: impl Into<String>) -> Self {
        Self::from_issuers([TrustedIssuer::new(issuer, KeySource::Metadata)])
    }

    /// Tokens of these issuers.
    pub fn from_issuers(issuers: impl IntoIterator<Item = TrustedIssuer>) -> Self {
        Self {
            issuers: issuers.into_iter().collect(),
            algorithms: JwtAlgorithm::ALL.into(),
            types: TokenTypes::Common,
            leeway: Duration::from_secs(30),
            max_age: Duration::from_secs(10 * 60),
            max_stale: Duration::from_secs(60 * 60),
            min_refetch_interval: Duration::from_secs(30),
            max_keys: 64,
            private_networks: PrivateNetworks::Allowed,
        }
    }
}

/// An issuer whose tokens are taken.
#[derive(Clone, Debug)]
pub struct TrustedIssuer {
    /// What it is called in tokens, character by character.
    pub issuer: String,
    /// Where its keys are.
    pub keys: KeySource,
}

impl TrustedIssuer {
    /// This one.
    pub fn new(issuer: impl Into<String>, keys: KeySource) -> Self {
        Self { issuer: issuer.into(), keys }
    }
}

/// Where the keys of an issuer are.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// Where its metadata says (RFC 8414, OpenID Connect Discovery).
    Metadata,
    /// At this URL.
    Url(String),
    /// Here: a JSON Web Key Set, which does not change.
    Fixed(String),
}

/// Which types of tokens are taken, by the header `typ`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenTypes {
    /// Access tokens by RFC 9068, and those of a type that says nothing: `JWT`, or none. What names another type, such as a
    /// proof or a logout token, is not taken. ID tokens of OpenID Connect do not say what they are: that they are for
    /// somebody else is seen by their audience.
    #[default]
    Common,
    /// `at+jwt` alone, as RFC 9068 has it.
    AccessTokens,
}

impl TokenTypes {
    pub(super) fn allows(self, typ: Option<&str>) -> bool {
        let typ = typ.map(|typ| typ.strip_prefix("application/").unwrap_or(typ));
        let is = |name: &str| typ.is_some_and(|typ| typ.eq_ignore_ascii_case(name));
        is("at+jwt") || (self == Self::Common && (typ.is_none() || is("JWT")))
    }
}
