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
//! Whoever was told to wait is told [`Event::Ready`] or [`Event::FailedSignature`] once; both are for all that wait when they
//! are polled. Each [`Action::Load`], [`Action::Store`] and [`Action::Assertion`] is to be answered once; the machine
//! has no deadlines for those.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod challenge;
mod chance;
mod config;
mod credentials;
mod discover;
mod error;
mod event;
mod exchange;
mod fetching;
mod flow;
mod grants;
mod logout;
mod page;
mod record;
mod register;
mod renew;
mod save;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::auth::dpop::Nonces;
use crate::auth::url;
use crate::auth::{FetchId, Now, Reach, Secret, Signer, canonical_resource};
use crate::transport::http::{Fields, Verb};

pub use config::{
    ApplicationType, AuthConfig, AuthConfigError, AuthMethod, ClientCredentials, ClientInfo, ClientProof,
    DpopKey, Grant, IdentityProvider, Legacy, Person, ProviderPlace, RedirectPaths, Registered, SubjectKind,
    TrailingSlash,
};
pub use error::{AuthError, FinishError};
pub use event::{
    Action, Admission, AssertionPurpose, AssertionRequest, AuthContext, Deviation, Event, Page, Refused,
    Saved, Stamp, Standing, Status, Stored, Version,
};
pub use page::Redirect;
pub use record::{Record, RecordError};

use chance::Chance;
use credentials::Fresh;
use fetching::InFlight;
use flow::{Asked, Flow, Found, Step, Want};
use save::Awaits;

/// The client of OAuth for one server, and one account there.
///
/// **Commands** are [`challenged`](Self::challenged), [`credentials`](Self::credentials), [`login`](Self::login),
/// [`logout`](Self::logout), [`finish`](Self::finish), [`give_up_page`](Self::give_up_page) and
/// [`keep_nonce`](Self::keep_nonce). **Inputs** are the `handle_*` methods: none of them fails, whatever comes.
/// **Outputs** are the `poll_*` methods.
///
/// ```
/// use mcp_proto::auth::Now;
/// use mcp_proto::auth::client::{Action, AuthClient, AuthConfig, Refused, Standing};
/// use mcp_proto::{Instant, UnixTime};
///
/// let now = Now { instant: Instant::ORIGIN, unix: UnixTime::EPOCH };
/// let config = AuthConfig::new("my host", "http://127.0.0.1:4870/callback");
/// let mut client = AuthClient::new(config, "https://example.com/mcp", [7; 32])?;
///
/// let refused = Refused { status: 401, header: Some("Bearer"), used: None, attempt: 0, nonce: None };
/// assert_eq!(client.challenged(now, &refused), Standing::ResultWait);
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
    reach: Reach,
    chance: Chance,
    /// This process, in leases.
    name: String,
    /// What is kept, as far as is known here.
    record: Record,
    version: Option<Version>,
    loaded: bool,
    /// Which token the record has.
    stamp: Stamp,
    context: AuthContext,
    /// Whether requests of this context carry a token.
    authorized: bool,
    fresh: Option<Fresh>,
    /// The key in the record.
    kept_key: Option<Arc<dyn Signer>>,
    nonces: Nonces,
    /// The authorization server that was found last.
    found: Option<Arc<Found>>,
    /// Until when the token is not renewed early.
    paused: Option<Instant>,
    flow: Option<Box<Flow>>,
    /// What to do after that.
    next: Option<(Want, Asked)>,
    in_flight: Option<InFlight>,
    next_fetch: u64,
    /// What the store has yet to answer.
    awaits: Option<Awaits>,
    /// What the host has yet to answer.
    host: Option<Awaits>,
    actions: VecDeque<Action>,
    events: VecDeque<Event>,
}

impl AuthClient {
    /// A client for the server at this URL. The seed is 32 random bytes that nobody else has.
    ///
    /// # Errors
    /// If tokens can not be sent there, or the configuration makes no sense.
    pub fn new(config: AuthConfig, server_url: &str, seed: [u8; 32]) -> Result<Self, AuthConfigError> {
        let reach = Reach::of(server_url, config.private_networks).map_err(AuthConfigError::Server)?;
        let server = String::from(server_url.split('#').next().unwrap_or_default());
        let resource = canonical_resource(&server).map_err(AuthConfigError::Server)?;
        let origin = url::parse(&server).map_err(AuthConfigError::Server)?.origin();
        config.check(&reach)?;
        let mut chance = Chance::new(seed);
        let name = chance.text();
        Ok(Self {
            config,
            server,
            origin,
            resource,
            reach,
            chance,
            name,
            record: Record::default(),
            version: None,
            loaded: false,
            stamp: Stamp::default(),
            context: AuthContext::default(),
            authorized: false,
            fresh: None,
            kept_key: None,
            nonces: Nonces::default(),
            found: None,
            paused: None,
            flow: None,
            next: None,
            in_flight: None,
            next_fetch: 1,
            awaits: None,
            host: None,
            actions: VecDeque::new(),
            events: VecDeque::new(),
        })
    }

    // --- Commands ---

    /// What a request to the server goes out with. No token goes to any other origin.
    pub fn credentials(&mut self, now: Now, verb: Verb, url: &str) -> Admission {
        self.admit(now, verb, url)
    }

    /// The server refused a request with 401 or 403.
    pub fn challenged(&mut self, now: Now, refused: &Refused<'_>) -> Standing {
        self.refused(now, refused)
    }

    /// The host sends a request to the server without what [`credentials`](Self::credentials) would give for it.
    pub fn skip_credentials(&mut self) {
        self.note_sent(false);
    }

