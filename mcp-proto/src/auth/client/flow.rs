//! What the machine is at: one flow at a time, step by step.
//!
//! ```text
//! Loading ──▶ nothing to do ──▶ Ready
//!    │
//!    ├─ the token ended, and can be renewed ──────────────────┐
//!    ▼                                                        ▼
//! Resource ──▶ Server ──▶ Registering ──▶ Page ──▶ Granting   Server ──▶ WatchRegistry ⇄ Leasing ──▶ Renewing
//!                │                                   ▲  │                                      │
//!                └──▶ Asking ──▶ Provider ──▶ Exchanging  └──────────────▶ Saving ◀──────────────┘
//! ```
//!
//! Every flow ends with one [`Event::Ready`], [`Event::FailedSignature`] or [`Event::LoggedOut`].

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;

use crate::Instant;
use crate::auth::{Challenge, Demand, Now, ResourceMetadata, Scopes, Secret, ServerMetadata, Signer};

use super::config::ClientCredentials;
use super::error::AuthError;
use super::event::{Event, Stamp};
use super::exchange::{Presented, TokenRequest};
use super::fetching::Reply;
use super::page::OpenPage;
use super::record::{Era, Lease, Tokens};
use super::renew::Watch;
use super::save::Save;
use super::{AuthClient, after};

/// What a flow is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// To know what is kept.
    Known,
    /// A token in good time before the present one ends.
    Early,
    /// A token other than this one, which is of no more use.
    Token {
        refused: Option<Stamp>,
        /// Whether the server refused it although it had not ended: it may trust another authorization server now.
        surprise: bool,
        /// Whether renewing may help.
        renew: bool,
    },
    /// A token that allows more.
    More { refused: Option<Stamp> },
    /// A new token in any case.
    Login,
    /// No token.
    Logout,
}

/// What the server asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) metadata: Option<String>,
    pub(super) scopes: Option<Scopes>,
    /// Whether it takes no token that is not bound to a key.
    pub(super) dpop: bool,
}

impl Asked {
    pub(super) fn of(header: &str, demand: &Demand) -> Self {
        let takes_bearers = || Challenge::read_all(header).iter().any(|challenge| challenge.is("Bearer"));
        Self {
            metadata: demand.resource_metadata.clone(),
            scopes: demand.scope.clone(),
            dpop: demand.wants_dpop && !takes_bearers(),
        }
    }
}

/// An authorization server, as it was found.
pub(super) struct Found {
    pub(super) metadata: ServerMetadata,
    pub(super) era: Era,
    /// Whether it told all that itself, or it stands to reason (2025-03-26).
    pub(super) told: bool,
}

/// A flow.
pub(super) struct Flow {
    pub(super) want: Want,
    pub(super) asked: Asked,
    pub(super) step: Step,
    /// What is known of the server as a resource.
    pub(super) resource: Option<ResourceMetadata>,
    pub(super) found: Option<Arc<Found>>,
    pub(super) client: Option<Presented>,
    /// Where the page leads back to.
    pub(super) redirect_uri: String,
    /// Whether `client` is the application's, and belongs to this authorization server from now on.
    pub(super) pin: bool,
    /// What a token is asked for, `offline_access` apart.
    pub(super) scopes: Option<Scopes>,
    /// The key that the token shall be bound to.
    pub(super) key: Option<Arc<dyn Signer>>,
    /// The same as it is kept, if this machine made it.
    pub(super) new_key: Option<Secret>,
    /// Whether the server's metadata was looked for.
    pub(super) looked: bool,
    /// Whether the token can not be renewed after all.
    pub(super) spent: bool,
    /// What there was, if it is to be forgotten, and what this client presented itself as then.
    pub(super) forgotten: Option<Arc<Tokens>>,
    pub(super) credentials: Option<ClientCredentials>,
}

/// Where a flow stands.
pub(super) enum Step {
    /// Nowhere: between two steps.
    Between,
    /// An earlier flow's store has not answered yet.
    Queued,
    /// The store is asked.
    Loading,
    /// The resource's metadata is looked for.
    Resource(Search),
    /// An authorization server's metadata is looked for.
    Server(ServerSearch),
    /// This client registers.
    Registering,
    /// A page is open.
    Page(OpenPage),
    /// An earlier flow's question to the host is not answered yet.
    AskingLater,
    /// The host is asked for an assertion.
    Asking,
    /// The metadata of the identity provider is looked for.
    Provider { search: Search, subject: Secret, issuer: String },
    /// The identity provider is asked.
    Exchanging(TokenRequest),
    /// The authorization server is asked for a token.
    Granting(TokenRequest),
    /// Another process renews.
    Watching(Watch),
    /// The authorization server is asked for another token.
    Renewing { request: TokenRequest, lease: Lease, replaced: Arc<Tokens> },
    /// The store is written to.
    Saving(Box<Save>),
    /// The token is given back.
    Revoking,
}

/// A document that is looked for in several places.
pub(super) struct Search {
    pub(super) places: VecDeque<String>,
    /// The place that is being asked.
    pub(super) asked: String,
    /// What went wrong first.
    pub(super) failure: Option<AuthError>,
    /// Whether every place so far certainly has none.
    pub(super) absent: bool,
}

impl Search {
    pub(super) fn new(places: impl IntoIterator<Item = String>) -> Self {
        Self { places: places.into_iter().collect(), asked: String::new(), failure: None, absent: true }
    }

    pub(super) fn failed(&mut self, error: AuthError, absent: bool) {
        self.failure.get_or_insert(error);
        self.absent &= absent;
    }
}

