//! DPoP proofs of possession of a token's key (RFC 9449).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::challenge::is_nqchars;
use super::keys::{Header, sign_jwt};
use super::metadata::Members;
use super::{Secret, SignError, Signer, fetch};
use crate::UnixTime;
use crate::prelude::*;

/// Maximum number of origins with a nonce: more than one client uses at the same time.
const ORIGINS: usize = 16;

/// Maximum bytes of a nonce.
const NONCE_BYTES: usize = 2048;

/// Creates a proof for one request: its method, its URL without query and fragment, and its token.
///
/// `jti` is random.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::UnixTime;
/// use mcp_proto::auth::{Es256, dpop, random_text};
///
/// let key = Es256::from_entropy(&[7; 32]).unwrap();
/// let now = UnixTime::from_epoch(Duration::from_secs(1_785_240_000));
/// let jti = random_text([8; 32]);
/// let proof = dpop::proof(&key, "POST", "https://auth.example.com/token", None, None, now, &jti).unwrap();
/// assert_eq!(proof.split('.').count(), 3);
/// ```
///
/// # Errors
/// If the key cannot be used.
pub fn proof(
    signer: &dyn Signer,
    method: &str,
    url: &str,
    access: Option<&Secret>,
    nonce: Option<&str>,
    now: UnixTime,
    jti: &str,
) -> Result<String, SignError> {
    #[derive(Serialize)]
    struct Claims<'a> {
        jti: &'a str,
        htm: &'a str,
        htu: &'a str,
        iat: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        ath: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        nonce: Option<&'a str>,
    }
    let claims = Claims {
        jti,
        htm: method,
        htu: url.split(['?', '#']).next().unwrap_or_default(),
        iat: now.since_epoch().as_secs(),
        ath: access.map(|access| token_hash(access.expose())),
        nonce,
    };
    let jwk = RawValue::from_string(signer.public_jwk()).map_err(|_| SignError)?;
    let header = Header { typ: "dpop+jwt", alg: signer.algorithm(), kid: None, jwk: Some(&jwk) };
    sign_jwt(signer, &header, &claims)
}

/// Computes the hash of a proof's access token: the claim `ath`.
pub fn token_hash(access: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(access))
}

/// The latest nonce of each origin, for the last 16 origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nonces(Vec<(String, String)>);

impl Nonces {
    /// The nonce for a request to this URL.
    pub fn get(&self, url: &str) -> Option<&str> {
        let origin = fetch::parse_url(url).ok()?.origin();
        self.0.iter().find(|(known, _)| *known == origin).map(|(_, nonce)| nonce.as_str())
    }

    /// Stores the `DPoP-Nonce` of a response from this URL. Invalid nonces are ignored.
    pub fn keep(&mut self, url: &str, nonce: &str) {
        let Ok(parts) = fetch::parse_url(url) else { return };
        if !is_nqchars(nonce, NONCE_BYTES) {
            return;
        }
        let origin = parts.origin();
        self.0.retain(|(known, _)| *known != origin);
        if self.0.len() == ORIGINS {
            self.0.remove(0);
        }
        self.0.push((origin, nonce.into()));
    }
}

/// The thumbprint of a public key (RFC 7638, SHA-256), by which tokens name it. `None` if it is not a public key of a
/// supported type: EC, RSA, OKP.
pub fn thumbprint(public_jwk: &str) -> Option<String> {
    const NAMES: [&str; 7] = ["kty", "crv", "x", "y", "e", "n", "d"];
    let members = Members::parse(public_jwk.as_bytes(), &NAMES).ok()?;
    let kind = members.text("kty", 8).ok()??;
    let required: &[&'static str] = match kind.as_str() {
        "EC" => &["crv", "kty", "x", "y"],
        "RSA" => &["e", "kty", "n"],
        "OKP" => &["crv", "kty", "x"],
        _ => return None,
    };
    if members.get("d").is_some() {
        return None;
    }
    let mut canonical = String::from("{");
    for name in required {
        let value = members.text(name, KEY_BYTES).ok()??;
        // Such values need no escapes, so that every JSON encoder writes the same text.
        if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
            return None;
        }
        let comma = if canonical.len() > 1 { "," } else { "" };
        canonical.push_str(&alloc::format!(r#"{comma}"{name}":"{value}""#));
    }
    canonical.push('}');
    Some(URL_SAFE_NO_PAD.encode(Sha256::digest(canonical)))
}

/// Maximum bytes of a member of a key: RSA of 16,384 bits has one of 2,731.
const KEY_BYTES: usize = 4096;
