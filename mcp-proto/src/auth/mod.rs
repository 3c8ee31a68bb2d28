//! OAuth over HTTP, as far as it is the same whatever carries it: what challenges, metadata and answers say, which URLs
//! may be visited, and the texts that are signed or derived. Nothing here makes an exchange, reads a clock or draws a
//! random number.
//!
//! - [`Challenge`] and [`Requirement`]: why a server refuses a request, and what it wants.
//! - [`ResourceMetadata`] and [`ServerMetadata`]: where they are looked for, and what they say.
//! - [`FetchPolicy`]: which URLs and addresses may be visited for it.
//! - [`parse_token_response`]: what a token endpoint answers.
//! - [`Pkce`], [`client_assertion`] and [`proof`](dpop::proof): what is sent to prove who asks.
//!
//! Everything that comes from outside is bounded, and nothing secret is ever shown: see [`Secret`].
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod address;
mod challenge;
pub mod client;
pub mod dpop;
mod fetch;
mod fetch_policy;
mod jwt;
mod members;
mod metadata;
mod pkce;
mod sanitize;
mod scope;
mod secret;
#[cfg(feature = "server")]
pub mod server;
mod token_response;
mod url;

pub use challenge::{Challenge, Requirement};
pub use fetch::{Fetch, FetchId};
pub use fetch_policy::{FetchPolicy, FetchPolicyError, PrivateNetworks, check_page_url};
pub use jwt::{Es256, KeyError, SignError, Signer, client_assertion};
pub use metadata::{
    IssuerMatch, MetadataError, ResourceIdentity, ResourceMetadata, ServerMetadata, canonical_resource,
};
pub use pkce::{Pkce, random_text};
pub use scope::Scopes;
pub use secret::Secret;
pub use token_response::{
    TokenEndpointError, TokenKind, TokenResponse, TokenResponseError, parse_token_response,
};

use crate::{Instant, UnixTime};

/// The longest document that is read, in bytes: metadata, registrations, answers of token endpoints.
///
/// 256 KiB: real ones stay below 20 KiB.
pub const DOCUMENT_BYTES: usize = 256 * 1024;

/// The longest URL that is visited, in bytes: what browsers and servers agree on.
pub const URL_BYTES: usize = 8 * 1024;

/// Readings of both clocks: timeouts are counted by the one, the other says when tokens lapse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The clock that nobody sets.
    pub instant: Instant,
    /// The time of day.
    pub unix: UnixTime,
}
