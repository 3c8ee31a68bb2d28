//! Flows: the operations of the machine, one at a time, in steps.
//!
//! ```text
//! Loading ──▶ token is valid ──▶ Ready
//!    │
//!    ├─ token can be renewed ──▶ Server ──▶ AwaitingRenewal ⇄ Saving a lease ──▶ Renewing ──▶ Saving
//!    ▼
//! Resource ──▶ Server ──▶ Registering ──▶ Page ──────────────────────────▶ Granting ──▶ Saving
//!                              └──▶ AwaitingAssertion ──▶ Provider ──▶ Exchanging ──▲
//! ```
//!
//! Every flow ends with one `Event::Ready`, `Event::Failed` or `Event::LoggedOut`.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use super::AuthClient;
use super::config::ClientCredentials;
use super::error::AuthError;
use super::event::{Event, TokenGeneration};
use super::exchange::{ClientAuthentication, FetchReply, TokenRequest};
use super::record::{IssuerSource, Lease, PendingSave, Tokens};
use crate::Instant;
use crate::auth::{Challenge, Now, Requirement, ResourceMetadata, Scopes, Secret, ServerMetadata, Signer};

/// The purpose of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FlowPurpose {
    /// Load the record.
    Load,
    /// Renew the token before it expires.
    EarlyRenewal,
    /// Replace the token of this generation, which the server refused or which has expired.
    NewToken {
        refused: Option<TokenGeneration>,
        /// Whether the server refused it before it expired: it may trust another authorization server now.
        unexpected: bool,
        /// Whether renewing may help.
        may_renew: bool,
    },
    /// Obtain a token with more scopes.
    StepUp { refused: Option<TokenGeneration> },
    /// Obtain a new token in any case.
    Login,
    /// Remove and revoke the token.
    Logout,
}

/// The server's requirements, as its challenge names them.
#[derive(Clone, Debug, Default)]
pub(super) struct AccessRequirement {
    pub(super) metadata: Option<String>,
    pub(super) scopes: Option<Scopes>,
    /// Whether it accepts only tokens that are bound to a key.
    pub(super) dpop: bool,
}

impl AccessRequirement {
    pub(super) fn from_challenge(header: &str, challenge: &Requirement) -> Self {
        let accepts_bearer =
            || Challenge::parse_all(header).iter().any(|challenge| challenge.is_scheme("Bearer"));
        Self {
            metadata: challenge.resource_metadata.clone(),
            scopes: challenge.scope.clone(),
            dpop: challenge.wants_dpop && !accepts_bearer(),
        }
    }
}

/// A discovered authorization server.
pub(super) struct DiscoveredServer {
    pub(super) metadata: ServerMetadata,
    pub(super) issuer_source: IssuerSource,
    /// Whether it serves its metadata. Otherwise these are the default endpoints of 2025-03-26.
    pub(super) has_metadata: bool,
}

/// A flow and its intermediate results.
pub(super) struct Flow {
    pub(super) purpose: FlowPurpose,
    pub(super) requirement: AccessRequirement,
    pub(super) step: FlowStep,
    /// The protected resource metadata of the server.
    pub(super) resource: Option<ResourceMetadata>,
    pub(super) discovered: Option<Arc<DiscoveredServer>>,
    pub(super) client: Option<ClientAuthentication>,
    /// The redirect URI of the page.
    pub(super) redirect_uri: String,
    /// Whether `client` is a preregistration that is used only with this authorization server from now on.
    pub(super) pin_client: bool,
    /// The scopes to request, without `offline_access`.
    pub(super) scopes: Option<Scopes>,
    /// The key to bind the token to.
    pub(super) key: Option<Arc<dyn Signer>>,
    /// The same key in PEM, if this machine generated it.
    pub(super) new_key: Option<Secret>,
    /// Whether the resource metadata was looked up.
    pub(super) resource_searched: bool,
    /// Whether the authorization server rejected the refresh token.
    pub(super) refresh_rejected: bool,
    /// The removed tokens, to be revoked with the credentials that they were issued to.
    pub(super) removed_tokens: Option<Arc<Tokens>>,
    pub(super) credentials: Option<ClientCredentials>,
}

