//! The client role over HTTP: one logical client over many exchanges.
//!
//! Every message is a POST. Its answer is one JSON value or an event stream; from a legacy server the client can also
//! receive messages by GET. [`HttpClient`] detects the server's era, keeps the session of a legacy server, resumes
//! streams, and resends requests that may be resent. The driver connects, writes, reads and reports how exchanges end;
//! it decides nothing.
//!
//! ```text
//! loop {
//!     drain poll_action    → Open: send the request, Abort: break the exchange off
//!     drain poll_event     → act
//!     again, until neither has anything
//!     wait for: a head → handle_head | a piece of a body → handle_body | an end → handle_end
//!             | poll_timeout → handle_timeout | a command
//! }
//! ```
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>

// `HttpClient` consists of parts, each with its own type, and of what they do together, in the same files:
//
// | file | its parts |
// |---|---|
// | `detect` | era detection, and its requests |
// | `exchange` | the open exchanges: opening, redirecting and replacing them; `parked`: those that wait for authorization |
// | `response`, `read` | what arrives in an exchange; its messages |
// | `call`, `retry` | the requests; what follows the outcome of each exchange |
// | `session` | the session, its gate, and the messages that wait for it |
// | `listen`, `legacy_sse` | the streams requested by GET |
// | `tool_catalog` | the headers of tools, whether they may be called twice, and listing them again |
// | `chunked_results` | results in parts |
// | `outbox` | requests and their headers; messages and actions to send |

mod address;
mod call;
mod chunked_results;
mod config;
mod detect;
mod exchange;
mod held;
mod legacy_sse;
mod listen;
mod outbox;
mod parked;
mod read;
mod response;
mod retry;
mod session;
mod tool_catalog;

use bytes::Bytes;

use crate::backoff::SplitMix64;
use crate::peer::Passage;
use crate::peer::client::{Client, ClientCommands, ClientLoan, ClientTransport, Event, LinkAction, State};
use crate::peer::{Machine as _, Outbox as _};
use crate::prelude::*;
#[cfg(feature = "trace-file")]
use crate::trace_file::{MachineOrigin, MachineRecorder, MachineStep, TracedFrame, json};
use crate::transport::http::{ExchangeEnd, ExchangeId, Fields};
use crate::{Instant, Limits};

pub use crate::backoff::Backoff;
pub use address::UrlError;
pub use config::{HttpClientConfig, ListenPolicy, UnauthorizedPolicy};
pub use outbox::{Action, AuthorizationRequired, HttpRequest};
pub use response::exchange_error;

use address::Address;
use detect::HttpEraDetection;
use exchange::{ExchangeKind, ExchangeTable, Handshake, ResponseState};
use held::HeldExchanges;
use legacy_sse::LegacySseStream;
use listen::Listener;
use outbox::HttpOutbox;
use session::{ClientSession, SendGate};
use tool_catalog::ToolCatalog;

/// A client that reaches its server over HTTP.
///
/// **Inputs** are the `handle_*` methods: none of them fails, whatever the input, and those for an exchange that has
/// ended or was aborted do nothing. **Outputs** are the `poll_*` methods. [`at`](Self::at) returns the **commands**; a
/// request made before the server's era is known is queued until then.
///
/// ```
/// use mcp_proto::transport::http::client::{Action, HttpClient, HttpClientConfig};
/// use mcp_proto::transport::http::{ExchangeEnd, Verb};
/// use mcp_proto::peer::client::{ClientConfig, State};
/// use mcp_proto::schema::Implementation;
/// use mcp_proto::{Bytes, Instant};
///
/// let now = Instant::ORIGIN;
/// let client = ClientConfig::new(Implementation::new("host", "1.0"));
/// let mut client = HttpClient::new(HttpClientConfig::new(client, "http://localhost/mcp"), now)?;
///
/// let Some(Action::Open(probe)) = client.poll_action() else { panic!() };
/// assert_eq!(probe.verb, Verb::Post);
/// let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}"#;
/// client.handle_head(now, probe.exchange, 200, &[("content-type", "application/json")]);
/// client.handle_body(now, probe.exchange, Bytes::from_static(answer.as_bytes()));
/// client.handle_end(now, probe.exchange, ExchangeEnd::Complete);
/// assert_eq!(client.state(), State::Ready);
/// # Ok::<(), mcp_proto::transport::http::client::UrlError>(())
/// ```
pub struct HttpClient {
    peer: Client,
    outbox: HttpOutbox,
    config: HttpClientConfig,
    /// The server's endpoint.
    url: Address,
    detection: HttpEraDetection,
    /// The requests of detection in progress, the newest last: several, if the server was slow to answer one.
    handshakes: Vec<Handshake>,
    rng: SplitMix64,
    timers: Timers,
    exchanges: ExchangeTable,
    session: ClientSession,
    listener: Listener,
    /// The event stream of HTTP+SSE, if the server uses that transport.
    legacy_sse: Option<LegacySseStream>,
    tools: ToolCatalog,
    closing: CloseState,
    /// What is held back for layers, if there are any.
    held: Option<Box<HeldExchanges>>,
    #[cfg(feature = "trace-file")]
    recorder: Option<MachineRecorder>,
}

