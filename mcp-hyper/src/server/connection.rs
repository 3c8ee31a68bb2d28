//! One server connection, from its first byte to its last, over HTTP/1.1, HTTP/2 or a WebSocket, which may be on a
//! connection that another server accepted; the queue of those, from a service to its driver.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
#[cfg(feature = "http2")]
use std::time::{Duration, Instant};

use futures_lite::{AsyncRead, AsyncWrite};
use http::request::Parts;
use http::{Method, header};
use hyper::body::Incoming;
use hyper::rt::{Read as _, ReadBuf, Write as _};
#[cfg(feature = "http2")]
use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
#[cfg(feature = "http2")]
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, Response};
use mcp_proto::front::http::{HttpChannel, HttpExchange};
use mcp_proto::front::{Attachments, SendHandlers};
use mcp_proto::quota::QuotaOwner;
use mcp_proto::transport::http::server::{HttpResponse, RequestHead, ResponseHeaders};

use super::exchange::{ConnectionHooks, DemandQueue, ResponseBody, ResponseFuture, ServerMode};
#[cfg(feature = "http2")]
use super::exchange::{Queue, Streams};
use super::monitor::{
    ConnectionError, ConnectionMonitor, ExchangeGuard, HEADERS, HttpVersion, OnError, RegistryEntry,
    ServerError, ServerLimits, ShutdownOrder,
};
use super::service::{HttpService, PeerAddress, ServiceState, WebSocketOptions};
use super::socket::{MaybeTlsStream, Preface, Protocol, Socket};
use super::websocket::{WebSocket, handshake};
use crate::io::HyperIo;
use crate::task_set::TaskSet;
use crate::time::Alarm;
#[cfg(feature = "http2")]
use crate::time::Timers;

/// hyper's minimum buffer size for an HTTP/1 connection, in bytes.
const LEAST_BUFFER: usize = 8192;

/// Buffer limit in bytes per direction, unless the header limit is greater. Longer bodies pass through in pieces.
const BUFFER: usize = 64 * 1024;

/// A future that serves one connection until it ends.
///
/// It is `Send` unless the router is [`LocalHandlers`](mcp_proto::front::LocalHandlers). Dropping it closes the
/// connection; its exchanges then end as if the client had disconnected.
///
/// # Errors
///
/// [`ConnectionError`]. A client that disconnects between two requests causes none.
#[must_use = "nothing happens unless it is polled"]
pub struct Connection<Io, H: ServerMode = SendHandlers> {
    stage: Stage<Io, H>,
    service: HttpService<H>,
    /// The client's address.
    peer: Option<IpAddr>,
    /// The values to attach to each request.
    attachments: Attachments,
    monitor: Arc<ConnectionMonitor>,
    upgrades: UpgradeSlot<H>,
    alarm: Alarm,
    _entry: RegistryEntry,
}

type Http1<Io, H> = http1::Connection<HyperIo<Socket<Io>>, ConnectionService<H>>;

