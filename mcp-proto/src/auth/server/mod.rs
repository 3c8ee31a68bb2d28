//! The resource server: what a server says of itself, what it demands of requests, and what tokens allow.
//!
//! ```text
//! Protection::admit(head)          → Answer: send it (the metadata, or a refusal) | Verify(PresentedToken)
//! whoever verifies tokens          → Access, or VerifyError
//! Protection::settle(presented, …) → GrantedAccess: serve the request | Err(Answer): send it
//! ```
//!
//! Which tokens are good is for a verifier to say: `JwtChecker` (feature `auth-jwt`) holds them to the keys of their
//! issuers, [`IntrospectionChecker`] asks their issuer, and an application may have its own. That a token was issued for
//! this very server, that it has not lapsed, that it is bound to the key which the proof shows, and that it has the scopes
//! which every request needs, is checked here, whoever verified it.
//!
//! Nothing here makes an exchange, waits or reads a clock: a [`Checker`] asks for [`Fetch`](crate::auth::Fetch)es.
//! `front::http::Guard` drives it.
//!
//! # What is kept, and where
//!
//! A [`Protection`] keeps nothing between requests. These do, each in the one value that is made for it, bounded, and
//! never shared with another instance or process:
//!
//! | what | where | how long |
//! |---|---|---|
//! | the keys of issuers | `JwtChecker` | until they are fetched again: see `JwtConfig` |
//! | what issuers say of tokens, by a hash of the token | [`IntrospectionChecker`] | see [`IntrospectionConfig::cache_ttl`] |
//! | which proofs of possession came, by a hash | [`ReplayCache`] | as long as a proof is good |
//!
//! A token is looked at once for each request, when that comes. What it has begun, such as a stream, goes on when the token
//! lapses.
//!
//! Tokens are kept nowhere, and no handler gets to see one: what a server asks of others, it asks with tokens of its own.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod access;
mod checker;
mod claims;
#[cfg(feature = "auth-jwt")]
mod dpop;
mod error_response;
mod expiring_cache;
mod introspection;
#[cfg(feature = "auth-jwt")]
mod jwt;
mod presented_token;
mod protection;
mod replay_cache;

pub use access::{Access, GrantedAccess};
pub use checker::{Checker, TokenValidation, VerifyError};
#[cfg(feature = "auth-jwt")]
pub use dpop::{DpopConfig, DpopPolicy};
pub use introspection::{IntrospectionChecker, IntrospectionConfig, MissingAudience};
#[cfg(feature = "auth-jwt")]
pub use jwt::{JwtAlgorithm, JwtChecker, JwtConfig, KeySource, TokenTypes, TrustedIssuer, UnverifiedToken};
pub use presented_token::PresentedToken;
pub(crate) use protection::parse_scopes;
pub use protection::{AccessDecision, Protection, ProtectionError};
pub use replay_cache::ReplayCache;
