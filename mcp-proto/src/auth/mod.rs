//! The transport-independent parts of OAuth: challenges, metadata, token responses, fetch policy, and signed or derived
//! texts. Nothing here performs I/O, reads a clock or generates a random number.
//!
//! - [`Challenge`] and [`Requirement`]: why a server refuses a request, and what it requires.
//! - [`ResourceMetadata`] and [`ServerMetadata`]: well-known URLs and contents.
//! - [`FetchPolicy`]: which URLs and addresses may be fetched from.
//! - [`parse_token_response`]: the response of a token endpoint.
//! - [`Pkce`], [`client_assertion`] and [`proof`](dpop::proof): what a client sends to prove its identity.
//!
//! Every input is bounded, and no secret is ever shown: see [`Secret`].
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod challenge;
pub mod client;
pub mod dpop;
mod fetch;
mod keys;
mod metadata;
#[cfg(feature = "server")]
#[cfg_attr(
    not(feature = "auth-jwt"),
    allow(dead_code, reason = "only signed tokens and proofs use all of it")
)]
pub mod server;
mod token_response;

pub use challenge::{Challenge, Requirement, Scopes};
pub use fetch::{Fetch, FetchId, FetchPolicy, FetchPolicyError, PrivateNetworks, check_page_url};
pub use keys::{Es256, KeyError, Pkce, SignError, Signer, client_assertion, random_text};
pub use metadata::{
    IssuerMatch, MetadataError, ResourceIdentity, ResourceMetadata, ServerMetadata, canonical_resource,
};
pub use token_response::{
    TokenEndpointError, TokenKind, TokenResponse, TokenResponseError, parse_token_response,
};

use core::time::Duration;

pub use crate::Secret;
use crate::prelude::*;
#[cfg(feature = "seal")]
pub use crate::seal::{SealKey, Sealer};
use crate::text::SafeText;
use crate::{Instant, UnixTime};

/// Maximum bytes of a document: metadata, registrations, responses of token endpoints.
///
/// 256 KiB: real ones stay below 20 KiB.
pub const DOCUMENT_BYTES: usize = 256 * 1024;

/// Maximum bytes of a URL: the limit that browsers and servers agree on.
pub const URL_BYTES: usize = 8 * 1024;

/// The readings of both clocks: timeouts use the monotonic one, token expiry the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock.
    pub instant: Instant,
    /// The wall clock.
    pub unix: UnixTime,
}

impl Now {
    /// The monotonic reading `time` from now, at least a millisecond; `None` beyond the end of the clock.
    fn deadline_after(self, time: Duration) -> Option<Instant> {
        let later = self.instant + time.max(Duration::from_millis(1));
        (later > self.instant).then_some(later)
    }
}

/// Maximum number of characters that are shown.
pub(crate) const SHOWN: usize = 500;

/// The beginning of a text, without characters that could steer a terminal, reorder text or hide in it. `None` if
/// nothing remains.
pub(crate) fn sanitize(text: &str) -> Option<String> {
    let shown: String = text.chars().filter(|&letter| !SafeText::is_unsafe(letter)).take(SHOWN).collect();
    (!shown.is_empty()).then_some(shown)
}
