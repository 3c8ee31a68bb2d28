//! What the machine is at: one flow at a time, step by step.
//!
//! ```text
//! Loading ──▶ nothing to do ──▶ Ready
//!    │
//!    ├─ the token ended, and can be renewed ──────────────────┐
//!    ▼                                                        ▼
//! Resource ──▶ Server ──▶ Registering ──▶ Page ──▶ Granting   Server ──▶ AwaitingRenewal ⇄ Leasing ──▶ Renewing
//!                │                                   ▲  │                                      │
//!                └──▶ Asking ──▶ Provider ──▶ Exchanging  └──────────────▶ Saving ◀──────────────┘
//! ```
//!
//! Every flow ends with one [`Event::Ready`], [`Event::Failed`] or [`Event::LoggedOut`].

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;

use crate::Instant;
use crate::auth::{Challenge, Now, Requirement, ResourceMetadata, Scopes, Secret, ServerMetadata, Signer};

use super::AuthClient;
use super::config::ClientCredentials;
use super::error::AuthError;
use super::event::{Event, TokenGeneration};
use super::exchange::{ClientAuthentication, TokenRequest};
use super::fetching::FetchReply;
use super::page::OpenPage;
use super::record::{IssuerSource, Lease, Tokens};
use super::renew::LeaseWait;
use super::save::PendingSave;

/// What a flow is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FlowPurpose {
    /// To know what is kept.
    Load,
    /// A token in good time before the present one ends.
    EarlyRenewal,
    /// A token other than this one, which is of no more use.
    NewToken {
        refused: Option<TokenGeneration>,
        /// Whether the server refused it although it had not ended: it may trust another authorization server now.
        unexpected: bool,
        /// Whether renewing may help.
        may_renew: bool,
    },
    /// A token that allows more.
    StepUp { refused: Option<TokenGeneration> },
    /// A new token in any case.
    Login,
    /// No token.
    Logout,
}

/// What the server asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct AccessRequirement {
    pub(super) metadata: Option<String>,
    pub(super) scopes: Option<Scopes>,
    /// Whether it takes no token that is not bound to a key.
    pub(super) dpop: bool,
}

impl AccessRequirement {
    pub(super) fn from_challenge(header: &str, demand: &Requirement) -> Self {
        let takes_bearers =
            || Challenge::parse_all(header).iter().any(|challenge| challenge.is_scheme("Bearer"));
        Self {
            metadata: demand.resource_metadata.clone(),
            scopes: demand.scope.clone(),
            dpop: demand.wants_dpop && !takes_bearers(),
        }
    }
}

/// An authorization server, as it was found.
pub(super) struct DiscoveredServer {
    pub(super) metadata: ServerMetadata,
    pub(super) issuer_source: IssuerSource,
    /// Whether it told all that itself, or it stands to reason (2025-03-26).
    pub(super) has_metadata: bool,
}

/// A flow.
pub(super) struct Flow {
    pub(super) purpose: FlowPurpose,
    pub(super) requirement: AccessRequirement,
    pub(super) step: FlowStep,
    /// What is known of the server as a resource.
    pub(super) resource: Option<ResourceMetadata>,
    pub(super) discovered: Option<Arc<DiscoveredServer>>,
    pub(super) client: Option<ClientAuthentication>,
    /// Where the page leads back to.
    pub(super) redirect_uri: String,
    /// Whether `client` is the application's, and belongs to this authorization server from now on.
    pub(super) pin_client: bool,
    /// What a token is asked for, `offline_access` apart.
    pub(super) scopes: Option<Scopes>,
    /// The key that the token shall be bound to.
    pub(super) key: Option<Arc<dyn Signer>>,
    /// The same as it is kept, if this machine made it.
    pub(super) new_key: Option<Secret>,
    /// Whether the server's metadata was looked for.
    pub(super) resource_searched: bool,
    /// Whether the token can not be renewed after all.
    pub(super) refresh_rejected: bool,
    /// What there was, if it is to be forgotten, and what this client presented itself as then.
    pub(super) removed_tokens: Option<Arc<Tokens>>,
    pub(super) credentials: Option<ClientCredentials>,
}

/// Where a flow stands.
pub(super) enum FlowStep {
    /// Nowhere: between two steps.
    Transition,
    /// An earlier flow's store has not answered yet.
    Queued,
    /// The store is asked.
    Loading,
    /// The resource's metadata is looked for.
    Resource(DocumentSearch),
    /// An authorization server's metadata is looked for.
    Server(ServerSearch),
    /// This client registers.
    Registering,
    /// A page is open.
    Page(OpenPage),
    /// An earlier flow's question to the host is not answered yet.
    AssertionQueued,
    /// The host is asked for an assertion.
    AwaitingAssertion,
    /// The metadata of the identity provider is looked for.
    Provider { search: DocumentSearch, subject: Secret, issuer: String },
    /// The identity provider is asked.
    Exchanging(TokenRequest),
    /// The authorization server is asked for a token.
    Granting(TokenRequest),
    /// Another process renews.
    AwaitingRenewal(LeaseWait),
    /// The authorization server is asked for another token.
    Renewing { request: TokenRequest, lease: Lease, replaced: Arc<Tokens> },
    /// The store is written to.
    Saving(Box<PendingSave>),
    /// The token is given back.
    Revoking,
}

