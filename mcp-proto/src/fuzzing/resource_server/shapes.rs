//! Tokens, proofs and requests of the fuzzed resource server, each of which usually has one fault at most.

use core::time::Duration;

use arbitrary::Arbitrary;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::UnixTime;
use crate::auth::{SignError, Signer, dpop};
use crate::fuzzing::harness::choose;
use crate::prelude::*;

pub(super) const RESOURCE: &str = "https://mcp.example/mcp";
pub(super) const ISSUER: &str = "https://login.example";
pub(super) const START: UnixTime = UnixTime::from_epoch(Duration::from_secs(1_785_240_000));
/// How far the clock of the issuer of signed tokens may differ.
const LEEWAY: Duration = Duration::from_secs(30);

/// A token of the issuer or of an attacker.
#[derive(Arbitrary, Clone)]
pub(super) struct TokenShape {
    signer: u8,
    key_id: u8,
    algorithm: u8,
    kind: u8,
    issuer: u8,
    audience: u8,
    subject: u8,
    client: u8,
    scope: u8,
    expires: TimeShape,
    not_before: TimeShape,
    pub(super) bound_to: Option<u8>,
    /// Whether it is bound to a certificate as well.
    certificate: u8,
    /// Whether a byte at this place is changed to this one after the signature.
    change: (u8, u16, u8),
}

/// One of a few values: mostly the first, so that many requests have but one fault, or none.
fn choose_mostly_first<T: Copy, const N: usize>(from: [T; N], which: u8) -> T {
    choose(from, which.saturating_sub(230))
}

/// A time in a claim, in seconds from the start.
#[derive(Arbitrary, Clone, Copy)]
pub(super) struct TimeShape {
    kind: u8,
    seconds: u16,
}

impl TimeShape {
    /// The time as a claim: usually with this sign, and then possible.
    pub(super) fn claim(self, sign: f64) -> Option<f64> {
        let at = |sign: f64| Some(START.since_epoch().as_secs_f64() + sign * f64::from(self.seconds));
        choose_mostly_first([at(sign), None, at(-sign), Some(-1.0), Some(1e300)], self.kind)
    }
}

#[derive(Arbitrary, Clone)]
pub(super) struct RequestShape {
    scheme: u8,
    has_proof: u8,
    proof: ProofShape,
}

impl RequestShape {
    pub(super) fn proof(&self) -> Option<&ProofShape> {
        choose_mostly_first([true, false], self.has_proof).then_some(&self.proof)
    }

    /// The scheme of a request, usually the one for its token.
    pub(super) fn scheme(&self, is_bound: bool) -> &'static str {
        let right = if is_bound { "DPoP" } else { "Bearer" };
        choose_mostly_first([right, "Bearer", "DPoP", "bearer", "dpop", "Basic"], self.scheme)
    }
}

#[derive(Arbitrary, Clone)]
pub(super) struct ProofShape {
    key: u8,
    number: u8,
    seconds: i8,
    url: u8,
    method: u8,
    token: u8,
}

impl ProofShape {
    /// The number of its key, usually the one of its token.
    pub(super) fn key(&self, bound_to: Option<u8>) -> u8 {
        choose_mostly_first([bound_to.unwrap_or(0), 0, 1, 2], self.key) % 3
    }

    /// One of a few ids, so that some are repeated.
    pub(super) fn number(&self) -> u8 {
        self.number % 4
    }

    /// The seconds by which its clock differs.
    pub(super) fn seconds(&self) -> i8 {
        self.seconds / 2
    }

    pub(super) fn url(&self) -> &'static str {
        choose_mostly_first([RESOURCE, "https://other.example/mcp"], self.url)
    }

    pub(super) fn method(&self) -> &'static str {
        choose_mostly_first(["POST", "GET"], self.method)
    }

    pub(super) fn is_for_token(&self) -> bool {
        choose_mostly_first([true, false], self.token)
    }
}

/// A key of the issuer, or of a client.
pub(super) struct FuzzKey(Ed25519KeyPair);

impl FuzzKey {
    pub(super) fn new(number: u8) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[number % 3 + 1; 32]).unwrap())
    }

    pub(super) fn jwk(&self, id: Option<&str>) -> Value {
        let mut jwk: Value = serde_json::from_str(&self.public_jwk()).unwrap();
        jwk["kid"] = json!(id);
        jwk
    }
}

impl Signer for FuzzKey {
    fn algorithm(&self) -> &str {
        "EdDSA"
    }

    fn key_id(&self) -> Option<&str> {
        None
    }

    fn public_jwk(&self) -> String {
        json!({"crv": "Ed25519", "kty": "OKP", "x": BASE64.encode(self.0.public_key().as_ref())}).to_string()
    }

    fn sign(&self, input: &[u8]) -> Result<Vec<u8>, SignError> {
        Ok(self.0.sign(input).as_ref().to_vec())
    }
}

