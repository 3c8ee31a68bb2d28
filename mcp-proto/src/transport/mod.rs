//! Transports: the state machines that applications and runtime adapters drive.
//!
//! A [`Transport`] combines one peer (client or server) with one message framing:
//!
//! | | client | server |
//! |---|---|---|
//! | newline-delimited messages on a byte stream | [`StreamClient`] | [`StreamServer`] |
//! | whole messages, such as WebSocket frames | [`ChannelClient`] | [`ChannelServer`] |
//!
//! All four run in the same loop: drain the outputs until none returns anything, then wait for input, the next timeout
//! or a command of the application, whichever comes first.
//!
//! ```text
//! loop {
//!     drain poll_link      → open or close the link            (clients)
//!     drain poll_transmit  → write
//!     drain poll_event     → act
//!     again, until none of them has anything
//!     wait for: readable → handle_input | poll_timeout → handle_timeout | a command
//! }
//! ```
//!
//! The outputs can be drained in any order, and draining them late costs latency, never correctness. A request made
//! while handling an event queues new output, however: repeat the loop before waiting, otherwise the request is sent
//! only after the next input, timeout or command.

/// Records a step, if the machine has a recorder.
macro_rules! record {
    ($self:ident, $now:expr, $step:expr) => {
        #[cfg(feature = "trace-file")]
        if let Some(recorder) = &$self.recorder {
            recorder.record($now, $step, $self.poll_timeout());
        }
    };
}

mod cancellation;
mod framing;
#[cfg(feature = "http")]
pub mod http;
#[cfg(all(feature = "trace-file", feature = "std", any(feature = "client", feature = "server")))]
mod replay;
pub mod tool_frames;

#[cfg(feature = "server")]
use alloc::sync::Arc;
use core::fmt;

use bytes::Bytes;

use crate::Instant;
use crate::codec::Line;
#[cfg(feature = "client")]
use crate::peer::TransportError;
#[cfg(feature = "client")]
use crate::peer::client::{
    self, Client, ClientCommands, ClientConfig, ClientLoan, ClientTransport, LinkAction, State,
};
#[cfg(feature = "server")]
use crate::peer::server::{self, Server, ServerCommands, ServerConfig, ServerLoan, ServerTransport};
use crate::peer::{HeldPiece, LostReason, Machine, Outbox as _, Passage};
use crate::prelude::*;
use crate::rpc::{self, Malformed};
#[cfg(feature = "trace-file")]
use crate::trace_file::{MachineOrigin, MachineRecorder, MachineStep, TracedFrame, json};

use self::framing::{Framing, MessageFraming, Newline};
#[cfg(all(feature = "trace-file", feature = "std", any(feature = "client", feature = "server")))]
pub use self::replay::{MachineReplayDifference, MachineReplayError, MachineReplayReport, replay_machines};

/// A peer (client or server) combined with its message framing.
///
/// **Inputs** are the `handle_*` methods: none of them fails, whatever the input. **Outputs** are the `poll_*` methods.
/// **Commands** are the methods of the handle that `at` returns: `ClientCommands` or `ServerCommands`.
pub struct Transport<P, F> {
    peer: P,
    framing: F,
    /// When output started to wait without the transport taking any.
    waiting_since: Option<Instant>,
    #[cfg(feature = "trace-file")]
    recorder: Option<MachineRecorder>,
}

impl<P: Machine, F: Framing> Transport<P, F> {
    fn with(peer: P) -> Self {
        let framing = F::new(peer.limits());
        Self {
            peer,
            framing,
            waiting_since: None,
            #[cfg(feature = "trace-file")]
            recorder: None,
        }
    }

    /// Runs `act` on the peer and the framing, then dispatches deferred messages and updates the write timeout.
    fn run<R>(&mut self, now: Instant, act: impl FnOnce(&mut P, &mut F) -> R) -> R {
        let result = act(&mut self.peer, &mut self.framing);
        self.settle(now);
        result
    }

    /// Dispatches deferred messages and starts or stops the write timeout.
    fn settle(&mut self, now: Instant) {
        self.peer.dispatch_deferred(now, &mut self.framing);
        if self.framing.queued() == 0 {
            self.waiting_since = None;
        } else {
            self.waiting_since.get_or_insert(now);
        }
    }

    fn write_deadline(&self) -> Option<Instant> {
        let since = self.waiting_since.filter(|_| !self.peer.is_closed())?;
        Some(since + self.peer.write_timeout())
    }

