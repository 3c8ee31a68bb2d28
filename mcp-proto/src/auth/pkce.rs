//! Proof Key for Code Exchange (RFC 7636), and other texts that nobody can guess.

use alloc::string::String;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::Secret;

/// A verifier and the challenge that is made of it with S256, the only method there is here.
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
    /// What is sent with the code.
    pub verifier: Secret,
    /// What is sent when the code is asked for.
    pub challenge: String,
}

impl Pkce {
    /// Of these random bytes, which are used for nothing else.
    pub fn new(entropy: [u8; 32]) -> Self {
        Self::from_verifier(Secret::new(random_text(entropy)))
    }

    /// Of a verifier that is known already.
    pub fn from_verifier(verifier: Secret) -> Self {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose()));
        Self { verifier, challenge }
    }
}

/// Random bytes as text: 43 characters that mean the same in URLs, headers and forms.
pub fn random_text(entropy: [u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(entropy)
}
