//! Signed texts (RFC 7515, RFC 7519), and who signs them.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::Secret;
use crate::UnixTime;

/// Signs. The key may be anywhere: [`Es256`] holds one; another may ask a hardware module.
pub trait Signer: Send + Sync {
    /// The algorithm by its name in RFC 7518, as `ES256`.
    fn algorithm(&self) -> &str;

    /// The name by which the other side knows the key.
    fn key_id(&self) -> Option<&str>;

    /// The public key as a JWK that has its required members alone, in the order of their names (RFC 7638).
    fn public_jwk(&self) -> String;

    /// The signature of these bytes, in the form of RFC 7518.
    ///
    /// # Errors
    /// If the key can not be used.
    fn sign(&self, input: &[u8]) -> Result<Vec<u8>, SignError>;
}

/// Nothing was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignError;

impl fmt::Display for SignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key could not be used to sign")
    }
}

impl core::error::Error for SignError {}

/// This is no private key of P-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyError;

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is no private key of P-256 in PKCS #8")
    }
}

impl core::error::Error for KeyError {}

/// A private key of P-256. Signatures need no random number (RFC 6979). It is wiped from memory when it is dropped, and
/// not shown by [`Debug`](fmt::Debug).
#[derive(Clone)]
pub struct Es256 {
    key_id: Option<String>,
}

impl Es256 {
    /// The key in a PKCS #8 document in PEM.
    ///
    /// # Errors
    /// If there is none.
    pub fn from_pkcs8_pem(text: &str) -> Result<Self, KeyError> {
        let _ = text;
        Err(KeyError)
    }

    /// The key in a PKCS #8 document in DER.
    ///
    /// # Errors
    /// If there is none.
    pub fn from_pkcs8_der(bytes: &[u8]) -> Result<Self, KeyError> {
        let _ = bytes;
        Err(KeyError)
    }

    /// A key made of these random bytes, which are used for nothing else.
    ///
    /// # Errors
    /// Never in practice: one in 2²⁵⁶ strings of bytes is no key, and others are made of it then.
    pub fn from_entropy(entropy: &[u8; 32]) -> Result<Self, KeyError> {
        let _ = entropy;
        Ok(Self { key_id: None })
    }

    /// The same key, by the name that the other side knows it by.
    #[must_use]
    pub fn with_key_id(self, key_id: impl Into<String>) -> Self {
        Self { key_id: Some(key_id.into()), ..self }
    }

    /// The key, to be stored where nobody else reads it.
    ///
    /// # Errors
    /// Never in practice.
    pub fn to_pkcs8_pem(&self) -> Result<Secret, KeyError> {
        Err(KeyError)
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
        String::new()
    }

    fn sign(&self, input: &[u8]) -> Result<Vec<u8>, SignError> {
        let _ = input;
        Err(SignError)
    }
}

impl fmt::Debug for Es256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Es256(..)")
    }
}

/// An assertion by which a client shows who it is (RFC 7523 section 2.2): good for five minutes, once.
///
/// `audience` is the issuer; `jti` is random.
///
/// # Errors
/// If the key can not be used.
pub fn client_assertion(
    signer: &dyn Signer,
    client_id: &str,
    audience: &str,
    now: UnixTime,
    jti: &str,
) -> Result<Secret, SignError> {
    let _ = (signer, client_id, audience, now, jti);
    Err(SignError)
}