    fn handle_text(&mut self, now: Instant, text: &Bytes) {
        // An earlier message of the same input may have closed the connection.
        if self.peer.is_closed() {
            return;
        }
        let depth = self.peer.limits().depth;
        let known_meta = |text: &str| self.peer.known_meta_length(text);
        let frame = rpc::read_knowing(text, depth, &known_meta);
        self.run(now, |peer, out| match frame {
            Ok(frame) => peer.handle_frame(now, frame, out),
            Err(malformed) => peer.handle_malformed(now, malformed, out),
        });
    }

    fn handle_too_long(&mut self, now: Instant, head: &[u8], tail: &[u8], bytes: usize) {
        if self.peer.is_closed() {
            return;
        }
        let malformed = Malformed::too_long(head, tail, bytes);
        self.run(now, |peer, out| peer.handle_malformed(now, malformed, out));
    }

    fn handle_line(&mut self, now: Instant, line: &Line) {
        match line {
            Line::Whole(text) => self.handle_whole(now, text),
            Line::TooLong { head, tail, bytes } => self.handle_too_long(now, head, tail, *bytes),
        }
    }

    fn handle_whole(&mut self, now: Instant, text: &Bytes) {
        if text.len() > self.peer.limits().message_bytes {
            self.handle_too_long(now, text, &[], text.len());
        } else {
            self.handle_text(now, text);
        }
    }

    // --- Inputs ---

    /// Runs the timers that are due. Does nothing if [`poll_timeout`](Self::poll_timeout) is later than `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        record!(self, Some(now), MachineStep::Timeout);
        if self.write_deadline().is_some_and(|deadline| deadline <= now) {
            self.waiting_since = None;
            let waited = self.peer.write_timeout();
            self.peer.fail(alloc::format!("the other side read nothing for {waited:?}"));
            self.framing.clear();
        }
        self.run(now, |peer, out| peer.handle_timeout(now, out));
    }

    /// Restarts the write timeout after the transport has written part of the output from `poll_transmit`.
    ///
    /// Call it when a large buffer is written in parts, so that a peer that reads slowly but steadily does not time
    /// out.
    pub fn handle_written(&mut self, now: Instant) {
        record!(self, Some(now), MachineStep::Written);
        if let Some(since) = &mut self.waiting_since {
            *since = now;
        }
    }

    // --- Outputs ---

    /// Returns the next event, in the order of the messages on the wire.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<P::Event> {
        let event = self.peer.poll_event()?;
        record!(self, None, MachineStep::Event(alloc::format!("{event:?}")));
        Some(event)
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due, unless another input comes first.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.peer.poll_timeout(), self.write_deadline()].into_iter().flatten().min()
    }

    // --- Getters ---

    /// Returns whether the peer wants more input.
    ///
    /// The result is advice: input that arrives nevertheless is handled, but events that wait too long are dropped and
    /// requests for which there is no room are refused.
    ///
    /// A server wants no more input while the client leaves more than [`Limits::queued_bytes`](crate::Limits::queued_bytes) of answers unread *and*
    /// the requests deferred for that reason fill a window of [`Limits::message_bytes`](crate::Limits::message_bytes).
    pub fn wants_read(&self) -> bool {
        self.peer.wants_read()
    }

    /// Returns whether the connection is over. Queued output may still be sent.
    pub fn is_closed(&self) -> bool {
        self.peer.is_closed()
    }

    /// Returns the number of bytes queued for sending.
    pub fn queued(&self) -> usize {
        self.framing.queued()
    }

    /// Returns the peer, for its getters.
    pub fn peer(&self) -> &P {
        &self.peer
    }
}

impl<P: Machine> Transport<P, Newline> {
    /// Handles bytes read from the stream. The result does not depend on how the stream is split into chunks.
    pub fn handle_input(&mut self, now: Instant, bytes: Bytes) {
        record!(self, Some(now), MachineStep::Input(TracedFrame::whole(&bytes)));
        self.framing.lines.handle_input(bytes);
        if self.framing.is_holding() {
            return;
        }
        while let Some(line) = self.framing.lines.poll_line() {
            match line {
                Line::Whole(text) => self.handle_text(now, &text),
                Line::TooLong { head, tail, bytes } => self.handle_too_long(now, &head, &tail, bytes),
            }
        }
    }

