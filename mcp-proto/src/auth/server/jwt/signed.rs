//! A signature that is to be verified.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use super::key::PublicKey;
use super::{Jws, JwtAlgorithm};
use crate::auth::Secret;
use crate::auth::server::{Access, VerifyError};

/// A token of which everything is good but for the signature, which is still to be verified. That is what takes time, tens
/// to hundreds of microseconds: it is done where nobody else waits for it.
#[derive(Clone)]
pub struct Signed {
    pub(super) keys: Arc<[PublicKey]>,
    /// The key that the token names.
    pub(super) named: usize,
    pub(super) access: Box<Access>,
}

impl Signed {
    /// What the token allows, which must be the one that was checked.
    ///
    /// # Errors
    /// If its signature is wrong.
    pub fn verify(self, token: &Secret) -> Result<Access, VerifyError> {
        let jws = Jws::read(token.expose(), &JwtAlgorithm::ALL).map_err(VerifyError::invalid)?;
        match self.keys.get(self.named) {
            Some(key) if key.has_signed(&jws) => Ok(*self.access),
            _ => Err(VerifyError::invalid("its signature is wrong")),
        }
    }
}

impl fmt::Debug for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signed").field("access", &self.access).finish_non_exhaustive()
    }
}
