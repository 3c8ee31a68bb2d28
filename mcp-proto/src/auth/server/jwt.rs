//! Verification of signed tokens (RFC 9068, RFC 7519).

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use serde::Deserialize;

use super::access::{Confirmation, OneOrMany, principal, unix_time};
use super::checker::{UnverifiedToken, WRONG_SIGNATURE};
use super::issuer_keys::{FetchIds, IssuerKeys, KeyMatch};
use super::jws::{Jws, JwtAlgorithm, PublicKey};
use super::{Access, Checker, TokenValidation, VerifyError};
use crate::auth::{Fetch, FetchId, FetchPolicy, Now, Scopes, Secret};
use crate::quota::QuotaOwner;
use crate::schema::Json;

/// Verifies signed tokens with the keys of their issuers.
///
/// A valid token comes from a [trusted issuer](super::TrustedIssuer), is signed by one of its keys with an allowed
/// algorithm, has not expired, is already valid, names a principal, and has an accepted type. Its audience and scopes
/// are [checked](super::super::Protection::check_token) afterwards.
///
/// The principal is the token's subject (`sub`) at its issuer or, without a subject, the client itself:
/// `ISSUER#SUBJECT`, or `ISSUER?client_id=CLIENT`, as an issuer contains neither `#` nor `?`.
///
/// The checker caches the keys. [`JwtConfig`] determines when it fetches them, and how often at most.
pub struct JwtChecker {
    config: JwtConfig,
    issuers: Vec<IssuerKeys>,
    last_fetch: u64,
}

impl JwtChecker {
    /// A checker with this configuration. It fetches nothing before the first token.
    #[must_use]
    pub fn new(config: JwtConfig) -> Self {
        let issuer =
            |trusted: &super::TrustedIssuer| IssuerKeys::new(trusted.issuer.clone(), &trusted.keys, &config);
        let issuers = config.issuers.iter().map(issuer).collect();
        Self { config, issuers, last_fetch: 0 }
    }

    /// Checks a token; `tried` are the keys that are already known not to match its signature.
    fn try_check(
        &mut self,
        now: Now,
        token: &Secret,
        tried: Option<&Arc<[PublicKey]>>,
    ) -> Result<TokenValidation, String> {
        let jws = Jws::parse("the token", token.expose(), &self.config.algorithms)?;
        if !self.config.types.allows(jws.header.typ.as_deref()) {
            return Err("the token is no access token".into());
        }
        // The claims are untrusted, but a token whose claims are unacceptable needs no signature verification.
        let claims: Claims = jws.claims()?;
        let issuer = self.issuers.iter_mut().find(|issuer| claims.iss.as_deref() == Some(&issuer.name));
        let issuer = issuer.ok_or("the token is of an issuer that is not trusted here")?;
        let leeway = self.config.leeway;
        let expires = claims.exp.and_then(unix_time).ok_or("the token does not say when it expires")?;
        if expires + leeway <= now.unix {
            return Err("the token has expired".into());
        }
        if let Some(from) = claims.nbf {
            let from = unix_time(from).ok_or("the token's claims cannot be read")?;
            if from > now.unix + leeway {
                return Err("the token is not good yet".into());
            }
        }
        let mut numbers = FetchIds(&mut self.last_fetch);
        let judged = match tried {
            Some(tried) => issuer.rematch_keys(now.instant, &jws, tried, &mut numbers),
            None => issuer.match_keys(now.instant, &jws, &mut numbers),
        };
        let (keys, named) = match judged {
            KeyMatch::Found(keys, named) => (keys, named),
            KeyMatch::Rejected(why) => return Err(why.into()),
            KeyMatch::Pending(id) => return Ok(TokenValidation::Pending(id)),
            KeyMatch::NoKeys(why) => return Ok(TokenValidation::Rejected(VerifyError::unavailable(why))),
        };
        if claims.cnf.as_ref().is_some_and(Confirmation::is_unsupported) {
            return Err("the token is bound to something that this server cannot check".into());
        }
        let client_id = claims.client_id.as_ref().or(claims.azp.as_ref());
        let principal = principal(&issuer.name, claims.sub.as_deref(), client_id.map(|id| id.as_str()))
            .ok_or("the token names neither a subject nor a client")?;
        let access = Box::new(Access {
            principal,
            scopes: claims.scopes(),
            client_id: client_id.cloned(),
            // The leeway for clock differences extends the token's lifetime.
            expires: Some(expires + leeway),
            key: claims.cnf.and_then(|bound| bound.jkt),
            audiences: claims.aud.0,
            claims: Json::new(jws.payload().to_string()).unwrap_or_else(|_| Json::empty_object()),
        });
        Ok(TokenValidation::SignatureUnchecked(UnverifiedToken { keys, key_index: named, access }))
    }
}

impl Checker for JwtChecker {
    fn check(&mut self, now: Now, _: &QuotaOwner, token: &Secret) -> TokenValidation {
        self.try_check(now, token, None)
            .unwrap_or_else(|why| TokenValidation::Rejected(VerifyError::invalid(why)))
    }

    fn recheck(&mut self, now: Now, token: &Secret, failed: &UnverifiedToken) -> TokenValidation {
        let checked = match failed.has_key_id() {
            true => Err(WRONG_SIGNATURE.into()),
            false => self.try_check(now, token, Some(&failed.keys)),
        };
        checked.unwrap_or_else(|why| TokenValidation::Rejected(VerifyError::invalid(why)))
    }

    fn handle_answer(&mut self, now: Now, id: FetchId, status: u16, body: &[u8]) {
        let mut numbers = FetchIds(&mut self.last_fetch);
        if let Some(issuer) = self.issuers.iter_mut().find(|issuer| issuer.is_fetching(id)) {
            issuer.handle_answer(now.instant, status, body, &self.config, &mut numbers);
        }
    }

    fn handle_failed(&mut self, _: Now, id: FetchId, detail: &str) {
        let mut numbers = FetchIds(&mut self.last_fetch);
        if let Some(issuer) = self.issuers.iter_mut().find(|issuer| issuer.is_fetching(id)) {
            issuer.handle_failed(detail, &mut numbers);
        }
    }

    fn poll_fetch(&mut self) -> Option<(Fetch, FetchPolicy)> {
        self.issuers.iter_mut().find_map(IssuerKeys::poll_fetch)
    }

    fn has_fetch(&self) -> bool {
        self.issuers.iter().any(IssuerKeys::has_fetch)
    }
}

impl fmt::Debug for JwtChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtChecker").field("config", &self.config).finish_non_exhaustive()
    }
}

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

/// The claims of a token (RFC 9068, section 2.2), which are untrusted until its signature is verified.
#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) iss: Option<String>,
    pub(super) sub: Option<String>,
    #[serde(default)]
    pub(super) aud: OneOrMany,
    pub(super) exp: Option<f64>,
    pub(super) nbf: Option<f64>,
    pub(super) client_id: Option<String>,
    /// The client's id in OpenID Connect.
    pub(super) azp: Option<String>,
    #[serde(default)]
    scope: OneOrMany,
    /// The scopes in tokens of some servers.
    #[serde(default)]
    scp: OneOrMany,
    pub(super) cnf: Option<Confirmation>,
}

impl Claims {
    pub(super) fn scopes(&self) -> Scopes {
        self.scope.scopes().union(&self.scp.scopes())
    }
}
