//! WebSocket connections: the upgrade of an HTTP/1.1 connection, and its messages afterwards.

mod embedded;

use std::borrow::Cow;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use async_tungstenite::tungstenite::handshake::server::create_response_with_body;
use async_tungstenite::tungstenite::protocol::{Role, frame::coding::CloseCode};
use futures_lite::{AsyncRead, AsyncWrite};
use http::request::Parts;
use http::{Method, Request, header};
use hyper::upgrade::OnUpgrade;
use mcp_proto::adapter::Clock as _;
use mcp_proto::front::http::{HttpChannel, HttpExchange};
use mcp_proto::front::{Attachments, HandlerMode};
use mcp_proto::peer::server::CloseReason;
use mcp_proto::peer::{LostReason, Principal};
use mcp_proto::quota::QuotaOwner;
use mcp_proto::transport::http::server::{HttpResponse, RequestHead, ResponseHeaders};
use mcp_proto::transport::tool_frames::request_of;

use self::embedded::EmbeddedWebSocket;
pub(super) use self::embedded::{EmbeddedWebSockets, UpgradeQueue};
use super::connection::ConnectionError;
use super::monitor::{ConnectionMonitor, ExchangeGuard};
use super::options::ServerOptions;
use super::service::ServiceState;
use crate::time::{Alarm, RuntimeClock};
use crate::websocket::{Channel, ChannelEvent, PingPolicy, SUBPROTOCOL};

/// Maximum rounds of a connection before it lets other tasks run.
const ROUNDS: usize = 4;
/// Maximum number of messages that a connection reads or writes in each round.
const TURN: usize = 32;

/// Whether a server accepts WebSocket connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WebSocketOptions {
    accepts: bool,
    /// Whether clients may send tool frames.
    tool_frames: bool,
}

impl<H: HandlerMode> ServerOptions<H> {
    /// Accepts WebSocket connections at the path of the MCP endpoint, besides HTTP. Default: they are refused.
    ///
    /// The upgrade is checked like any request: its `Host` and `Origin`, its token where the server is protected, and
    /// the [request rate](Self::request_rate), which then applies to the connection's messages. The subprotocol is
    /// `mcp`; frames are not compressed. Each text message holds one JSON-RPC message of at most
    /// [`body_bytes`](mcp_proto::transport::http::server::HttpServerConfig::body_bytes).
    ///
    /// A connection is one peer of either era, as on standard input and output: there is no `Mcp-Session-Id`, and
    /// nothing outlives the connection but tasks. The server sends pings to a silent client, as
    /// [`ping_interval`](super::ServerLimits::ping_interval) says. It closes a connection with code
    ///
    /// | Code | Reason |
    /// |---|---|
    /// | 1000 | the client closed it |
    /// | 1001 | the server closes, or the connection has reached its [lifetime](crate::ServerLimits::lifetime) |
    /// | 1002, 1003, 1007 | the client sent an invalid frame, a binary message, or text that is not UTF-8 |
    /// | 1008 | the access token has expired, or was revoked (`Guard::reverify_every`) |
    /// | 1009 | the client sent a message that is too long |
    /// | 1011 | the server failed |
    /// | 1013 | the [byte budget](mcp_proto::transport::http::server::HttpServerConfig::byte_limits) has no room for a long message |
    ///
    /// A request for which the byte budget has no room is answered with an error. A token that is no longer valid ends
    /// the connection's subscriptions first; calls in progress are not answered.
    ///
    /// Upgrades need HTTP/1.1. Where another server calls the [`HttpService`](super::HttpService), as axum does, hyper
    /// must serve the connection [`with_upgrades`](hyper::server::conn::http1::Connection::with_upgrades), and the
    /// [`ServiceDriver`](super::ServiceDriver) serves the WebSocket. Such a connection counts towards
    /// [`ServerLimits::connections`](super::ServerLimits::connections) from its upgrade on, which is answered 503 where a
    /// listener would not accept the connection.
    ///
    /// ```
    /// use mcp_hyper::ServerOptions;
    /// use mcp_hyper::mcp_proto::front::Router;
    ///
    /// let options = ServerOptions::new(Router::new("notes", "1.0.0")).websocket();
    /// # drop(options);
    /// ```
    pub fn websocket(mut self) -> Self {
        self.websocket.accepts = true;
        self
    }