enum Stage<Io, H: ServerMode> {
    /// The TLS handshake, and the detection of the HTTP version.
    Handshaking {
        io: MaybeTlsStream<Io>,
        preface: Preface,
        /// Whether it accepts nothing but HTTP/2.
        only_http2: bool,
    },
    Http1(Pin<Box<Http1<Io, H>>>),
    #[cfg(feature = "http2")]
    Http2(Http2<Io, H>),
    /// A connection of another server, which has yet to send the answer.
    Upgrading {
        upgrade: OnUpgrade,
        wrap: fn(Upgraded) -> Io,
        channel: Box<HttpChannel<H>>,
    },
    WebSocket(Box<WebSocket<Socket<Io>, H>>),
    Closed,
}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static, H: ServerMode> Connection<Io, H> {
    fn new(
        service: HttpService<H>,
        stage: Stage<Io, H>,
        peer: Option<IpAddr>,
        attachments: Attachments,
    ) -> Self {
        let limits = service.shared().limits.clone();
        Self::within(limits, service, stage, peer, attachments)
    }

    fn within(
        limits: Arc<ServerLimits>,
        service: HttpService<H>,
        stage: Stage<Io, H>,
        peer: Option<IpAddr>,
        attachments: Attachments,
    ) -> Self {
        let shared = service.shared();
        let (timers, observed) = (shared.clock.timers().clone(), shared.observe(peer));
        let monitor = Arc::new(ConnectionMonitor::new(limits, timers, observed));
        let entry = shared.registry.register(&QuotaOwner::from_client(None, peer), monitor.clone());
        let (upgrades, alarm) = (UpgradeSlot::default(), Alarm::default());
        Self { stage, service, peer, attachments, monitor, upgrades, alarm, _entry: entry }
    }

    /// Passes the connection on to a WebSocket; `ahead` was read after the request.
    fn upgrade(&mut self, socket: Socket<Io>, ahead: &[u8], channel: HttpChannel<H>) {
        let shared = self.service.shared();
        let (clock, monitor) = (shared.clock.clone(), self.monitor.clone());
        let frames = shared.websocket.tool_frames;
        let websocket = WebSocket::start(socket, ahead, channel, frames, clock, monitor);
        self.stage = websocket.map_or(Stage::Closed, |websocket| Stage::WebSocket(Box::new(websocket)));
    }

    /// Advances the connection's current stage. Ready when the connection has ended.
    fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        loop {
            match &mut self.stage {
                Stage::Handshaking { io, preface, only_http2 } => {
                    #[cfg(feature = "tls")]
                    if io.is_handshaking() {
                        ready!(io.poll_handshake(cx)).map_err(ConnectionError::Handshake)?;
                        self.monitor.note_handshake();
                        io.attach_peer(&mut self.attachments);
                    }
                    let stream = io.stream().map_err(ConnectionError::Io)?;
                    let protocol = ready!(preface.poll_read(stream, || self.monitor.note_read(), cx));
                    let protocol = protocol.map_err(ConnectionError::Io)?;
                    if *only_http2 && protocol == Protocol::Http1 {
                        return Poll::Ready(Err(refuse(io, preface, cx)));
                    }
                    let Stage::Handshaking { io, preface, .. } =
                        std::mem::replace(&mut self.stage, Stage::Closed)
                    else {
                        return Poll::Ready(Ok(()));
                    };
                    let socket = Socket::new(io, preface, self.monitor.clone());
                    self.stage = match protocol {
                        Protocol::Closed => return Poll::Ready(Ok(())),
                        #[cfg(feature = "http2")]
                        Protocol::Http2 => self.http2(socket),
                        // Without HTTP/2, hyper refuses it.
                        _ => self.http1(socket),
                    };
                }
                Stage::Http1(connection) => {
                    ready!(connection.as_mut().poll(cx)).map_err(ConnectionError::Http)?;
                    let stage = std::mem::replace(&mut self.stage, Stage::Closed);
                    let (Stage::Http1(connection), Some(channel)) = (stage, lock(&self.upgrades).take())
                    else {
                        return Poll::Ready(Ok(()));
                    };
                    let http1::Parts { io: HyperIo(socket), read_buf, .. } =
                        Pin::into_inner(connection).into_parts();
                    self.upgrade(socket, &read_buf, *channel);
                }
                Stage::Upgrading { upgrade, .. } => {
                    let upgraded = ready!(Pin::new(upgrade).poll(cx)).map_err(ConnectionError::Http)?;
                    let stage = std::mem::replace(&mut self.stage, Stage::Closed);
                    if let Stage::Upgrading { wrap, channel, .. } = stage {
                        let io = MaybeTlsStream::Plain(wrap(upgraded));
                        let socket = Socket::new(io, Preface::default(), self.monitor.clone());
                        self.upgrade(socket, &[], *channel);
                    }
                }
                Stage::WebSocket(websocket) => return websocket.poll(cx),
                #[cfg(feature = "http2")]
                Stage::Http2(connection) => return connection.poll(cx).map_err(ConnectionError::Http),
                Stage::Closed => return Poll::Ready(Ok(())),
            }
        }
    }

    #[cfg(feature = "http2")]
    fn http2(&self, socket: Socket<Io>) -> Stage<Io, H> {
        Stage::Http2(Http2::start(socket, &self.monitor, |queue| self.connection_service(Some(queue))))
    }

    fn http1(&self, socket: Socket<Io>) -> Stage<Io, H> {
        self.monitor.set_version(HttpVersion::Http1);
        let limits = &self.monitor.limits;
        let header_bytes = usize::try_from(limits.header_bytes).unwrap_or(usize::MAX);
        let mut builder = http1::Builder::new();
        // hyper's own timer would also run for idle connections, and cost time on each request.
        builder
            .header_read_timeout(None)
            .max_header_size(header_bytes)
            .max_buf_size(header_bytes.max(BUFFER).max(LEAST_BUFFER));
        if limits.headers != HEADERS {
            builder.max_headers(limits.headers);
        }
        let service = self.connection_service(None);
        Stage::Http1(Box::pin(builder.serve_connection(HyperIo(socket), service)))
    }

    fn connection_service(&self, queue: Option<DemandQueue<H>>) -> ConnectionService<H> {
        let (service, attachments) = (self.service.clone(), self.attachments.clone());
        let (monitor, upgrades) = (self.monitor.clone(), self.upgrades.clone());
        ConnectionService::new(service, self.peer, attachments, monitor, queue, upgrades)
    }

    /// Stops accepting requests on this connection.
    fn retire(&mut self) {
        match &mut self.stage {
            Stage::Handshaking { .. } | Stage::Closed => self.stage = Stage::Closed,
            Stage::Http1(connection) => connection.as_mut().graceful_shutdown(),
            #[cfg(feature = "http2")]
            Stage::Http2(connection) => connection.shut_down(),
            Stage::Upgrading { channel, .. } => channel.close(),
            Stage::WebSocket(websocket) => websocket.retire(),
        }
        self.monitor.note_retired();
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static, H: ServerMode> Future for Connection<Io, H> {
    type Output = Result<(), ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let ended = this.poll_stage(cx);
            if ended.is_ready() {
                this.stage = Stage::Closed;
                return ended;
            }
            match ready!(this.monitor.poll_order(&mut this.alarm, cx)) {
                ShutdownOrder::Retire => this.retire(),
                ShutdownOrder::Cut(limit) => {
                    this.stage = Stage::Closed;
                    return Poll::Ready(Err(ConnectionError::LimitReached(limit)));
                }
            }
        }
    }
}

