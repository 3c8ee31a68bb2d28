//! The server role.
//!
//! One connection serves both eras: each request says by itself to which it belongs, and a handshake opens a legacy
//! session beside which modern requests are still served statelessly. Which request is answered how is decided by the
//! table at the head of `admit.rs`, and what a handshake establishes by the one at the head of `session.rs`.

mod admit;
mod backlog;
mod commands;
mod config;
mod dispatch;
mod event;
mod inputs;
mod prepared;
mod requests;
#[cfg(feature = "seal")]
mod seal;
mod session;
mod subscribe;
mod subscriptions;
mod tell;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::Instant;
use crate::peer::batch::{BatchId, Batches};
use crate::peer::events::{EventQueue, Pressure};
use crate::peer::{About, Inbound, InboundId, Lost, Outbound, Outbox, Outcome, Principal, RequestId};
use crate::rpc::{ErrorId, ErrorObject, Id, code, write};
use crate::schema::{Era, Json, LoggingLevel, Method, MethodInfo, Number, Revision, SubscriptionsListen};

use backlog::Backlog;
pub use commands::{Answer, missing_capabilities, resource_not_found};
pub use config::{Eras, ServerConfig, TaskAccess};
pub use event::{Closed, Diagnostic, Event, RequestContext};
#[cfg(feature = "seal")]
pub use seal::{NONCE_BYTES, Opened, SealError, SealKey, Sealer};
pub use session::Session;
pub use subscriptions::{ListKind, Topic};

#[cfg(feature = "http")]
pub(crate) use admit::unsupported_version;
#[cfg(feature = "std")]
pub(crate) use commands::{at_revision, needs};
#[cfg(feature = "http")]
pub(crate) use prepared::Prepared;
#[cfg(not(feature = "http"))]
use prepared::Prepared;
use subscriptions::Subscriptions;
#[cfg(feature = "std")]
pub(crate) use tell::exceeds;

/// What the machine is doing.
#[derive(Debug)]
enum Phase {
    Open,
    /// No request is taken any more; those in flight may finish until then.
    Finishing {
        until: Instant,
        /// Whether requests that came before the end of the input, and are still held, are served first.
        serves_held: bool,
    },
    Closed,
}

/// What is kept of a request until it is answered.
#[derive(Debug)]
struct Served {
    era: Era,
    revision: Revision,
    info: Option<&'static MethodInfo>,
    capabilities: Arc<crate::schema::ClientCapabilities>,
    progress_token: Option<Id>,
    /// The last progress reported, which the next must exceed.
    progress: Option<Number>,
    log_level: Option<LoggingLevel>,
    batch: Option<BatchId>,
    /// About how many bytes are kept of it, its id included.
    kept: usize,
}

/// The server role of one connection, without its transport.
///
/// Applications use it through a transport: [`StreamServer`](crate::transport::StreamServer) for byte streams.
#[derive(Debug)]
pub struct Server {
    config: Arc<ServerConfig>,
    /// What modern results carry, encoded once.
    info: Option<Arc<Json>>,
    phase: Phase,
    session: Option<Session>,
    /// On whose behalf everything is asked for.
    principal: Option<Principal>,
    /// Whether there is a next modern request, which most likely has the same sender as the last.
    remembers: bool,
    /// Who made the last modern request.
    sender: Option<admit::Sender>,
    inbound: Inbound<Served>,
    /// The sum of what is kept of each of them.
    kept: usize,
    backlog: Backlog,
    subscriptions: Subscriptions,
    /// When to tell again of changes that found no room.
    retell: Option<Instant>,
    outbound: Outbound,
    batches: Batches,
    events: EventQueue<Event>,
    /// Notifications to the client that were not sent because it does not read.
    unsent: u64,
}

impl Server {
    /// A server that waits for its client to begin.
    pub fn new(config: impl Into<Arc<ServerConfig>>) -> Self {
        let config = config.into();
        let backlog = Backlog::new(config.limits.message_bytes);
        Self { remembers: true, backlog, ..Self::prepared(&Prepared::new(config)) }
    }

