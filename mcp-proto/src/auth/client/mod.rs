//! OAuth client: obtains tokens for one server, renews them, and requests more scopes when the server requires them.
//!
//! [`AuthClient`] performs no exchange, opens no page and stores nothing: it requests all that by
//! [`Action`]s and [`Event`]s, and takes the results as inputs.
//!
//! ```text
//! before sending a request  → credentials: the headers to send, or wait
//! after its refusal         → handle_challenge: send it again, wait, or fail it
//! loop {
//!     drain poll_action → perform or abort exchanges, load or store the record, ask the host for an assertion
//!     drain poll_event  → open a page; resume the waiting requests, or fail them
//!     again, until neither has anything
//!     wait for: a response → handle_answer, handle_failed | the store → handle_loaded, handle_stored
//!             | the host → handle_assertion | poll_timeout → handle_timeout | a redirect → finish
//! }
//! ```
//!
//! One [`Event::Ready`] or [`Event::Failed`] ends the wait of all requests that wait when it is polled. The driver must
//! answer each [`Action::Load`], [`Action::Store`] and [`Action::Assertion`] once; the machine has no deadlines for those.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod config;
mod discover;
mod error;
mod event;
mod exchange;
mod flow;
mod grants;
mod pending_login;
mod record;
mod registration;
mod tokens;

use alloc::sync::Arc;

use bytes::Bytes;
use event::{ActionQueue, EventQueue};
use exchange::Fetcher;
use flow::{DiscoveredServer, FlowPurpose, FlowStep, Flows};
use tokens::{StepUps, TokenState};

use crate::auth::dpop::Nonces;
use crate::auth::keys::SeededRng;
use crate::auth::{FetchId, FetchPolicy, Now, Requirement, canonical_resource, fetch};
use crate::prelude::*;
use crate::redact::url_without_secrets;
use crate::transport::http::Fields;
use crate::{Instant, UnixTime};

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
pub use grants::Redirect;
pub use record::{PendingLogin, Record, RecordError};

/// OAuth client for one server and one account at it.
///
/// **Commands** are [`handle_challenge`](Self::handle_challenge), [`credentials`](Self::credentials), [`login`](Self::login),
/// [`logout`](Self::logout), [`finish`](Self::finish), [`cancel_page`](Self::cancel_page),
/// [`begin_login`](Self::begin_login), [`finish_login`](Self::finish_login) and [`keep_nonce`](Self::keep_nonce). **Inputs** are the `handle_*` methods, which never fail.
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
    /// The readings of the clocks at the present input or command.
    now: Now,
    /// The server's URL, at whose origin alone tokens are sent.
    server: String,
    /// The canonical resource identifier of the server, which its metadata and the configuration can override.
    resource: String,
    rng: SeededRng,
    /// The name of this process in leases.
    lease_holder: String,
    tokens: TokenState,
    step_ups: StepUps,
    nonces: Nonces,
    /// The authorization server that was discovered last.
    discovered: Option<Arc<DiscoveredServer>>,
    flows: Flows,
    fetcher: Fetcher,
    actions: ActionQueue,
    events: EventQueue,
}

impl AuthClient {
    /// A client for the server at this URL. The seed is 32 secret random bytes.
    ///
    /// # Errors
    /// If tokens may not be sent to that URL, or the configuration is invalid.
    pub fn new(config: AuthConfig, server_url: &str, seed: [u8; 32]) -> Result<Self, AuthConfigError> {
        let policy =
            FetchPolicy::for_server(server_url, config.private_networks).map_err(AuthConfigError::Server)?;
        let server = String::from(server_url.split('#').next().unwrap_or_default());
        let resource = canonical_resource(&server).map_err(AuthConfigError::Server)?;
        config.check(&policy)?;
        let mut rng = SeededRng::new(seed);
        let provided_key = match &config.dpop {
            Some(DpopKey::Provided(key)) => Some(key.clone()),
            _ => None,
        };
        Ok(Self {
            fetcher: Fetcher::new(policy),
            config,
            now: Now { instant: Instant::ORIGIN, unix: UnixTime::EPOCH },
            server,
            resource,
            lease_holder: rng.next_text(),
            rng,
            tokens: TokenState::new(provided_key),
            step_ups: StepUps::default(),
            nonces: Nonces::default(),
            discovered: None,
            flows: Flows::default(),
            actions: ActionQueue::default(),
            events: EventQueue::default(),
        })
    }

    // --- Commands ---

    /// Notes a request to the server that is sent without the headers of [`credentials`](Self::credentials).
    pub fn skip_credentials(&mut self) {
        self.tokens.note_sent(false);
    }

    /// Stores the `DPoP-Nonce` header of any response of the server.
    pub fn keep_nonce(&mut self, url: &str, nonce: &str) {
        if self.is_server_url(url) {
            self.nonces.keep(url, nonce);
        }
    }