/// The step of a flow.
pub(super) enum FlowStep {
    /// Between two steps.
    Transition,
    /// Waits until the store has answered an earlier flow.
    Queued,
    /// Loading the record.
    Loading,
    /// Looking up the resource metadata.
    Resource(DocumentSearch),
    /// Looking up the metadata of an authorization server.
    Server(ServerSearch),
    /// Registering this client.
    Registering,
    /// A page is open.
    Page(OpenPage),
    /// Waits until the host has answered an earlier flow.
    AssertionQueued,
    /// Waits for the host's assertion.
    AwaitingAssertion,
    /// Looking up the metadata of the identity provider.
    Provider { search: DocumentSearch, subject: Secret, issuer: String },
    /// Exchanging the assertion at the identity provider.
    Exchanging(TokenRequest),
    /// Requesting a token from the authorization server.
    Granting(TokenRequest),
    /// Waits while another process renews the token.
    AwaitingRenewal(LeaseWait),
    /// Renewing the token at the authorization server.
    Renewing { request: TokenRequest, lease: Lease, replaced: Arc<Tokens> },
    /// Saving a change to the record.
    Saving(Box<PendingSave>),
    /// Revoking the token.
    Revoking,
}

/// The search for a document at several URLs.
pub(super) struct DocumentSearch {
    pub(super) urls: VecDeque<String>,
    /// The URL in flight.
    pub(super) current: String,
    /// The first error.
    pub(super) failure: Option<AuthError>,
    /// Whether every URL so far certainly has no document.
    pub(super) all_absent: bool,
}

impl DocumentSearch {
    pub(super) fn new(places: impl IntoIterator<Item = String>) -> Self {
        Self { urls: places.into_iter().collect(), current: String::new(), failure: None, all_absent: true }
    }

    pub(super) fn failed(&mut self, error: AuthError, absent: bool) {
        self.failure.get_or_insert(error);
        self.all_absent &= absent;
    }
}

/// The search for the metadata of authorization servers, one after another.
pub(super) struct ServerSearch {
    pub(super) issuer: String,
    pub(super) issuer_source: IssuerSource,
    pub(super) search: DocumentSearch,
    pub(super) remaining: VecDeque<String>,
    /// The first error of the earlier servers.
    pub(super) failure: Option<AuthError>,
}

/// The authorization page that is open.
pub(super) struct OpenPage {
    pub(super) redirect_uri: String,
    pub(super) state: Secret,
    pub(super) verifier: Secret,
    pub(super) deadline: Option<Instant>,
}

/// The wait while another process renews the token.
pub(super) struct LeaseWait {
    /// The lease of that process.
    pub(super) lease: Lease,
    /// The token that it renews.
    pub(super) generation: TokenGeneration,
    /// When the wait ends.
    pub(super) deadline: Option<Instant>,
    /// When to read the store again; `None` during a read.
    pub(super) next_poll: Option<Instant>,
}

/// How a flow ends.
pub(super) enum FlowEnd {
    Ready,
    Failed(AuthError),
    LoggedOut,
}

impl From<AuthError> for FlowEnd {
    fn from(error: AuthError) -> Self {
        Self::Failed(error)
    }
}

/// The result of a step: the flow in its next step, or its end.
pub(super) type StepResult = Result<Box<Flow>, FlowEnd>;

impl Flow {
    pub(super) fn new(purpose: FlowPurpose, requirement: AccessRequirement) -> Box<Self> {
        Box::new(Self {
            purpose,
            requirement,
            step: FlowStep::Transition,
            resource: None,
            discovered: None,
            client: None,
            redirect_uri: String::new(),
            pin_client: false,
            scopes: None,
            key: None,
            new_key: None,
            resource_searched: false,
            refresh_rejected: false,
            removed_tokens: None,
            credentials: None,
        })
    }

    pub(super) fn into_step(mut self: Box<Self>, step: FlowStep) -> Box<Self> {
        self.step = step;
        self
    }

