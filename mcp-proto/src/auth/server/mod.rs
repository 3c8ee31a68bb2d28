//! OAuth resource server: metadata, access rules, and token verification.
//!
//! ```text
//! Protection::check_request(head, now)   → Answer: send it (metadata or refusal) | Verify(PresentedToken)
//! the application's verifier             → Access, or VerifyError
//! Protection::check_token(presented, …)  → GrantedAccess: serve the request | Err(response): send it
//! ```
//!
//! A verifier decides which tokens are valid: `JwtChecker` (feature `auth-jwt`) verifies them with the keys of their
//! issuers, [`IntrospectionChecker`] asks their issuer, and an application may have its own. Whatever the verifier,
//! [`Protection::check_token`] then checks that the token was issued for this server, has not expired, is bound to the
//! key that the proof shows, and has the scopes that every request needs.
//!
//! Nothing here performs I/O, waits or reads a clock: a [`Checker`] requests [`Fetch`](crate::auth::Fetch)es.
//! `front::guard::Guard` drives it.
//!
//! # Stored state
//!
//! A [`Protection`] stores nothing between requests. The following is stored, each in its own value, bounded, and never
//! shared with another instance or process:
//!
//! | What | Where | How long |
//! |---|---|---|
//! | the keys of issuers | `JwtChecker` | until they are fetched again: see `JwtConfig` |
//! | introspection responses, by a token hash | [`IntrospectionChecker`] | see [`IntrospectionConfig::cache_ttl`] |
//! | used proofs of possession, by a hash | [`ReplayCache`] | as long as a proof is valid |
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
mod caches;
mod checker;
#[cfg(feature = "auth-jwt")]
mod dpop;
mod introspection;
#[cfg(feature = "auth-jwt")]
mod jws;
#[cfg(feature = "auth-jwt")]
mod jwt;
mod protection;

pub use access::{Access, PresentedToken};
pub use caches::ReplayCache;
pub use checker::{Checker, TokenValidation, UnverifiedToken, VerifyError};
#[cfg(feature = "auth-jwt")]
pub use dpop::DpopConfig;
pub use introspection::{IntrospectionChecker, IntrospectionConfig, MissingAudience};
#[cfg(feature = "auth-jwt")]
pub use jws::JwtAlgorithm;
#[cfg(feature = "auth-jwt")]
pub use jwt::{JwtChecker, JwtConfig, KeySource, TokenTypes, TrustedIssuer};
pub use protection::{AccessDecision, GrantedAccess, Protection, ProtectionError};
pub(crate) use protection::{Reverification, Reverifier, parse_scopes};
