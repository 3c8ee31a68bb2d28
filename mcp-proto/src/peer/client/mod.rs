//! The client role.
//!
//! # The states of a client
//!
//! ```text
//!               the link opens           the server is modern
//! Disconnected → Connecting → Connected ─────────────────────────────→ Ready
//!      ↑                          │ it is legacy                       ↑ ↑ │
//!      │                          └→ Initializing → Initialized ───────┘ │ │
//!      │                                  └── it is modern after all ────┘ │
//!      └── from each state: the link ends, or connecting fails ────────────┘
//! ```
//!
//! | state | meaning | next states |
//! |---|---|---|
//! | [`Disconnected`](State::Disconnected) | no link is open | `Connecting` once a link is requested |
//! | [`Connecting`](State::Connecting) | the link is being opened | `Connected`, or `Disconnected` if that fails |
//! | [`Connected`](State::Connected) | the era is probed | `Ready` (modern), `Initializing` (legacy) |
//! | [`Initializing`](State::Initializing) | `initialize` is in flight | `Initialized`, or `Ready` if the server proves to be modern |
//! | [`Initialized`](State::Initialized) | the server has answered | `Ready` with `notifications/initialized` |
//! | [`Ready`](State::Ready) | requests are sent | `Disconnected` |
//!
//! From any state but the first, the end of the link leads to `Disconnected`; during `Connected` and `Initializing` the
//! client may request a fresh link once (see [`EraPolicy::Auto`]). Over HTTP there is no link: a client begins `Connected`,
//! and goes from `Ready` back to it when its session is lost or the server turns out to be of the other era.
//!
//! # The stages of a request
//!
//! ```text
//! Queued ─────→ Sent ←────────→ AwaitingInput: the handlers answer what the server asks
//! until the      │ │
//! server is      │ └──→ Following: the call is a task ──┐
//! known          └──────────────────────────────────────┴──→ its one outcome: a result or an error
//! ```
//!
//! In each stage it may also time out, be lost with the connection, or be cancelled; one that was sent is cancelled at
//! the server too, by a notification or by the end of its exchange. Over HTTP a request that is `Sent` may wait for its
//! turn, for authorization, or for the rest of an interrupted answer.

mod cache;
mod commands;
mod config;
mod connection;
mod detect;
pub(crate) mod era_judge;
mod event;
mod exchange_answers;
pub(crate) mod handshake;
mod incoming_requests;
mod input_requests;
mod input_rounds;
mod outgoing_messages;
mod receive;
mod request_record;
mod tasks;
mod timeouts;
mod tolerance;
mod watch;

use cache::store::CacheStore;
use connection::{Connection, Phase};
use detect::EraDetection;
use incoming_requests::{EarlyRequests, PendingReply};
use input_requests::PendingInputs;
use outgoing_messages::RequestMeta;
use request_record::{Removed, Stage};
use tasks::Tasks;
use timeouts::Pings;
use watch::Watches;

use crate::lazy_box::LazyBox;
use crate::ordered_set::OrderedSet;
use crate::peer::event_queue::{EventQueue, Pressure, ProgressPacer, ProgressRate};
use crate::peer::inbound::Batches;
use crate::peer::{Inbound, LostReason, Outcome, RequestError, RequestId, Requests};
use crate::prelude::*;
use crate::schema::{Era, ProgressParams, Revision};

pub use crate::peer::task::TaskCommand;
pub use cache::{CacheConfig, CacheContext, CacheUsage};
pub use commands::{ClientCommands, ClientLoan, ClientTransport};
pub use config::{ClientConfig, ConnectTimeouts, EraPolicy, Keepalive, KnownEra};
pub use connection::{ConnectError, ConnectProgress, ConnectStep, LinkAction, State};
pub use event::{CloseReason, Diagnostic, Event};
pub use handshake::ServerInfo;
pub(crate) use request_record::{ClientRequest, RequestOwner};
pub use watch::{
    Change, ChangeEvidence, OnServerEnd, WatchConfig, WatchEnd, WatchFilter, WatchId, WatchStart, WatchState,
};

