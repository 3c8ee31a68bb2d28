//! Proofs that the key is held which a token is bound to (RFC 9449).

use alloc::string::String;
use alloc::vec::Vec;

use super::{Secret, SignError, Signer};
use crate::UnixTime;

/// A proof for one request: its method, its URL without query and fragment, and the token that it comes with.
///
/// `jti` is random.
///
/// # Errors
/// If the key can not be used.
pub fn proof(
    signer: &dyn Signer,
    method: &str,
    url: &str,
    access: Option<&Secret>,
    nonce: Option<&str>,
    now: UnixTime,
    jti: &str,
) -> Result<String, SignError> {
    let _ = (signer, method, url, access, nonce, now, jti);
    Err(SignError)
}

/// The nonces that servers last asked for, by origin: of the last 16 origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nonces(Vec<(String, String)>);

impl Nonces {
    /// The nonce for a request to this URL.
    pub fn get(&self, url: &str) -> Option<&str> {
        let _ = url;
        self.0.first().map(|(_, nonce)| nonce.as_str())
    }

    /// Keeps what came in `DPoP-Nonce` with an answer from this URL. What can be no nonce is ignored.
    pub fn keep(&mut self, url: &str, nonce: &str) {
        let _ = (url, nonce);
    }
}

/// The thumbprint of a public key (RFC 7638, SHA-256), by which tokens name it. `None` if it is no public key of a kind
/// that is known: EC, RSA, OKP.
pub fn thumbprint(public_jwk: &str) -> Option<String> {
    let _ = public_jwk;
    None
}