/// How far closing has progressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloseState {
    /// The client is not closing.
    Open,
    /// The last messages are being sent.
    Draining,
    /// The session is being deleted.
    DeletingSession,
    /// All exchanges have ended.
    Closed,
}

impl HttpClient {
    /// Its kind, in traces.
    #[cfg(feature = "trace-file")]
    pub(crate) const KIND: &str = "http client";

    /// Creates a client and starts era detection.
    ///
    /// # Errors
    /// If the URL is not one of a server.
    pub fn new(config: HttpClientConfig, now: Instant) -> Result<Self, UrlError> {
        let url = Address::parse(&config.url)?;
        #[cfg(feature = "trace-file")]
        let recorder = (config.client.recorder.as_ref())
            .map(|recorder| recorder.begin(Some(now), MachineOrigin::new(Self::KIND, &config)));
        let mut client = Self {
            peer: Client::new(config.client.clone()),
            outbox: HttpOutbox::default(),
            url,
            detection: HttpEraDetection::new(&config),
            handshakes: Vec::new(),
            rng: SplitMix64::new(config.seed),
            timers: Timers::default(),
            exchanges: ExchangeTable::default(),
            session: ClientSession::default(),
            listener: Listener::default(),
            legacy_sse: None,
            tools: ToolCatalog::default(),
            closing: CloseState::Open,
            held: None,
            #[cfg(feature = "trace-file")]
            recorder,
            config,
        };
        client.peer.set_separate_exchanges(client.config.seed);
        client.peer.begin_detection();
        let act = client.detection.begin(now);
        client.perform_detection(now, act);
        client.advance(now);
        Ok(client)
    }

