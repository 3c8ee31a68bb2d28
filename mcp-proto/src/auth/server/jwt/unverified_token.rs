//! A signature that is to be verified.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use super::key::PublicKey;
use super::{Jws, JwtAlgorithm};
use crate::auth::Secret;
use crate::auth::server::{Access, VerifyError};

/// What is said of a token whose signature is by none of the keys.
pub(in super::super) const WRONG_SIGNATURE: &str = "its signature is wrong";

/// The most keys that a signature without the name of its key is tried with.
const TRIED: usize = 8;

/// A token of which everything is good but for the signature, which is still to be verified. That is what takes time, tens
/// to hundreds of microseconds: it is done where nobody else waits for it.
#[derive(Clone)]
pub struct UnverifiedToken {
    pub(super) keys: Arc<[PublicKey]>,
    /// The key that the token names; without it, any may be the one.
    pub(super) key_index: Option<usize>,
    pub(super) access: Box<Access>,
}

impl UnverifiedToken {
    /// What the token allows, which must be the one that was checked.
    ///
    /// # Errors
    /// If its signature is wrong. If the token [names no key](Self::has_key_id), its issuer may have a newer one: ask
    /// [`Checker::recheck`](crate::auth::server::Checker::recheck).
    pub fn verify(&self, token: &Secret) -> Result<Access, VerifyError> {
        let jws = Jws::parse(token.expose(), &JwtAlgorithm::ALL).map_err(VerifyError::invalid)?;
        let verified = match self.key_index {
            Some(named) => self.keys.get(named).is_some_and(|key| key.verifies(&jws)),
            None => {
                let mut fitting = self.keys.iter().filter(|key| key.supports(jws.algorithm)).take(TRIED);
                fitting.any(|key| key.verifies(&jws))
            }
        };
        if verified { Ok((*self.access).clone()) } else { Err(VerifyError::invalid(WRONG_SIGNATURE)) }
    }

    /// Whether the token names the key that it is signed by.
    pub fn has_key_id(&self) -> bool {
        self.key_index.is_some()
    }
}

impl fmt::Debug for UnverifiedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signed").field("access", &self.access).finish_non_exhaustive()
    }
}