/// A document that is looked for in several places.
pub(super) struct DocumentSearch {
    pub(super) urls: VecDeque<String>,
    /// The place that is being asked.
    pub(super) current: String,
    /// What went wrong first.
    pub(super) failure: Option<AuthError>,
    /// Whether every place so far certainly has none.
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

/// Several authorization servers, one after another.
pub(super) struct ServerSearch {
    pub(super) issuer: String,
    pub(super) issuer_source: IssuerSource,
    pub(super) search: DocumentSearch,
    pub(super) remaining: VecDeque<String>,
    /// What went wrong with the first of those before.
    pub(super) failure: Option<AuthError>,
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

/// What a step leads to: the flow in its next step, or its end.
pub(super) type StepResult = Result<Box<Flow>, FlowEnd>;

impl Flow {
    fn new(want: FlowPurpose, asked: AccessRequirement) -> Box<Self> {
        Box::new(Self {
            purpose: want,
            requirement: asked,
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

    /// When this step is over, whatever comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.step {
            FlowStep::Page(page) => page.deadline,
            FlowStep::AwaitingRenewal(watch) => watch.next_poll,
            _ => None,
        }
    }
}

impl AuthClient {
    /// Begins a flow. There must be none.
    pub(super) fn begin_flow(&mut self, now: Now, want: FlowPurpose, asked: AccessRequirement) {
        let flow = Flow::new(want, asked);
        self.flow = Some(flow);
        self.run_step(now, Self::load);
    }

    /// Goes on where a step led.
    pub(super) fn advance(&mut self, now: Now, next: StepResult) {
        match next {
            Ok(flow) => self.flow = Some(flow),
            Err(end) => {
                if matches!(end, FlowEnd::Failed(_)) {
                    // What led nowhere is looked for again.
                    self.discovered = None;
                }
                self.events.push(match end {
                    FlowEnd::Ready => Event::Ready(self.tokens.generation()),
                    FlowEnd::Failed(error) => Event::Failed(error),
                    FlowEnd::LoggedOut => Event::LoggedOut,
                });
                if let Some((want, asked)) = self.queued_flow.take() {
                    self.begin_flow(now, want, asked);
                }
            }
        }
    }

    /// Goes on with the flow there is.
    pub(super) fn run_step(&mut self, now: Now, go: impl FnOnce(&mut Self, Box<Flow>) -> StepResult) {
        if let Some(flow) = self.flow.take() {
            let want = flow.purpose.clone();
            let next = go(self, flow);
            let next = next.map_err(|end| self.downgrade_end(now, &want, end));
            self.advance(now, next);
        }
    }

    /// What a failure means for what was wanted.
    fn downgrade_end(&mut self, now: Now, want: &FlowPurpose, end: FlowEnd) -> FlowEnd {
        match (want, end) {
            // The present token is still good.
            (FlowPurpose::EarlyRenewal, FlowEnd::Failed(_)) if !self.tokens.has_expired(now) => {
                self.tokens.pause_early_renewal(now.deadline_after(self.config.refresh_pause));
                FlowEnd::Ready
            }
            // Nothing is kept any more: that the authorization server does not know yet changes nothing here.
            (FlowPurpose::Logout, FlowEnd::Failed(_)) => FlowEnd::LoggedOut,
            (_, end) => end,
        }
    }

    /// Gives up what the flow waits for.
    pub(super) fn drop_flow(&mut self) -> Option<Box<Flow>> {
        let flow = self.flow.take()?;
        self.abort_fetch();
        if matches!(flow.step, FlowStep::Page(_)) {
            self.close_page();
        }
        Some(flow)
    }

    /// What to do, now that it is known what is kept.
    pub(super) fn choose_step(&mut self, now: Now, flow: Box<Flow>) -> StepResult {
        match flow.purpose {
            FlowPurpose::Load => Err(FlowEnd::Ready),
            FlowPurpose::EarlyRenewal if !self.tokens.expires_soon(now, self.config.refresh_margin) => {
                Err(FlowEnd::Ready)
            }
            FlowPurpose::EarlyRenewal if self.tokens.can_renew() => self.discover_issuer(now, flow),
            FlowPurpose::EarlyRenewal if self.is_interactive() => Err(FlowEnd::Ready),
            FlowPurpose::NewToken { refused, .. } if self.tokens.has_newer(now, refused) => {
                Err(FlowEnd::Ready)
            }
            FlowPurpose::NewToken { unexpected: surprise, may_renew: true, .. }
                if self.tokens.can_renew() && (!surprise || self.tokens.has_expired(now)) =>
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

    /// The end of an exchange.
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
