//! What comes out of the machine.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::UnixTime;
use crate::auth::{Fetch, FetchId, Scopes, Secret, TokenKind};

use super::error::AuthError;
use super::record::Record;

/// Something for the driver to carry out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Action {
    /// Make this exchange, following no redirect, reading no more of the body than its limit and connecting only to
    /// addresses that [`fetch_policy`](super::AuthClient::fetch_policy) allows. Then
    /// [`handle_answer`](super::AuthClient::handle_answer) or [`handle_failed`](super::AuthClient::handle_failed).
    Fetch(Fetch),
    /// Break that exchange off; nothing need be told of it.
    Abort(FetchId),
    /// Read the record, then [`handle_loaded`](super::AuthClient::handle_loaded).
    Load,
    /// Put a record in the place of the one of that version, or remove it, if it is still there: in one step, whoever
    /// else writes. Then [`handle_stored`](super::AuthClient::handle_stored).
    Store {
        /// What to keep; `None` removes what there is.
        record: Option<Record>,
        /// What must be there; `None` for nothing.
        expected: Option<RecordVersion>,
    },
    /// Ask the host for an assertion, then [`handle_assertion`](super::AuthClient::handle_assertion).
    Assertion(AssertionRequest),
}

/// An assertion that only the host has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AssertionRequest {
    /// What it is for.
    pub purpose: AssertionPurpose,
    /// The issuer it is for: the authorization server's, or the identity provider's if that is known.
    pub audience: Option<String>,
    /// What the token is to be used with.
    pub resource: String,
}

/// What an assertion is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssertionPurpose {
    /// It says who the person is, to an identity provider.
    Identity,
    /// It is exchanged for a token at the authorization server.
    Grant,
}

/// Which version of a record is meant. The store gives them out; no two records of one store have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordVersion(pub u64);

/// A record as the store holds it.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    /// What is kept.
    pub record: Record,
    /// Its version.
    pub version: RecordVersion,
}

/// How a [`Action::Store`] went.
#[derive(Clone, Debug)]
pub enum SaveOutcome {
    /// It is kept, as this version; after a removal the version means nothing.
    Done(RecordVersion),
    /// Something else was there: this.
    Conflict(Option<StoredRecord>),
}

/// Something for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A person has to agree: open that page, then [`finish`](super::AuthClient::finish) with where it led, or
    /// [`cancel_page`](super::AuthClient::cancel_page).
    NeedsAuthorization(AuthorizationPage),
    /// The page that was shown leads nowhere any more.
    PageObsolete,
    /// There is a token, or none is needed: whatever waits goes on.
    Ready(TokenGeneration),
    /// There is none, and whatever waits fails.
    Failed(AuthError),
    /// A server deviates from the specification, and the login goes on.
    Tolerated(Deviation),
    /// Tokens are there, but could not be kept: they end with this process.
    SaveFailed(String),
    /// What is kept could not be removed: the next process finds it. [`LoggedOut`](Self::LoggedOut) follows.
    RemovalFailed(String),
    /// This process knows nothing any more, and nothing is kept, unless it was told otherwise just before.
    LoggedOut,
}

/// A deviation from the specification that is tolerated. [`Display`](fmt::Display) says it to people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deviation {
    /// The server's metadata names its URL with one slash more, or less, at the end of the path.
    /// [`AuthConfig::trailing_slash`](super::AuthConfig::trailing_slash) refuses that.
    TrailingSlash {
        /// The resource as the metadata names it, without the query.
        resource: String,
    },
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TrailingSlash { resource } => {
                write!(f, "the server's metadata differs from its URL by the last slash: {resource}")
            }
        }
    }
}

/// A page on which a person agrees, or does not.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorizationPage {
    /// What to open: `https`, or `http` on loopback, and handed over as one argument rather than through a shell.
    pub url: String,
    /// The issuer of the authorization server it belongs to, to be shown beforehand.
    pub issuer: String,
    /// What is asked for.
    pub scopes: Option<Scopes>,
    /// Where it will lead back to.
    pub redirect_uri: String,
    /// For how long.
    pub lifetime: Duration,
}

impl fmt::Debug for AuthorizationPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.url.split('?').next().unwrap_or_default();
        f.debug_struct("AuthorizationPage")
            .field("url", &shown)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

/// Which token a request went out with. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TokenGeneration(pub(super) u64);

/// On whose behalf requests are made, as far as tokens tell. It is another one after each login, logout and step-up, and
/// after each renewal, unless the authorization server's ID tokens name the same subject before and after.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-scope-field>
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct AuthContext(pub(super) u64);

/// A request that the server refused.
#[derive(Clone, Copy)]
pub struct RefusedRequest<'a> {
    /// The status: 401 or 403.
    pub status: u16,
    /// All `WWW-Authenticate` headers, joined by commas.
    pub www_authenticate: Option<&'a str>,
    /// What [`credentials`](super::AuthClient::credentials) gave for it.
    pub generation: Option<TokenGeneration>,
    /// How often this request was sent again already: 0 at first.
    pub attempt: u32,
    /// The `DPoP-Nonce` header.
    pub nonce: Option<&'a str>,
}

/// What becomes of a refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum RetryDecision {
    /// Send it again now.
    Retry,
    /// [`Event::Ready`] or [`Event::Failed`] will tell.
    Wait,
    /// It stays refused.
    Fail(AuthError),
}

/// What a request to the server goes out with.
#[derive(Debug)]
#[must_use]
pub enum RequestAuth {
    /// With these headers, perhaps none.
    Ready {
        /// The headers.
        headers: alloc::vec::Vec<(&'static str, Secret)>,
        /// Which token is in them.
        generation: Option<TokenGeneration>,
    },
    /// Not yet: [`Event::Ready`] or [`Event::Failed`] will tell.
    Wait,
}

/// What is known, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenStatus {
    /// Who issued the token.
    pub issuer: String,
    /// What this client is known by there.
    pub client_id: String,
    /// What the token allows, as far as was said.
    pub scopes: Option<Scopes>,
    /// When it ends, if that was said.
    pub expires: Option<UnixTime>,
    /// Whether it can be renewed without anyone's help.
    pub has_refresh: bool,
    /// Whether it is bound to a key.
    pub kind: TokenKind,
    /// What it was asked for.
    pub resource: String,
}
