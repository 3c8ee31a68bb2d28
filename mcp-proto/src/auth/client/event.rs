//! Outputs of the machine: actions, events and decisions.

use alloc::collections::VecDeque;
use core::mem::discriminant;
use core::time::Duration;

use crate::UnixTime;
use crate::auth::{Fetch, FetchId, Scopes, Secret, TokenKind};
use crate::prelude::*;
use crate::redact::url_without_secrets;

use super::error::AuthError;
use super::record::{PendingLogin, Record};

/// An action for the driver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Action {
    /// Perform this exchange, without following redirects, reading no more of the body than its limit, and connecting
    /// only to addresses that [`fetch_policy`](super::AuthClient::fetch_policy) allows. Then
    /// [`handle_answer`](super::AuthClient::handle_answer) or [`handle_failed`](super::AuthClient::handle_failed).
    Fetch(Fetch),
    /// Abort this exchange, without reporting its end.
    Abort(FetchId),
    /// Read the record, then [`handle_loaded`](super::AuthClient::handle_loaded).
    Load,
    /// Compare-and-swap: replace or remove the record, atomically, if its version is `expected`. Then
    /// [`handle_stored`](super::AuthClient::handle_stored).
    Store {
        /// The new record. `None` removes it.
        record: Option<Record>,
        /// The version that the store must hold. `None` if it must hold no record.
        expected: Option<RecordVersion>,
    },
    /// Ask the host for an assertion, then [`handle_assertion`](super::AuthClient::handle_assertion).
    Assertion(AssertionRequest),
}

/// A request for an assertion that the host provides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AssertionRequest {
    /// The purpose of the assertion.
    pub purpose: AssertionPurpose,
    /// The issuer that it is for: the authorization server, or the identity provider if that is known.
    pub audience: Option<String>,
    /// The resource that the token will be used with.
    pub resource: String,
}

/// The purpose of an assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssertionPurpose {
    /// It identifies the user to an identity provider.
    Identity,
    /// The authorization server exchanges it for a token.
    Grant,
}

/// The version of a stored record. The store assigns it, and never assigns the same one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordVersion(pub u64);

/// A record as the store holds it.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    /// The record.
    pub record: Record,
    /// Its version.
    pub version: RecordVersion,
}

/// The outcome of an [`Action::Store`].
#[derive(Clone, Debug)]
pub enum SaveOutcome {
    /// The record is stored as this version. After a removal the version has no meaning.
    Done(RecordVersion),
    /// The store holds another version: this one.
    Conflict(Option<StoredRecord>),
}

/// An event for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The user must authorize the client: open this page, then call [`finish`](super::AuthClient::finish) with its
    /// redirect, or [`cancel_page`](super::AuthClient::cancel_page).
    NeedsAuthorization(AuthorizationPage),
    /// The user must open this page. Store the login, [sealed](PendingLogin::seal), and call
    /// [`finish_login`](super::AuthClient::finish_login) with the page's redirect, in any process.
    LoginBegun(AuthorizationPage, Box<PendingLogin>),
    /// The page that was opened is obsolete.
    PageObsolete,
    /// There is a token, or none is needed: resume the waiting requests.
    Ready(TokenGeneration),
    /// There is no token: fail the waiting requests.
    Failed(AuthError),
    /// A server deviates from the specification in this way, which is tolerated.
    Tolerated(Deviation),
    /// The store failed to save new tokens, for this reason: they are lost when this process ends.
    SaveFailed(String),
    /// The store failed to remove the record, for this reason: the next process will find it.
    /// [`LoggedOut`](Self::LoggedOut) follows.
    RemovalFailed(String),
    /// The logout is finished: this process has no tokens, and the store has none unless
    /// [`RemovalFailed`](Self::RemovalFailed) preceded.
    LoggedOut,
}

/// A tolerated deviation from the specification. [`Display`](core::fmt::Display) describes it to users.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deviation {
    /// The server's metadata names its URL with one slash more, or less, at the end of the path.
    /// [`AuthConfig::trailing_slash`](super::AuthConfig::trailing_slash) can refuse that.
    TrailingSlash {
        /// The resource in the metadata, without its query.
        resource: String,
    },
}

display_text! { Deviation:
    TrailingSlash { resource } =>
        "the resource in the server's metadata differs from its URL by a trailing slash: {resource}";
}

/// An authorization page for the user.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorizationPage {
    /// The URL: `https`, or `http` on loopback. Pass it to the browser as one argument, not through a shell.
    pub url: String,
    /// The issuer of the page. Show it to the user before opening the page.
    pub issuer: String,
    /// The requested scopes.
    pub scopes: Option<Scopes>,
    /// The redirect URI of the page.
    pub redirect_uri: String,
    /// How long the page is valid.
    pub lifetime: Duration,
}