    /// Handles the end of the stream, whether it closed or failed.
    ///
    /// `detail` is a human-readable description by the transport, such as an exit status or the last lines of standard
    /// error. It may be empty.
    pub fn handle_eof(&mut self, now: Instant, detail: &str) {
        record!(self, Some(now), MachineStep::Eof(detail.to_owned()));
        if self.framing.hold_end(detail) {
            return;
        }
        if let Some(line) = self.framing.lines.handle_eof() {
            // A last message without its newline counts as complete if it parses.
            self.handle_line(now, &line);
        }
        self.run(now, |peer, out| peer.handle_closed(now, detail, out));
    }

    /// Appends the queued messages, whole ones only, to `out`; returns whether there were any.
    ///
    /// An empty `out` is swapped with the queue, without copying.
    ///
    /// Call it again only when everything has been written: the write timeout and the limits cover only bytes that are
    /// still queued here.
    #[must_use]
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        #[cfg(feature = "trace-file")]
        let (before, was_waiting) = (out.len(), self.waiting_since.is_some());
        self.waiting_since = None;
        let taken = self.framing.take(out);
        self.peer.handle_transmitted(self.framing.queued());
        #[cfg(feature = "trace-file")]
        if taken || was_waiting {
            let new = || TracedFrame::whole(out.get(before..).unwrap_or_default());
            record!(self, None, MachineStep::Transmit(taken.then(new)));
        }
        taken
    }
}

impl<P: Machine> Transport<P, MessageFraming> {
    /// Handles a whole message.
    pub fn handle_message(&mut self, now: Instant, message: &Bytes) {
        record!(self, Some(now), MachineStep::Message(TracedFrame::whole(message)));
        if self.framing.hold_message(message, None).is_err() {
            self.handle_whole(now, message);
        }
    }

    /// Handles the end of the channel; `detail` is a human-readable description by the transport and may be empty.
    pub fn handle_eof(&mut self, now: Instant, detail: &str) {
        record!(self, Some(now), MachineStep::Eof(detail.to_owned()));
        if !self.framing.hold_end(detail) {
            self.run(now, |peer, out| peer.handle_closed(now, detail, out));
        }
    }

    /// Returns the next message to send.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        self.waiting_since = None;
        let taken = self.framing.take();
        self.peer.handle_transmitted(self.framing.queued());
        record!(self, None, MachineStep::Transmit(taken.as_deref().map(TracedFrame::whole)));
        taken
    }
}

impl<P: Machine, F: Framing> Passage for Transport<P, F> {
    fn hold(&mut self) {
        record!(self, None, MachineStep::Hold);
        self.framing.hold();
    }

    fn stop_holding(&mut self) -> bool {
        record!(self, None, MachineStep::StopHolding);
        self.framing.stop_holding()
    }

    fn poll_held(&mut self) -> Option<HeldPiece> {
        let held = self.framing.poll_held();
        record!(self, None, MachineStep::held(held.as_ref()));
        held
    }

    fn release(&mut self, now: Instant, held: HeldPiece) {
        record!(self, Some(now), MachineStep::Release(json(&held)));
        match held {
            HeldPiece::Received(line, charge) => {
                self.peer.charge_message(charge);
                self.handle_line(now, &line);
                self.peer.charge_message(None);
            }
            HeldPiece::End(detail) => self.run(now, |peer, out| peer.handle_closed(now, &detail, out)),
            output => self.framing.release_output(output),
        }
    }
}

debug_fields! { [P: fmt::Debug, F] Transport<P, F> { peer } }

// --- The client role ---

/// A client on a byte stream: a child process, a pipe or a socket.
///
/// ```
/// use bytes::Bytes;
/// use mcp_proto::Instant;
/// use mcp_proto::transport::StreamClient;
/// use mcp_proto::peer::client::{ClientConfig, LinkAction};
/// use mcp_proto::schema::Implementation;
///
/// let now = Instant::ORIGIN;
/// let mut client = StreamClient::new(ClientConfig::new(Implementation::new("host", "1.0")));
/// assert_eq!(client.poll_link(), Some(LinkAction::Open));
/// client.handle_open(now);
///
/// let mut out = Vec::new();
/// assert!(client.poll_transmit(&mut out));
/// assert!(out.ends_with(b"\n"), "the era probe, as one line");
/// client.handle_input(now, Bytes::from_static(b"a banner that is no message\n"));
/// ```
#[cfg(feature = "client")]
pub type StreamClient = Transport<Client, Newline>;

/// A client on a channel of whole messages, such as WebSocket frames or an in-process queue.
#[cfg(feature = "client")]
pub type ChannelClient = Transport<Client, MessageFraming>;