debug_fields! { [Io, H: ServerMode] Connection<Io, H> {} }

#[cfg(feature = "http2")]
type Hyper<Io, H> =
    http2::Connection<HyperIo<Socket<Io>>, ConnectionService<H>, <H as ServerMode>::StreamQueue>;

/// An HTTP/2 connection and its streams.
#[cfg(feature = "http2")]
struct Http2<Io, H: ServerMode> {
    connection: Pin<Box<Hyper<Io, H>>>,
    streams: Streams<H::Task>,
}

#[cfg(feature = "http2")]
impl<Io: AsyncRead + AsyncWrite + Unpin + 'static, H: ServerMode> Http2<Io, H> {
    /// Serves a client that speaks HTTP/2.
    fn start(
        socket: Socket<Io>,
        monitor: &ConnectionMonitor,
        serve: impl FnOnce(DemandQueue<H>) -> ConnectionService<H>,
    ) -> Self {
        monitor.set_version(HttpVersion::Http2);
        let limits = &monitor.limits;
        let queue = Queue::new();
        let mut builder = http2::Builder::new(H::StreamQueue::from(queue.clone()));
        builder
            .timer(SharedTimers(monitor.timers.clone()))
            .max_concurrent_streams(limits.streams)
            // A client may cancel all its requests before one of them is accepted. The default of 20 would end the connection.
            .max_pending_accept_reset_streams(usize::try_from(limits.streams).unwrap_or(usize::MAX))
            .max_header_list_size(limits.header_bytes)
            .max_send_buf_size(BUFFER)
            .keep_alive_interval(limits.ping_interval)
            .keep_alive_timeout(limits.write_timeout);
        let connection = Box::pin(builder.serve_connection(HyperIo(socket), serve(queue.clone())));
        let streams = Streams::new(queue, monitor.timers.clone(), limits.write_timeout);
        Self { connection, streams }
    }

    /// Serves the streams. Ready when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        loop {
            // The connection and its streams can unblock each other.
            let ended = self.connection.as_mut().poll(cx);
            if ended.is_ready() {
                return ended;
            }
            ready!(self.streams.poll(cx));
        }
    }

    /// Accepts no more streams.
    fn shut_down(&mut self) {
        self.connection.as_mut().graceful_shutdown();
    }
}

