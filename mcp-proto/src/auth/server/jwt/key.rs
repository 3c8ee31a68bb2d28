//! Public keys.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{Jws, JwtAlgorithm};
use crate::rpc::{decode_member, read_members};

/// The type of a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyType {
    Rsa,
    P256,
    P384,
    Ed25519,
}

/// Accepted sizes of RSA keys, in bits: shorter keys are breakable, and longer ones serve to cost the verifier time.
const RSA_BITS: core::ops::RangeInclusive<usize> = 2048..=4096;

/// A public key for verifying signatures.
pub(super) struct PublicKey {
    pub(super) id: Option<String>,
    key_type: KeyType,
    /// The only algorithm that the key may be used with, if it names one.
    algorithm: Option<String>,
    key: DecodingKey,
}

/// A JSON Web Key (RFC 7517).
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    // Members of private keys.
    d: Option<IgnoredAny>,
    p: Option<IgnoredAny>,
    q: Option<IgnoredAny>,
    k: Option<IgnoredAny>,
}

impl PublicKey {
    /// Parses a JWK. `None` if it is not a public signing key of a supported type.
    pub(super) fn from_jwk(text: &str) -> Option<Self> {
        let jwk: Jwk = serde_json::from_str(text).ok()?;
        let private = jwk.d.is_some() || jwk.p.is_some() || jwk.q.is_some() || jwk.k.is_some();
        let signs = jwk.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
            && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if private || !signs {
            return None;
        }
        let (shape, key) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => (KeyType::Rsa, rsa(jwk.n.as_deref()?, jwk.e.as_deref()?)?),
            ("EC", Some("P-256")) => (KeyType::P256, point_key(jwk.x.as_deref()?, jwk.y.as_deref()?, 32)?),
            ("EC", Some("P-384")) => (KeyType::P384, point_key(jwk.x.as_deref()?, jwk.y.as_deref()?, 48)?),
            ("OKP", Some("Ed25519")) => {
                let x = decode(jwk.x.as_deref()?)?;
                // The library does not check this length.
                (KeyType::Ed25519, (x.len() == 32).then(|| DecodingKey::from_ed_der(&x))?)
            }
            _ => return None,
        };
        Some(Self { id: jwk.kid, key_type: shape, algorithm: jwk.alg, key })
    }

    /// Whether the key can verify signatures with this algorithm.
    pub(super) fn supports(&self, algorithm: JwtAlgorithm) -> bool {
        let only = self.algorithm.as_deref();
        self.key_type == algorithm.key_type() && only.is_none_or(|only| only == algorithm.as_str())
    }

    /// Whether the signature is by this key.
    pub(super) fn verifies(&self, jws: &Jws<'_>) -> bool {
        if !self.supports(jws.algorithm) {
            return false;
        }
        // Fixes the provider, whatever others the features of other crates add.
        let verifier = (DEFAULT_PROVIDER.verifier_factory)(&jws.algorithm.to_library(), &self.key);
        //= S10.2 "signature/introspection"
        verifier.is_ok_and(|verifier| verifier.verify(jws.signed.as_bytes(), &jws.signature).is_ok())
    }
}

/// Parses a JWK set (RFC 7517, section 5), up to `most` usable keys. `None` if it is not a set.
pub(super) fn parse_key_set(document: &[u8], most: usize) -> Option<Vec<PublicKey>> {
    let [keys] = read_members(core::str::from_utf8(document).ok()?, ["keys"]).ok()?;
    let keys: Vec<&RawValue> = decode_member(keys)?;
    Some(keys.into_iter().filter_map(|key| PublicKey::from_jwk(key.get())).take(most).collect())
}

fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

fn rsa(modulus: &str, exponent: &str) -> Option<DecodingKey> {
    let (modulus, exponent) = (decode(modulus)?, decode(exponent)?);
    let start = modulus.iter().position(|byte| *byte != 0)?;
    let modulus = modulus.get(start..)?;
    let zeros = usize::try_from(modulus.first()?.leading_zeros()).ok()?;
    let bits = modulus.len().checked_mul(8)?.checked_sub(zeros)?;
    let odd = modulus.last().is_some_and(|byte| byte % 2 == 1);
    // Almost all exponents are 65,537; the library checks more strictly.
    let usable = RSA_BITS.contains(&bits) && odd && (1..=8).contains(&exponent.len());
    usable.then(|| DecodingKey::from_rsa_raw_components(modulus, &exponent))
}

/// A point on a curve whose coordinates have this number of bytes. Its use checks that it is on the curve.
fn point_key(x: &str, y: &str, bytes: usize) -> Option<DecodingKey> {
    let (x, y) = (decode(x)?, decode(y)?);
    let right = x.len() == bytes && y.len() == bytes;
    right.then(|| DecodingKey::from_ec_der(&[&[4][..], &x, &y].concat()))
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey")
            .field("id", &self.id)
            .field("key_type", &self.key_type)
            .finish_non_exhaustive()
    }
}