#[cfg(feature = "client")]
impl<F: Framing> Transport<Client, F> {
    /// Creates a client. Its first [`poll_link`](Self::poll_link) requests the connection.
    pub fn new(config: ClientConfig) -> Self {
        #[cfg(feature = "trace-file")]
        let recorder = config
            .recorder
            .as_ref()
            .map(|recorder| recorder.begin(None, MachineOrigin::new(F::CLIENT, &config)));
        Self {
            #[cfg(feature = "trace-file")]
            recorder,
            ..Self::with(Client::new(config))
        }
    }

    /// Returns the client's commands, executed at `now`.
    pub fn at(&mut self, now: Instant) -> ClientCommands<'_> {
        ClientCommands::new(self, now)
    }

    // --- Inputs ---

    //= F58 "Ready once open"
    /// Handles the opening of the requested connection.
    ///
    /// Call it before anything is read from the connection or written to it.
    pub fn handle_open(&mut self, now: Instant) {
        record!(self, Some(now), MachineStep::Open);
        self.framing.clear();
        self.run(now, |client, out| client.handle_open(now, out));
    }

    /// Handles the failure to open the requested connection; `detail` is a human-readable reason.
    pub fn handle_open_failed(&mut self, detail: &str) {
        record!(self, None, MachineStep::OpenFailed(detail.to_owned()));
        self.peer.handle_open_failed(detail);
    }

    /// Handles the refusal to open the requested connection by an exchange, such as the upgrade to a WebSocket.
    ///
    /// `during` names the exchange, and `error` is how it ended. The client closes with
    /// [`ConnectError::Transport`](crate::peer::client::ConnectError::Transport).
    pub fn handle_open_refused(&mut self, during: &'static str, error: TransportError) {
        record!(self, None, MachineStep::Unrecorded { what: during.to_owned() });
        self.peer.handle_open_refused(during, error);
    }

    // --- Outputs ---

    /// Returns whether to open or close the connection.
    ///
    /// [`LinkAction::CloseWrite`] is returned only when no output is queued.
    ///
    /// After [`LinkAction::Open`] the timeout of connecting runs from the next call that carries the time: a driver that
    /// opens the connection in the background calls [`handle_timeout`](Self::handle_timeout) before it waits.
    #[must_use]
    pub fn poll_link(&mut self) -> Option<LinkAction> {
        let action = self.peer.poll_link(self.framing.queued() == 0);
        if action == Some(LinkAction::Open) {
            // Output for the previous connection must not be sent on this one.
            self.framing.clear();
        }
        #[cfg(feature = "trace-file")]
        if let Some(action) = action {
            record!(self, None, MachineStep::Link(alloc::format!("{action:?}")));
        }
        action
    }

    // --- Getters ---

    /// Returns the state of the connection.
    pub fn state(&self) -> State {
        self.peer.state()
    }
}

#[cfg(feature = "client")]
impl<F: Framing> ClientTransport for Transport<Client, F> {
    fn peer(&self) -> &Client {
        &self.peer
    }

    fn handle_timeout(&mut self, now: Instant) {
        Self::handle_timeout(self, now);
    }

    fn poll_event(&mut self) -> Option<client::Event> {
        Self::poll_event(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Self::poll_timeout(self)
    }

    fn lend(&mut self, _: Instant) -> ClientLoan<'_> {
        ClientLoan {
            client: &mut self.peer,
            outbox: &mut self.framing,
            #[cfg(feature = "trace-file")]
            recorder: self.recorder.as_ref(),
        }
    }

    fn settle(&mut self, now: Instant) {
        Self::settle(self, now);
    }

    fn abort(&mut self, _: Instant, why: LostReason) {
        self.peer.abort(client::CloseReason::Lost(why));
        self.framing.clear();
    }

    fn passage(&mut self) -> Option<&mut dyn Passage> {
        Some(self)
    }
}

// --- The server role ---