/// hyper requires a timer type that can be shared.
#[cfg(feature = "http2")]
struct SharedTimers(Timers);

#[cfg(feature = "http2")]
impl Timer for SharedTimers {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.0.sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.0.sleep_until(deadline)
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: Instant) {
        self.0.reset(sleep, new_deadline);
    }
}

impl<H: ServerMode> HttpService<H> {
    /// Serves one connection in the returned future: TLS if the options say so, then HTTP/1.1 or HTTP/2, as the client
    /// chooses.
    ///
    /// The connection counts towards [`ServerLimits::connections`](super::ServerLimits::connections) but is never refused,
    /// and ends when the server closes.
    ///
    /// Connections served this way have no known address, and share one quota. To keep one client from taking the quota
    /// of the others, use [`connection_with`](Self::connection_with).
    pub fn connection<Io: AsyncRead + AsyncWrite + Unpin + 'static>(&self, io: Io) -> Connection<Io, H> {
        self.connection_with(io, None, Attachments::new())
    }

    /// Serves one connection from the address `peer`, and attaches values to each of its
    /// requests. Handlers read them, and those that the server attaches, with
    /// [`Context::attachments`](mcp_proto::front::Context::attachments):
    ///
    /// ```no_run
    /// use std::net::SocketAddr;
    ///
    /// use mcp_hyper::mcp_proto::front::{Attachments, Context};
    /// use mcp_hyper::{HttpService, http};
    ///
    /// async fn accept(service: HttpService, listener: smol::net::TcpListener) -> std::io::Result<()> {
    ///     let (client, address) = listener.accept().await?;
    ///     let attachments = Attachments::new().with(address);
    ///     let connection = service.connection_with(client, Some(address.ip()), attachments);
    ///     smol::spawn(connection).detach();
    ///     Ok(())
    /// }
    ///
    /// async fn handler(cx: Context) -> String {
    ///     let head = cx.attachments().get::<http::request::Parts>();
    ///     let agent = head.and_then(|head| head.headers.get("user-agent"));
    ///     format!("{agent:?} from {:?}", cx.attachments().get::<SocketAddr>())
    /// }
    /// ```
    ///
    /// The server itself attaches to each request
    ///
    /// - its head, as [`http::request::Parts`], with the extensions that layers before have added. Where the server
    ///   requires tokens (`mcp_proto::front::guard`), the headers `Authorization` and `DPoP` are removed;
    /// - the client's address behind [trusted proxies](super::ServerOptions::trusted_proxies), as [`PeerAddress`];
    /// - over TLS, the client's certificates, as `TlsPeer`.
    pub fn connection_with<Io: AsyncRead + AsyncWrite + Unpin + 'static>(
        &self,
        io: Io,
        peer: Option<IpAddr>,
        attachments: Attachments,
    ) -> Connection<Io, H> {
        let io = MaybeTlsStream::new(io, self.shared().tls.as_ref());
        let stage = Stage::Handshaking { io, preface: Preface::default(), only_http2: false };
        let connection = Connection::new(self.clone(), stage, peer, attachments);
        if self.shared().tls.is_some() {
            connection.monitor.note_read();
        }
        connection
    }
}

#[cfg(feature = "stdio-v2")]
impl<H: ServerMode> HttpService<H> {
    /// Serves one client that speaks HTTP/2 from the first byte on, such as the parent process on this process's standard
    /// streams: experimental, for the transport `stdio-v2`. See [the guide](crate::guide::stdio_v2).
    ///
    /// The connection may be idle for any time, and no pings are sent on it. It has no TLS. A client that sends anything
    /// else gets an empty SETTINGS frame, so that it can tell what this server speaks, and the connection ends with
    /// [`ConnectionError::NotHttp2`]. Print that on standard error.
    pub fn http2_connection<Io: AsyncRead + AsyncWrite + Unpin + 'static>(
        &self,
        io: Io,
    ) -> Connection<Io, H> {
        let mut limits = ServerLimits::clone(&self.shared().limits);
        (limits.idle_timeout, limits.lifetime, limits.ping_interval) = (Duration::MAX, None, None);
        let io = MaybeTlsStream::new(io, None);
        let stage = Stage::Handshaking { io, preface: Preface::default(), only_http2: true };
        Connection::within(Arc::new(limits), self.clone(), stage, None, Attachments::new())
    }
}

