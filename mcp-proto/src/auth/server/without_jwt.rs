//! The stand-in for `jwt` in builds without feature `auth-jwt`: there are no signed tokens, and all proofs are refused.

use super::access_error::{AccessError, Scheme};
use super::{Access, PresentedToken, VerifyError};
use crate::auth::Secret;
use crate::quota::QuotaOwner;

/// The rules for proofs of possession, which refuse them all.
#[derive(Clone, Default)]
pub(super) struct DpopConfig;

impl DpopConfig {
    pub(super) fn is_enabled(&self) -> bool {
        false
    }

    pub(super) fn algorithms(&self) -> impl Iterator<Item = &'static str> {
        core::iter::empty()
    }

    pub(super) fn schemes(&self) -> &'static [Scheme] {
        &[Scheme::Bearer]
    }

    pub(super) fn check(
        &self,
        _: (&str, &str),
        _: (&PresentedToken, &Secret),
        _: (&QuotaOwner, &str),
        _: &ReplayCache,
    ) -> Result<(), AccessError> {
        Err(AccessError::NoToken)
    }
}

/// Recently used proofs of possession. Without feature `auth-jwt` there are none.
#[derive(Debug, Default)]
pub struct ReplayCache(());

impl ReplayCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// A token whose signature is not verified yet. Without feature `auth-jwt` there are none.
#[derive(Clone, Debug)]
pub enum UnverifiedToken {}

impl UnverifiedToken {
    /// Verifies the signature of `token`.
    ///
    /// # Errors
    /// Never, as there is no such token.
    pub fn verify(&self, _token: &Secret) -> Result<Access, VerifyError> {
        match *self {}
    }

    /// Whether the token names the key of its signature.
    pub fn has_key_id(&self) -> bool {
        match *self {}
    }
}
