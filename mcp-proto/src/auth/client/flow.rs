//! Flows: the operations of the machine, one at a time, in steps.
//!
//! ```text
//! Loading ──▶ token is valid ──▶ Ready
//!    │
//!    ├─ token can be renewed ──▶ Server ──▶ AwaitingRenewal ⇄ Saving a lease ──▶ Renewing ──▶ Saving
//!    ▼
//! Resource ──▶ Server ──▶ Registering ──▶ Page ──────────────────────────▶ Granting ──▶ Saving
//!                              └──▶ AwaitingAssertion ──▶ Server ──▶ Exchanging ──▲
//! ```
//!
//! A login that was begun elsewhere: Loading ──▶ Server ──▶ Saving its use ──▶ Granting ──▶ Saving
//!
//! Every flow ends with one `Event::Ready`, `Event::Failed` or `Event::LoggedOut`.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use super::AuthClient;
use super::config::ClientCredentials;
use super::error::AuthError;
use super::event::{Event, TokenGeneration};
use super::exchange::{FetchReply, without_query};
use super::record::{Lease, PendingSave, Redemption, Tokens};
use crate::Instant;
use crate::auth::{Requirement, ResourceMetadata, Scopes, Secret, ServerMetadata, Signer};
use crate::prelude::*;

/// The purpose of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FlowPurpose {
    /// Load the record.
    #[default]
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
    /// Open a page whose login any process can finish.
    BeginLogin,
    /// Finish such a login.
    FinishLogin,
    /// Remove and revoke the token.
    Logout,
}

/// A discovered authorization server.
#[derive(Default)]
pub(super) struct DiscoveredServer {
    pub(super) metadata: ServerMetadata,
    /// Whether it was found at the server's own origin, as in 2025-03-26.
    pub(super) at_origin: bool,
    /// Whether it serves its metadata. Otherwise these are the default endpoints of 2025-03-26.
    pub(super) has_metadata: bool,
}

/// A flow and its intermediate results.
#[derive(Default)]
pub(super) struct Flow {
    pub(super) purpose: FlowPurpose,
    pub(super) requirement: Requirement,
    pub(super) step: FlowStep,
    /// The protected resource metadata of the server.
    pub(super) resource: Option<ResourceMetadata>,
    /// The authorization server, once it is discovered.
    pub(super) server: Arc<DiscoveredServer>,
    pub(super) client: Option<ClientCredentials>,
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
    /// The login that is being finished.
    pub(super) redemption: Option<Box<Redemption>>,
}

/// The step of a flow.
#[derive(Default)]
pub(super) enum FlowStep {
    /// Between two steps.
    #[default]
    Transition,
    /// Waits until the store has answered an earlier flow.
    Queued,
    /// Loading the record.
    Loading,
    /// Looking up the resource metadata.
    Resource(Search),
    /// Looking up the metadata of an authorization server, or of the identity provider.
    Server(Search),
    /// Registering this client.
    Registering,
    /// A page is open.
    Page(OpenPage),
    /// Waits until the host has answered an earlier flow.
    AssertionQueued,
    /// Waits for the host's assertion.
    AwaitingAssertion,
    /// Exchanging the assertion at the identity provider.
    Exchanging,
    /// Requesting a token from the authorization server.
    Granting,
    /// Waits while another process renews the token.
    AwaitingRenewal(LeaseWait),
    /// Renewing the token at the authorization server.
    Renewing { lease: Lease, replaced: Arc<Tokens> },
    /// Saving a change to the record.
    Saving(Box<PendingSave>),
    /// Revoking the token.
    Revoking,
}

