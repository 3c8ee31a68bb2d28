//! The server role on a stream or a channel.

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use crate::peer::server::{Answer, CloseReason, Event, ListKind, Server, ServerConfig, Session};
use crate::peer::{
    AnyParams, InboundId, LostReason, Outbox, OutgoingRequest, Principal, RequestError, RequestId,
    RequestOptions,
};
use crate::rpc::{Frame, Malformed};
use crate::schema::tasks::TaskUpdatedParams;
use crate::schema::{LoggingMessageParams, Method, NotificationInfo, ProgressParams};
use crate::{Instant, Limits};

use super::{Framing, MessageFraming, Newline, Peer, Transport};

/// A server on a byte stream: its own standard streams, a pipe, a socket.
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
///         server.respond(now, id, Answer::Result(&ListToolsResult::new(List::new())));
///     }
/// }
/// let mut out = Vec::new();
/// assert!(server.poll_transmit(&mut out));
/// ```
///
/// # A client that reads slowly
///
/// While more than [`Limits::queued_bytes`] of answers wait to be sent, further requests are held in order and become no
/// events. Responses, cancellations, progress and pings are handled at once; the cancellation of a held request removes it.
/// When the client has taken enough, [`poll_timeout`](Transport::poll_timeout) is due at once and the held requests go on.
/// Once they fill [`Limits::message_bytes`], [`wants_read`](Transport::wants_read) is false. A client that takes nothing ends
/// the connection after [`ServerConfig::write_timeout`].
pub type StreamServer = Transport<Server, Newline>;

/// A server on a channel of whole messages: WebSocket frames, a queue.
pub type ChannelServer = Transport<Server, MessageFraming>;

impl<F: Framing> Transport<Server, F> {
    /// A server that waits for its client to begin.
    pub fn new(config: impl Into<Arc<ServerConfig>>) -> Self {
        Self::with(Server::new(config))
    }

    // --- Commands ---

    /// Says on whose behalf the client asks, as the transport has verified it: by the credentials of a socket's other
    /// end, say.
    pub fn set_principal(&mut self, principal: Option<Principal>) {
        self.peer.set_principal(principal);
    }

    /// Answers a request. One that was answered or cancelled already is left alone.
    pub fn respond(&mut self, now: Instant, request: InboundId, answer: Answer<'_>) {
        self.run(now, |server, out| server.respond(request, answer, out));
    }

    /// Reports progress on a request. Returns whether it was sent.
    pub fn progress(&mut self, now: Instant, request: InboundId, params: &ProgressParams) -> bool {
        self.run(now, |server, out| server.progress(request, params, out))
    }

    /// Logs, on behalf of a request or of the connection. Returns whether it was sent.
    pub fn log(&mut self, now: Instant, request: Option<InboundId>, params: &LoggingMessageParams) -> bool {
        self.run(now, |server, out| server.log(request, params, out))
    }

    /// Tells those who asked that a list has changed.
    pub fn list_changed(&mut self, now: Instant, list: ListKind) {
        self.run(now, |server, out| server.list_changed(now, list, out));
    }

    /// Tells those who asked that a resource has changed.
    pub fn resource_updated(&mut self, now: Instant, uri: &str) {
        self.run(now, |server, out| server.resource_updated(now, uri, out));
    }

    /// Tells those who listen for a task how it is doing (the tasks extension). Returns whether anybody was told.
    pub fn task_updated(&mut self, now: Instant, params: &TaskUpdatedParams) -> bool {
        self.run(now, |server, out| server.task_updated(params, out))
    }

    /// Tells the client of a legacy session something that belongs to no request which is still open. Returns whether it
    /// was sent.
    pub fn notify_session(
        &mut self,
        now: Instant,
        info: &'static NotificationInfo,
        params: &dyn AnyParams,
    ) -> bool {
        self.run(now, |server, out| server.notify_session(info, params, out))
    }

    /// Tells the client that the person is done with a page on the web (2025-11-25). Returns whether it was sent.
    pub fn elicitation_complete(&mut self, now: Instant, id: &str) -> bool {
        self.run(now, |server, out| server.elicitation_complete(id, out))
    }

    /// Asks the client (legacy revisions).
    ///
    /// # Errors
    /// If it can not be sent; nothing has changed then.
    pub fn request<M: Method>(
        &mut self,
        now: Instant,
        params: &M::Params,
        options: RequestOptions,
    ) -> Result<RequestId, RequestError> {
        self.send(now, OutgoingRequest::new::<M>(params, options))
    }

    /// Asks the client, where the method is not known at compile time.
    ///
    /// # Errors
    /// If it can not be sent; nothing has changed then.
    pub fn send(&mut self, now: Instant, request: OutgoingRequest<'_>) -> Result<RequestId, RequestError> {
        self.run(now, |server, out| server.request(now, None, request, out))
    }

    /// Stops waiting for a request of this side, and tells the client so.
    pub fn cancel(&mut self, now: Instant, request: RequestId, reason: Option<&str>) {
        self.run(now, |server, out| server.cancel(request, reason, out));
    }

    /// Closes in an orderly way: ends subscriptions, and lets requests in flight finish for a while.
    pub fn close(&mut self, now: Instant) {
        self.run(now, |server, out| server.close(now, out));
    }

    /// Ends everything at once.
    pub fn abort(&mut self, why: LostReason) {
        self.peer.abort(CloseReason::Lost(why));
        self.framing.clear();
    }

    // --- Getters ---

    /// The legacy session, once a client has opened one.
    pub fn session(&self) -> Option<&Session> {
        self.peer.session()
    }
}

impl Peer for Server {
    type Event = Event;

    fn handle_frame(&mut self, now: Instant, frame: Frame, out: &mut dyn Outbox) {
        Server::handle_frame(self, now, frame, out);
    }

    fn handle_malformed(&mut self, _: Instant, malformed: Malformed, out: &mut dyn Outbox) {
        Server::handle_malformed(self, malformed, out);
    }

    fn handle_closed(&mut self, now: Instant, detail: &str, out: &mut dyn Outbox) {
        Server::handle_closed(self, now, detail, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut dyn Outbox) {
        Server::handle_timeout(self, now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Server::poll_timeout(self)
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        Server::poll_event(self)
    }

    fn wants_read(&self) -> bool {
        Server::wants_read(self)
    }

    fn dispatch_deferred(&mut self, now: Instant, out: &mut dyn Outbox) {
        Server::release(self, now, out);
    }

    fn handle_transmitted(&mut self, queued: usize) {
        Server::handle_transmitted(self, queued);
    }

    fn fail(&mut self, why: String) {
        Server::fail(self, why);
    }

    fn is_closed(&self) -> bool {
        Server::is_closed(self)
    }

    fn limits(&self) -> &Limits {
        &self.config().limits
    }

    fn write_timeout(&self) -> Duration {
        self.config().write_timeout
    }
}
