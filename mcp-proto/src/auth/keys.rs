//! Keys and secrets by which a client proves its identity: code verifiers (RFC 7636), signing keys, and signed tokens
//! (RFC 7515, RFC 7519).

use core::fmt;
use core::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use p256::SecretKey;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::pkcs8::{DecodePrivateKey, EncodePrivateKey, LineEnding};
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::Secret;
use crate::UnixTime;
use crate::prelude::*;

/// Lifetime of a client assertion: it is sent at once, and the rest covers clock differences.
const ASSERTION_LIFE: Duration = Duration::from_secs(5 * 60);

/// A signing key. It may be stored anywhere: [`Es256`] holds its key in memory; other implementations may use a
/// hardware module.
pub trait Signer: Send + Sync {
    /// The algorithm by its name in RFC 7518, such as `ES256`.
    fn algorithm(&self) -> &str;

    /// The id by which the other side knows the key.
    fn key_id(&self) -> Option<&str>;

    /// The public key as a JWK with only its required members, in the order of their names (RFC 7638).
    fn public_jwk(&self) -> String;

    /// Signs these bytes; the signature has the form of RFC 7518.
    ///
    /// # Errors
    /// If the key cannot be used.
    fn sign(&self, input: &[u8]) -> Result<Vec<u8>, SignError>;
}

impl fmt::Debug for dyn Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(..)")
    }
}

/// A signing key could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignError;

error_text! { SignError => "the key could not be used to sign" }

/// A text that is not a P-256 private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyError;

error_text! { KeyError => "this is no private key of P-256 in PKCS #8" }

/// A P-256 private key. Its signatures need no random numbers (RFC 6979). Dropping it wipes it from memory, and
/// [`Debug`](fmt::Debug) does not show it.
///
/// ```
/// use mcp_proto::auth::{Es256, Signer};
///
/// let key = Es256::from_entropy(&[7; 32])?;
/// let same = Es256::from_pkcs8_pem(key.to_pkcs8_pem()?.expose())?;
/// assert_eq!(same.public_jwk(), key.public_jwk());
/// assert_eq!(key.sign(b"text"), same.sign(b"text"));
/// assert_eq!(format!("{key:?}"), "Es256(..)");
/// # Ok::<(), mcp_proto::auth::KeyError>(())
/// ```
#[derive(Clone)]
pub struct Es256 {
    key: SecretKey,
    key_id: Option<String>,
}

impl Es256 {
    /// Parses a PEM-encoded PKCS #8 key.
    ///
    /// # Errors
    /// If it is not a P-256 private key.
    pub fn from_pkcs8_pem(text: &str) -> Result<Self, KeyError> {
        let key = SecretKey::from_pkcs8_pem(text.trim()).map_err(|_| KeyError)?;
        Ok(Self { key, key_id: None })
    }

    /// Parses a DER-encoded PKCS #8 key.
    ///
    /// # Errors
    /// If it is not a P-256 private key.
    pub fn from_pkcs8_der(bytes: &[u8]) -> Result<Self, KeyError> {
        let key = SecretKey::from_pkcs8_der(bytes).map_err(|_| KeyError)?;
        Ok(Self { key, key_id: None })
    }

    /// Derives a key from these random bytes, which must not be used for anything else.
    ///
    /// # Errors
    /// Never in practice: one in 2³² hashes is not a valid key, and the next hash is tried then.
    pub fn from_entropy(entropy: &[u8; 32]) -> Result<Self, KeyError> {
        let key = (0..=u8::MAX).find_map(|attempt| {
            let mut hash = Sha256::new();
            hash.update(b"MCP key\0");
            hash.update([attempt]);
            hash.update(entropy);
            SecretKey::from_bytes(&hash.finalize()).ok()
        });
        Ok(Self { key: key.ok_or(KeyError)?, key_id: None })
    }

    /// Sets the id by which the other side knows the key.
    #[must_use]
    pub fn with_key_id(self, key_id: impl Into<String>) -> Self {
        Self { key_id: Some(key_id.into()), ..self }
    }

    /// Encodes the key as PEM, for storage that no other user can read.
    ///
    /// # Errors
    /// Never in practice.
    pub fn to_pkcs8_pem(&self) -> Result<Secret, KeyError> {
        let text = self.key.to_pkcs8_pem(LineEnding::LF).map_err(|_| KeyError)?;
        Ok(Secret::new(text.as_str()))
    }
}

impl Signer for Es256 {
    fn algorithm(&self) -> &str {
        "ES256"
    }

    fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    fn public_jwk(&self) -> String {
        let point = self.key.public_key().to_sec1_point(false);
        let [x, y] = [point.x(), point.y()]
            .map(|half| half.map(|half| URL_SAFE_NO_PAD.encode(half)).unwrap_or_default());
        format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#)
    }

    fn sign(&self, input: &[u8]) -> Result<Vec<u8>, SignError> {
        let signature: Signature = SigningKey::from(&self.key).try_sign(input).map_err(|_| SignError)?;
        Ok(signature.to_bytes().to_vec())
    }
}

debug_fields! { Es256 => "Es256(..)" }

/// Creates a client assertion, which authenticates a client (RFC 7523 section 2.2). It is valid once, for five minutes.
///
/// `audience` is the issuer; `jti` is random.
///
/// # Errors
/// If the key cannot be used.
pub fn client_assertion(
    signer: &dyn Signer,
    client_id: &str,
    audience: &str,
    now: UnixTime,
    jti: &str,
) -> Result<Secret, SignError> {
    #[derive(Serialize)]
    struct Claims<'a> {
        iss: &'a str,
        sub: &'a str,
        aud: &'a str,
        iat: u64,
        exp: u64,
        jti: &'a str,
    }
    let (iat, exp) = (now.since_epoch().as_secs(), (now + ASSERTION_LIFE).since_epoch().as_secs());
    let claims = Claims { iss: client_id, sub: client_id, aud: audience, iat, exp, jti };
    let header = Header { typ: "JWT", alg: signer.algorithm(), kid: signer.key_id(), jwk: None };
    sign_jwt(signer, &header, &claims).map(Secret::new)
}

/// The header of a JWT.
#[derive(Serialize)]
pub(super) struct Header<'a> {
    pub(super) typ: &'a str,
    pub(super) alg: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jwk: Option<&'a RawValue>,
}

/// Signs a JWT in the compact form.
pub(super) fn sign_jwt(
    signer: &dyn Signer,
    header: &Header<'_>,
    claims: &impl Serialize,
) -> Result<String, SignError> {
    let mut text = encode_part(header)?;
    text.push('.');
    text.push_str(&encode_part(claims)?);
    let signature = signer.sign(text.as_bytes())?;
    text.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut text);
    Ok(text)
}

fn encode_part(value: &impl Serialize) -> Result<String, SignError> {
    let json = serde_json::to_vec(value).map_err(|_| SignError)?;
    Ok(URL_SAFE_NO_PAD.encode(json))
}

/// A code verifier and its challenge by S256, the only supported method.
///
/// ```
/// use mcp_proto::auth::Pkce;
///
/// let pkce = Pkce::new([7; 32]);
/// assert_eq!((pkce.verifier.expose().len(), pkce.challenge.len()), (43, 43));
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations#authorization-code-protection>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pkce {
    /// The verifier, sent with the code.
    pub verifier: Secret,
    /// The challenge, sent with the request for the code.
    pub challenge: String,
}

impl Pkce {
    /// Derives a verifier from these random bytes, which must not be used for anything else.
    pub fn new(entropy: [u8; 32]) -> Self {
        Self::from_verifier(Secret::new(random_text(entropy)))
    }

    /// Uses an existing verifier.
    pub fn from_verifier(verifier: Secret) -> Self {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose()));
        Self { verifier, challenge }
    }
}

/// Encodes random bytes as 43 characters that need no escaping in URLs, headers and forms.
pub fn random_text(entropy: [u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(entropy)
}

/// The `Authorization` header of a client with a secret. RFC 6749, section 2.3.1: both are form-encoded first.
pub(super) fn basic_credentials(id: &str, secret: &Secret) -> Secret {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let secret = Secret::new(encoded(secret.expose()));
    let pair = Secret::new(format!("{}:{}", encoded(id), secret.expose()));
    Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())))
}

/// A generator of random bytes from the injected seed. The same seed gives the same bytes.
pub(crate) struct SeededRng {
    seed: Zeroizing<[u8; 32]>,
    counter: u64,
}

impl SeededRng {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { seed: Zeroizing::new(seed), counter: 0 }
    }

    pub(crate) fn next_bytes(&mut self) -> [u8; 32] {
        self.counter = self.counter.wrapping_add(1);
        let mut hash = Sha256::new();
        hash.update(b"mcp auth client");
        hash.update(*self.seed);
        hash.update(self.counter.to_be_bytes());
        hash.finalize().into()
    }

    pub(crate) fn next_text(&mut self) -> String {
        random_text(self.next_bytes())
    }
}