debug_fields! { AuthorizationPage(self) { url = url_without_secrets(&self.url), issuer } }

/// Identifies the token of a request. Later tokens are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TokenGeneration(pub(super) u64);

/// Identifies the user of requests, as far as tokens show. It changes with each login, logout and step-up, and with each
/// renewal, unless the authorization server's ID tokens name the same subject before and after.
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
    /// The token that [`credentials`](super::AuthClient::credentials) gave for it.
    pub generation: Option<TokenGeneration>,
    /// How often the request has been sent again: 0 at first.
    pub attempt: u32,
    /// The `DPoP-Nonce` header of the response.
    pub nonce: Option<&'a str>,
}

/// The decision on a refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum RetryDecision {
    /// Send it again now.
    Retry,
    /// Wait for [`Event::Ready`] or [`Event::Failed`].
    Wait,
    /// Fail it.
    Fail(AuthError),
}

/// The credentials of a request to the server.
#[derive(Debug)]
#[must_use]
pub enum RequestAuth {
    /// Send it with these headers, which may be none.
    Ready {
        /// The headers.
        headers: Vec<(&'static str, Secret)>,
        /// The token in them.
        generation: Option<TokenGeneration>,
    },
    /// Wait for [`Event::Ready`] or [`Event::Failed`].
    Wait,
}

/// The status of a token, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenStatus {
    /// The issuer of the token.
    pub issuer: String,
    /// The id of this client at the issuer.
    pub client_id: String,
    /// The granted scopes, or the requested ones if the issuer did not name them.
    pub scopes: Option<Scopes>,
    /// When it expires, if known.
    pub expires: Option<UnixTime>,
    /// Whether it can be renewed without the user.
    pub has_refresh: bool,
    /// The kind of the token: whether it is bound to a key.
    pub kind: TokenKind,
    /// The resource that it was requested for.
    pub resource: String,
}

/// The queue of actions. The store and the host each answer one question at a time.
#[derive(Default)]
pub(super) struct ActionQueue {
    queue: VecDeque<Action>,
    /// The questions without an answer, those in the queue included.
    unanswered: Vec<Question>,
}

#[derive(PartialEq, Eq)]
pub(super) enum Question {
    Load,
    Store,
    Assertion,
}

impl Action {
    fn question(&self) -> Option<Question> {
        match self {
            Self::Load => Some(Question::Load),
            Self::Store { .. } => Some(Question::Store),
            Self::Assertion(_) => Some(Question::Assertion),
            Self::Fetch(_) | Self::Abort(_) => None,
        }
    }
}

impl ActionQueue {
    pub(super) fn push(&mut self, action: Action) {
        self.unanswered.extend(action.question());
        self.queue.push_back(action);
    }

    pub(super) fn pop(&mut self) -> Option<Action> {
        self.queue.pop_front()
    }

    /// Aborts a fetch, or removes it if the driver has not polled it yet.
    pub(super) fn abort(&mut self, id: FetchId) {
        let before = self.queue.len();
        self.queue.retain(|action| !matches!(action, Action::Fetch(queued) if queued.id == id));
        if self.queue.len() == before {
            self.queue.push_back(Action::Abort(id));
        }
    }

    pub(super) fn is_store_busy(&self) -> bool {
        self.unanswered.iter().any(|question| *question != Question::Assertion)
    }

    pub(super) fn is_host_busy(&self) -> bool {
        self.unanswered.contains(&Question::Assertion)
    }

    /// Accepts the answer to a question that the driver has polled. Returns whether it was due.
    pub(super) fn accept(&mut self, question: Question) -> bool {
        if self.queue.iter().any(|action| action.question().as_ref() == Some(&question)) {
            return false;
        }
        let before = self.unanswered.len();
        self.unanswered.retain(|pending| *pending != question);
        self.unanswered.len() != before
    }
}

fn is_outcome(event: &Event) -> bool {
    matches!(event, Event::Ready(_) | Event::Failed(_))
}

/// The queue of events. A later event replaces those that it makes pointless.
#[derive(Default)]
pub(super) struct EventQueue(VecDeque<Event>);

impl EventQueue {
    pub(super) fn push(&mut self, event: Event) {
        self.0.retain(|earlier| {
            discriminant(earlier) != discriminant(&event) && !(is_outcome(earlier) && is_outcome(&event))
        });
        self.0.push_back(event);
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.0.pop_front()
    }

    pub(super) fn has_outcome(&self) -> bool {
        self.0.iter().any(is_outcome)
    }

    /// Removes the request to open a page. Returns whether it was still queued.
    pub(super) fn remove_page(&mut self) -> bool {
        let before = self.0.len();
        self.0.retain(|event| !matches!(event, Event::NeedsAuthorization(_)));
        self.0.len() != before
    }
}