    /// Obtains a new token even if there is one. [`Event::Ready`] or [`Event::Failed`] reports the result.
    pub fn login(&mut self, now: Now) {
        self.now = now;
        self.step_ups.clear();
        match &self.flows.current {
            None => self.begin_flow(FlowPurpose::Login, Requirement::default()),
            Some(flow) if flow.purpose == FlowPurpose::Login => {}
            Some(_) => self.flows.queued = Some((FlowPurpose::Login, Requirement::default())),
        }
    }

    /// Removes the record and revokes the token. Waiting requests fail first. [`Event::LoggedOut`] reports the end, after
    /// [`Event::RemovalFailed`] if the store could not remove the record.
    pub fn logout(&mut self, now: Now) {
        self.now = now;
        self.step_ups.clear();
        self.tokens.end_context();
        let leaving = self.flows.is_logout();
        if self.flows.queued.take().is_some() | (!leaving && self.drop_flow()) {
            self.events.push(Event::Failed(AuthError::LoggedOut));
        }
        if !leaving {
            self.begin_flow(FlowPurpose::Logout, Requirement::default());
        }
    }

    /// Closes the open page: the user does not authorize the client.
    pub fn cancel_page(&mut self, now: Now) {
        self.now = now;
        self.fail_page(AuthError::PageCancelled);
    }

    // --- Inputs ---

    /// Handles the response of an exchange, with its whole body.
    pub fn handle_answer(&mut self, now: Now, id: FetchId, status: u16, fields: &dyn Fields, body: Bytes) {
        self.now = now;
        if let Some(reply) = self.handle_fetch_answer(id, status, fields, body) {
            self.handle_reply(reply);
        }
    }

    /// Handles an exchange that got no response, or one that exceeds its limit.
    pub fn handle_failed(&mut self, now: Now, id: FetchId, detail: &str) {
        self.now = now;
        if let Some(reply) = self.fail_fetch(id, detail) {
            self.handle_reply(reply);
        }
    }

    /// Handles the deadlines that have passed: see [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Now) {
        self.now = now;
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now.instant);
        if due(self.fetcher.deadline())
            && let Some(reply) = self.time_out_fetch()
        {
            self.handle_reply(reply);
        }
        let Some(flow) = self.flows.current.as_ref().filter(|flow| due(flow.deadline())) else { return };
        match flow.step {
            FlowStep::Page(_) => self.fail_page(AuthError::PageTimedOut),
            FlowStep::AwaitingRenewal(_) => self.run_step(Self::poll_lease),
            _ => {}
        }
    }

    // --- Outputs ---

    /// The next action for the driver.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop()
    }

    /// The next event for the application.
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

    /// The policy for the addresses that exchanges may connect to.
    pub fn fetch_policy(&self) -> &FetchPolicy {
        &self.fetcher.policy
    }

    /// The canonical resource identifier of the server's URL.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Whether an operation is in progress, or its end was not polled yet.
    pub fn is_busy(&self) -> bool {
        self.flows.current.is_some() || self.events.has_outcome()
    }

    /// The version of the record, as of the last read or write of the store. `None` if there is no record.
    pub fn record_version(&self) -> Option<RecordVersion> {
        self.tokens.version
    }

    /// The token's status, as of the last read of the store. `None` if there is no token.
    pub fn status(&self) -> Option<TokenStatus> {
        self.tokens.status()
    }

    /// Whether there is a token that the present configuration could have obtained: of a client and an issuer that the
    /// [registrations](AuthConfig::preregistrations) and the [allowed hosts](AuthConfig::allowed_hosts) allow, for the
    /// configured [resource](AuthConfig::resource), with all configured [scopes](AuthConfig::scopes). A setting without a value allows any token.
    pub fn has_configured_token(&self) -> bool {
        let Some(tokens) = self.tokens.current() else { return false };
        let AuthConfig { preregistrations, resource, scopes, .. } = &self.config;
        let is_of_client = self.configured_credentials(&tokens.issuer, &mut false).is_ok_and(|client| {
            preregistrations.is_empty() || client.is_some_and(|client| client.id == tokens.client_id)
        });
        is_of_client
            && self.check_host(&tokens.issuer).is_ok()
            && resource.as_ref().is_none_or(|resource| *resource == tokens.resource)
            && self.tokens.allows_scopes(scopes.as_ref())
    }

    /// The authorization context of requests from now on. Responses that are private to one context may be reused only
    /// while it stays the same.
    pub fn context(&self) -> AuthContext {
        self.tokens.context
    }

    /// Whether a URL has the server's origin, or reaches the server's `http` URL by `https`, where redirects may lead.
    fn is_server_url(&self, url: &str) -> bool {
        let (Ok(parts), Ok(server)) = (fetch::parse_url(url), fetch::parse_url(&self.server)) else {
            return false;
        };
        parts.user.is_none() && (parts.origin() == server.origin() || server.is_upgraded_by(&parts))
    }
}

debug_fields! { AuthClient(self) {
    server = url_without_secrets(&self.server),
    busy = self.is_busy(),
} }