    /// Accepts [WebSocket connections](Self::websocket) whose clients may send
    /// [tool frames](mcp_proto::transport::tool_frames), `{"id", "name", "arguments"}`, besides the messages of MCP.
    /// Such a call is answered as one of 2026-07-28. The router must serve that revision.
    pub fn tool_frames(mut self) -> Self {
        self.websocket.tool_frames = true;
        self.websocket()
    }
}

/// The place where the channel of an upgraded connection waits for HTTP to end.
pub(super) struct UpgradeSlot<H: HandlerMode>(Arc<Mutex<Option<HttpChannel<H>>>>);

impl<H: HandlerMode> Clone for UpgradeSlot<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H: HandlerMode> Default for UpgradeSlot<H> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<H: HandlerMode> UpgradeSlot<H> {
    pub(super) fn take(&self) -> Option<HttpChannel<H>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, channel: HttpChannel<H>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(channel);
    }
}

/// A request to become a WebSocket.
pub(super) struct Upgrade<H: HandlerMode> {
    connection: UpgradedConnection<H>,
    handshake: Result<ResponseHeaders, HttpResponse>,
}

/// The connection to upgrade.
enum UpgradedConnection<H: HandlerMode> {
    /// A connection of this crate, which takes the channel from the slot.
    Own(UpgradeSlot<H>),
    /// A connection of another server, which hyper hands over.
    Embedded(OnUpgrade),
}

impl<H: HandlerMode> Upgrade<H> {
    /// The upgrade that a request asks for on a connection of this crate, if the server accepts any.
    pub(super) fn on_connection(
        slot: &UpgradeSlot<H>,
        options: WebSocketOptions,
        parts: &Parts,
    ) -> Option<Self> {
        let is_upgrade = is_upgrade(options, parts);
        is_upgrade
            .then(|| Self { connection: UpgradedConnection::Own(slot.clone()), handshake: handshake(parts) })
    }

    /// The upgrade that a request asks for on a connection of another server, if both servers accept any.
    pub(super) fn on_embedded(options: WebSocketOptions, parts: &mut Parts) -> Option<Self> {
        if !is_upgrade(options, parts) {
            return None;
        }
        let connection = UpgradedConnection::Embedded(parts.extensions.remove()?);
        Some(Self { connection, handshake: handshake(parts) })
    }

    /// The exchange that answers the request.
    pub(super) fn exchange(
        self,
        shared: &ServiceState<H>,
        head: &RequestHead<'_>,
        principal: Option<Principal>,
        attachments: Attachments,
    ) -> HttpExchange<H> {
        let Self { connection, handshake } = self;
        let handshake = connection.admit(shared, head).and(handshake);
        let (exchange, channel) = shared.server.upgrade(head, principal, attachments, handshake);
        connection.start(channel, shared, head);
        exchange
    }

    /// The exchange that answers a request whose token was verified.
    #[cfg(feature = "auth")]
    pub(super) fn exchange_for(
        self,
        shared: &ServiceState<H>,
        head: &RequestHead<'_>,
        authorized: mcp_proto::auth::server::GrantedAccess,
        attachments: Attachments,
    ) -> HttpExchange<H> {
        let Self { connection, handshake } = self;
        let handshake = connection.admit(shared, head).and(handshake);
        let (exchange, channel) = shared.server.upgrade_for(head, authorized, attachments, handshake);
        connection.start(channel, shared, head);
        exchange
    }
}

