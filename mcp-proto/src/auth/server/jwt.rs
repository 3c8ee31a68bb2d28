//! Verification of signed tokens (RFC 9068, RFC 7519) with the keys of their issuers, which are fetched and cached.

use alloc::sync::Arc;
use core::time::Duration;

use serde::Deserialize;

use super::access::{Claims, unix_time};
use super::jws::{Jws, JwtAlgorithm, PublicKey, PublicKeys, parse_key_set};
use super::{Checker, TokenValidation, VerifyError};
use super::{FETCH_TIMEOUT, KeySet, UnverifiedToken, WRONG_SIGNATURE};
use crate::Instant;
use crate::auth::metadata::document_text;
use crate::auth::sanitize;
use crate::auth::{Fetch, FetchId, FetchPolicy, Now, PrivateNetworks, Secret, ServerMetadata};
use crate::prelude::*;
use crate::quota::QuotaOwner;

/// Verifies signed tokens with the keys of their issuers.
///
/// A valid token comes from a [trusted issuer](super::TrustedIssuer), is signed by one of its keys with an allowed
/// algorithm, has not expired, is already valid, names a principal, and has an accepted type. Its audience and scopes
/// are [checked](super::Protection::check_token) afterwards.
///
/// The principal is the token's subject (`sub`) at its issuer or, without a subject, the client itself:
/// `ISSUER#SUBJECT`, or `ISSUER?client_id=CLIENT`, as an issuer contains neither `#` nor `?`.
///
/// The checker caches the keys. [`JwtConfig`] determines when it fetches them, and how often at most.
#[derive(Debug)]
pub struct JwtChecker {
    config: JwtConfig,
    issuers: Vec<IssuerKeys>,
}

impl JwtChecker {
    /// A checker with this configuration. It fetches nothing before the first token.
    #[must_use]
    pub fn new(config: JwtConfig) -> Self {
        let issuer = |(number, trusted)| IssuerKeys::new(trusted, &config, number);
        let issuers = (1..).zip(&config.issuers).map(issuer).collect();
        Self { config, issuers }
    }

    /// Checks a token; `tried` are the keys that are already known not to match its signature.
    fn try_check(
        &mut self,
        now: Now,
        token: &Secret,
        tried: Option<&Arc<dyn KeySet>>,
    ) -> Result<TokenValidation, String> {
        let jws = Jws::parse("the token", token.expose(), &self.config.algorithms)?;
        if !self.config.types.allows(jws.header.typ.as_deref()) {
            return Err("the token is no access token".into());
        }
        // The claims are untrusted, but a token whose claims are unacceptable needs no signature verification.
        let mut claims: Claims = jws.claims()?;
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
        let found = match tried {
            Some(tried) => issuer.rematch_keys(now.instant, &jws, tried),
            None => issuer.match_keys(now.instant, &jws),
        };
        let (keys, key_index) = match found {
            Ok(found) => found,
            Err(validation) => return Ok(validation),
        };
        let scopes = claims.scope.scopes().union(&claims.scp.scopes());
        claims.client_id = claims.client_id.or(claims.azp.take());
        // The leeway for clock differences extends the token's lifetime.
        let access = claims.into_access(&issuer.name, scopes, Some(expires + leeway), jws.payload())?;
        Ok(TokenValidation::SignatureUnchecked(UnverifiedToken { keys, key_index, access: Box::new(access) }))
    }

    /// The issuer whose fetch this is.
    fn fetching(&mut self, id: FetchId) -> Option<&mut IssuerKeys> {
        self.issuers.iter_mut().find(|issuer| issuer.fetching.is_some_and(|(fetching, _)| fetching == id))
    }
}

impl Checker for JwtChecker {
    fn check(&mut self, now: Now, _: &QuotaOwner, token: &Secret) -> TokenValidation {
        self.try_check(now, token, None).unwrap_or_else(TokenValidation::invalid)
    }

    fn recheck(&mut self, now: Now, token: &Secret, failed: &UnverifiedToken) -> TokenValidation {
        if failed.has_key_id() {
            return TokenValidation::invalid(WRONG_SIGNATURE);
        }
        self.try_check(now, token, Some(&failed.keys)).unwrap_or_else(TokenValidation::invalid)
    }

    fn handle_answer(&mut self, now: Now, id: FetchId, status: u16, body: &[u8]) {
        let max_keys = self.config.max_keys;
        if let Some(issuer) = self.fetching(id) {
            issuer.handle_answer(now.instant, status, body, max_keys);
        }
    }

    fn handle_failed(&mut self, _: Now, id: FetchId, detail: &str) {
        if let Some(issuer) = self.fetching(id) {
            issuer.handle_failed(detail);
        }
    }

    fn poll_fetch(&mut self) -> Option<(Fetch, FetchPolicy)> {
        self.issuers.iter_mut().find_map(|issuer| issuer.pending.take())
    }

    fn has_fetch(&self) -> bool {
        self.issuers.iter().any(|issuer| issuer.pending.is_some())
    }
}

