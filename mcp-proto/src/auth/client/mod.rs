//! The client of OAuth: it gets tokens for one server, renews them, and asks for more when the server wants more.
//!
//! [`AuthClient`] makes no exchange, opens no page and keeps nothing: it asks for all that, and is told what came of it.
//!
//! ```text
//! before a request goes out  → credentials: its headers, or wait
//! after it was refused       → challenged: send again, wait, or never
//! loop {
//!     drain poll_action → make exchanges, break them off, load and store the record, ask the host for an assertion
//!     drain poll_event  → open a page; resume what waits, or fail it
//!     again, until neither has anything
//!     wait for: an answer → handle_answer, handle_failed | the store → handle_loaded, handle_stored
//!             | the host → handle_assertion | poll_timeout → handle_timeout | a page that led back → finish
//! }
//! ```
//!
//! Whoever was told to wait is told [`Event::Ready`] or [`Event::Failed`] once; both are for all that wait when they
//! are polled. Each [`Action::Load`], [`Action::Store`] and [`Action::Assertion`] is to be answered once; the machine
//! has no deadlines for those.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod action_queue;
mod challenge;
mod config;
mod credentials;
mod discover;
mod error;
mod event;
mod event_queue;
mod exchange;
mod fetching;
mod flow;
mod grants;
mod logout;
mod page;
mod record;
mod record_change;
mod register;
mod renew;
mod rng;
mod save;
mod steps;
mod token_state;

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use bytes::Bytes;

use crate::Instant;
use crate::auth::dpop::Nonces;
use crate::auth::url;
use crate::auth::{FetchId, FetchPolicy, Now, Secret, canonical_resource};
use crate::transport::http::{Fields, Verb};

pub use config::{
    ApplicationType, AuthConfig, AuthConfigError, AuthMethod, ClientCredentials, ClientInfo, ClientProof,
    DpopKey, Grant, IdentityProvider, LegacyDiscovery, LoginMode, Preregistration, ProviderLocation,
    RedirectPaths, SubjectKind, TrailingSlash,
};
pub use error::{AuthError, FinishError};
pub use event::{
    Action, AssertionPurpose, AssertionRequest, AuthContext, AuthorizationPage, Deviation, Event,
    RecordVersion, RefusedRequest, RequestAuth, RetryDecision, SaveOutcome, StoredRecord, TokenGeneration,
    TokenStatus,
};
pub use page::Redirect;
pub use record::{Record, RecordError};

use action_queue::ActionQueue;
use event_queue::EventQueue;
use fetching::Fetcher;
use flow::{AccessRequirement, DiscoveredServer, FlowPurpose, FlowStep, Flows};
use rng::SeededRng;
use token_state::TokenState;

/// The client of OAuth for one server, and one account there.
///
/// **Commands** are [`handle_challenge`](Self::handle_challenge), [`credentials`](Self::credentials), [`login`](Self::login),
/// [`logout`](Self::logout), [`finish`](Self::finish), [`cancel_page`](Self::cancel_page) and
/// [`keep_nonce`](Self::keep_nonce). **Inputs** are the `handle_*` methods: none of them fails, whatever comes.
/// **Outputs** are the `poll_*` methods.
///
/// ```
/// use mcp_proto::auth::Now;
/// use mcp_proto::auth::client::{Action, AuthClient, AuthConfig, RefusedRequest, RetryDecision};
/// use mcp_proto::{Instant, UnixTime};
///
/// let now = Now { instant: Instant::ORIGIN, unix: UnixTime::EPOCH };
/// let config = AuthConfig::new("my host", "http://127.0.0.1:4870/callback");
/// let mut client = AuthClient::new(config, "https://example.com/mcp", [7; 32])?;
///
/// let refused = RefusedRequest { status: 401, www_authenticate: Some("Bearer"), generation: None, attempt: 0, nonce: None };
/// assert_eq!(client.handle_challenge(now, &refused), RetryDecision::Wait);
/// assert!(matches!(client.poll_action(), Some(Action::Load)));
/// # Ok::<(), mcp_proto::auth::client::AuthConfigError>(())
/// ```
pub struct AuthClient {
    config: AuthConfig,
    /// The server's URL.
    server: String,
    /// The only origin that tokens go to.
    origin: String,
    /// The same as a resource, if nobody says otherwise.
    resource: String,
    rng: SeededRng,
    /// This process, in leases.
    lease_holder: String,
    tokens: TokenState,
    nonces: Nonces,
    /// The authorization server that was found last.
    discovered: Option<Arc<DiscoveredServer>>,
    flows: Flows,
    fetcher: Fetcher,
    actions: ActionQueue,
    events: EventQueue,
}

impl AuthClient {
    /// A client for the server at this URL. The seed is 32 random bytes that nobody else has.
    ///
    /// # Errors
    /// If tokens cannot be sent there, or the configuration makes no sense.
    pub fn new(config: AuthConfig, server_url: &str, seed: [u8; 32]) -> Result<Self, AuthConfigError> {
        let policy =
            FetchPolicy::for_server(server_url, config.private_networks).map_err(AuthConfigError::Server)?;
        let server = String::from(server_url.split('#').next().unwrap_or_default());
        let resource = canonical_resource(&server).map_err(AuthConfigError::Server)?;
        let origin = url::parse(&server).map_err(AuthConfigError::Server)?.origin();
        config.check(&policy)?;
        let mut rng = SeededRng::new(seed);
        let provided_key = match &config.dpop {
            Some(DpopKey::Provided(key)) => Some(key.clone()),
            _ => None,
        };
        Ok(Self {
            fetcher: Fetcher::new(policy, &config),
            config,
            server,
            origin,
            resource,
            lease_holder: rng.next_text(),
            rng,
            tokens: TokenState::new(provided_key),
            nonces: Nonces::default(),
            discovered: None,
            flows: Flows::default(),
            actions: ActionQueue::default(),
            events: EventQueue::default(),
        })
    }

