//! OAuth resource server: metadata, access rules, and token verification.
//!
//! ```text
//! Protection::check_request(head, now)   → Answer: send it (metadata or refusal) | Verify(PresentedToken)
//! the application's verifier             → Access, or VerifyError
//! Protection::check_token(presented, …)  → Granted(GrantedAccess): serve the request | Err(response): send it
//!                                        | Claim(ProofClaim): record the use of its proof
//! ProofClaim::resolve(outcome)           → GrantedAccess: serve the request | Err(response): send it
//! ```
//!
//! A verifier decides which tokens are valid: `JwtChecker` (feature `auth-jwt`) verifies them with the keys of their
//! issuers, [`IntrospectionChecker`] asks their issuer, and an application may have its own. Whatever the verifier,
//! [`Protection::check_token`] then checks that the token was issued for this server, has not expired, is bound to the
//! key that the proof shows, and has the scopes that every request needs.
//!
//! Nothing here performs I/O, waits or reads a clock: a [`Checker`] requests [`Fetch`]es.
//! `front::guard::Guard` drives it.
//!
//! # Stored state
//!
//! A [`Protection`] stores nothing between requests. The following is stored, each in its own value, bounded, and
//! except for a store of used proofs never shared with another instance or process:
//!
//! | What | Where | How long |
//! |---|---|---|
//! | the keys of issuers | `JwtChecker` | until they are fetched again: see `JwtConfig` |
//! | introspection responses, by a token hash | [`IntrospectionChecker`] | see [`IntrospectionConfig::cache_ttl`] |
//! | used proofs of possession, by a hash | a `front::SingleUse` store: by default in memory | as long as a proof is valid |
//!
//! A token is checked once per request, when the request arrives. Handlers continue after it expires, over HTTP. Streams
//! of changes end then: those of `subscriptions/listen`, GET streams of legacy sessions, and whole WebSocket connections;
//! the client's next request gets 401. `Guard::reverify_every` also ends the streams of tokens that were revoked.
//!
//! Tokens are not stored, but for these verifications, and handlers never see one: a server uses its own tokens for
//! requests to other servers.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod access;
#[cfg(feature = "auth-jwt")]
mod dpop;
mod introspection;
#[cfg(feature = "auth-jwt")]
mod jws;
#[cfg(feature = "auth-jwt")]
mod jwt;
mod protection;

use alloc::sync::Arc;
use core::time::Duration;

use crate::auth::sanitize;
use crate::auth::{Fetch, FetchId, FetchPolicy, Now, Secret};
use crate::prelude::*;
use crate::quota::QuotaOwner;

pub use access::{Access, PresentedToken};
#[cfg(feature = "auth-jwt")]
pub use dpop::DpopConfig;
pub use introspection::{IntrospectionChecker, IntrospectionConfig, MissingAudience};
#[cfg(feature = "auth-jwt")]
pub use jws::JwtAlgorithm;
#[cfg(feature = "auth-jwt")]
pub use jwt::{JwtChecker, JwtConfig, KeySource, TokenTypes, TrustedIssuer};
pub use protection::{AccessDecision, GrantedAccess, ProofClaim, Protection, ProtectionError, TokenDecision};
pub(crate) use protection::{Reverification, Reverifier, parse_scopes};

// Token checkers, which verify tokens and determine their access.

/// Verifies tokens, and requests the fetches that this needs.
///
/// ```text
/// check(token) → TokenValidation::Valid | TokenValidation::Rejected
///              | TokenValidation::SignatureUnchecked: verify it, without the checker; if it is wrong, recheck
///              | TokenValidation::Pending(id): check again once the fetch `id` has ended
/// drain poll_fetch → perform the fetch, then handle_answer or handle_failed
/// ```
pub trait Checker: Send {
    /// Checks a token. Fetches for it use the quota of `owner`.
    fn check(&mut self, now: Now, owner: &QuotaOwner, token: &Secret) -> TokenValidation;

    /// Checks a token again whose signature does not match the keys that `failed` has tried. Default: rejects it.
    fn recheck(&mut self, now: Now, token: &Secret, failed: &UnverifiedToken) -> TokenValidation {
        let _ = (now, token, failed);
        TokenValidation::invalid(WRONG_SIGNATURE)
    }