impl TokenShape {
    pub(super) fn algorithm(&self) -> &'static str {
        choose_mostly_first(["EdDSA", "none", "HS256", "RS256"], self.algorithm)
    }

    pub(super) fn kind(&self) -> Option<&'static str> {
        choose_mostly_first(
            [Some("at+jwt"), Some("JWT"), None, Some("dpop+jwt"), Some("logout+jwt")],
            self.kind,
        )
    }

    pub(super) fn key_id(&self) -> Option<&'static str> {
        let own = choose([Some("0"), Some("1"), Some("2")], self.signer);
        choose_mostly_first([own, None, Some("1"), Some("other")], self.key_id)
    }

    pub(super) fn issuer(&self) -> Option<&'static str> {
        let issuers = [Some(ISSUER), None, Some("https://evil.example"), Some("https://login.example/")];
        choose_mostly_first(issuers, self.issuer)
    }

    pub(super) fn audience(&self) -> &'static [&'static str] {
        const OTHER: &str = "https://other.example/mcp";
        choose_mostly_first([&[RESOURCE], &[OTHER, RESOURCE], &[OTHER], &[]], self.audience)
    }

    pub(super) fn subject(&self) -> Option<&'static str> {
        choose_mostly_first([Some("ada"), Some(""), None], self.subject)
    }

    pub(super) fn client(&self) -> Option<&'static str> {
        choose([Some("editor"), Some(""), None], self.client)
    }

    pub(super) fn scope(&self) -> &'static str {
        choose_mostly_first(["mcp", "other mcp", "other", ""], self.scope)
    }

    pub(super) fn expires(&self) -> Option<f64> {
        self.expires.claim(1.0)
    }

    pub(super) fn not_before(&self) -> Option<f64> {
        self.not_before.claim(-1.0)
    }

    pub(super) fn has_certificate(&self) -> bool {
        self.certificate > 240
    }

    pub(super) fn claims(&self) -> Value {
        let mut claims = json!({
            "iss": self.issuer(),
            "aud": self.audience(),
            "sub": self.subject(),
            "client_id": self.client(),
            "scope": self.scope(),
            "exp": self.expires(),
            "nbf": self.not_before(),
        });
        if let Some(key) = self.bound_to {
            claims["cnf"]["jkt"] = json!(dpop::thumbprint(&FuzzKey::new(key).public_jwk()));
        }
        if self.has_certificate() {
            claims["cnf"]["x5t#S256"] = json!("hash");
        }
        claims
    }

    /// The signed text, and whether it is changed.
    pub(super) fn sign(&self) -> (String, bool) {
        let header = json!({"alg": self.algorithm(), "typ": self.kind(), "kid": self.key_id()});
        let parts = [header, self.claims()].map(|part| BASE64.encode(part.to_string()));
        let signed = parts.join(".");
        let signature = FuzzKey::new(self.signer).sign(signed.as_bytes()).unwrap();
        let text = format!("{signed}.{}", BASE64.encode(signature));
        let mut changed = text.clone().into_bytes();
        if let (201.., at, byte) = self.change {
            let at = usize::from(at) % changed.len();
            changed[at] = b'-' + byte % 78;
        }
        let changed = String::from_utf8(changed).unwrap();
        let is_changed = changed != text;
        (changed, is_changed)
    }

    /// Whether its claims allow a request that arrives now.
    pub(super) fn allows(&self, now: UnixTime, introspects: bool) -> bool {
        let leeway = if introspects { 0.0 } else { LEEWAY.as_secs_f64() };
        let now = now.since_epoch().as_secs_f64();
        let is_readable = |time: f64| (0.0..1e18).contains(&time);
        let issuer = self.issuer();
        let named = |name: Option<&str>| name.is_some_and(|name| !name.is_empty());
        (issuer == Some(ISSUER) || (introspects && issuer.is_none()))
            && self.audience().contains(&RESOURCE)
            && (named(self.subject()) || named(self.client()))
            && self.scope().split(' ').any(|scope| scope == "mcp")
            && self.expires().map_or(introspects, |time| is_readable(time) && time + leeway > now)
            && self.not_before().is_none_or(|time| is_readable(time) && time <= now + leeway)
            && !self.has_certificate()
    }

    /// Whether a key with these bits among the issuer's verifies it.
    pub(super) fn is_signed_by(&self, keys: u8) -> bool {
        let has = keys >> (self.signer % 3) & 1 == 1;
        let names = self.key_id().is_none_or(|id| id == (self.signer % 3).to_string());
        has && names
            && self.algorithm() == "EdDSA"
            && self.kind().is_none_or(|kind| ["at+jwt", "JWT"].contains(&kind))
    }

    pub(super) fn principal(&self) -> String {
        match self.subject() {
            Some(subject) if !subject.is_empty() => format!("{ISSUER}#{subject}"),
            _ => format!("{ISSUER}?client_id={}", self.client().unwrap_or_default()),
        }
    }
}
