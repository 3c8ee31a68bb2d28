//! The stand-in for `dpop` in builds without feature `auth-jwt`: all proofs are refused.

use super::access::{AccessError, PresentedToken, Scheme};
use super::caches::ReplayCache;
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
