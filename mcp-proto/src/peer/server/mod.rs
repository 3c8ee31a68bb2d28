//! The server role.
//!
//! One connection serves both eras: each request determines its own, and a handshake opens a legacy session beside
//! which modern requests are still served statelessly. The table at the head of `admit.rs` decides how each request is
//! answered; the table at the head of `session.rs` describes the handshake.

mod admit;
mod answer;
mod backlog;
mod commands;
mod config;
mod dispatch;
mod event;
mod known_meta;
mod notify;
mod outgoing_requests;
mod sender;
mod session;
mod subscriptions;

use alloc::sync::Arc;

use answer::internal_error;
use backlog::Backlog;
use subscriptions::Subscriptions;

use crate::Instant;
use crate::lazy_box::{Initial, LazyBox};
use crate::peer::event_queue::{EventQueue, Pressure, ProgressPacer, ProgressRate};
use crate::peer::inbound::{BatchId, Batches};
use crate::peer::{
    Inbound, InboundId, LostReason, MessageKind, Outbox, Outcome, Principal, RequestId, Requests,
};
use crate::prelude::*;
use crate::quota::BytePermit;
use crate::rpc::{ErrorId, ErrorObject, Id, write};
use crate::schema::{
    CallTool, Era, Json, LoggingLevel, Method, MethodInfo, Number, ProgressParams, Revision, ServerCapability,
};

pub use crate::peer::topic::{ListKind, Topic};
#[cfg(feature = "seal")]
pub use crate::seal::{NONCE_BYTES, OpenedState, SealError, SealKey, Sealer};
pub use answer::{Answer, missing_capabilities, resource_not_found};
pub(crate) use answer::{adapt_error, unsupported_version};
pub use commands::{ServerCommands, ServerLoan, ServerTransport};
pub(crate) use config::PreparedConfig;
pub use config::{Eras, ServerConfig, SubscriptionAccess, TaskAccess};
pub use event::{Cancellation, CloseReason, Diagnostic, Event, RequestContext};
#[cfg(all(feature = "std", feature = "http"))]
pub(crate) use known_meta::{KnownMeta, MetaCache};
pub(crate) use notify::exceeds;
pub(crate) use outgoing_requests::{check_content, check_page_url, required_capabilities};
#[cfg(all(feature = "std", feature = "http"))]
pub(crate) use session::IdleServer;
pub use session::Session;

/// The bytes of an id on the heap.
fn text_bytes(id: &Id) -> usize {
    match id {
        Id::Number(_) => 0,
        Id::String(text) => text.len(),
    }
}

/// The phase of a connection.
#[derive(Debug)]
enum Phase {
    Open,
    /// No further request is accepted; those in flight may finish until the deadline.
    Finishing {
        until: Instant,
        /// Whether held requests that arrived before the end of the input are served first.
        serves_backlog: bool,
    },
    Closed,
}

/// The state of a request until it is answered.
#[derive(Debug)]
struct PendingRequest {
    era: Era,
    revision: Revision,
    info: Option<&'static MethodInfo>,
    capabilities: Arc<crate::schema::ClientCapabilities>,
    progress_token: Option<Id>,
    /// The last progress sent or waiting to be sent, which the next must exceed.
    progress: Option<Number>,
    log_level: Option<LoggingLevel>,
    batch: Option<BatchId>,
    /// The topics that it listens to, if it is a subscription.
    listening: Option<Vec<Topic>>,
    /// The approximate size in bytes of its stored state, its id included.
    stored_bytes: usize,
    /// Its share in the charge for its message, which ends with its answer.
    _charge: MessageCharge,
}

/// What only a connection has. A modern request over HTTP has no connection, and allocates none of it.
#[derive(Debug)]
struct Connection {
    session: Option<Session>,
    backlog: Backlog,
    /// The charge for the message that is being handled.
    charge: MessageCharge,
    /// Whether the byte budget has no room for that message.
    is_over_budget: bool,
    outbound: Requests<outgoing_requests::ServerRequest>,
    batches: Batches,
}

impl Connection {
    const fn new() -> Self {
        Self {
            session: None,
            backlog: Backlog::new(None),
            charge: None,
            is_over_budget: false,
            outbound: Requests::new(),
            batches: Batches::new(),
        }
    }
}

