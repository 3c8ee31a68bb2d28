//! Who says what a token allows.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use super::Access;
#[cfg(feature = "auth-jwt")]
use super::jwt::{UnverifiedToken, WRONG_SIGNATURE};
use crate::auth::{Fetch, FetchId, FetchPolicy, Now, Secret, sanitize};
use crate::quota::QuotaOwner;

/// Verifies tokens, with what is fetched on its behalf.
///
/// ```text
/// check(token) → TokenValidation::Valid | TokenValidation::Rejected
///              | TokenValidation::SignatureUnchecked: verify it, for which the checker is not needed; if it is wrong, recheck
///              | TokenValidation::Pending(id): ask again once the exchange `id` has ended
/// drain poll_fetch → make the exchange, then handle_answer or handle_failed
/// ```
pub trait Checker: Send {
    /// Says what a token allows. What is fetched for it uses the quota of `owner`.
    fn check(&mut self, now: Now, owner: &QuotaOwner, token: &Secret) -> TokenValidation;

    /// Says what a token allows whose signature is wrong by the keys that `failed` has tried. Default: it is refused.
    #[cfg(feature = "auth-jwt")]
    fn recheck(&mut self, now: Now, token: &Secret, failed: &UnverifiedToken) -> TokenValidation {
        let _ = (now, token, failed);
        TokenValidation::Rejected(VerifyError::invalid(WRONG_SIGNATURE))
    }

    /// The owner that a token is known to have had lately. Its quota is used for a token whose sender has no quota left, so
    /// that no one can keep known tokens from being verified. Default: it is not known.
    fn known_owner(&self, now: Now, token: &Secret) -> Option<QuotaOwner> {
        let _ = (now, token);
        None
    }

    /// An exchange has ended with this status and body.
    fn handle_answer(&mut self, now: Now, id: FetchId, status: u16, body: &[u8]);

    /// An exchange has come to nothing; with what is known about it, for people.
    fn handle_failed(&mut self, now: Now, id: FetchId, detail: &str);

    /// The next exchange to make, and which addresses may be connected to for it.
    #[must_use]
    fn poll_fetch(&mut self) -> Option<(Fetch, FetchPolicy)>;

    /// Whether there is one.
    fn has_fetch(&self) -> bool;
}

/// How long an exchange is waited for. Drivers are done sooner: whoever was to make it has gone.
pub(super) const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// What is known of a token.
#[derive(Clone, Debug)]
pub enum TokenValidation {
    /// It is good.
    Valid(Box<Access>),
    /// It is good if its signature is.
    #[cfg(feature = "auth-jwt")]
    SignatureUnchecked(UnverifiedToken),
    /// It is not, or nobody can tell.
    Rejected(VerifyError),
    /// It is not known before this exchange has ended: ask again then.
    Pending(FetchId),
}

impl From<Result<Access, VerifyError>> for TokenValidation {
    fn from(checked: Result<Access, VerifyError>) -> Self {
        checked.map_or_else(Self::Rejected, |access| Self::Valid(Box::new(access)))
    }
}

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyError {
    /// It is not good, for this reason: a short sentence that the client is shown. It is answered with 401.
    Invalid(String),
    /// Nobody can tell at the moment, for this reason, which is for logs: it is answered with 503.
    Unavailable(String),
    /// The sender has too many tokens verified at once, for this reason, which is for logs: it is answered with 429.
    OverQuota(String),
}

impl VerifyError {
    /// The token is not good. `why` is shown to the client: it must not tell what only its issuer should know.
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }

    /// Nobody can tell at the moment. `why` is not shown to the client.
    pub fn unavailable(why: impl AsRef<str>) -> Self {
        Self::Unavailable(sanitize::sanitize(why.as_ref()).unwrap_or_default())
    }

    /// The sender has too many tokens verified at once. `why` is not shown to the client.
    pub fn over_quota(why: impl Into<String>) -> Self {
        Self::OverQuota(why.into())
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => write!(f, "the token is refused: {why}"),
            Self::Unavailable(why) => write!(f, "the token can not be checked: {why}"),
            Self::OverQuota(why) => write!(f, "the token is not checked: {why}"),
        }
    }
}

impl core::error::Error for VerifyError {}