/// A server on a byte stream: its own standard streams, a pipe or a socket.
///
/// ```
/// use bytes::Bytes;
/// use mcp_proto::Instant;
/// use mcp_proto::transport::StreamServer;
/// use mcp_proto::peer::server::{Answer, Event, ServerConfig};
/// use mcp_proto::schema::{Implementation, ListToolsResult, ServerCapability, List};
///
/// let now = Instant::ORIGIN;
/// let mut config = ServerConfig::new(Implementation::new("demo", "1.0"));
/// config.capabilities = config.capabilities.with(ServerCapability::Tools);
/// let mut server = StreamServer::new(config);
///
/// server.handle_input(now, Bytes::from_static(concat!(
///     r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"#,
///     r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
///     r#""io.modelcontextprotocol/clientCapabilities":{}}}}"#, "\n",
/// ).as_bytes()));
/// while let Some(event) = server.poll_event() {
///     if let Event::Request { id, .. } = event {
///         server.at(now).respond(id, Answer::Result(&ListToolsResult::new(List::new())));
///     }
/// }
/// let mut out = Vec::new();
/// assert!(server.poll_transmit(&mut out));
/// ```
///
/// # A client that reads slowly
///
/// While more than [`Limits::queued_bytes`](crate::Limits::queued_bytes) of answers are queued, further requests are deferred in order and reported
/// only later. Responses, cancellations, progress and pings are handled at once; the cancellation of a deferred request
/// removes it. When the client has taken enough, [`poll_timeout`](Transport::poll_timeout) is due at once and the
/// deferred requests are dispatched. Once they fill [`Limits::message_bytes`](crate::Limits::message_bytes), [`wants_read`](Transport::wants_read) is
/// false. If the client takes no output at all, the connection ends after [`ServerConfig::write_timeout`].
#[cfg(feature = "server")]
pub type StreamServer = Transport<Server, Newline>;

/// A server on a channel of whole messages, such as WebSocket frames or an in-process queue.
#[cfg(feature = "server")]
pub type ChannelServer = Transport<Server, MessageFraming>;

#[cfg(feature = "server")]
impl<F: Framing> Transport<Server, F> {
    /// Creates a server that waits for the client's first message.
    pub fn new(config: impl Into<Arc<ServerConfig>>) -> Self {
        let config = config.into();
        #[cfg(feature = "trace-file")]
        let (config, recorder) = match &config.recorder {
            Some(recorder) => {
                let mut origin = MachineOrigin::new(F::SERVER, &*config);
                origin.missing.extend(config.unwritten());
                let recorder = recorder.begin(None, origin);
                (config.recorded(&recorder), Some(recorder))
            }
            None => (config, None),
        };
        Self {
            #[cfg(feature = "trace-file")]
            recorder,
            ..Self::with(Server::new(config))
        }
    }

    /// Returns the server's commands, executed at `now`.
    pub fn at(&mut self, now: Instant) -> ServerCommands<'_> {
        ServerCommands::new(self, now)
    }
}

#[cfg(all(feature = "server", feature = "std", feature = "http"))]
impl ChannelServer {
    /// Handles a whole message that is charged to a byte budget until all its requests are answered. If the budget has
    /// no room for it, its requests are refused.
    pub(crate) fn handle_charged(
        &mut self,
        now: Instant,
        message: &Bytes,
        charged: Result<crate::quota::BytePermit, crate::quota::OverBudgetError>,
    ) {
        #[cfg(feature = "trace-file")]
        let step = match &charged {
            Ok(_) => MachineStep::Message(TracedFrame::whole(message)),
            Err(_) => MachineStep::Unrecorded { what: "a byte budget that is used up".to_owned() },
        };
        record!(self, Some(now), step);
        if let Err(charged) = self.framing.hold_message(message, Some(charged)) {
            self.peer.charge_message(charged);
            self.handle_whole(now, message);
            self.peer.charge_message(None);
        }
    }
}

#[cfg(feature = "server")]
impl<F: Framing> ServerTransport for Transport<Server, F> {
    fn peer(&self) -> &Server {
        &self.peer
    }

    fn handle_timeout(&mut self, now: Instant) {
        Self::handle_timeout(self, now);
    }

    fn poll_event(&mut self) -> Option<server::Event> {
        Self::poll_event(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Self::poll_timeout(self)
    }

    fn is_congested(&self) -> bool {
        self.queued() > self.peer.config().limits.queued_bytes
    }

    fn lend(&mut self, _: Instant) -> ServerLoan<'_> {
        ServerLoan {
            server: &mut self.peer,
            outbox: &mut self.framing,
            #[cfg(feature = "trace-file")]
            recorder: self.recorder.as_ref(),
        }
    }

    fn settle(&mut self, now: Instant) {
        Self::settle(self, now);
    }

    fn abort(&mut self, _: Instant, why: LostReason) {
        self.peer.abort(server::CloseReason::Lost(why));
        self.framing.clear();
    }

    fn passage(&mut self) -> Option<&mut dyn Passage> {
        Some(self)
    }
}