/// The error of a client that does not speak HTTP/2, which is told by an empty SETTINGS frame as far as it reads.
fn refuse<Io: AsyncRead + AsyncWrite + Unpin + 'static>(
    io: &mut MaybeTlsStream<Io>,
    preface: &Preface,
    cx: &mut Context<'_>,
) -> ConnectionError {
    if let Ok(mut stream) = io.stream() {
        let _ = stream.as_mut().poll_write(cx, &[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        let _ = stream.poll_flush(cx);
    }
    ConnectionError::NotHttp2(String::from_utf8_lossy(preface.received()).into_owned())
}

/// Answers the requests of one connection.
struct ConnectionService<H: ServerMode> {
    service: HttpService<H>,
    peer: Option<IpAddr>,
    /// The values to attach to each request.
    attachments: Attachments,
    monitor: Arc<ConnectionMonitor>,
    /// Receives the streams of an HTTP/2 connection.
    queue: Option<DemandQueue<H>>,
    upgrades: UpgradeSlot<H>,
}

impl<H: ServerMode> ConnectionService<H> {
    fn new(
        service: HttpService<H>,
        peer: Option<IpAddr>,
        mut attachments: Attachments,
        monitor: Arc<ConnectionMonitor>,
        queue: Option<DemandQueue<H>>,
        upgrades: UpgradeSlot<H>,
    ) -> Self {
        if let Some(peer) = peer.filter(|_| !service.shared().proxies.trusts(peer)) {
            attachments.insert(PeerAddress(peer));
        }
        Self { service, peer, attachments, monitor, queue, upgrades }
    }
}

impl<H: ServerMode> Service<Request<Incoming>> for ConnectionService<H> {
    type Response = Response<ResponseBody<H>>;
    type Error = Infallible;
    type Future = ResponseFuture<Incoming, H>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let body_demand = self.queue.as_ref().map(DemandQueue::<H>::announce);
        let (parts, body) = request.into_parts();
        let observed = self.service.shared().observe_exchange(|| self.monitor.observed.clone(), &parts);
        let exchange_guard = Some(ExchangeGuard::new(self.monitor.clone()));
        let attached = ConnectionHooks { exchange_guard, body_demand, observed };
        let upgrade = match &self.queue {
            None => Upgrade::on_connection(&self.upgrades, self.service.shared().websocket, &parts),
            // HTTP/2 has no upgrades.
            Some(_) => None,
        };
        self.service.exchange((parts, body), self.peer, self.attachments.clone(), attached, upgrade)
    }
}

/// Locks a mutex under which no code runs that can panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The queue of upgraded connections, from a service to its driver.
pub(super) struct UpgradeQueue<H: ServerMode>(Mutex<Inbox<H>>);

struct Inbox<H: ServerMode> {
    accepted: Vec<Connection<UpgradedIo, H>>,
    /// Whether the driver was dropped.
    closed: bool,
    /// The driver's task.
    waker: Option<Waker>,
}

impl<H: ServerMode> Default for UpgradeQueue<H> {
    fn default() -> Self {
        Self(Mutex::new(Inbox { accepted: Vec::new(), closed: false, waker: None }))
    }
}

impl<H: ServerMode> UpgradeQueue<H> {
    /// Whether a driver serves the queue.
    pub(super) fn is_open(&self) -> bool {
        !lock(&self.0).closed
    }

    pub(super) fn push(&self, websocket: Connection<UpgradedIo, H>) {
        let mut inbox = lock(&self.0);
        let rejected = if inbox.closed {
            Some(websocket)
        } else {
            inbox.accepted.push(websocket);
            None
        };
        let waker = inbox.waker.take();
        drop(inbox);
        drop(rejected);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Drops the queued connections, and every later one.
    pub(super) fn close(&self) {
        let mut inbox = lock(&self.0);
        inbox.closed = true;
        let dropped = std::mem::take(&mut inbox.accepted);
        drop(inbox);
        drop(dropped);
    }

    fn take(&self, cx: &Context<'_>) -> Vec<Connection<UpgradedIo, H>> {
        let mut inbox = lock(&self.0);
        inbox.waker = Some(cx.waker().clone());
        std::mem::take(&mut inbox.accepted)
    }
}

/// The open connections of a service's driver.
pub(super) struct EmbeddedWebSockets<H: ServerMode> {
    /// Boxed: the set moves them when it grows.
    open: TaskSet<Box<Connection<UpgradedIo, H>>>,
    on_error: OnError,
}

impl<H: ServerMode> EmbeddedWebSockets<H> {
    pub(super) fn new(on_error: OnError) -> Self {
        Self { open: TaskSet::default(), on_error }
    }

    /// Serves the connections of the queue.
    pub(super) fn poll(&mut self, queue: &UpgradeQueue<H>, cx: &mut Context<'_>) {
        for websocket in queue.take(cx) {
            self.open.insert(Box::new(websocket));
        }
        while let Poll::Ready(ended) = self.open.poll_next(cx) {
            if let Err(error) = ended {
                (self.on_error)(&ServerError::Connection(error));
            }
        }
    }

    /// Closes all connections at once.
    pub(super) fn clear(&mut self) {
        self.open = TaskSet::default();
    }
}

/// An upgraded connection with the asynchronous I/O traits.
pub(super) struct UpgradedIo(Upgraded);

impl AsyncRead for UpgradedIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(Pin::new(&mut self.0).poll_read(cx, buf.unfilled()))?;
        Poll::Ready(Ok(buf.filled().len()))
    }
}