    /// Returns the client's commands, executed at `now`.
    pub fn at(&mut self, now: Instant) -> ClientCommands<'_> {
        ClientCommands::new(self, now)
    }

    // --- Inputs ---

    /// Handles the head of an answer. Omit heads with status 1xx. Status 0 is a redirect whose target is not known: that
    /// of a browser's `fetch` with `redirect: "manual"`.
    pub fn handle_head(&mut self, now: Instant, exchange: ExchangeId, status: u16, fields: &dyn Fields) {
        record!(self, Some(now), head_step(exchange, status, fields));
        self.take_head(now, exchange, status, fields);
        self.advance(now);
    }

    /// Handles a chunk of an answer's body. The result does not depend on how the body is split.
    pub fn handle_body(&mut self, now: Instant, exchange: ExchangeId, piece: Bytes) {
        record!(self, Some(now), MachineStep::body(exchange.number(), &piece));
        let Some(entry) = self.exchanges.get_mut(exchange) else { return };
        match &mut entry.response {
            ResponseState::AwaitingHead | ResponseState::Parked(_) => return,
            ResponseState::Buffered(whole) => {
                if whole.add(piece) {
                    return;
                }
                // The rest of the body is not needed.
                self.outbox.abort(exchange);
                self.handle_exchange_end(now, exchange, ExchangeEnd::Complete);
            }
            ResponseState::Events(events) => {
                events.sse.handle_input(piece);
                match &mut self.held {
                    Some(held) => held.add_events(exchange),
                    None => self.read_events(now, exchange),
                }
            }
        }
        self.advance(now);
    }

    /// Handles the end of an exchange, with or without an answer.
    pub fn handle_end(&mut self, now: Instant, exchange: ExchangeId, end: ExchangeEnd) {
        record!(self, Some(now), MachineStep::End { exchange: exchange.number(), end: json(&end) });
        if let Some(held) = &mut self.held {
            return held.add_end(exchange, end);
        }
        self.handle_exchange_end(now, exchange, end);
        self.advance(now);
    }

    /// Runs the timers that are due. Does nothing if [`poll_timeout`](Self::poll_timeout) is later than `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        record!(self, Some(now), MachineStep::Timeout);
        if self.poll_timeout().is_none_or(|due| due > now) {
            return;
        }
        // One step may lead to the next, whose time is up as well if its timeout is zero.
        while self.detect_deadline().is_some_and(|deadline| deadline <= now) {
            let act = self.detection.handle_timeout(now);
            self.perform_detection(now, act);
            self.advance(now);
        }
        self.run_timers(now);
        self.suspend_parked_deadlines(now);
        self.peer.handle_timeout(now, &mut self.outbox);
        self.advance(now);
    }

    // --- Outputs ---

    /// Returns the next action for the driver.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        let action = match &mut self.held {
            Some(held) => held.poll_action(),
            None => self.outbox.poll_action(),
        }?;
        record!(self, None, MachineStep::Action(action.whole_text()));
        Some(action)
    }

    /// Returns the next event.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.peer.poll_event()?;
        record!(self, None, MachineStep::Event(format!("{event:?}")));
        Some(event)
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due, unless another input comes first.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.peer.is_closed() {
            return None;
        }
        [self.peer.poll_timeout(), self.detect_deadline(), self.next_timer()].into_iter().flatten().min()
    }

    // --- Getters ---

    /// Returns whether the client wants more of a body.
    ///
    /// The result is advice: chunks that arrive nevertheless are handled, but events that wait too long are dropped.
    pub fn wants_body(&self, exchange: ExchangeId) -> bool {
        self.exchanges.get(exchange).is_some() && self.peer.wants_read()
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> State {
        self.peer.state()
    }

    /// Returns whether the connection is over. Actions may still be queued.
    pub fn is_closed(&self) -> bool {
        self.peer.is_closed()
    }

    /// Returns the number of bytes queued for sending.
    pub fn queued(&self) -> usize {
        self.outbox.queued().saturating_add(self.peer.queued_bytes())
    }

    /// Returns the peer, for its getters.
    pub fn peer(&self) -> &Client {
        &self.peer
    }

    // --- Shared by the other files ---

    fn limits(&self) -> &Limits {
        &self.config.client.limits
    }

    fn is_detecting(&self) -> bool {
        !self.peer.is_closed() && self.peer.state() != State::Ready
    }

    fn detect_deadline(&self) -> Option<Instant> {
        self.detection.deadline().filter(|_| self.is_detecting())
    }

    /// Processes the messages that the peer queued since the last `advance`, then sends what may be sent.
    fn advance(&mut self, now: Instant) {
        self.exchanges.record_unparked(now);
        loop {
            self.peer.advance_watches(now, &mut self.outbox);
            self.outbox.has_news = false;
            self.release_calls(now);
            if self.outbox.initialized.is_some() {
                self.send_initialized(now);
            }
            if self.peer.is_closed() && self.closing != CloseState::Closed {
                self.abort_all();
            }
            self.send_waiting(now);
            self.finish_closing(now);
            if !self.apply_link_actions(now) && !self.outbox.has_news && !self.peer.has_pending_watches() {
                return;
            }
        }
    }

    fn send_initialized(&mut self, now: Instant) {
        match self.outbox.initialized.take() {
            Some(post) if self.session.gate == SendGate::Closed => self.open_session(now, post),
            // The application's own.
            Some(post) => self.outbox.push_post(post),
            None => {}
        }
    }

    /// Sends queued messages as far as there is room.
    fn send_waiting(&mut self, now: Instant) {
        if self.session.gate != SendGate::Open {
            return;
        }
        let most = self.limits().exchanges;
        while self.exchanges.posts < most
            && let Some(post) = self.outbox.next_post()
        {
            self.send_post(now, post);
        }
        while let Some(number) = self.peer.next_waiting(most) {
            self.send_call(now, number);
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let Timers { listen, events, opening, posts, relist } = self.timers;
        let next = self.exchanges.next_deadline();
        [next, listen, events, opening, posts, relist].into_iter().flatten().min()
    }

    /// Runs the transport's timers that are due; one may lead to the next.
    fn run_timers(&mut self, now: Instant) {
        let is_due = |at: &mut Instant| *at <= now;
        loop {
            let resumable = self.peer.resumable(now);
            if resumable.is_empty() && self.next_timer().is_none_or(|next| next > now) {
                return;
            }
            for number in resumable {
                self.resume_or_send(now, number);
            }
            while let Some(exchange) = self.exchanges.next_due(now) {
                self.abort_exchange(exchange);
            }
            if self.timers.listen.take_if(is_due).is_some() {
                self.open_listener();
            }
            if self.timers.events.take_if(is_due).is_some() {
                self.handle_events_timer(now);
            }
            if self.timers.opening.take_if(is_due).is_some() {
                self.resend_initialized(now);
            }
            if self.timers.posts.take_if(is_due).is_some() {
                self.resend_posts();
            }
            if self.timers.relist.take_if(is_due).is_some() {
                self.finish_relisting(now, false);
            }
            self.advance(now);
        }
    }

    // --- Closing ---

    /// Carries out the peer's link actions; for the peer, all exchanges together are its link.
    fn apply_link_actions(&mut self, now: Instant) -> bool {
        match self.peer.poll_link(true) {
            None => return false,
            Some(LinkAction::Open) => {}
            Some(LinkAction::CloseWrite) => {
                self.closing = CloseState::Draining;
                self.stop_listening();
                self.finish_closing(now);
            }
            Some(LinkAction::Abort) => self.abort_all(),
        }
        true
    }

    /// Deletes the session once all queued messages are sent.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>
    fn finish_closing(&mut self, now: Instant) {
        if self.closing != CloseState::Draining || self.exchanges.posts > 0 || self.outbox.has_posts() {
            return;
        }
        match self.session.id {
            Some(_) => {
                self.closing = CloseState::DeletingSession;
                _ = self.open_exchange(ExchangeKind::Delete);
            }
            None => self.end_closing(now),
        }
    }

    fn end_closing(&mut self, now: Instant) {
        self.abort_all();
        self.peer.handle_closed(now, "", &mut self.outbox);
    }

    /// Aborts every open exchange.
    fn abort_all(&mut self) {
        self.closing = CloseState::Closed;
        for exchange in self.exchanges.ids() {
            self.abort_exchange(exchange);
        }
        self.session.end();
        self.tools.relisting = None;
        self.handshakes.clear();
        self.timers = Timers::default();
        self.outbox.clear();
    }
}

impl ClientTransport for HttpClient {
    fn peer(&self) -> &Client {
        &self.peer
    }

    fn handle_timeout(&mut self, now: Instant) {
        Self::handle_timeout(self, now);
    }

    fn poll_event(&mut self) -> Option<Event> {
        Self::poll_event(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Self::poll_timeout(self)
    }

    fn lend(&mut self, _: Instant) -> ClientLoan<'_> {
        ClientLoan {
            client: &mut self.peer,
            outbox: &mut self.outbox,
            #[cfg(feature = "trace-file")]
            recorder: self.recorder.as_ref(),
        }
    }

    fn settle(&mut self, now: Instant) {
        self.advance(now);
    }

    fn passage(&mut self) -> Option<&mut dyn Passage> {
        Some(self)
    }
}

debug_fields! { HttpClient(self) { url, session, exchanges = self.exchanges.len(), peer } }

/// The step of a head, with all its headers.
#[cfg(feature = "trace-file")]
fn head_step(exchange: ExchangeId, status: u16, fields: &dyn Fields) -> MachineStep {
    let mut headers = Vec::new();
    fields.each(&mut |name, value| headers.push((name.to_owned(), TracedFrame::whole(value))));
    MachineStep::Head { exchange: exchange.number(), status, headers }
}

/// The timers that exist once.
#[derive(Debug, Default)]
struct Timers {
    /// Request the stream of the server's own messages again.
    listen: Option<Instant>,
    /// Reopen the HTTP+SSE stream, or give up waiting for its `endpoint` event.
    events: Option<Instant>,
    /// Resend the notification that opens a session, or stop waiting for its response.
    opening: Option<Instant>,
    /// Resend one-way messages.
    posts: Option<Instant>,
    /// Give up listing the tools.
    relist: Option<Instant>,
}