/// The search for a document at several URLs: those of the resource metadata, or those of the metadata of authorization
/// servers, one server after another.
#[derive(Default)]
pub(super) struct Search {
    pub(super) urls: VecDeque<String>,
    /// The URL in flight.
    pub(super) current: String,
    /// The issuer that the URLs belong to, and those to try after it.
    pub(super) issuer: String,
    pub(super) issuers: VecDeque<String>,
    /// Whether the authorization server is looked for at the server's own origin.
    pub(super) at_origin: bool,
    /// The assertion about the user, if the issuer is the identity provider.
    pub(super) subject: Option<Secret>,
    /// The first error.
    pub(super) failure: Option<AuthError>,
    /// Whether some URL may have a document, although it gave none.
    pub(super) maybe_present: bool,
}

impl Search {
    pub(super) fn of_servers(issuers: impl Into<VecDeque<String>>, at_origin: bool) -> Self {
        Self { issuers: issuers.into(), at_origin, ..Self::default() }
    }

    /// The next URL. An issuer without any is no URL, and certainly has no metadata.
    pub(super) fn next_url(&mut self) -> Option<String> {
        while self.urls.is_empty() {
            self.issuer = self.issuers.pop_front()?;
            self.urls = ServerMetadata::well_known_urls(&self.issuer).into();
            if self.urls.is_empty() {
                self.failed((AuthError::IssuerMismatch { expected: without_query(&self.issuer) }, true));
            }
        }
        self.urls.pop_front()
    }

    pub(super) fn failed(&mut self, (error, absent): DocumentError) {
        self.failure.get_or_insert(error);
        self.maybe_present |= !absent;
    }
}

/// Why a URL has no document, and whether that is certain.
pub(super) type DocumentError = (AuthError, bool);

/// The authorization page that is open.
pub(super) struct OpenPage {
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

/// The result of a step: the flow in its next step, or its end, which is `None` if the flow has reached its purpose.
pub(super) type StepResult = Result<Option<Flow>, AuthError>;

impl Flow {
    pub(super) fn enter(mut self, step: FlowStep) -> StepResult {
        self.step = step;
        Ok(Some(self))
    }

    /// Whether the token must be bound to a key.
    pub(super) fn needs_bound_token(&self) -> bool {
        self.requirement.requires_dpop || self.resource.as_ref().is_some_and(|resource| resource.dpop_bound)
    }

    pub(super) fn take_step(&mut self) -> FlowStep {
        core::mem::take(&mut self.step)
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
    fn join(&mut self, purpose: FlowPurpose, requirement: Requirement) {
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
                    FlowStep::Queued
                        | FlowStep::Loading
                        | FlowStep::Resource(_)
                        | FlowStep::Server(Search { subject: None, .. })
                );
                if early
                    && let Some(scopes) = &mut self.requirement.scope
                    && let Some(others) = &requirement.scope
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
    /// `None` while it is in a step.
    pub(super) current: Option<Flow>,
    pub(super) queued: Option<(FlowPurpose, Requirement)>,
}

impl Flows {
    /// Makes another request wait for the current flow, or for one after a logout.
    pub(super) fn join(&mut self, purpose: FlowPurpose, requirement: Requirement) {
        match &mut self.current {
            Some(flow) if flow.purpose != FlowPurpose::Logout => flow.join(purpose, requirement),
            _ => self.queued = Some((purpose, requirement)),
        }
    }

    pub(super) fn is_logout(&self) -> bool {
        self.current.as_ref().is_some_and(|flow| flow.purpose == FlowPurpose::Logout)
    }

    /// Whether the current flow replaces the token of this generation, which the server refused.
    pub(super) fn replaces(&self, generation: TokenGeneration) -> bool {
        self.current.as_ref().is_some_and(
            |flow| matches!(flow.purpose, FlowPurpose::NewToken { refused, .. } if refused == Some(generation)),
        )
    }

