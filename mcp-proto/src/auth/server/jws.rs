//! Signed texts (JWS), and the public keys that verify them.

use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::signature::{
    self as signatures, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::KeySet;
use crate::auth::metadata::document_text;
use crate::prelude::*;
use crate::rpc::{decode_member, read_members};

/// Maximum bytes of a signed text: no longer one fits the header limit of most servers.
const BYTES: usize = 16 * 1024;

/// A JWS in compact form (RFC 7515, section 3.1). Its contents are untrusted until the signature is verified.
pub(super) struct Jws<'a> {
    pub(super) header: Header,
    pub(super) algorithm: JwtAlgorithm,
    payload: Vec<u8>,
    /// The signed part.
    signed: &'a str,
    signature: Vec<u8>,
    /// The kind of text, for errors.
    subject: &'static str,
}

#[derive(Deserialize)]
pub(super) struct Header {
    alg: String,
    pub(super) typ: Option<String>,
    pub(super) kid: Option<String>,
    pub(super) jwk: Option<Box<RawValue>>,
    /// Critical extensions, none of which are supported.
    crit: Option<IgnoredAny>,
}

impl<'a> Jws<'a> {
    /// Parses a signed text: `subject`, such as "the token". Returns the reason if it is invalid, or its algorithm is
    /// not among `allowed`.
    pub(super) fn parse(
        subject: &'static str,
        text: &'a str,
        allowed: &[JwtAlgorithm],
    ) -> Result<Self, String> {
        if text.len() > BYTES {
            return Err(format!("{subject} is too long"));
        }
        let malformed = || format!("{subject} is no signed token");
        let (signed, signature) = text.rsplit_once('.').ok_or_else(malformed)?;
        let (header, payload) = signed.split_once('.').ok_or_else(malformed)?;
        let decode = |part: &str| BASE64.decode(part).map_err(|_| malformed());
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| malformed())?;
        if header.crit.is_some() {
            return Err(format!("{subject} has extensions that are not understood"));
        }
        let algorithm = JwtAlgorithm::parse(&header.alg).filter(|algorithm| allowed.contains(algorithm));
        let algorithm = algorithm.ok_or_else(|| format!("{subject}'s algorithm is not accepted"))?;
        let (payload, signature) = (decode(payload)?, decode(signature)?);
        Ok(Self { header, algorithm, payload, signed, signature, subject })
    }

    /// Deserializes the claims.
    pub(super) fn claims<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(&self.payload).map_err(|_| format!("{}'s claims cannot be read", self.subject))
    }

    /// The payload as text, which parsing has already validated.
    pub(super) fn payload(&self) -> &str {
        core::str::from_utf8(&self.payload).unwrap_or("{}")
    }
}

/// A signature algorithm. All are asymmetric: with a symmetric one, anyone could sign with a public key used as its
/// secret. `none` is not supported either, as it is no signature.
///
/// RFC 7518, section 3.1; RFC 8037.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum JwtAlgorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl JwtAlgorithm {
    /// All supported algorithms.
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// The algorithm's name in JOSE headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The algorithm with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }
}

impl fmt::Display for JwtAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A public key by its type.
enum Key {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// A point of the curve of this algorithm, as SEC 1 or RFC 8032 encodes it.
    Point(JwtAlgorithm, Vec<u8>),
}

/// Accepted bits of the modulus of an RSA key: shorter keys are breakable, and longer ones serve to cost the verifier
/// time.
const RSA_BITS: core::ops::RangeInclusive<usize> = 2048..=4096;

/// A public key for verifying signatures.
pub(super) struct PublicKey {
    pub(super) id: Option<String>,
    /// The only algorithm that the key may be used with, if it names one.
    algorithm: Option<String>,
    key: Key,
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
        let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => Key::rsa(jwk.n.as_deref()?, jwk.e.as_deref()?)?,
            ("EC", Some("P-256")) => {
                Key::Point(JwtAlgorithm::Es256, point(jwk.x.as_deref()?, jwk.y.as_deref()?, 32)?)
            }
            ("EC", Some("P-384")) => {
                Key::Point(JwtAlgorithm::Es384, point(jwk.x.as_deref()?, jwk.y.as_deref()?, 48)?)
            }
            ("OKP", Some("Ed25519")) => {
                Key::Point(JwtAlgorithm::EdDsa, decode(jwk.x.as_deref()?).filter(|point| point.len() == 32)?)
            }
            _ => return None,
        };
        Some(Self { id: jwk.kid, algorithm: jwk.alg, key })
    }

    /// Whether the key can verify signatures with this algorithm.
    pub(super) fn supports(&self, algorithm: JwtAlgorithm) -> bool {
        let only = self.algorithm.as_deref();
        self.key.supports(algorithm) && only.is_none_or(|only| only == algorithm.as_str())
    }

    /// Whether the signature is by this key.
    pub(super) fn verifies(&self, jws: &Jws<'_>) -> bool {
        //= S10.2 "signature/introspection"
        self.supports(jws.algorithm)
            && self.key.verifies(jws.algorithm, jws.signed.as_bytes(), &jws.signature)
    }
}

