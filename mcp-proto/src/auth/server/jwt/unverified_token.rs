//! Tokens whose signature is not verified yet.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use super::key::PublicKey;
use super::{Jws, JwtAlgorithm};
use crate::auth::Secret;
use crate::auth::server::checker::WRONG_SIGNATURE;
use crate::auth::server::{Access, VerifyError};

/// Maximum number of keys tried for a signature that names none.
const TRIED: usize = 8;

/// A token that is valid except for its signature, which is not verified yet. The verification takes tens to hundreds
/// of microseconds, so it runs outside the checker, where no other request waits for it.
#[derive(Clone)]
pub struct UnverifiedToken {
    pub(super) keys: Arc<[PublicKey]>,
    /// The index of the key that the token names; without one, any key may match.
    pub(super) key_index: Option<usize>,
    pub(super) access: Box<Access>,
}

impl UnverifiedToken {
    /// Verifies the signature of `token`, which must be the token that was checked, and returns the access it grants.
    ///
    /// # Errors
    /// If the signature is wrong. If the token [names no key](Self::has_key_id), its issuer may have a newer one: call
    /// [`Checker::recheck`](crate::auth::server::Checker::recheck).
    pub fn verify(&self, token: &Secret) -> Result<Access, VerifyError> {
        let jws =
            Jws::parse("the token", token.expose(), &JwtAlgorithm::ALL).map_err(VerifyError::invalid)?;
        let verified = match self.key_index {
            Some(named) => self.keys.get(named).is_some_and(|key| key.verifies(&jws)),
            None => {
                let mut fitting = self.keys.iter().filter(|key| key.supports(jws.algorithm)).take(TRIED);
                fitting.any(|key| key.verifies(&jws))
            }
        };
        if verified { Ok((*self.access).clone()) } else { Err(VerifyError::invalid(WRONG_SIGNATURE)) }
    }

    /// Whether the token names the key of its signature.
    pub fn has_key_id(&self) -> bool {
        self.key_index.is_some()
    }
}

impl fmt::Debug for UnverifiedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnverifiedToken").field("access", &self.access).finish_non_exhaustive()
    }
}
