//! DPoP verification: proofs that the sender of a token holds its key (RFC 9449).

use alloc::sync::Arc;
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::FETCH_TIMEOUT;
use super::PresentedToken;
use super::access::{AccessError, unix_time};
use super::introspection::{ProofUse, ReplayCache};
use super::jws::{Jws, JwtAlgorithm, PublicKey};
use crate::UnixTime;
use crate::auth::dpop::{thumbprint, token_hash};
use crate::auth::{Secret, TokenKind, canonical_resource};
use crate::prelude::*;
use crate::quota::QuotaOwner;

/// The rules for proofs of possession.
///
/// ```
/// use mcp_proto::auth::server::DpopConfig;
///
/// // Each proof is to have a nonce, which all instances that share this key make alike.
/// let dpop = DpopConfig::required().nonces([7; 32]);
/// # drop(dpop);
/// ```
#[derive(Clone)]
#[must_use]
pub struct DpopConfig {
    /// Whether unbound tokens are refused.
    is_required: bool,
    algorithms: Vec<JwtAlgorithm>,
    window: Duration,
    nonces: Option<Arc<Zeroizing<[u8; 32]>>>,
}

/// How long the server issues a nonce, in seconds; it accepts the nonce for as long again.
const NONCE_SECONDS: u64 = 5 * 60;

impl DpopConfig {
    fn new(is_required: bool) -> Self {
        Self {
            is_required,
            algorithms: JwtAlgorithm::ALL.into(),
            window: Duration::from_secs(60),
            nonces: None,
        }
    }

    /// Accepts tokens that are bound to keys, and others as well.
    pub fn accepted() -> Self {
        Self::new(false)
    }

    /// Accepts only tokens that are bound to keys.
    pub fn required() -> Self {
        Self::new(true)
    }

    setters! {
        /// Sets the algorithms that proofs may be signed with. Default: all.
        pub fn signed_by(self, algorithms: impl IntoIterator<Item = JwtAlgorithm>) {
            self.algorithms = algorithms.into_iter().collect()
        }

        /// Sets how far a proof's time may differ from this server's clock, either way. Default 60 s: clocks differ, and
        /// requests wait for connections.
        pub fn window(self, window: Duration) { self.window = window }

        /// Requires a nonce of this server in each proof. A nonce is valid for five to ten minutes, so that proofs cannot
        /// be created long before their use. A 401 tells clients the nonce, and they repeat their request. Default: no
        /// nonce is required.
        ///
        /// Nonces are derived from this key, which is 32 random bytes: instances that share it accept each other's nonces.
        pub fn nonces(self, key: [u8; 32]) { self.nonces = Some(Arc::new(Zeroizing::new(key))) }
    }

    pub(super) fn algorithms(&self) -> Vec<&'static str> {
        self.algorithms.iter().map(|algorithm| algorithm.as_str()).collect()
    }

    /// The kinds of tokens that the server accepts.
    pub(super) fn kinds(&self) -> &'static [TokenKind] {
        if self.is_required { &[TokenKind::Dpop] } else { &[TokenKind::Bearer, TokenKind::Dpop] }
    }

    /// Checks that the proof of a token's request is signed by the key with this thumbprint. RFC 9449, section 4.3. The
    /// proof is recorded on behalf of `owner`.
    pub(super) fn check(
        &self,
        (origin, resource): (&str, &str),
        (presented, proof): (&PresentedToken, &Secret),
        (owner, key): (&QuotaOwner, &str),
        proofs: &ReplayCache,
    ) -> Result<(), AccessError> {
        let proof_error = |why: &str| AccessError::Proof(why.into());
        let invalid = |why| Err(proof_error(why));
        let jws = Jws::parse("the proof", proof.expose(), &self.algorithms).map_err(AccessError::Proof)?;
        if !jws.header.typ.as_deref().is_some_and(|typ| typ.eq_ignore_ascii_case("dpop+jwt")) {
            return invalid("the proof is of another type");
        }
        let jwk = jws.header.jwk.as_ref().map(|jwk| jwk.get());
        let public =
            jwk.and_then(PublicKey::from_jwk).ok_or_else(|| proof_error("the proof has no public key"))?;
        if !public.verifies(&jws) {
            return invalid("the signature of the proof is wrong");
        }
        if jwk.and_then(thumbprint).as_deref() != Some(key) {
            let why = "the token is bound to another key than the one of the proof".into();
            return Err(AccessError::Token { kind: TokenKind::Dpop, why });
        }
        let claims: ProofClaims = jws.claims().map_err(AccessError::Proof)?;
        if claims.htm != presented.method {
            return invalid("the proof is for another method");
        }
        if !is_for_request(&claims.htu, origin, resource, &presented.path) {
            return invalid("the proof is for another URL");
        }
        if claims.ath != Some(token_hash(presented.token.expose())) {
            return invalid("the proof is for another token");
        }
        let now = presented.received;
        if !self.is_nonce_valid(claims.nonce.as_deref(), now.unix) {
            return Err(AccessError::Nonce(self.nonce(now.unix, 0).unwrap_or_default()));
        }
        let made =
            unix_time(claims.iat).ok_or_else(|| proof_error("the proof does not say when it was made"))?;
        let off = made.saturating_since(now.unix).max(now.unix.saturating_since(made));
        if off > self.window {
            return invalid("the proof is not of this time");
        }
        // From the first to the last moment at which the proof is valid, and as long as the verification of a request
        // that arrived before may take.
        let until = now.instant + self.window.saturating_mul(2) + FETCH_TIMEOUT;
        match proofs.record(now.instant, owner, key, &claims.jti, until) {
            ProofUse::First => Ok(()),
            ProofUse::Replayed => invalid("the proof was used before"),
            ProofUse::OverQuota => Err(AccessError::OverQuota),
        }
    }

    fn is_nonce_valid(&self, nonce: Option<&str>, now: UnixTime) -> bool {
        let made = |ago| self.nonce(now, ago);
        self.nonces.is_none()
            || (nonce.is_some() && [0, 1].map(made).iter().any(|made| made.as_deref() == nonce))
    }

    /// The nonce issued now, or that number of turns `ago`: a hash of the key and of the time, truncated to half, which
    /// prevents length extension.
    fn nonce(&self, now: UnixTime, ago: u64) -> Option<String> {
        let key = self.nonces.as_ref()?;
        let turn = now.since_epoch().as_secs().checked_div(NONCE_SECONDS)?.saturating_sub(ago);
        let hash = Sha256::new().chain_update(key.as_slice()).chain_update(turn.to_be_bytes()).finalize();
        Some(BASE64.encode(hash.get(..16)?))
    }
}

debug_fields! { DpopConfig(self) { is_required, window, nonces = self.nonces.is_some() } }

/// The claims of a proof.
#[derive(Deserialize)]
struct ProofClaims {
    jti: String,
    htm: String,
    htu: String,
    iat: f64,
    ath: Option<String>,
    nonce: Option<String>,
}

/// Whether a proof's URL matches a request's path: at the origin of the resource, as clients know it, or the resource
/// itself, where a proxy in front of this server changes paths.
fn is_for_request(url: &str, origin: &str, resource: &str, path: &str) -> bool {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let same = |other: &str| match (canonical_resource(url), canonical_resource(other)) {
        (Ok(url), Ok(other)) => url == other,
        _ => false,
    };
    same(resource) || same(&alloc::format!("{origin}{path}"))
}
