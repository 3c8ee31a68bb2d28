//! The server role on a byte stream or a message channel.

use alloc::sync::Arc;

use crate::Instant;
#[cfg(all(feature = "std", feature = "http"))]
use crate::codec::Line;
#[cfg(all(feature = "std", feature = "http"))]
use crate::peer::passage::HeldPiece;
use crate::peer::passage::Passage;
use crate::peer::server::{
    CloseReason, Event, Server, ServerCommands, ServerConfig, ServerLoan, ServerTransport,
};
use crate::peer::{LostReason, Machine as _};

use super::{Framing, MessageFraming, Newline, Transport};

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
pub type StreamServer = Transport<Server, Newline>;

/// A server on a channel of whole messages, such as WebSocket frames or an in-process queue.
pub type ChannelServer = Transport<Server, MessageFraming>;

impl<F: Framing> Transport<Server, F> {
    /// Creates a server that waits for the client's first message.
    pub fn new(config: impl Into<Arc<ServerConfig>>) -> Self {
        Self::with(Server::new(config))
    }

    /// Returns the server's commands, executed at `now`.
    pub fn at(&mut self, now: Instant) -> ServerCommands<'_> {
        ServerCommands::new(self, now)
    }
}

#[cfg(all(feature = "std", feature = "http"))]
impl ChannelServer {
    /// Handles a whole message that is charged to a byte budget until all its requests are answered. If the budget has
    /// no room for it, its requests are refused.
    pub(crate) fn handle_charged(
        &mut self,
        now: Instant,
        message: &bytes::Bytes,
        charged: Result<crate::quota::BytePermit, crate::quota::OverBudgetError>,
    ) {
        if let Err(charged) = self.framing.hold_message(message, Some(charged)) {
            self.release(now, HeldPiece::Received(Line::Whole(message.clone()), charged));
        }
    }
}

impl<F: Framing> ServerTransport for Transport<Server, F> {
    fn peer(&self) -> &Server {
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

    fn is_congested(&self) -> bool {
        self.queued() > self.peer.config().limits.queued_bytes
    }

    fn lend(&mut self, _: Instant) -> ServerLoan<'_> {
        ServerLoan { server: &mut self.peer, outbox: &mut self.framing }
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