config! {
    /// How signed tokens are verified.
    #[derive(Clone, Debug)]
    #[non_exhaustive]
    pub struct JwtConfig {
        /// The trusted issuers.
        pub issuers: Vec<TrustedIssuer> = issuers.into_iter().collect(),
        /// The algorithms that tokens may be signed with. Default: all.
        pub algorithms: Vec<JwtAlgorithm> = JwtAlgorithm::ALL.into(),
        /// The accepted types of tokens. Default: [`TokenTypes::Common`].
        pub types: TokenTypes = TokenTypes::Common,
        /// How far the issuers' clocks may differ from this server's. Default 30 s: more than any clock that is
        /// synchronised by the network differs.
        pub leeway: Duration = Duration::from_secs(30),
        /// Maximum number of keys of one issuer. Default 64: issuers have two or three.
        pub max_keys: usize = 64,
    }

    /// Trusts these issuers.
    pub fn from_issuers(issuers: impl IntoIterator<Item = TrustedIssuer>);
}

impl JwtConfig {
    /// Trusts this issuer, whose metadata names its keys.
    pub fn new(issuer: impl Into<String>) -> Self {
        Self::from_issuers([TrustedIssuer::new(issuer, KeySource::Metadata)])
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
    fn allows(self, typ: Option<&str>) -> bool {
        let typ = typ.map(|typ| typ.strip_prefix("application/").unwrap_or(typ));
        let is = |name: &str| typ.is_some_and(|typ| typ.eq_ignore_ascii_case(name));
        is("at+jwt") || (self == Self::Common && (typ.is_none() || is("JWT")))
    }
}

/// Age at which keys are fetched again: a revoked key remains valid for no longer.
const MAX_AGE: Duration = Duration::from_secs(10 * 60);
/// Maximum age of keys that cannot be fetched again. By then, most tokens that were signed while the issuer was reachable
/// have expired.
const MAX_STALE: Duration = Duration::from_secs(60 * 60);
/// Minimum time between two fetches of keys, successful or not, whatever tokens arrive: a token with a new key waits no
/// longer, and tokens with unknown keys cannot cause more fetches.
const MIN_REFETCH_INTERVAL: Duration = Duration::from_secs(30);

/// An issuer with its cached keys.
#[derive(Debug)]
struct IssuerKeys {
    name: String,
    source: KeySource,
    reach: Option<FetchPolicy>,
    keys: Arc<PublicKeys>,
    /// When the keys were fetched.
    fetched: Option<Instant>,
    /// When the last fetch was requested.
    requested: Option<Instant>,
    fetching: Option<(FetchId, FetchStep)>,
    /// The fetch, until the driver takes it.
    pending: Option<(Fetch, FetchPolicy)>,
    /// Why the last fetch failed.
    last_error: String,
    /// The number of the next fetch, and the step to the one after it: issuers take turns.
    next_fetch: u64,
    fetch_step: u64,
}

#[derive(Clone, Copy, Debug)]
enum FetchStep {
    /// Fetching the metadata at the well-known URL with this index.
    Metadata(usize),
    Keys,
}

/// The keys that a signature must be verified with: the one at this index, or any of them if it names none.
type FoundKeys = (Arc<dyn KeySet>, Option<usize>);

impl IssuerKeys {
    /// The keys of the issuer with this number, starting from 1.
    fn new(trusted: &TrustedIssuer, config: &JwtConfig, number: u64) -> Self {
        let reach = FetchPolicy::for_server(&trusted.issuer, PrivateNetworks::Allowed);
        let mut last_error = reach.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let mut keys = PublicKeys::default();
        if let KeySource::Fixed(set) = &trusted.keys {
            keys = parse_key_set(set.as_bytes(), config.max_keys).unwrap_or_default();
            last_error = "there are no keys for signatures in the set".into();
        }
        Self {
            name: trusted.issuer.clone(),
            source: trusted.keys.clone(),
            reach: reach.ok(),
            keys: Arc::new(keys),
            fetched: None,
            requested: None,
            fetching: None,
            pending: None,
            last_error,
            next_fetch: number,
            fetch_step: u64::try_from(config.issuers.len()).unwrap_or(u64::MAX),
        }
    }

    /// Finds the key of a signature. It may start a fetch even if the result does not depend on it.
    fn match_keys(&mut self, now: Instant, jws: &Jws<'_>) -> Result<FoundKeys, TokenValidation> {
        if matches!(self.source, KeySource::Fixed(_)) {
            if self.keys.0.is_empty() {
                return Err(self.no_keys());
            }
            return self.find_key(jws).map_err(TokenValidation::invalid);
        }
        if self.requested.is_some_and(|asked| now.saturating_since(asked) >= FETCH_TIMEOUT) {
            self.fetching = None;
        }
        let age = self.fetched.map(|fetched| now.saturating_since(fetched));
        if age.is_some_and(|age| age >= MAX_STALE) {
            self.keys = Arc::default();
            self.fetched = None;
        }
        let looked = self.find_key(jws);
        if looked.is_err() || age.is_none_or(|age| age >= MAX_AGE) {
            self.refresh(now);
        }
        looked.map_err(|why| self.resolve_mismatch(why))
    }

