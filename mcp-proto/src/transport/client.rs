//! The client role on a stream or a channel.

use alloc::string::String;
use core::time::Duration;

use crate::peer::client::{
    CacheContext, Client, ClientConfig, CloseReason, ConnectProgress, KnownEra, LinkAction, ServerInfo,
    State, TaskCommand, WatchFilter, WatchId, WatchStart,
};
use crate::peer::{
    AnyParams, AnyResult, InboundId, LostReason, Outbox, OutgoingRequest, RequestError, RequestId,
    RequestOptions,
};
use crate::rpc::{ErrorObject, Frame, Malformed};
use crate::schema::{Method, Notification};
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

    // --- Commands ---

    /// Asks the server. Before the connection is ready the request waits, and its time runs.
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

    /// Asks the server, where the method is not known at compile time.
    ///
    /// # Errors
    /// If it can not be sent; nothing has changed then.
    pub fn send(&mut self, now: Instant, request: OutgoingRequest<'_>) -> Result<RequestId, RequestError> {
        self.run(now, |client, out| client.send(now, request, out))
    }

    /// Follows a task, asks for it or gives it up, by its identifier alone. Before the connection is ready this waits.
    ///
    /// # Errors
    /// If it can not be done; nothing has changed then.
    pub fn task(
        &mut self,
        now: Instant,
        id: &str,
        command: TaskCommand,
        options: RequestOptions,
    ) -> Result<RequestId, RequestError> {
        self.run(now, |client, out| client.task(now, id, command, options, out))
    }

    /// Tells the server something.
    ///
    /// # Errors
    /// If it can not be sent now.
    pub fn notify<N: Notification>(&mut self, now: Instant, params: &N::Params) -> Result<(), RequestError> {
        self.run(now, |client, out| client.notify::<N>(params, out))
    }

    /// Tells the server something, where the notification is not known at compile time.
    ///
    /// # Errors
    /// If it can not be sent now.
    pub fn notify_custom(
        &mut self,
        now: Instant,
        method: &str,
        params: &dyn AnyParams,
    ) -> Result<(), RequestError> {
        self.run(now, |client, out| client.notify_custom(method, params, out))
    }

    /// Stops waiting for a request, and tells the server so.
    pub fn cancel(&mut self, now: Instant, request: RequestId, reason: Option<&str>) {
        self.run(now, |client, out| client.cancel(now, request, reason, out));
    }

    /// Sends a request again at once that pauses before it does, because it was answered by asking for input.
    pub fn retry(&mut self, now: Instant, request: RequestId) {
        self.run(now, |client, out| client.retry(now, request, out));
    }

    /// Asks to be told of changes: see [`Client::watch`](crate::peer::client::Client::watch).
    ///
    /// # Errors
    /// If the connection is closed, or closing.
    pub fn watch(
        &mut self,
        now: Instant,
        interest: WatchFilter,
        since: WatchStart,
    ) -> Result<WatchId, RequestError> {
        self.run(now, |client, out| client.watch(now, interest, since, out))
    }

    /// Changes what a watch is interested in, without a gap.
    pub fn set_watch_filter(&mut self, now: Instant, watch: WatchId, interest: WatchFilter) {
        self.run(now, |client, out| client.set_watch_filter(now, watch, interest, out));
    }

    /// Ends a watch.
    pub fn unwatch(&mut self, now: Instant, watch: WatchId) {
        self.run(now, |client, out| client.unwatch(now, watch, out));
    }

    /// Answers what the server asks for: by a request (legacy revisions), or before it finishes one of this side's.
    pub fn respond(&mut self, now: Instant, request: InboundId, answer: Result<&dyn AnyResult, ErrorObject>) {
        self.run(now, |client, out| client.respond(now, request, answer, out));
    }

    /// Makes requests on behalf of another from now on: see
    /// [`Client::set_cache_context`](crate::peer::client::Client::set_cache_context).
    pub fn set_cache_context(&mut self, context: CacheContext) {
        self.peer.set_cache_context(context);
    }

    /// Ends the authorization context: see
    /// [`Client::end_cache_context`](crate::peer::client::Client::end_cache_context).
    pub fn end_cache_context(&mut self) {
        self.peer.end_cache_context();
    }

    /// Forgets every answer that was kept.
    pub fn clear_cache(&mut self) {
        self.peer.clear_cache();
    }

    /// Reports a deviation of the server, if the configuration tolerates deviations: returns whether it does.
    #[cfg(feature = "std")]
    pub(crate) fn tolerate(&mut self, leniency: crate::peer::Leniency) -> bool {
        self.peer.tolerate(leniency)
    }

    /// Closes in an orderly way: lets requests in flight finish for a while, then ends the link.
    pub fn close(&mut self, now: Instant) {
        self.run(now, |client, out| client.close(now, out));
    }

    /// Ends everything at once.
    pub fn abort(&mut self, why: LostReason) {
        self.peer.abort(CloseReason::Lost(why));
        self.framing.clear();
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

    /// What is known of the server, once the client is ready.
    pub fn server(&self) -> Option<&ServerInfo> {
        self.peer.server()
    }

    /// The last report on connecting; `None` once the client is ready, or closed.
    pub fn connecting(&self) -> Option<&ConnectProgress> {
        self.peer.connecting()
    }

    /// The watches, with what they are interested in; the connection may be over.
    pub fn watches(&self) -> impl Iterator<Item = (WatchId, &WatchFilter)> {
        self.peer.watches()
    }

    /// What this connection found out about the server's era, for the next connection to the same server.
    pub fn known_era(&self) -> Option<KnownEra> {
        self.peer.known_era()
    }
}

impl Peer for Client {
    type Event = crate::peer::client::Event;

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