    /// The recent owner of a known token. Its quota is used for a token whose sender has exhausted its own, so that no
    /// sender can prevent the verification of known tokens. Default: unknown.
    fn known_owner(&self, now: Now, token: &Secret) -> Option<QuotaOwner> {
        let _ = (now, token);
        None
    }

    /// Handles the response to a fetch.
    fn handle_answer(&mut self, now: Now, id: FetchId, status: u16, body: &[u8]);

    /// Handles a failed fetch; `detail` is a description for logs.
    fn handle_failed(&mut self, now: Now, id: FetchId, detail: &str);

    /// The next fetch to perform, and the policy for the addresses that it may connect to.
    #[must_use]
    fn poll_fetch(&mut self) -> Option<(Fetch, FetchPolicy)>;

    /// Whether a fetch waits to be performed.
    fn has_fetch(&self) -> bool;
}

/// The error for a token whose signature matches none of the keys.
const WRONG_SIGNATURE: &str = "the token's signature is wrong";

/// Time after which a fetch is given up. Drivers end sooner, so that later only a dropped driver can be the reason.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of checking a token.
#[derive(Clone, Debug)]
pub enum TokenValidation {
    /// The token is valid.
    Valid(Box<Access>),
    /// The token is valid if its signature is.
    SignatureUnchecked(UnverifiedToken),
    /// The token is rejected, or cannot be verified.
    Rejected(VerifyError),
    /// The result depends on this fetch: check again once it has ended.
    Pending(FetchId),
}

impl TokenValidation {
    fn invalid(why: impl Into<String>) -> Self {
        Self::Rejected(VerifyError::invalid(why))
    }
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
    /// The token is invalid, for this reason: a short sentence that the client is shown. The response is 401.
    Invalid(String),
    /// The token cannot be verified at present, for this reason, which is for logs. The response is 503.
    Unavailable(String),
    /// The sender has too many tokens under verification, for this reason, which is for logs. The response is 429.
    OverQuota(String),
}

impl VerifyError {
    /// The token is invalid. `why` is shown to the client: it must not reveal what only the issuer should know.
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }

    /// The token cannot be verified at present. `why` is not shown to the client.
    pub fn unavailable(why: impl AsRef<str>) -> Self {
        Self::Unavailable(sanitize(why.as_ref()).unwrap_or_default())
    }

    /// The sender has too many tokens under verification. `why` is not shown to the client.
    pub fn over_quota(why: impl Into<String>) -> Self {
        Self::OverQuota(why.into())
    }
}

error_text! { VerifyError:
    Invalid(why) => "the token is refused: {why}";
    Unavailable(why) => "the token cannot be checked: {why}";
    OverQuota(why) => "the token is not checked: {why}";
}

/// The keys of an issuer.
trait KeySet: Send + Sync {
    /// Whether the token is signed by the key at this index; without one, any key may match.
    ///
    /// # Errors
    /// If it is not a signed token, for this reason.
    fn verifies(&self, token: &str, key_index: Option<usize>) -> Result<bool, String>;
}

/// A token that is valid except for its signature, which is not verified yet. The verification takes tens to hundreds
/// of microseconds, so it runs outside the checker, where no other request waits for it.
#[derive(Clone)]
pub struct UnverifiedToken {
    keys: Arc<dyn KeySet>,
    /// The index of the key that the token names.
    key_index: Option<usize>,
    access: Box<Access>,
}

impl UnverifiedToken {
    /// Verifies the signature of `token`, which must be the token that was checked, and returns the access it grants.
    ///
    /// # Errors
    /// If the signature is wrong. If the token [names no key](Self::has_key_id), its issuer may have a newer one: call
    /// [`Checker::recheck`].
    pub fn verify(&self, token: &Secret) -> Result<Access, VerifyError> {
        match self.keys.verifies(token.expose(), self.key_index).map_err(VerifyError::invalid)? {
            true => Ok((*self.access).clone()),
            false => Err(VerifyError::invalid(WRONG_SIGNATURE)),
        }
    }

    /// Whether the token names the key of its signature.
    pub fn has_key_id(&self) -> bool {
        self.key_index.is_some()
    }
}

debug_fields! { UnverifiedToken { access } }