impl Initial for Connection {
    const INITIAL: &'static Self = &Self::new();

    fn initial() -> Self {
        Self::new()
    }
}

/// The byte budget's permit for a message, which its requests share. `None` where the transport charges for its requests
/// by itself.
type MessageCharge = Option<Arc<BytePermit>>;

/// The server role of one connection, without its transport.
///
/// Applications use it through a transport: [`StreamServer`](crate::transport::StreamServer) for byte streams.
#[derive(Debug)]
pub struct Server {
    config: Arc<ServerConfig>,
    /// The server information in modern results, encoded once.
    info: Option<Arc<Json>>,
    phase: Phase,
    connection: LazyBox<Connection>,
    /// The principal of all requests.
    principal: Option<Principal>,
    /// Whether the sender of a modern request is cached for the next one, which most likely has the same sender.
    caches_sender: bool,
    /// Whether it was reported that handlers log although the server does not declare it.
    reported_logging: bool,
    /// The `_meta` of the last request, and its sender.
    last_meta: Option<Arc<known_meta::KnownMeta>>,
    inbound: Inbound<PendingRequest>,
    /// The sum of the `stored_bytes` of all pending requests.
    stored_bytes: usize,
    subscriptions: LazyBox<Subscriptions>,
    /// When to retry change notifications that found no room.
    notify_again_at: Option<Instant>,
    /// The progress reports to the client, by its requests.
    sent_progress: ProgressPacer<InboundId, ProgressParams>,
    /// The client's progress reports, by the requests of this side.
    received_progress: ProgressPacer<RequestId, ProgressParams>,
    events: EventQueue<Event>,
}

impl Server {
    /// Creates a server that waits for its client's first message.
    pub(crate) fn new(config: impl Into<Arc<ServerConfig>>) -> Self {
        let config = config.into();
        let window = config.limits.message_bytes;
        let mut server = Self::for_connection(&PreparedConfig::new(config));
        server.connection.backlog = Backlog::new(Some(window));
        server
    }

    /// Creates a server for several requests, without allocating: it compares the `_meta` of each with the last one.
    pub(crate) fn for_connection(prepared: &PreparedConfig) -> Self {
        Self { caches_sender: true, ..Self::from_prepared(prepared) }
    }

    /// Creates a server from a prepared configuration, without allocating. It is for one modern request at most.
    pub(crate) fn from_prepared(prepared: &PreparedConfig) -> Self {
        let PreparedConfig { config, info } = prepared.clone();
        let limits = &config.limits;
        Self {
            info,
            phase: Phase::Open,
            connection: LazyBox::new(),
            principal: None,
            caches_sender: false,
            reported_logging: false,
            last_meta: None,
            inbound: Inbound::new(limits.requests_in.saturating_add(limits.subscriptions)),
            stored_bytes: 0,
            subscriptions: LazyBox::new(),
            notify_again_at: None,
            sent_progress: ProgressPacer::new(ProgressRate::spaced(limits.progress_out)),
            received_progress: ProgressPacer::new(ProgressRate::per_second(limits.progress_in)),
            events: EventQueue::new(limits.events, limits.event_bytes),
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
        self.connection.session.as_ref()
    }

    fn session_mut(&mut self) -> Option<&mut Session> {
        self.connection.used_mut()?.session.as_mut()
    }

    /// The principal of the client's requests, if the transport has verified one.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// The number of dispatched requests of the client that are not answered yet, without subscriptions.
    pub fn unanswered(&self) -> usize {
        self.inbound.len().saturating_sub(self.subscriptions.listens)
    }

    /// Whether a request of the client, or a subscription, is unanswered.
    #[cfg(all(feature = "std", feature = "http"))]
    pub(crate) fn has_requests(&self) -> bool {
        !self.inbound.is_empty()
    }

    /// The topics with subscribers: each once, in no particular order.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.subscriptions.topics()
    }

    /// Whether a request of the client has not been answered.
    pub(crate) fn is_unanswered(&self, id: &Id) -> bool {
        self.inbound.find(id).is_some()
    }

