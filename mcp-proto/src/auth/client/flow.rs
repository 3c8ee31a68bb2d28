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
use crate::auth::{Challenge, Requirement, ResourceMetadata, Scopes, Secret, ServerMetadata, Signer};

use super::config::ClientCredentials;
use super::error::AuthError;
use super::event::TokenGeneration;
use super::exchange::{ClientAuthentication, TokenRequest};
use super::record::{IssuerSource, Lease, Tokens};
use super::record_change::PendingSave;

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
    /// Whether the token cannot be renewed after all.
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

/// A page that is open.
pub(super) struct OpenPage {
    pub(super) redirect_uri: String,
    pub(super) state: Secret,
    pub(super) verifier: Secret,
    pub(super) deadline: Option<Instant>,
}

/// Another process renews.
pub(super) struct LeaseWait {
    /// By what lease.
    pub(super) lease: Lease,
    /// Which token.
    pub(super) generation: TokenGeneration,
    /// When it is not waited for any longer.
    pub(super) deadline: Option<Instant>,
    /// When the store is looked at again; not while it is.
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

/// What a step leads to: the flow in its next step, or its end.
pub(super) type StepResult = Result<Box<Flow>, FlowEnd>;

impl Flow {
    pub(super) fn new(want: FlowPurpose, asked: AccessRequirement) -> Box<Self> {
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