impl AsyncWrite for UpgradedIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

// Requests to become a WebSocket.

/// The place where the channel of an upgraded connection waits for HTTP to end.
pub(super) type UpgradeSlot<H> = Arc<Mutex<Option<Box<HttpChannel<H>>>>>;

/// The headers that accept a handshake, or the refusal.
type HandshakeAnswer = Result<ResponseHeaders, HttpResponse>;

/// A request to become a WebSocket.
pub(super) struct Upgrade<H: ServerMode> {
    connection: UpgradedConnection<H>,
    handshake: HandshakeAnswer,
}

/// The connection to upgrade.
enum UpgradedConnection<H: ServerMode> {
    /// A connection of this crate, which takes the channel from the slot.
    Own(UpgradeSlot<H>),
    /// A connection of another server, which hyper hands over.
    Embedded(OnUpgrade),
}

impl<H: ServerMode> Upgrade<H> {
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

    /// The exchange that answers the request, which `open` makes of the answer to the handshake.
    pub(super) fn exchange(
        self,
        service: &HttpService<H>,
        head: &RequestHead<'_>,
        open: impl FnOnce(HandshakeAnswer) -> (HttpExchange<H>, Option<HttpChannel<H>>),
    ) -> HttpExchange<H> {
        let Self { connection, handshake } = self;
        let (exchange, channel) = open(connection.admit(service.shared(), head).and(handshake));
        connection.start(channel, service, head);
        exchange
    }
}

impl<H: ServerMode> UpgradedConnection<H> {
    /// Whether the server has room for the connection. A connection of this crate is counted already.
    fn admit(&self, shared: &ServiceState<H>, head: &RequestHead<'_>) -> Result<(), HttpResponse> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Embedded(_) if shared.upgrades.is_open() && shared.registry.has_room(&owner(head)) => {
                shared.server.check_driver()
            }
            Self::Embedded(_) => Err(HttpResponse::empty(503)),
        }
    }

    /// Passes the channel on to the task that serves it.
    fn start(self, channel: Option<HttpChannel<H>>, service: &HttpService<H>, head: &RequestHead<'_>) {
        let Some(channel) = channel.map(Box::new) else { return };
        match self {
            Self::Own(slot) => *lock(&slot) = Some(channel),
            Self::Embedded(upgrade) => {
                let stage = Stage::Upgrading { upgrade, wrap: UpgradedIo, channel };
                let connection = Connection::new(service.clone(), stage, head.client, Attachments::new());
                // The header timeout limits the wait for the upgrade.
                connection.monitor.note_read();
                service.shared().upgrades.push(connection);
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
    cfg!(feature = "websocket") && options.accepts && asks && parts.method == Method::GET
}