    /// Keeps the `DPoP-Nonce` header of an answer of the server, whatever its status.
    pub fn keep_nonce(&mut self, url: &str, nonce: &str) {
        if self.is_own(url) {
            self.nonces.keep(url, nonce);
        }
    }

    /// Gets a new token, whether there is one or not. [`Event::Ready`] or [`Event::FailedSignature`] tells how it went.
    pub fn login(&mut self, now: Now) {
        match &self.flow {
            None => self.begin(now, Want::Login, Asked::default()),
            Some(flow) if flow.want == Want::Login => {}
            Some(_) => self.next = Some((Want::Login, Asked::default())),
        }
    }

    /// Forgets everything, and gives the token back. [`Event::LoggedOut`] tells when that is done, after
    /// [`Event::NotForgotten`] if what is kept could not be removed. Whatever waits fails first.
    pub fn logout(&mut self, now: Now) {
        self.end_context();
        let leaving = self.flow.as_ref().is_some_and(|flow| flow.want == Want::Logout);
        if self.next.take().is_some() | (!leaving && self.drop_flow().is_some()) {
            self.tell(Event::Failed(AuthError::LoggedOut));
        }
        if leaving {
            return;
        }
        self.begin(now, Want::Logout, Asked::default());
    }

    /// The page led back.
    ///
    /// # Errors
    /// If that is no answer to the page that is open, or a bad one.
    pub fn finish(&mut self, now: Now, redirect: Redirect) -> Result<(), FinishError> {
        self.finish_page(now, redirect)
    }

    /// Nobody is going to agree on the page that is open.
    pub fn give_up_page(&mut self, now: Now) {
        self.end_page(now, AuthError::GivenUp);
    }

    // --- Inputs ---

    /// An exchange was answered; this is the whole body.
    pub fn handle_answer(&mut self, now: Now, id: FetchId, status: u16, fields: &dyn Fields, body: Bytes) {
        if let Some(reply) = self.fetch_answered(now, id, status, fields, body) {
            self.replied(now, reply);
        }
    }

    /// An exchange was not answered, or its answer was too long.
    pub fn handle_failed(&mut self, now: Now, id: FetchId, detail: &str) {
        if let Some(reply) = self.fetch_failed(id, detail) {
            self.replied(now, reply);
        }
    }

    /// What the store holds.
    pub fn handle_loaded(&mut self, now: Now, loaded: Result<Option<Stored>, String>) {
        self.store_answered(now, loaded);
    }

    /// What became of the record that was to be kept.
    pub fn handle_stored(&mut self, now: Now, saved: Result<Saved, String>) {
        self.stored(now, saved);
    }

    /// The assertion that the host was asked for, or why there is none.
    pub fn handle_assertion(&mut self, now: Now, assertion: Result<Secret, String>) {
        self.asserted(now, assertion);
    }

    /// It is as late as [`poll_timeout`](Self::poll_timeout) said.
    pub fn handle_timeout(&mut self, now: Now) {
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now.instant);
        if due(self.fetch_deadline())
            && let Some(reply) = self.fetch_timed_out()
        {
            self.replied(now, reply);
        }
        let Some(flow) = self.flow.as_ref().filter(|flow| due(flow.deadline())) else { return };
        match flow.step {
            Step::Page(_) => self.end_page(now, AuthError::PageTimedOut),
            Step::Watching(_) => self.step(now, Self::watch_again),
            _ => {}
        }
    }

    // --- Outputs ---

    /// The next thing to carry out.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        let action = self.actions.pop_front()?;
        let asked = match action {
            Action::Load | Action::Store { .. } => &mut self.awaits,
            Action::Assertion(_) => &mut self.host,
            _ => &mut None,
        };
        if let Some(awaits) = asked {
            awaits.polled = true;
        }
        Some(action)
    }

    /// The next thing to tell the application.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let step = self.flow.as_ref().and_then(|flow| flow.deadline());
        [self.fetch_deadline(), step].into_iter().flatten().min()
    }

    // --- Getters ---

    /// Which addresses exchanges may connect to.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// The server's URL, as a resource.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Whether an event will tell how what is under way ends.
    pub fn is_busy(&self) -> bool {
        self.flow.is_some()
    }

    /// What is known of the token, as of the last time the store was read. `None` if there is no token.
    pub fn status(&self) -> Option<Status> {
        let tokens = self.record.tokens.as_ref()?;
        Some(Status {
            issuer: tokens.issuer.clone(),
            client_id: tokens.client_id.clone(),
            scopes: tokens.granted.clone().or_else(|| tokens.asked.clone()),
            expires: tokens.expires,
            has_refresh: tokens.refresh.is_some(),
            kind: tokens.kind,
            resource: tokens.resource.clone(),
        })
    }

    /// The authorization context of requests that go out from now on. While it stays the same, answers that the server
    /// means for one context alone may be shown again.
    pub fn context(&self) -> AuthContext {
        self.context
    }

    /// Whether a URL is of the server.
    fn is_own(&self, url: &str) -> bool {
        url::parse(url).is_ok_and(|parts| parts.user.is_none() && parts.origin() == self.origin)
    }

    /// Has the application told. What a later event makes pointless is not told.
    fn tell(&mut self, event: Event) {
        let verdict = |event: &Event| matches!(event, Event::Ready(_) | Event::Failed(_));
        if verdict(&event) {
            self.events.retain(|earlier| !verdict(earlier));
        }
        self.events.retain(|earlier| core::mem::discriminant(earlier) != core::mem::discriminant(&event));
        self.events.push_back(event);
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

/// The reading that lies `time` later, at least a moment; `None` at the far end of time.
fn after(now: Instant, time: Duration) -> Option<Instant> {
    let later = now + time.max(Duration::from_millis(1));
    (later > now).then_some(later)
}