    /// The same, of what was prepared before: without allocating. It is for one modern request at most.
    pub(crate) fn prepared(prepared: &Prepared) -> Self {
        let Prepared { config, info } = prepared.clone();
        let limits = &config.limits;
        Self {
            info,
            phase: Phase::Open,
            session: None,
            principal: None,
            remembers: false,
            sender: None,
            inbound: Inbound::new(limits.requests_in.saturating_add(limits.subscriptions)),
            kept: 0,
            backlog: Backlog::default(),
            subscriptions: Subscriptions::default(),
            retell: None,
            outbound: Outbound::new(),
            batches: Batches::default(),
            events: EventQueue::new(limits.events, limits.event_bytes),
            unsent: 0,
            config,
        }
    }

    // --- Getters ---

    /// The configuration.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// The legacy session, once a client has opened one.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// On whose behalf the client asks, if the transport knows.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// How many dispatched requests of the client have not been answered; subscriptions are not among them.
    pub fn unanswered(&self) -> usize {
        self.inbound.len().saturating_sub(self.subscriptions.listening())
    }

    /// What the client wants to be told of and has not been given up: each topic once, in no particular order.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.subscriptions.topics()
    }

    /// Whether a request of the client has not been answered.
    #[cfg(feature = "http")]
    pub(crate) fn owes(&self, id: &Id) -> bool {
        self.inbound.find(id).is_some()
    }

    /// The id of an unanswered request of the client, as it stands on the wire.
    #[cfg(feature = "http")]
    pub(crate) fn wire_id(&self, request: InboundId) -> Option<&Id> {
        self.inbound.get(request).map(|(id, _)| id)
    }

    /// How many requests of this side have not ended.
    pub fn in_flight(&self) -> usize {
        self.outbound.len()
    }

    /// Whether the connection is over.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether more input is welcome: the application takes its events, and the window of held requests is not full.
    pub fn wants_read(&self) -> bool {
        self.events.pressure(0) == Pressure::None && !self.backlog.is_full()
    }

    // --- Commands ---

    /// Says on whose behalf the client asks from now on, as the transport has verified it. Each request is told with it.
    pub fn set_principal(&mut self, principal: Option<Principal>) {
        self.principal = principal;
    }

    // --- Outputs ---

    /// The next event, in wire order.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.report_dropped();
        }
        self.events.pop()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens first.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Open => None,
            Phase::Finishing { .. } if self.waits_for_client() => None,
            Phase::Finishing { until, .. } => Some(until),
            Phase::Closed => return None,
        };
        let release = self.release_is_due().then_some(Instant::ORIGIN);
        [phase, self.retell, release, self.outbound.next_deadline()].into_iter().flatten().min()
    }

    // --- What the other files share ---

    fn diagnose(&mut self, diagnostic: Diagnostic) {
        let bytes = diagnostic.bytes();
        self.events.push_or_drop(Event::Diagnostic(diagnostic), bytes);
    }

    /// Takes a request out of the table.
    fn take(&mut self, request: InboundId) -> Option<(Id, Served)> {
        let (id, served) = self.inbound.remove(request)?;
        self.kept = self.kept.saturating_sub(served.kept);
        Some((id, served))
    }

    fn report_dropped(&mut self) {
        let unsent = core::mem::take(&mut self.unsent);
        let count = self.events.take_dropped().unwrap_or_default().saturating_add(unsent);
        if count > 0 {
            self.events.push(Event::Diagnostic(Diagnostic::NotificationsDropped { count }), 0);
        }
    }

    /// Ends a request of this side that has been taken out of the table.
    fn end(&mut self, number: i64, outcome: Outcome) {
        let bytes = outcome.bytes();
        let too_much = bytes > 0 && self.events.pressure(bytes) == Pressure::Results;
        let (outcome, bytes) =
            if too_much { (Outcome::Lost(Lost::LimitExceeded), 0) } else { (outcome, bytes) };
        self.events.push(Event::Outcome { request: RequestId::new(number), outcome }, bytes);
    }

    fn end_outbound(&mut self, lost: &Lost) {
        while let Some((number, _)) = self.outbound.pop() {
            self.end(number, Outcome::Lost(lost.clone()));
        }
    }

    /// Whether the end waits for the client to take answers, so that every request before the end of its input is served.
    /// The transport's write timeout bounds it.
    fn waits_for_client(&self) -> bool {
        matches!(self.phase, Phase::Finishing { serves_held: true, .. }) && self.backlog.is_blocked()
    }

    /// Answers for an application that has not done so in time.
    fn refuse_rest(&mut self, out: &mut dyn Outbox) {
        self.kept = 0;
        while let Some((request, id, served)) = self.inbound.pop() {
            self.abandon(request, &served, None);
            let error =
                ErrorObject::new(code::INTERNAL_ERROR, "the server has closed before it could answer");
            self.reply_error(Some(&id), served.batch, &error, out);
        }
        let error = ErrorObject::new(code::INTERNAL_ERROR, "the server has closed before it could answer");
        self.refuse_held(&error, out);
    }

    /// Ends everything: each request with an outcome, the connection with `closed`.
    fn finish(&mut self, closed: Closed) {
        let lost = match &closed {
            Closed::Done => Lost::Closed,
            Closed::Lost(lost) => lost.clone(),
        };
        self.end_outbound(&lost);
        while let Some((id, _, served)) = self.inbound.pop() {
            self.abandon(id, &served, None);
        }
        self.kept = 0;
        self.retell = None;
        self.backlog.clear();
        self.batches.clear();
        self.phase = Phase::Closed;
        self.report_dropped();
        self.events.push(Event::Closed(closed), 0);
    }

    /// A request that was taken out of the table will not be answered.
    fn abandon(&mut self, request: InboundId, served: &Served, reason: Option<String>) {
        // The application knows nothing of subscriptions.
        if served.info.is_some_and(|info| info.name == SubscriptionsListen::NAME) {
            self.forget_subscription(request);
        } else {
            // That it was cancelled must be told; why, if there is room.
            let bytes = reason.as_ref().map_or(0, String::len);
            let fits = self.events.pressure(bytes) == Pressure::None;
            let (reason, bytes) = if fits { (reason, bytes) } else { (None, 0) };
            self.events.push(Event::Cancelled { id: request, reason }, bytes);
        }
    }

    /// Writes the answer to one request: on its own, or into its batch.
    fn reply(
        &mut self,
        id: Option<&Id>,
        batch: Option<BatchId>,
        out: &mut dyn Outbox,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
    ) -> Result<(), serde_json::Error> {
        match batch {
            None => {
                write(out.buffer())?;
                out.commit(About::Reply(id));
            }
            Some(batch) => {
                self.batches.answer(batch, write)?;
                self.close_batch(batch, out);
            }
        }
        self.guard(out);
        Ok(())
    }

    /// Gives up on a client that reads none of its answers.
    fn guard(&mut self, out: &dyn Outbox) {
        let limits = &self.config.limits;
        let held = out.queued().saturating_add(self.batches.bytes());
        if held > limits.queued_bytes.saturating_add(limits.reply_bytes) && !self.is_closed() {
            self.finish(Closed::Lost(Lost::Failed(
                "overloaded: the client does not read its answers".into(),
            )));
        }
    }

    fn reply_error(
        &mut self,
        id: Option<&Id>,
        batch: Option<BatchId>,
        error: &ErrorObject,
        out: &mut dyn Outbox,
    ) {
        let name = id.map_or(ErrorId::Null, ErrorId::Known);
        // Data of our own making always encodes; an application's that does not is left out.
        let write = |buffer: &mut Vec<u8>| {
            write::error(buffer, name, error)
                .or_else(|_| write::error(buffer, name, &ErrorObject::new(error.code, error.message.clone())))
        };
        if batch.is_some() {
            // A batch is told of as a whole.
            let _ = self.reply(id, batch, out, write);
        } else if write(out.buffer()).is_ok() {
            out.commit_error(id, error.code);
            self.guard(out);
        }
    }

    fn close_batch(&mut self, batch: BatchId, out: &mut dyn Outbox) {
        if let Some(answers) = self.batches.close(batch) {
            out.buffer().extend_from_slice(&answers);
            out.commit(About::Reply(None));
        }
    }

    /// A connection that is to end does so once everything is answered.
    fn advance_close(&mut self) {
        if matches!(self.phase, Phase::Finishing { .. }) && self.inbound.is_empty() && self.backlog.is_empty()
        {
            self.finish(Closed::Done);
        }
    }
}