/// The client role of one connection, without its transport.
///
/// Applications use it through a transport: [`StreamClient`](crate::transport::StreamClient) for byte streams.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    connection: Connection,
    detect: EraDetection,
    /// This side's requests.
    requests: Requests<ClientRequest>,
    /// The server's requests that wait until its era is known.
    early: EarlyRequests,
    /// The server's requests that are not answered yet.
    inbound: Inbound<PendingReply>,
    /// The input requests from the server's results.
    inputs: PendingInputs,
    /// The pages that the user must visit, each with a request that waits for it.
    open_pages: OrderedSet<(Box<str>, RequestId)>,
    batches: LazyBox<Batches>,
    /// The server's progress reports, paced for the application.
    progress: ProgressPacer<RequestId, ProgressParams>,
    events: EventQueue<Event>,
    server: Option<ServerInfo>,
    meta: RequestMeta,
    tasks: Tasks,
    known_era: Option<KnownEra>,
    pings: Pings,
    cache: CacheStore,
    watches: Watches,
}

impl Client {
    /// Creates a client that has not requested its link yet: `poll_link` starts it.
    pub(crate) fn new(mut config: ClientConfig) -> Self {
        config.capabilities.declare_extensions(&config.extensions);
        let limits = config.limits;
        Self {
            detect: EraDetection::new(&config),
            connection: Connection::new(),
            requests: Requests::new(),
            early: EarlyRequests::default(),
            inbound: Inbound::new(limits.requests_in),
            inputs: PendingInputs::default(),
            open_pages: OrderedSet::new(),
            batches: LazyBox::new(),
            progress: ProgressPacer::new(ProgressRate::per_second(limits.progress_in)),
            events: EventQueue::new(limits.events, limits.event_bytes),
            server: None,
            meta: RequestMeta::new(&config),
            tasks: Tasks::default(),
            known_era: None,
            pings: Pings::new(config.keepalive),
            cache: CacheStore::new(config.cache.clone()),
            watches: Watches::new(&config),
            config,
        }
    }

    // --- Getters ---

    /// The state of the connection.
    pub fn state(&self) -> State {
        self.connection.state
    }

    /// The client's knowledge of the server, once the client is ready.
    pub fn server(&self) -> Option<&ServerInfo> {
        self.server.as_ref()
    }

    /// The last report on connecting; `None` once the client is ready, or closed.
    pub fn connecting(&self) -> Option<&ConnectProgress> {
        self.connection.progress.as_deref()
    }

    /// The era of the server as this connection found it, for the next connection to the same server.
    pub fn known_era(&self) -> Option<KnownEra> {
        self.known_era
    }

    /// The configuration.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// The number of requests in flight from this side.
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Whether the client accepts more input: whether the application takes its events.
    pub fn wants_read(&self) -> bool {
        self.events.pressure(0) == Pressure::None
    }

    /// Whether the connection is over.
    pub fn is_closed(&self) -> bool {
        matches!(self.connection.phase, Phase::Closed)
    }

    // --- Outputs ---

    /// The next action for the link. `flushed` says whether all written output has been handed over; the sending half
    /// is closed only then.
    #[must_use]
    pub(crate) fn poll_link(&mut self, flushed: bool) -> Option<LinkAction> {
        let action = self.connection.poll_action(flushed)?;
        if action == LinkAction::Open {
            self.connection.phase = Phase::Connecting;
            self.connection.set_state(State::Connecting, &mut self.events);
            self.connection.report_progress(self.detect.opening_progress(), &mut self.events);
        }
        Some(action)
    }

    // --- Shared with the other modules ---

    fn report_dropped(&mut self) {
        if let Some(count) = self.events.take_dropped() {
            self.events.push(Event::Diagnostic(Diagnostic::NotificationsDropped { count }), 0);
        }
    }