/// Several authorization servers, one after another.
pub(super) struct ServerSearch {
    pub(super) issuer: String,
    pub(super) era: Era,
    pub(super) search: Search,
    pub(super) others: VecDeque<String>,
    /// What went wrong with the first of those before.
    pub(super) failure: Option<AuthError>,
}

/// How a flow ends.
pub(super) enum End {
    Ready,
    Failed(AuthError),
    LoggedOut,
}

impl From<AuthError> for End {
    fn from(error: AuthError) -> Self {
        Self::Failed(error)
    }
}

/// What a step leads to: the flow in its next step, or its end.
pub(super) type Next = Result<Box<Flow>, End>;

impl Flow {
    fn new(want: Want, asked: Asked) -> Box<Self> {
        Box::new(Self {
            want,
            asked,
            step: Step::Between,
            resource: None,
            found: None,
            client: None,
            redirect_uri: String::new(),
            pin: false,
            scopes: None,
            key: None,
            new_key: None,
            looked: false,
            spent: false,
            forgotten: None,
            credentials: None,
        })
    }

    pub(super) fn at(mut self: Box<Self>, step: Step) -> Box<Self> {
        self.step = step;
        self
    }

    pub(super) fn take_step(&mut self) -> Step {
        core::mem::replace(&mut self.step, Step::Between)
    }

    /// When this step is over, whatever comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.step {
            Step::Page(page) => page.until,
            Step::Watching(watch) => watch.next,
            _ => None,
        }
    }
}

impl AuthClient {
    /// Begins a flow. There must be none.
    pub(super) fn begin(&mut self, now: Now, want: Want, asked: Asked) {
        let flow = Flow::new(want, asked);
        self.flow = Some(flow);
        self.step(now, Self::load);
    }

    /// Goes on where a step led.
    pub(super) fn settle(&mut self, now: Now, next: Next) {
        match next {
            Ok(flow) => self.flow = Some(flow),
            Err(end) => {
                if matches!(end, End::Failed(_)) {
                    // What led nowhere is looked for again.
                    self.found = None;
                }
                self.tell(match end {
                    End::Ready => Event::Ready(self.stamp),
                    End::Failed(error) => Event::Failed(error),
                    End::LoggedOut => Event::LoggedOut,
                });
                if let Some((want, asked)) = self.next.take() {
                    self.begin(now, want, asked);
                }
            }
        }
    }

    /// Goes on with the flow there is.
    pub(super) fn step(&mut self, now: Now, go: impl FnOnce(&mut Self, Box<Flow>) -> Next) {
        if let Some(flow) = self.flow.take() {
            let want = flow.want.clone();
            let next = go(self, flow);
            let next = next.map_err(|end| self.soften(now, &want, end));
            self.settle(now, next);
        }
    }

    /// What a failure means for what was wanted.
    fn soften(&mut self, now: Now, want: &Want, end: End) -> End {
        match (want, end) {
            // The present token is still good.
            (Want::Early, End::Failed(_)) if !self.has_ended(now) => {
                self.paused = after(now.instant, self.config.refresh_pause);
                End::Ready
            }
            // Nothing is kept any more: that the authorization server does not know yet changes nothing here.
            (Want::Logout, End::Failed(_)) => End::LoggedOut,
            (_, end) => end,
        }
    }

    /// Gives up what the flow waits for.
    pub(super) fn drop_flow(&mut self) -> Option<Box<Flow>> {
        let flow = self.flow.take()?;
        self.abort();
        if matches!(flow.step, Step::Page(_)) {
            self.close_page();
        }
        Some(flow)
    }

    /// What to do, now that it is known what is kept.
    pub(super) fn decide(&mut self, now: Now, flow: Box<Flow>) -> Next {
        let newer = |refused: Option<Stamp>| refused < Some(self.stamp);
        let good = self.record.tokens.is_some() && !self.has_ended(now);
        match flow.want {
            Want::Known => Err(End::Ready),
            Want::Early if !self.ends_soon(now) => Err(End::Ready),
            Want::Early if self.can_renew() => self.look_for_issuer(now, flow),
            Want::Early if self.is_interactive() => Err(End::Ready),
            Want::Token { refused, .. } if good && newer(refused) => Err(End::Ready),
            Want::Token { surprise, renew: true, .. }
                if self.can_renew() && (!surprise || self.has_ended(now)) =>
            {
                self.look_for_issuer(now, flow)
            }
            Want::More { refused } if good && newer(refused) && self.allows(flow.asked.scopes.as_ref()) => {
                Err(End::Ready)
            }
            Want::Logout => self.forget(now, flow),
            _ => self.look_for_resource(now, flow),
        }
    }

    /// The end of an exchange.
    pub(super) fn replied(&mut self, now: Now, reply: Reply) {
        self.step(now, |client, mut flow| match flow.take_step() {
            Step::Resource(search) => client.resource_replied(now, flow, search, reply),
            Step::Server(search) => client.server_replied(now, flow, search, reply),
            Step::Registering => client.registration_replied(now, flow, reply),
            Step::Provider { search, subject, issuer } => {
                client.provider_replied(now, flow, (search, subject, issuer), reply)
            }
            Step::Exchanging(request) => client.exchange_replied(now, flow, request, reply),
            Step::Granting(request) => client.grant_replied(now, flow, request, reply),
            Step::Renewing { request, lease, replaced } => {
                client.renewal_replied(now, flow, (request, lease, replaced), reply)
            }
            Step::Revoking => Err(End::LoggedOut),
            other => Ok(flow.at(other)),
        });
    }
}
