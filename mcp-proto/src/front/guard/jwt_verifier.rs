//! The verifier of signed tokens.

use super::CheckerVerifier;
use crate::auth::server::{JwtChecker, JwtConfig};

/// Verifies signed tokens with the keys of their issuers.
pub type JwtVerifier = CheckerVerifier<JwtChecker>;

impl JwtVerifier {
    /// Creates a verifier with `config`.
    #[must_use]
    pub fn new(config: JwtConfig) -> Self {
        Self::from_checker(JwtChecker::new(config))
    }
}