    /// Finds the key of a signature that names none, and that does not match the keys `tried`.
    fn rematch_keys(
        &mut self,
        now: Instant,
        jws: &Jws<'_>,
        tried: &Arc<dyn KeySet>,
    ) -> Result<FoundKeys, TokenValidation> {
        if !core::ptr::addr_eq(Arc::as_ptr(tried), Arc::as_ptr(&self.keys)) {
            // New keys have arrived meanwhile.
            return self.match_keys(now, jws);
        }
        if matches!(self.source, KeySource::Fixed(_)) {
            return Err(TokenValidation::invalid(WRONG_SIGNATURE));
        }
        self.refresh(now);
        Err(self.resolve_mismatch(WRONG_SIGNATURE))
    }

    /// Fetches the keys unless the last fetch is too recent. An unknown key may be a new one.
    fn refresh(&mut self, now: Instant) {
        let rested = self.requested.is_none_or(|asked| now.saturating_since(asked) >= MIN_REFETCH_INTERVAL);
        if rested && self.fetching.is_none() {
            self.begin_fetch(now);
        }
    }

    /// The result for a signature that matches none of the known keys.
    fn resolve_mismatch(&self, why: &'static str) -> TokenValidation {
        match self.fetching {
            Some((id, _)) => TokenValidation::Pending(id),
            None if self.fetched.is_some() => TokenValidation::invalid(why),
            None => self.no_keys(),
        }
    }

    fn no_keys(&self) -> TokenValidation {
        TokenValidation::Rejected(VerifyError::unavailable(&self.last_error))
    }

    /// Finds the key of a signature among the known ones, or the reason why none matches.
    fn find_key(&self, jws: &Jws<'_>) -> Result<FoundKeys, &'static str> {
        let named = |key: &PublicKey| {
            key.supports(jws.algorithm) && (jws.header.kid.is_none() || key.id == jws.header.kid)
        };
        let unknown = "the token is signed by a key that its issuer does not have";
        let first = self.keys.0.iter().position(named).ok_or(unknown)?;
        Ok((self.keys.clone(), jws.header.kid.is_some().then_some(first)))
    }

    // --- Fetching ---

    fn begin_fetch(&mut self, now: Instant) {
        self.requested = Some(now);
        match &self.source {
            KeySource::Fixed(_) => {}
            KeySource::Url(url) => self.fetch(url.clone(), FetchStep::Keys),
            KeySource::Metadata => self.fetch_metadata(0),
        }
    }

    fn fetch_metadata(&mut self, place: usize) {
        match ServerMetadata::well_known_urls(&self.name).into_iter().nth(place) {
            Some(url) => self.fetch(url, FetchStep::Metadata(place)),
            None if self.last_error.is_empty() => self.last_error = "the issuer has no metadata".into(),
            None => {}
        }
    }

    fn fetch(&mut self, url: String, step: FetchStep) {
        let Some(reach) = self.reach else { return };
        if let Err(error) = reach.check(&url) {
            self.last_error = error.to_string();
            return;
        }
        let id = FetchId::new(self.next_fetch);
        self.next_fetch = self.next_fetch.saturating_add(self.fetch_step);
        self.fetching = Some((id, step));
        self.pending = Some((Fetch { id, ..Fetch::get(url) }, reach));
    }

    /// Handles the response to the pending fetch.
    fn handle_answer(&mut self, now: Instant, status: u16, body: &[u8], max_keys: usize) {
        let Some((_, step)) = self.fetching.take() else { return };
        match step {
            FetchStep::Metadata(place) => match self.parse_metadata(status, body) {
                Ok(url) => self.fetch(url, FetchStep::Keys),
                Err(problem) => {
                    self.last_error = problem;
                    self.fetch_metadata(place.saturating_add(1));
                }
            },
            FetchStep::Keys => match (status == 200).then(|| parse_key_set(body, max_keys)).flatten() {
                Some(keys) => {
                    self.keys = Arc::new(keys);
                    self.fetched = Some(now);
                    self.last_error.clear();
                }
                None => self.last_error = format!("there are no keys in the answer of status {status}"),
            },
        }
    }

    /// Handles the failure of the pending fetch.
    fn handle_failed(&mut self, detail: &str) {
        let Some((_, step)) = self.fetching.take() else { return };
        self.last_error = sanitize(detail).unwrap_or_default();
        if let FetchStep::Metadata(place) = step {
            self.fetch_metadata(place.saturating_add(1));
        }
    }

    fn parse_metadata(&self, status: u16, body: &[u8]) -> Result<String, String> {
        if status != 200 {
            return Err(format!("its metadata is answered with status {status}"));
        }
        // Only the members needed here: an issuer of machine tokens may lack endpoints that a client requires.
        #[derive(Deserialize)]
        struct Metadata {
            issuer: String,
            jwks_uri: Option<String>,
        }
        let metadata: Metadata = serde_json::from_str(document_text(body).unwrap_or_default())
            .map_err(|error| format!("its metadata cannot be read: {error}"))?;
        if metadata.issuer != self.name {
            return Err("its metadata is of another issuer".into());
        }
        metadata.jwks_uri.ok_or_else(|| "its metadata does not say where its keys are".into())
    }
}