    pub(super) fn take_step(&mut self) -> FlowStep {
        core::mem::replace(&mut self.step, FlowStep::Transition)
    }

    /// The deadline of this step.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.step {
            FlowStep::Page(page) => page.deadline,
            FlowStep::AwaitingRenewal(wait) => wait.next_poll,
            _ => None,
        }
    }

    /// Adds the requirement of another request, which waits for this flow.
    fn join(&mut self, purpose: FlowPurpose, requirement: AccessRequirement) {
        match (&self.purpose, purpose) {
            (FlowPurpose::Load, purpose) => {
                self.purpose = purpose;
                self.requirement = requirement;
            }
            (FlowPurpose::EarlyRenewal, FlowPurpose::NewToken { refused, may_renew, .. }) => {
                self.purpose = FlowPurpose::NewToken { refused, unexpected: false, may_renew };
                self.requirement = requirement;
            }
            _ => {
                let early = matches!(
                    self.step,
                    FlowStep::Queued | FlowStep::Loading | FlowStep::Resource(_) | FlowStep::Server(_)
                );
                if early
                    && let Some(scopes) = &mut self.requirement.scopes
                    && let Some(others) = &requirement.scopes
                {
                    *scopes = scopes.union(others);
                }
            }
        }
    }
}

/// The flow under way, and the flow to begin after it.
#[derive(Default)]
pub(super) struct Flows {
    current: Option<Box<Flow>>,
    queued: Option<(FlowPurpose, AccessRequirement)>,
}

impl Flows {
    pub(super) fn current(&self) -> Option<&Flow> {
        self.current.as_deref()
    }

    /// Takes the current flow for its next step.
    pub(super) fn take(&mut self) -> Option<Box<Flow>> {
        self.current.take()
    }

    pub(super) fn set(&mut self, flow: Box<Flow>) {
        self.current = Some(flow);
    }

    pub(super) fn queue(&mut self, purpose: FlowPurpose, requirement: AccessRequirement) {
        self.queued = Some((purpose, requirement));
    }

    pub(super) fn take_queued(&mut self) -> Option<(FlowPurpose, AccessRequirement)> {
        self.queued.take()
    }

    /// Makes another request wait for the current flow, or for one after a logout.
    pub(super) fn join(&mut self, purpose: FlowPurpose, requirement: AccessRequirement) {
        match &mut self.current {
            Some(flow) if flow.purpose != FlowPurpose::Logout => flow.join(purpose, requirement),
            _ => self.queue(purpose, requirement),
        }
    }

    pub(super) fn is_logout(&self) -> bool {
        self.current().is_some_and(|flow| flow.purpose == FlowPurpose::Logout)
    }

    /// Whether the current flow replaces the token of this generation, which the server refused.
    pub(super) fn replaces(&self, generation: TokenGeneration) -> bool {
        self.current().is_some_and(
            |flow| matches!(flow.purpose, FlowPurpose::NewToken { refused, .. } if refused == Some(generation)),
        )
    }

    pub(super) fn open_page(&self) -> Option<&OpenPage> {
        match &self.current()?.step {
            FlowStep::Page(page) => Some(page),
            _ => None,
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.current()?.deadline()
    }
}

/// Pause after a failed early renewal, while the token is still valid.
const EARLY_RENEWAL_PAUSE: Duration = Duration::from_secs(10);

impl AuthClient {
    /// Begins a flow. There must be no current one.
    pub(super) fn begin_flow(&mut self, now: Now, purpose: FlowPurpose, requirement: AccessRequirement) {
        let flow = Flow::new(purpose, requirement);
        self.flows.set(flow);
        self.run_step(now, Self::load);
    }

    /// Sets the flow to its next step, or ends it.
    pub(super) fn advance(&mut self, now: Now, next: StepResult) {
        match next {
            Ok(flow) => self.flows.set(flow),
            Err(end) => {
                if matches!(end, FlowEnd::Failed(_)) {
                    self.forget_server();
                }
                self.events.push(match end {
                    FlowEnd::Ready => Event::Ready(self.tokens.generation()),
                    FlowEnd::Failed(error) => Event::Failed(error),
                    FlowEnd::LoggedOut => Event::LoggedOut,
                });
                if let Some((purpose, requirement)) = self.flows.take_queued() {
                    self.begin_flow(now, purpose, requirement);
                }
            }
        }
    }

