//! The client role on a stream or a channel.

use alloc::string::String;
use core::time::Duration;

use crate::peer::client::{
    Client, ClientCommands, ClientConfig, ClientLoan, ClientTransport, CloseReason, Event, LinkAction, State,
};
use crate::peer::{LostReason, Outbox};
use crate::rpc::{Frame, Malformed};
use crate::{Instant, Limits};

use super::{Framing, MessageFraming, Newline, Peer, Transport};

/// A client on a byte stream: a child process, a pipe, a socket.
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
pub type StreamClient = Transport<Client, Newline>;

/// A client on a channel of whole messages: WebSocket frames, a queue.
pub type ChannelClient = Transport<Client, MessageFraming>;

impl<F: Framing> Transport<Client, F> {
    /// A client that has not asked for its link yet.
    pub fn new(config: ClientConfig) -> Self {
        Self::with(Client::new(config))
    }

    /// The commands, given at `now`.
    pub fn at(&mut self, now: Instant) -> ClientCommands<'_> {
        ClientCommands::new(self, now)
    }

    // --- Inputs ---

    /// The link that was asked for is open, and nothing has been read from it or written to it.
    pub fn handle_open(&mut self, now: Instant) {
        self.framing.clear();
        self.run(now, |client, out| client.handle_open(now, out));
    }

    /// The link that was asked for could not be opened; `detail` says why, for people.
    pub fn handle_open_failed(&mut self, detail: &str) {
        self.peer.handle_open_failed(detail);
    }

    // --- Outputs ---

    /// What to do with the link. [`LinkAction::CloseWrite`] comes only when nothing waits to be sent any more.
    #[must_use]
    pub fn poll_link(&mut self) -> Option<LinkAction> {
        let action = self.peer.poll_link(self.framing.queued() == 0);
        if action == Some(LinkAction::Open) {
            // What was written for the link before must not go out on this one.
            self.framing.clear();
        }
        action
    }

    // --- Getters ---

    /// How far the connection has come.
    pub fn state(&self) -> State {
        self.peer.state()
    }
}

impl<F: Framing> ClientTransport for Transport<Client, F> {
    fn at(&mut self, now: Instant) -> ClientCommands<'_> {
        ClientCommands::new(self, now)
    }

    fn peer(&self) -> &Client {
        &self.peer
    }

    fn handle_timeout(&mut self, now: Instant) {
        Self::handle_timeout(self, now);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.peer.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Self::poll_timeout(self)
    }

    fn lend(&mut self, _: Instant) -> ClientLoan<'_> {
        ClientLoan { client: &mut self.peer, outbox: &mut self.framing }
    }

    fn settle(&mut self, now: Instant) {
        Self::settle(self, now);
    }

    fn abort(&mut self, _: Instant, why: LostReason) {
        self.peer.abort(CloseReason::Lost(why));
        self.framing.clear();
    }
}

impl Peer for Client {
    type Event = Event;

    fn handle_frame(&mut self, now: Instant, frame: Frame, out: &mut dyn Outbox) {
        Client::handle_frame(self, now, frame, out);
    }

    fn handle_malformed(&mut self, now: Instant, malformed: Malformed, out: &mut dyn Outbox) {
        Client::handle_malformed(self, now, malformed, out);
    }

    fn handle_closed(&mut self, now: Instant, detail: &str, out: &mut dyn Outbox) {
        Client::handle_closed(self, now, detail, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut dyn Outbox) {
        Client::handle_timeout(self, now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Client::poll_timeout(self)
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        Client::poll_event(self)
    }

    fn wants_read(&self) -> bool {
        Client::wants_read(self)
    }

    fn fail(&mut self, why: String) {
        self.abort(CloseReason::Lost(LostReason::Failed(why)));
    }

    fn is_closed(&self) -> bool {
        Client::is_closed(self)
    }

    fn limits(&self) -> &Limits {
        &self.config().limits
    }

    fn write_timeout(&self) -> Duration {
        self.config().write_timeout
    }
}