impl<H: HandlerMode> UpgradedConnection<H> {
    /// Whether the server has room for the connection. A connection of this crate is counted already.
    fn admit(&self, shared: &ServiceState<H>, head: &RequestHead<'_>) -> Result<(), HttpResponse> {
        let is_admitted = match self {
            Self::Own(_) => true,
            Self::Embedded(_) => shared.upgrades.is_open() && shared.registry.has_room(&owner(head)),
        };
        if is_admitted { Ok(()) } else { Err(HttpResponse::empty(503)) }
    }

    /// Passes the channel on to the task that serves it.
    fn start(self, channel: Option<HttpChannel<H>>, shared: &ServiceState<H>, head: &RequestHead<'_>) {
        let Some(channel) = channel else { return };
        match self {
            Self::Own(slot) => slot.put(channel),
            Self::Embedded(upgrade) => {
                shared.upgrades.push(EmbeddedWebSocket::new(upgrade, channel, shared, &owner(head)));
            }
        }
    }
}

/// The client that a connection counts for, as with a listener.
fn owner(head: &RequestHead<'_>) -> QuotaOwner {
    QuotaOwner::from_client(None, head.client)
}

/// Whether the server accepts WebSockets, and the request asks for one.
fn is_upgrade(options: WebSocketOptions, parts: &Parts) -> bool {
    let to = parts.headers.get(header::UPGRADE);
    let asks = to.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    options.accepts && asks && parts.method == Method::GET
}

/// Checks the handshake of RFC 6455, section 4.2.1; returns the headers of the answer, or the refusal.
fn handshake(parts: &Parts) -> Result<ResponseHeaders, HttpResponse> {
    let mut request = Request::new(());
    *request.method_mut() = parts.method.clone();
    *request.version_mut() = parts.version;
    *request.headers_mut() = parts.headers.clone();
    let refusal = || HttpResponse {
        headers: vec![("upgrade", "websocket".into()), ("sec-websocket-version", "13".into())],
        ..HttpResponse::empty(426)
    };
    let answer = create_response_with_body(&request, || ()).map_err(|_| refusal())?;
    let accept = answer.headers().get(header::SEC_WEBSOCKET_ACCEPT).and_then(|accept| accept.to_str().ok());
    let accept = accept.ok_or_else(refusal)?.to_owned();
    let mut headers: ResponseHeaders = vec![
        ("connection", Cow::Borrowed("upgrade")),
        ("upgrade", Cow::Borrowed("websocket")),
        ("sec-websocket-accept", Cow::Owned(accept)),
    ];
    let mut offered = false;
    for protocol in subprotocols(parts) {
        if protocol == SUBPROTOCOL.as_bytes() {
            headers.push(("sec-websocket-protocol", Cow::Borrowed("mcp")));
            return Ok(headers);
        }
        offered = true;
    }
    // RFC 6455 lets a client name no subprotocol.
    if offered { Err(HttpResponse::empty(400)) } else { Ok(headers) }
}