    /// Runs a step of the current flow.
    pub(super) fn run_step(&mut self, now: Now, step: impl FnOnce(&mut Self, Box<Flow>) -> StepResult) {
        if let Some(flow) = self.flows.take() {
            let purpose = flow.purpose.clone();
            let next = step(self, flow);
            let next = next.map_err(|end| self.downgrade_end(now, &purpose, end));
            self.advance(now, next);
        }
    }

    /// Turns failures that do not matter for the purpose into successes.
    fn downgrade_end(&mut self, now: Now, purpose: &FlowPurpose, end: FlowEnd) -> FlowEnd {
        match (purpose, end) {
            // The current token is still valid.
            (FlowPurpose::EarlyRenewal, FlowEnd::Failed(_)) if !self.tokens.has_expired(now) => {
                self.tokens.pause_early_renewal(now.deadline_after(EARLY_RENEWAL_PAUSE));
                FlowEnd::Ready
            }
            // The record is removed, even if the authorization server has not revoked the token.
            (FlowPurpose::Logout, FlowEnd::Failed(_)) => FlowEnd::LoggedOut,
            (_, end) => end,
        }
    }

    /// Drops the current flow, with its exchange and its page. Returns whether there was one.
    pub(super) fn drop_flow(&mut self) -> bool {
        let Some(flow) = self.flows.take() else { return false };
        self.abort_fetch();
        if matches!(flow.step, FlowStep::Page(_)) {
            self.close_page();
        }
        true
    }

    /// Chooses the next step by the purpose and the loaded record.
    pub(super) fn choose_step(&mut self, now: Now, flow: Box<Flow>) -> StepResult {
        match flow.purpose {
            FlowPurpose::Load => Err(FlowEnd::Ready),
            FlowPurpose::EarlyRenewal if !self.tokens.expires_soon(now) => Err(FlowEnd::Ready),
            FlowPurpose::EarlyRenewal if self.tokens.can_renew() => self.discover_issuer(now, flow),
            FlowPurpose::EarlyRenewal if self.is_interactive() => Err(FlowEnd::Ready),
            FlowPurpose::NewToken { refused, .. } if self.tokens.has_newer(now, refused) => {
                Err(FlowEnd::Ready)
            }
            FlowPurpose::NewToken { unexpected, may_renew: true, .. }
                if self.tokens.can_renew() && (!unexpected || self.tokens.has_expired(now)) =>
            {
                self.discover_issuer(now, flow)
            }
            FlowPurpose::StepUp { refused }
                if self.tokens.has_newer(now, refused)
                    && self.tokens.allows_scopes(flow.requirement.scopes.as_ref()) =>
            {
                Err(FlowEnd::Ready)
            }
            FlowPurpose::Logout => self.remove_record(now, flow),
            _ => self.discover_resource(now, flow),
        }
    }

    /// Handles the end of an exchange.
    pub(super) fn handle_reply(&mut self, now: Now, reply: FetchReply) {
        self.run_step(now, |client, mut flow| match flow.take_step() {
            FlowStep::Resource(search) => client.handle_resource_reply(now, flow, search, reply),
            FlowStep::Server(search) => client.handle_server_reply(now, flow, search, reply),
            FlowStep::Registering => client.handle_registration_reply(now, flow, reply),
            FlowStep::Provider { search, subject, issuer } => {
                client.handle_provider_reply(now, flow, (search, subject, issuer), reply)
            }
            FlowStep::Exchanging(request) => client.handle_exchange_reply(now, flow, request, reply),
            FlowStep::Granting(request) => client.handle_grant_reply(now, flow, request, reply),
            FlowStep::Renewing { request, lease, replaced } => {
                client.handle_renewal_reply(now, flow, (request, lease, replaced), reply)
            }
            FlowStep::Revoking => Err(FlowEnd::LoggedOut),
            other => Ok(flow.into_step(other)),
        });
    }
}