    pub(super) fn open_page(&self) -> Option<&OpenPage> {
        match &self.current.as_ref()?.step {
            FlowStep::Page(page) => Some(page),
            _ => None,
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.current.as_ref()?.deadline()
    }
}

/// Pause after a failed early renewal, while the token is still valid.
const EARLY_RENEWAL_PAUSE: Duration = Duration::from_secs(10);

impl AuthClient {
    /// Begins a flow. There must be no current one.
    pub(super) fn begin_flow(&mut self, purpose: FlowPurpose, requirement: Requirement) {
        self.flows.current = Some(Flow { purpose, requirement, ..Flow::default() });
        self.run_step(Self::load);
    }

    /// Runs a step of the current flow.
    pub(super) fn run_step(&mut self, step: impl FnOnce(&mut Self, Flow) -> StepResult) {
        let Some(flow) = self.flows.current.take() else { return };
        let purpose = flow.purpose;
        let end = match step(self, flow) {
            Ok(Some(flow)) => return self.flows.current = Some(flow),
            // The record is removed, even if the authorization server has not revoked the token.
            _ if purpose == FlowPurpose::Logout => Event::LoggedOut,
            Ok(None) => Event::Ready(self.tokens.generation),
            // The current token is still valid.
            Err(_) if purpose == FlowPurpose::EarlyRenewal && !self.tokens.has_expired(self.now) => {
                self.tokens.early_renewal_after = self.now.deadline_after(EARLY_RENEWAL_PAUSE);
                Event::Ready(self.tokens.generation)
            }
            Err(error) => {
                // The next flow looks for it again.
                self.discovered = None;
                Event::Failed(error)
            }
        };
        self.events.push(end);
        if let Some((purpose, requirement)) = self.flows.queued.take() {
            self.begin_flow(purpose, requirement);
        }
    }

    /// Drops the current flow, with its exchange and its page. Returns whether there was one.
    pub(super) fn drop_flow(&mut self) -> bool {
        let Some(flow) = self.flows.current.take() else { return false };
        self.abort_fetch();
        if matches!(flow.step, FlowStep::Page(_)) {
            self.close_page();
        }
        true
    }

    /// Chooses the next step by the purpose and the loaded record.
    pub(super) fn choose_step(&mut self, flow: Flow) -> StepResult {
        match flow.purpose {
            FlowPurpose::Load => Ok(None),
            FlowPurpose::EarlyRenewal if !self.tokens.expires_soon(self.now) => Ok(None),
            FlowPurpose::EarlyRenewal if self.tokens.can_renew() => self.discover_issuer(flow),
            FlowPurpose::EarlyRenewal if self.is_interactive() => Ok(None),
            FlowPurpose::NewToken { refused, .. } if self.tokens.has_newer(self.now, refused) => Ok(None),
            FlowPurpose::NewToken { unexpected, may_renew: true, .. }
                if self.tokens.can_renew() && (!unexpected || self.tokens.has_expired(self.now)) =>
            {
                self.discover_issuer(flow)
            }
            FlowPurpose::StepUp { refused }
                if self.tokens.has_newer(self.now, refused)
                    && self.tokens.allows_scopes(flow.requirement.scope.as_ref()) =>
            {
                Ok(None)
            }
            FlowPurpose::Logout => self.remove_record(flow),
            FlowPurpose::FinishLogin => self.discover_login_issuer(flow),
            _ => self.discover_resource(flow),
        }
    }

    /// Handles the end of an exchange.
    pub(super) fn handle_reply(&mut self, reply: FetchReply) {
        self.run_step(|client, mut flow| match flow.take_step() {
            FlowStep::Resource(search) => client.handle_resource_reply(flow, search, reply),
            FlowStep::Server(search) => client.handle_server_reply(flow, search, reply),
            FlowStep::Registering => client.handle_registration_reply(flow, reply),
            FlowStep::Exchanging => client.handle_exchange_reply(flow, reply),
            FlowStep::Granting => client.handle_grant_reply(flow, reply),
            FlowStep::Renewing { lease, replaced } => {
                client.handle_renewal_reply(flow, lease, replaced, reply)
            }
            FlowStep::Revoking => Ok(None),
            other => flow.enter(other),
        });
    }
}