fn subprotocols(parts: &Parts) -> impl Iterator<Item = &[u8]> {
    let values = parts.headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

/// A connection that has become a WebSocket.
pub(super) struct WebSocket<Io, H: HandlerMode> {
    channel: Channel<Io>,
    front: HttpChannel<H>,
    tool_frames: bool,
    clock: Arc<RuntimeClock>,
    alarm: Alarm,
    /// Why the client ended the connection, if it violated the protocol.
    error: Option<String>,
    _exchange: ExchangeGuard,
}

impl<Io: AsyncRead + AsyncWrite + Unpin, H: HandlerMode> WebSocket<Io, H> {
    /// Takes over a connection on which `ahead` was read after the request.
    pub(super) fn start(
        io: Io,
        ahead: &[u8],
        front: HttpChannel<H>,
        options: WebSocketOptions,
        clock: Arc<RuntimeClock>,
        monitor: Arc<ConnectionMonitor>,
        cx: &mut Context<'_>,
    ) -> Option<Self> {
        let limits = monitor.limits();
        let pings = limits.ping_interval.map(|interval| PingPolicy::new(interval, limits.write_timeout));
        let opening = Channel::new(io, ahead, Role::Server, front.message_bytes(), pings, clock.now());
        let Poll::Ready(channel) = pin!(opening).poll(cx) else { return None };
        let (alarm, exchange) = (Alarm::default(), ExchangeGuard::new(monitor));
        let tool_frames = options.tool_frames;
        Some(Self { channel, front, tool_frames, clock, alarm, error: None, _exchange: exchange })
    }

    /// Lets requests in progress finish, then closes.
    pub(super) fn retire(&mut self) {
        self.front.close();
    }

    /// Serves the connection. Ready once it is closed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        for _ in 0..ROUNDS {
            let now = self.clock.now();
            self.channel.handle_timeout(now, self.front.wants_read());
            if self.channel.take_progress() {
                self.front.handle_written();
            }
            self.front.poll(cx);
            let sent = self.poll_send(cx);
            let received = self.poll_receive(cx);
            let deadline = match (self.front.closed(), &sent) {
                // Queued messages come first.
                (Some(closed), Progress::None) => {
                    self.close(&closed);
                    if self.channel.poll_closed(now, cx).is_ready() {
                        return Poll::Ready(match self.error.take() {
                            Some(error) => Err(ConnectionError::WebSocket(error)),
                            None => Ok(()),
                        });
                    }
                    self.channel.deadline()
                }
                _ if sent == Progress::Some || received => continue,
                _ => [self.front.next_timeout(), self.channel.deadline()].into_iter().flatten().min(),
            };
            let deadline = deadline.and_then(|at| self.clock.at(at));
            if self.alarm.poll_until(deadline, self.clock.timers(), cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Sends messages as long as the client takes them.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Progress {
        let mut progress = Progress::None;
        for _ in 0..TURN {
            if self.channel.poll_ready(cx).is_pending() {
                return Progress::Blocked;
            }
            let Some(message) = self.front.poll_transmit() else { break };
            self.channel.send(message);
            progress = Progress::Some;
        }
        match self.channel.poll_flush(cx) {
            Poll::Pending if progress == Progress::None => Progress::Blocked,
            _ => progress,
        }
    }

    /// Receives messages as long as the server takes them. Returns whether there were any.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> bool {
        for turn in 0..TURN {
            if !self.front.wants_read() || self.front.closed().is_some() {
                return turn > 0;
            }
            match self.channel.poll_read(self.clock.now(), cx) {
                Poll::Ready(ChannelEvent::Message(message)) => {
                    let request = if self.tool_frames { request_of(&message) } else { None };
                    self.front.handle_message(&request.unwrap_or(message));
                }
                Poll::Ready(ChannelEvent::Ended { detail, is_violation }) => {
                    self.front.handle_end(&detail);
                    self.error = is_violation.then_some(detail);
                    return true;
                }
                Poll::Pending => match self.front.handle_partial(self.channel.partial_bytes()) {
                    Ok(()) => return turn > 0,
                    Err(error) => {
                        let detail = "the byte budget has no room for its message";
                        self.channel.close(
                            self.clock.now(),
                            CloseCode::Again,
                            "the byte budget is exhausted",
                        );
                        self.front.handle_end(detail);
                        self.error = Some(format!("{detail}: {error}"));
                        return true;
                    }
                },
            }
        }
        true
    }

    /// Sends the close frame, unless the client has.
    fn close(&mut self, closed: &CloseReason) {
        let (code, reason) = match closed {
            _ if self.front.has_expired() => {
                (CloseCode::Policy, "the access token has expired or was revoked")
            }
            CloseReason::Done if self.front.is_closing() => (CloseCode::Away, "the server closes"),
            CloseReason::Lost(LostReason::Failed(_)) => (CloseCode::Error, "internal error"),
            _ => (CloseCode::Normal, ""),
        };
        self.channel.close(self.clock.now(), code, reason);
    }
}

/// Whether a connection has sent anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    None,
    Some,
    /// The client takes no more at present.
    Blocked,
}