    // --- Commands ---

    /// What a request to the server goes out with. No token goes to any other origin.
    pub fn credentials(&mut self, now: Now, verb: Verb, url: &str) -> RequestAuth {
        self.request_auth(now, verb, url)
    }

    /// The server refused a request with 401 or 403.
    pub fn handle_challenge(&mut self, now: Now, refused: &RefusedRequest<'_>) -> RetryDecision {
        self.handle_refusal(now, refused)
    }

    /// The host sends a request to the server without what [`credentials`](Self::credentials) would give for it.
    pub fn skip_credentials(&mut self) {
        self.tokens.note_sent(false);
    }

    /// Keeps the `DPoP-Nonce` header of an answer of the server, whatever its status.
    pub fn keep_nonce(&mut self, url: &str, nonce: &str) {
        if self.is_server_url(url) {
            self.nonces.keep(url, nonce);
        }
    }

    /// Gets a new token, whether there is one or not. [`Event::Ready`] or [`Event::Failed`] tells how it went.
    pub fn login(&mut self, now: Now) {
        match self.flows.current() {
            None => self.begin_flow(now, FlowPurpose::Login, AccessRequirement::default()),
            Some(flow) if flow.purpose == FlowPurpose::Login => {}
            Some(_) => self.flows.queue(FlowPurpose::Login, AccessRequirement::default()),
        }
    }

    /// Forgets everything, and gives the token back. [`Event::LoggedOut`] tells when that is done, after
    /// [`Event::RemovalFailed`] if what is kept could not be removed. Whatever waits fails first.
    pub fn logout(&mut self, now: Now) {
        self.tokens.end_context();
        let leaving = self.flows.is_logout();
        if self.flows.take_queued().is_some() | (!leaving && self.drop_flow()) {
            self.events.push(Event::Failed(AuthError::LoggedOut));
        }
        if !leaving {
            self.begin_flow(now, FlowPurpose::Logout, AccessRequirement::default());
        }
    }

    /// The page led back.
    ///
    /// # Errors
    /// If that is no answer to the page that is open, or a bad one.
    pub fn finish(&mut self, now: Now, redirect: Redirect) -> Result<(), FinishError> {
        self.finish_page(now, redirect)
    }

    /// Nobody is going to agree on the page that is open.
    pub fn cancel_page(&mut self, now: Now) {
        self.fail_page(now, AuthError::PageCancelled);
    }

    // --- Inputs ---

    /// An exchange was answered; this is the whole body.
    pub fn handle_answer(&mut self, now: Now, id: FetchId, status: u16, fields: &dyn Fields, body: Bytes) {
        if let Some(reply) = self.handle_fetch_answer(now, id, status, fields, body) {
            self.handle_reply(now, reply);
        }
    }

    /// An exchange was not answered, or its answer was too long.
    pub fn handle_failed(&mut self, now: Now, id: FetchId, detail: &str) {
        if let Some(reply) = self.fail_fetch(id, detail) {
            self.handle_reply(now, reply);
        }
    }

    /// What the store holds.
    pub fn handle_loaded(&mut self, now: Now, loaded: Result<Option<StoredRecord>, String>) {
        self.handle_store_answer(now, loaded);
    }

    /// What became of the record that was to be kept.
    pub fn handle_stored(&mut self, now: Now, saved: Result<SaveOutcome, String>) {
        self.handle_save_outcome(now, saved);
    }

    /// The assertion that the host was asked for, or why there is none.
    pub fn handle_assertion(&mut self, now: Now, assertion: Result<Secret, String>) {
        self.continue_with_assertion(now, assertion);
    }

    /// It is as late as [`poll_timeout`](Self::poll_timeout) said.
    pub fn handle_timeout(&mut self, now: Now) {
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now.instant);
        if due(self.fetcher.deadline())
            && let Some(reply) = self.time_out_fetch()
        {
            self.handle_reply(now, reply);
        }
        let Some(flow) = self.flows.current().filter(|flow| due(flow.deadline())) else { return };
        match flow.step {
            FlowStep::Page(_) => self.fail_page(now, AuthError::PageTimedOut),
            FlowStep::AwaitingRenewal(_) => self.run_step(now, Self::poll_lease),
            _ => {}
        }
    }

    // --- Outputs ---

    /// The next thing to carry out.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop()
    }

    /// The next thing to tell the application.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.fetcher.deadline(), self.flows.deadline()].into_iter().flatten().min()
    }

    // --- Getters ---

    /// Which addresses exchanges may connect to.
    pub fn fetch_policy(&self) -> &FetchPolicy {
        self.fetcher.policy()
    }

    /// The server's URL, as a resource.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Whether an event will tell how what is under way ends.
    pub fn is_busy(&self) -> bool {
        self.flows.current().is_some()
    }

    /// What is known of the token, as of the last time the store was read. `None` if there is no token.
    pub fn status(&self) -> Option<TokenStatus> {
        self.tokens.status()
    }

    /// The authorization context of requests that go out from now on. While it stays the same, answers that the server
    /// means for one context alone may be shown again.
    pub fn context(&self) -> AuthContext {
        self.tokens.context()
    }

    /// Whether a URL is of the server.
    fn is_server_url(&self, url: &str) -> bool {
        url::parse(url).is_ok_and(|parts| parts.user.is_none() && parts.origin() == self.origin)
    }
}

impl fmt::Debug for AuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthClient")
            .field("server", &self.server.split('?').next().unwrap_or_default())
            .field("busy", &self.is_busy())
            .finish_non_exhaustive()
    }
}