    /// Whether the next log message is the first that is dropped because the server does not declare logging.
    #[cfg(feature = "std")]
    pub(crate) fn is_first_undeclared_log(&self) -> bool {
        !self.reported_logging && !self.config.capabilities.has(ServerCapability::Logging)
    }

    /// The method of an unanswered request of the client, if the protocol defines it.
    #[cfg(feature = "std")]
    pub(crate) fn method(&self, request: InboundId) -> Option<&'static str> {
        self.inbound.get(request)?.1.info.map(|info| info.name)
    }

    /// The id of an unanswered request of the client, as on the wire.
    pub(crate) fn wire_id(&self, request: InboundId) -> Option<&Id> {
        self.inbound.get(request).map(|(id, _)| id)
    }

    /// Whether an unanswered request of the client is a tool call.
    #[cfg(feature = "std")]
    pub(crate) fn is_tool_call(&self, request: InboundId) -> bool {
        self.method(request) == Some(CallTool::NAME)
    }

    /// The number of requests in flight from this side.
    pub fn in_flight(&self) -> usize {
        self.connection.outbound.len()
    }

    /// Whether the connection is over.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether the server accepts more input: the application takes its events, and the window of held requests is not
    /// full.
    pub fn wants_read(&self) -> bool {
        self.events.pressure(0) == Pressure::None && !self.connection.backlog.is_full()
    }

    // --- Commands ---

    /// Sets the principal of later requests.
    pub(crate) fn set_principal(&mut self, principal: Option<Principal>) {
        self.principal = principal;
    }

    /// Compares the `_meta` of the next request with this one, and stores it for [`take_meta`](Self::take_meta).
    #[cfg(all(feature = "std", feature = "http"))]
    pub(crate) fn compare_meta(&mut self, known: Option<Arc<KnownMeta>>) {
        self.caches_sender = true;
        self.last_meta = known;
    }

    /// Takes the `_meta` of the last request, if that was admitted.
    #[cfg(all(feature = "std", feature = "http"))]
    pub(crate) fn take_meta(&mut self) -> Option<Arc<KnownMeta>> {
        self.last_meta.take()
    }

    /// Serves the next message as one of a legacy client without a session.
    #[cfg(feature = "http")]
    pub(crate) fn set_stateless(&mut self, revision: Revision) {
        self.connection.session = Some(Session::stateless(revision));
    }

    // --- Shared with the other modules ---

    fn diagnose(&mut self, diagnostic: Diagnostic) {
        let bytes = diagnostic.bytes();
        self.events.push_or_drop(Event::Diagnostic(diagnostic), bytes);
    }

    /// Removes a request from the table.
    fn take(&mut self, request: InboundId) -> Option<(Id, PendingRequest)> {
        let (id, served) = self.inbound.remove(request)?;
        self.stored_bytes = self.stored_bytes.saturating_sub(served.stored_bytes);
        self.sent_progress.remove(request);
        Some((id, served))
    }

    fn report_dropped(&mut self) {
        if let Some(count) = self.events.take_dropped() {
            self.events.push(Event::Diagnostic(Diagnostic::NotificationsDropped { count }), 0);
        }
    }

    /// Resolves a request of this side that was removed from the table.
    fn resolve(&mut self, request: RequestId, outcome: Outcome) {
        self.deliver_last_progress(request);
        let bytes = outcome.bytes();
        let too_much = bytes > 0 && self.events.pressure(bytes) == Pressure::Results;
        let (outcome, bytes) =
            if too_much { (Outcome::Lost(LostReason::LimitExceeded), 0) } else { (outcome, bytes) };
        self.events.push(Event::Outcome { request, outcome }, bytes);
    }

    fn resolve_outbound(&mut self, lost: &LostReason) {
        while let Some((request, _)) =
            self.connection.used_mut().and_then(|connection| connection.outbound.pop_first())
        {
            self.resolve(request, Outcome::Lost(lost.clone()));
        }
    }

    /// Whether closing waits for the client to take answers, so that every request before the end of its input is
    /// served. The transport's write timeout bounds it.
    fn is_waiting_for_client(&self) -> bool {
        matches!(self.phase, Phase::Finishing { serves_backlog: true, .. }) && self.connection.backlog.blocked
    }

    /// Answers the requests that the application has not answered in time.
    fn refuse_remaining(&mut self, out: &mut dyn Outbox) {
        let error = internal_error("the server has closed before it could answer");
        self.stored_bytes = 0;
        self.send_all_progress(out);
        while let Some((request, id, served)) = self.inbound.pop() {
            let (batch, cancellation) = (served.batch, self.closing_cancellation());
            self.abandon(request, served, cancellation);
            self.reply_error(Some(&id), batch, &error, out);
        }
        self.refuse_queued(&error, out);
    }

    /// Ends the connection: resolves each request, and reports `closed`.
    fn finish(&mut self, closed: CloseReason) {
        let lost = match &closed {
            CloseReason::Done => LostReason::Closed,
            CloseReason::Lost(lost) => lost.clone(),
        };
        self.resolve_outbound(&lost);
        while let Some((id, _, served)) = self.inbound.pop() {
            self.abandon(id, served, Cancellation::by_close(&closed));
        }
        self.stored_bytes = 0;
        self.sent_progress.clear();
        self.notify_again_at = None;
        if let Some(connection) = self.connection.used_mut() {
            connection.backlog.clear();
            connection.batches.clear();
        }
        self.phase = Phase::Closed;
        self.report_dropped();
        self.events.push(Event::Closed(closed), 0);
    }

    /// Why requests are abandoned that were not answered in time while the connection closes.
    fn closing_cancellation(&self) -> Cancellation {
        match self.phase {
            Phase::Finishing { serves_backlog: true, .. } => Cancellation::Disconnected,
            _ => Cancellation::Closed(CloseReason::Done),
        }
    }

    /// Abandons a request that was removed from the table and will not be answered.
    fn abandon(&mut self, request: InboundId, served: PendingRequest, cancellation: Cancellation) {
        // Subscriptions are not visible to the application.
        if let Some(topics) = served.listening {
            self.forget_subscription(request, topics);
        } else {
            // The cancellation must be reported; its reason only if there is room.
            let bytes = cancellation.reason().map_or(0, str::len);
            let fits = bytes == 0 || self.events.pressure(bytes) == Pressure::None;
            let (cancellation, bytes) =
                if fits { (cancellation, bytes) } else { (Cancellation::Client { reason: None }, 0) };
            self.events.push(Event::Cancelled { id: request, cancellation }, bytes);
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
                out.commit(MessageKind::Reply(id));
            }
            Some(batch) => {
                self.connection.batches.answer(batch, write)?;
                self.close_batch(Some(batch), out);
            }
        }
        self.close_if_unread(out);
        Ok(())
    }

    /// Closes the connection to a client that reads none of its answers.
    fn close_if_unread(&mut self, out: &dyn Outbox) {
        let limits = &self.config.limits;
        let held = out.queued().saturating_add(self.connection.batches.bytes());
        if held > limits.queued_bytes.saturating_add(limits.reply_bytes) && !self.is_closed() {
            self.finish(CloseReason::Lost(LostReason::Failed(
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
        // Data from this crate always encodes; application data that does not is left out.
        let write = |buffer: &mut Vec<u8>| {
            write::error(buffer, name, error)
                .or_else(|_| write::error(buffer, name, &ErrorObject::new(error.code, error.message.clone())))
        };
        if batch.is_some() {
            // The batch is reported as a whole.
            let _ = self.reply(id, batch, out, write);
        } else if write(out.buffer()).is_ok() {
            out.commit_error(id, error.code);
            self.close_if_unread(out);
        }
    }

    /// Counts a message of a batch as handled; sends the answers with the last one.
    fn close_batch(&mut self, batch: Option<BatchId>, out: &mut dyn Outbox) {
        if let Some(answers) = batch.and_then(|batch| self.connection.batches.close(batch)) {
            out.buffer().extend_from_slice(&answers);
            out.commit(MessageKind::Reply(None));
        }
    }

    /// Ends a closing connection once everything is answered.
    fn advance_close(&mut self) {
        if matches!(self.phase, Phase::Finishing { .. })
            && self.inbound.is_empty()
            && self.connection.backlog.is_empty()
        {
            self.finish(CloseReason::Done);
        }
    }
}