impl Key {
    fn rsa(modulus: &str, exponent: &str) -> Option<Self> {
        // The arithmetic costs as much as the bytes of a number, leading zeros included.
        let number = |text| {
            let bytes = decode(text)?;
            Some(bytes.get(bytes.iter().position(|byte| *byte != 0)?..)?.to_vec())
        };
        let n = number(modulus)?;
        // ring rounds up to whole bytes.
        let unused_bits = n.first().map_or(0, |first| first.leading_zeros() as usize);
        if !RSA_BITS.contains(&n.len().saturating_mul(8).saturating_sub(unused_bits)) {
            return None;
        }
        Some(Self::Rsa(RsaPublicKeyComponents { n, e: number(exponent)? }))
    }

    fn supports(&self, algorithm: JwtAlgorithm) -> bool {
        match self {
            Self::Point(only, _) => *only == algorithm,
            Self::Rsa(_) => {
                !matches!(algorithm, JwtAlgorithm::Es256 | JwtAlgorithm::Es384 | JwtAlgorithm::EdDsa)
            }
        }
    }

    /// Whether the signature of the message is by this key, which [supports](Self::supports) the algorithm.
    fn verifies(&self, algorithm: JwtAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        let rsa = |rules: &'static RsaParameters| match self {
            Self::Rsa(key) => key.verify(rules, message, signature).is_ok(),
            Self::Point(..) => false,
        };
        let point = |rules: &'static dyn VerificationAlgorithm| match self {
            Self::Point(_, point) => UnparsedPublicKey::new(rules, point).verify(message, signature).is_ok(),
            Self::Rsa(_) => false,
        };
        match algorithm {
            JwtAlgorithm::Rs256 => rsa(&signatures::RSA_PKCS1_2048_8192_SHA256),
            JwtAlgorithm::Rs384 => rsa(&signatures::RSA_PKCS1_2048_8192_SHA384),
            JwtAlgorithm::Rs512 => rsa(&signatures::RSA_PKCS1_2048_8192_SHA512),
            JwtAlgorithm::Ps256 => rsa(&signatures::RSA_PSS_2048_8192_SHA256),
            JwtAlgorithm::Ps384 => rsa(&signatures::RSA_PSS_2048_8192_SHA384),
            JwtAlgorithm::Ps512 => rsa(&signatures::RSA_PSS_2048_8192_SHA512),
            JwtAlgorithm::Es256 => point(&signatures::ECDSA_P256_SHA256_FIXED),
            JwtAlgorithm::Es384 => point(&signatures::ECDSA_P384_SHA384_FIXED),
            JwtAlgorithm::EdDsa => point(&signatures::ED25519),
        }
    }
}

/// Maximum number of keys tried for a signature that names none.
const TRIED: usize = 8;

/// The public keys of an issuer.
#[derive(Debug, Default)]
pub(super) struct PublicKeys(pub(super) Vec<PublicKey>);

impl KeySet for PublicKeys {
    fn verifies(&self, token: &str, key_index: Option<usize>) -> Result<bool, String> {
        let jws = Jws::parse("the token", token, &JwtAlgorithm::ALL)?;
        Ok(match key_index {
            Some(named) => self.0.get(named).is_some_and(|key| key.verifies(&jws)),
            None => {
                let mut fitting = self.0.iter().filter(|key| key.supports(jws.algorithm)).take(TRIED);
                fitting.any(|key| key.verifies(&jws))
            }
        })
    }
}

/// Parses a JWK set (RFC 7517, section 5), up to `most` usable keys. `None` if it is not a set, or has none.
pub(super) fn parse_key_set(document: &[u8], most: usize) -> Option<PublicKeys> {
    let [keys] = read_members(document_text(document)?, ["keys"]).ok()?;
    let keys: Vec<&RawValue> = decode_member(keys)?;
    let keys: Vec<_> = keys.into_iter().filter_map(|key| PublicKey::from_jwk(key.get())).take(most).collect();
    (!keys.is_empty()).then_some(PublicKeys(keys))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// A point of an elliptic curve whose coordinates have this number of bytes, by SEC 1.
fn point(x: &str, y: &str, bytes: usize) -> Option<Vec<u8>> {
    let (x, y) = (decode(x)?, decode(y)?);
    let right = x.len() == bytes && y.len() == bytes;
    right.then(|| [&[4][..], &x, &y].concat())
}

debug_fields! { PublicKey { id } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_zeros_of_an_rsa_key_cost_no_arithmetic() {
        let jwk = |zeros: usize, bytes: usize| {
            let modulus = [alloc::vec![0; zeros], alloc::vec![0xFF; bytes]].concat();
            PublicKey::from_jwk(&alloc::format!(
                r#"{{"kty":"RSA","e":"AQAB","n":"{}"}}"#,
                BASE64.encode(modulus)
            ))
        };
        let Some(PublicKey { key: Key::Rsa(key), .. }) = jwk(8000, 256) else {
            panic!("a key of 2,048 bits")
        };
        assert_eq!(key.n.len(), 256);
        assert!(jwk(0, 512).is_some() && jwk(0, 513).is_none() && jwk(0, 255).is_none());
    }

    #[test]
    fn rsa_key_of_fewer_than_2048_bits_is_no_key() {
        let modulus = [&[0x7F][..], &[0xFF; 255]].concat();
        let jwk = alloc::format!(r#"{{"kty":"RSA","e":"AQAB","n":"{}"}}"#, BASE64.encode(modulus));
        assert!(PublicKey::from_jwk(&jwk).is_none());
    }
}
