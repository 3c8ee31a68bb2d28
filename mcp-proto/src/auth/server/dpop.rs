//! DPoP verification: proofs that the sender of a token holds its key (RFC 9449).

use alloc::sync::Arc;
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::FETCH_TIMEOUT;
use super::PresentedToken;
use super::access::{AccessError, unix_time};
use super::introspection::digest;
use super::jws::{Jws, JwtAlgorithm, PublicKey};
use crate::UnixTime;
use crate::auth::dpop::{thumbprint, token_hash};
use crate::auth::{Secret, TokenKind, canonical_resource};
use crate::prelude::*;
use crate::quota::QuotaOwner;
use crate::single_use::{Claim, UseId};

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

/// How long the server accepts a nonce.
const NONCE_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// The part of a nonce that only this server can create.
const NONCE_TAG_BYTES: usize = 16;

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

        /// Requires a nonce of this server in each proof. A nonce is valid for ten minutes, so that proofs cannot be
        /// created long before their use. A 401 tells clients the nonce, and they repeat their request. Default: no nonce
        /// is required.
        ///
        /// Nonces are derived from this key, which is 32 random bytes: instances that share it accept each other's nonces.
        ///
        /// With a [store](crate::front::SingleUse) that can lose records, such as one with replicas, require nonces: after
        /// a failover, a new nonce shows that a proof is new. Without nonces, such proofs get 503 until they are newer
        /// than the failover by the [window](Self::window).
        pub fn nonces(self, key: [u8; 32]) { self.nonces = Some(Arc::new(Zeroizing::new(key))) }
    }

    pub(super) fn algorithms(&self) -> Vec<&'static str> {
        self.algorithms.iter().map(|algorithm| algorithm.as_str()).collect()
    }

    /// The kinds of tokens that the server accepts.
    pub(super) fn kinds(&self) -> &'static [TokenKind] {
        if self.is_required { &[TokenKind::Dpop] } else { &[TokenKind::Bearer, TokenKind::Dpop] }
    }

    /// Checks that the proof of a token's request is signed by the key with this thumbprint. RFC 9449, section 4.3.
    /// Returns the claim of its only use, on behalf of `owner`.
    pub(super) fn check(
        &self,
        (origin, resource): (&str, &str),
        (presented, proof): (&PresentedToken, &Secret),
        (owner, key): (QuotaOwner, &str),
    ) -> Result<Claim, AccessError> {
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
        let now = presented.received.unix;
        let issued = self.check_nonce(claims.nonce.as_deref(), now)?;
        let made =
            unix_time(claims.iat).ok_or_else(|| proof_error("the proof does not say when it was made"))?;
        let off = made.saturating_since(now).max(now.saturating_since(made));
        if off > self.window {
            return invalid("the proof is not of this time");
        }
        let first_valid = UnixTime::from_epoch(made.since_epoch().saturating_sub(self.window));
        Ok(Claim {
            id: UseId::Proof(digest([key, &claims.jti])),
            owner,
            now,
            // The client chooses the time of its proof, but cannot know a nonce before it is issued.
            since: first_valid.max(issued),
            // From the first to the last moment at which the proof is valid, and as long as the verification of a
            // request that arrived before may take.
            expires: now + self.window.saturating_mul(2) + FETCH_TIMEOUT,
        })
    }

    /// Returns when the nonce of a proof was issued; the epoch if no nonce is required.
    fn check_nonce(&self, nonce: Option<&str>, now: UnixTime) -> Result<UnixTime, AccessError> {
        let Some(fresh) = self.fresh_nonce(now) else { return Ok(UnixTime::EPOCH) };
        let issued = nonce.and_then(|nonce| self.read_nonce(nonce));
        let is_valid = |issued: &UnixTime| {
            // Another instance, whose clock may be ahead, may have issued it.
            issued.saturating_since(now) <= self.window && now.saturating_since(*issued) < NONCE_LIFETIME
        };
        issued.filter(is_valid).ok_or(AccessError::Nonce(fresh))
    }

    /// A nonce that is issued now, if nonces are required.
    pub(super) fn fresh_nonce(&self, now: UnixTime) -> Option<String> {
        let millis = u64::try_from(now.since_epoch().as_millis()).ok()?.to_be_bytes();
        let tag = self.nonce_tag(millis)?;
        Some(BASE64.encode([&millis[..], &tag].concat()))
    }

    /// The time at which this server, or an instance with the same key, issued a nonce.
    fn read_nonce(&self, nonce: &str) -> Option<UnixTime> {
        let bytes = BASE64.decode(nonce).ok()?;
        let (millis, tag) = bytes.split_first_chunk()?;
        let is_ours: bool = self.nonce_tag(*millis)?.as_slice().ct_eq(tag).into();
        is_ours.then(|| UnixTime::from_epoch(Duration::from_millis(u64::from_be_bytes(*millis))))
    }

    /// A hash of the key and of the time, truncated to half, which prevents length extension.
    fn nonce_tag(&self, millis: [u8; 8]) -> Option<[u8; NONCE_TAG_BYTES]> {
        let hash =
            Sha256::new().chain_update(self.nonces.as_ref()?.as_slice()).chain_update(millis).finalize();
        hash.first_chunk().copied()
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
