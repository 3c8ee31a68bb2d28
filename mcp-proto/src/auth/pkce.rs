//! Proof Key for Code Exchange (RFC 7636), and other unguessable texts.

use alloc::string::String;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::Secret;

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