    /// Reports a problem that ended no request.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        let bytes = diagnostic.bytes();
        self.events.push_or_drop(Event::Diagnostic(diagnostic), bytes);
    }

    fn era(&self) -> Option<Era> {
        self.server.as_ref().map(|server| server.era)
    }

    fn revision(&self) -> Option<Revision> {
        self.server.as_ref().map(|server| server.revision)
    }

    // --- The end of requests ---

    /// Takes a request from the table, and withdraws what it has asked of the application.
    fn take(&mut self, id: RequestId) -> Option<Removed> {
        let request = self.requests.get(id)?;
        for page in request.open_pages() {
            self.open_pages.remove(&(page.clone(), id));
        }
        match &request.stage {
            Stage::AwaitingInput(step) => step.input_set().map_or((), |set| self.withdraw_input(set)),
            Stage::Following(followed) => {
                self.tasks.unindex(id, followed);
                let sets = followed.input_sets.clone();
                sets.into_iter().for_each(|set| self.withdraw_input(set));
            }
            Stage::Queued(_) | Stage::Sent => {}
        }
        // It is large: it leaves the table once all else is done.
        self.requests.remove(id).map(|request| Removed { id, request })
    }

    /// Puts a request back into the table.
    fn restore(&mut self, Removed { id, request }: Removed) {
        self.open_pages.extend(request.open_pages().map(|page| (page.clone(), id)));
        if let Stage::Following(followed) = &request.stage {
            self.tasks.index(id, followed);
        }
        self.requests.insert(id, request);
    }

    /// Resolves a request: passes its outcome to its owner.
    fn resolve(&mut self, Removed { id, request }: Removed, outcome: Outcome) {
        self.deliver_last_progress(id);
        match request.owner {
            RequestOwner::Application => {
                let outcome = self.stale_fallback(request.fill, outcome);
                self.push_outcome(id, outcome);
            }
            RequestOwner::Watch => self.watches.queue_outcome(id, outcome),
            RequestOwner::Orphan | RequestOwner::Task { .. } => {
                self.tasks.queue_outcome(request.owner, outcome)
            }
            RequestOwner::Ping => self.pings.handle_outcome(id, &outcome),
            RequestOwner::Ignored | RequestOwner::LogLevel | RequestOwner::ToolListing => {}
        }
    }

    /// Queues the outcome of one of the application's requests.
    fn push_outcome(&mut self, request: RequestId, outcome: Outcome) {
        let bytes = outcome.bytes();
        if bytes > 0 && self.events.pressure(bytes) == Pressure::Results {
            let outcome = Outcome::Lost(LostReason::LimitExceeded);
            self.events.push(Event::Outcome { request, outcome }, 0);
        } else {
            self.events.push(Event::Outcome { request, outcome }, bytes);
        }
    }

    //= F23 "The end of the connection ends every pending request"
    /// Ends the connection: resolves each request, and reports `closed`.
    fn finish(&mut self, closed: CloseReason) {
        let refused = match &closed {
            CloseReason::Connect(error) => Outcome::Refused(RequestError::Connect(alloc::format!("{error}"))),
            CloseReason::Done | CloseReason::Lost(_) => Outcome::Refused(RequestError::Closed),
        };
        let lost = match &closed {
            CloseReason::Lost(lost) => lost.clone(),
            CloseReason::Done | CloseReason::Connect(_) => LostReason::Closed,
        };
        while let Some((id, request)) = self.requests.pop_first() {
            let outcome = if request.is_unsent() { refused.clone() } else { Outcome::Lost(lost.clone()) };
            self.resolve(Removed { id, request }, outcome);
        }
        self.open_pages.clear();
        self.withdraw_all_input();
        self.tasks = Tasks::default();
        self.withdraw_all();
        self.pings.stop();
        self.connection.clear_actions();
        self.connection.phase = Phase::Closed;
        self.connection.set_state(State::Disconnected, &mut self.events);
        self.report_dropped();
        self.events.push(Event::Closed(closed), 0);
    }

    /// Checks the indexes against the records of the requests.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn check(&self) {
        self.requests.check();
        let mut pages = OrderedSet::new();
        let mut tasks = Tasks::default();
        for (id, request) in self.requests.iter() {
            pages.extend(request.open_pages().map(|page| (page.clone(), id)));
            if let Stage::Following(followed) = &request.stage {
                tasks.index(id, followed);
            }
        }
        assert_eq!(pages, self.open_pages, "the index of open pages");
        assert!(self.tasks.has_followers_of(&tasks), "the index of tasks");
    }

    /// Ends the client before it sends anything, if its extensions cannot be used together. Returns whether it did.
    #[cfg(feature = "std")]
    pub(crate) fn refuse_invalid_extensions(&mut self) -> bool {
        let checked = self.config.check();
        checked.map_err(|error| self.fail_connect(ConnectError::Extensions(error))).is_err()
    }

    //= F14 "A failed handshake closes the transport"
    //= F15 "a client that failed is of no further use"
    fn fail_connect(&mut self, error: ConnectError) {
        self.finish(CloseReason::Connect(error));
        self.connection.request(LinkAction::Abort);
    }
}
