//! The client role on a byte stream or a message channel.

use crate::Instant;
use crate::peer::client::{
    Client, ClientCommands, ClientConfig, ClientLoan, ClientTransport, CloseReason, Event, LinkAction, State,
};
use crate::peer::passage::Passage;
use crate::peer::{LostReason, Machine as _, TransportError};

use super::{Framing, MessageFraming, Newline, Transport};

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
pub type StreamClient = Transport<Client, Newline>;

/// A client on a channel of whole messages, such as WebSocket frames or an in-process queue.
pub type ChannelClient = Transport<Client, MessageFraming>;

impl<F: Framing> Transport<Client, F> {
    /// Creates a client. Its first [`poll_link`](Self::poll_link) requests the connection.
    pub fn new(config: ClientConfig) -> Self {
        Self::with(Client::new(config))
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
        self.framing.clear();
        self.run(now, |client, out| client.handle_open(now, out));
    }

    /// Handles the failure to open the requested connection; `detail` is a human-readable reason.
    pub fn handle_open_failed(&mut self, detail: &str) {
        self.peer.handle_open_failed(detail);
    }

    /// Handles the refusal to open the requested connection by an exchange, such as the upgrade to a WebSocket.
    ///
    /// `during` names the exchange, and `error` is how it ended. The client closes with
    /// [`ConnectError::Transport`](crate::peer::client::ConnectError::Transport).
    pub fn handle_open_refused(&mut self, during: &'static str, error: TransportError) {
        self.peer.handle_open_refused(during, error);
    }

    // --- Outputs ---

    /// Returns whether to open or close the connection.
    ///
    /// [`LinkAction::CloseWrite`] is returned only when no output is queued.
    #[must_use]
    pub fn poll_link(&mut self) -> Option<LinkAction> {
        let action = self.peer.poll_link(self.framing.queued() == 0);
        if action == Some(LinkAction::Open) {
            // Output for the previous connection must not be sent on this one.
            self.framing.clear();
        }
        action
    }

    // --- Getters ---

    /// Returns the state of the connection.
    pub fn state(&self) -> State {
        self.peer.state()
    }
}

impl<F: Framing> ClientTransport for Transport<Client, F> {
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

    fn passage(&mut self) -> Option<&mut dyn Passage> {
        Some(self)
    }
}
