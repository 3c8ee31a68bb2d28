//! One server connection, from its first byte to its last, over HTTP/1.1 or HTTP/2.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
#[cfg(feature = "http2")]
use std::time::{Duration, Instant};

use futures_lite::{AsyncRead, AsyncWrite};
use hyper::body::Incoming;
#[cfg(feature = "http2")]
use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
#[cfg(feature = "http2")]
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper::{Request, Response};
use mcp_proto::front::{Attachments, SendHandlers};
use mcp_proto::quota::QuotaOwner;

use crate::io::HyperIo;
use crate::time::Alarm;
#[cfg(feature = "http2")]
use crate::time::Timers;

use super::embedded_websocket::{Upgrade, UpgradeSlot, lock};
use super::exchange::{ConnectionHooks, ResponseBody, ResponseFuture};
use super::monitor::{ConnectionMonitor, ExchangeGuard, HEADERS, HttpVersion, RegistryEntry, ShutdownOrder};
use super::service::{HttpService, PeerAddress};
use super::socket::{MaybeTlsStream, Preface, Protocol, Socket};
use super::streams::{DemandQueue, ServerMode};
#[cfg(feature = "http2")]
use super::streams::{Queue, Streams};
use super::websocket::WebSocket;

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
    },
    Http1(Pin<Box<Http1<Io, H>>>),
    #[cfg(feature = "http2")]
    Http2(Http2<Io, H>),
    WebSocket(Box<WebSocket<Socket<Io>, H>>),
    Closed,
}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static, H: ServerMode> Connection<Io, H> {
    fn new(service: HttpService<H>, io: Io, peer: Option<IpAddr>, attachments: Attachments) -> Self {
        let shared = service.shared();
        let monitor = Arc::new(ConnectionMonitor::new(shared.limits.clone(), shared.clock.timers().clone()));
        let entry = shared.registry.register(&QuotaOwner::from_client(None, peer), monitor.clone());
        let io = MaybeTlsStream::new(io, shared.tls.as_ref());
        #[cfg(feature = "tls")]
        if io.is_handshaking() {
            monitor.note_read();
        }
        let stage = Stage::Handshaking { io, preface: Preface::default() };
        Self {
            stage,
            service,
            peer,
            attachments,
            monitor,
            upgrades: UpgradeSlot::default(),
            alarm: Alarm::default(),
            _entry: entry,
        }
    }

    /// Advances the connection's current stage. Ready when the connection has ended.
    fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        loop {
            match &mut self.stage {
                Stage::Handshaking { io, preface } => {
                    #[cfg(feature = "tls")]
                    if io.is_handshaking() {
                        ready!(io.poll_handshake(cx)).map_err(ConnectionError::Handshake)?;
                        self.monitor.note_handshake();
                        io.attach_peer(&mut self.attachments);
                    }
                    let stream = io.stream().map_err(ConnectionError::Io)?;
                    let protocol = ready!(preface.poll_read(stream, || self.monitor.note_read(), cx));
                    let protocol = protocol.map_err(ConnectionError::Io)?;
                    let Stage::Handshaking { io, preface } =
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
                    let shared = self.service.shared();
                    let (clock, monitor) = (shared.clock.clone(), self.monitor.clone());
                    match WebSocket::start(
                        socket,
                        &read_buf,
                        channel,
                        shared.websocket.tool_frames,
                        clock,
                        monitor,
                    ) {
                        Some(websocket) => self.stage = Stage::WebSocket(Box::new(websocket)),
                        None => return Poll::Ready(Ok(())),
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
    /// of the others, use [`connection_from`](Self::connection_from).
    pub fn connection<Io: AsyncRead + AsyncWrite + Unpin + 'static>(&self, io: Io) -> Connection<Io, H> {
        self.connection_from(io, None)
    }

    /// Serves one connection from the address `peer`, otherwise like [`connection`](Self::connection).
    ///
    /// [`connection_with`](Self::connection_with) also lets handlers read more about the connection.
    pub fn connection_from<Io: AsyncRead + AsyncWrite + Unpin + 'static>(
        &self,
        io: Io,
        peer: Option<IpAddr>,
    ) -> Connection<Io, H> {
        self.connection_with(io, peer, Attachments::new())
    }

    /// Serves one connection like [`connection_from`](Self::connection_from), and attaches values to each of its
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
        Connection::new(self.clone(), io, peer, attachments)
    }
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
        let attached =
            ConnectionHooks { exchange_guard: Some(ExchangeGuard::new(self.monitor.clone())), body_demand };
        let (parts, body) = request.into_parts();
        let upgrade = match &self.queue {
            None => Upgrade::on_connection(&self.upgrades, self.service.shared().websocket, &parts),
            // HTTP/2 has no upgrades.
            Some(_) => None,
        };
        self.service.exchange((parts, body), self.peer, self.attachments.clone(), attached, upgrade)
    }
}

// Errors of a server and of its connections.

/// Why a connection ended with an error.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The TLS handshake failed.
    Handshake(io::Error),
    /// The socket failed before the HTTP version was known.
    Io(io::Error),
    /// The client sent invalid HTTP, or disconnected in the middle of a message.
    Http(hyper::Error),
    /// The client violated the WebSocket protocol or a limit; the text describes the violation.
    #[cfg(feature = "websocket")]
    WebSocket(String),
    /// The client reached a limit of the connection.
    LimitReached(ConnectionLimit),
}

display_text! { ConnectionError:
    Handshake(error) => "the TLS handshake failed: {error}";
    Io(error) => "the socket failed: {error}";
    Http(error) => "{error}";
    #[cfg(feature = "websocket")]
    WebSocket(detail) => "a client's WebSocket was closed: {detail}";
    LimitReached(limit) => "{limit}";
}

impl std::error::Error for ConnectionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Handshake(error) | Self::Io(error) => Some(error),
            Self::Http(error) => Some(error),
            #[cfg(feature = "websocket")]
            Self::WebSocket(_) => None,
            Self::LimitReached(_) => None,
        }
    }
}

pub(super) type OnError = Arc<dyn Fn(&ServerError) + Send + Sync>;

/// An error that a server survives, for logs.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// Accepting a connection failed. The server tries again, after up to a second if the error concerns system
    /// resources, such as open files.
    Accept(io::Error),
    /// The server refused a connection from this address: the server is full, and this client has its share of
    /// connections.
    Refused(Option<IpAddr>),
    /// A connection ended with an error.
    Connection(ConnectionError),
}

display_text! { ServerError:
    Accept(error) => "no connection could be accepted: {error}";
    Refused(None) => "a connection was refused: too many are open";
    Refused(Some(address)) => "a connection from {address} was refused: too many are open";
    Connection(error) => "{error}";
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Accept(error) => Some(error),
            Self::Refused(_) => None,
            Self::Connection(error) => error.source(),
        }
    }
}

/// The limit that a connection reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionLimit {
    /// [`ServerLimits::header_timeout`](super::ServerLimits::header_timeout).
    Headers,
    /// [`ServerLimits::write_timeout`](super::ServerLimits::write_timeout).
    Write,
    /// [`ServerLimits::idle_timeout`](super::ServerLimits::idle_timeout) or
    /// [`ServerLimits::lifetime`](super::ServerLimits::lifetime), and the client did not close its side.
    Idle,
    /// [`ServerLimits::connections`](super::ServerLimits::connections): the server was full, and this client had more
    /// connections than its share.
    Displaced,
    /// The server's [`close_timeout`](mcp_proto::peer::server::ServerConfig::close_timeout) has passed since it was
    /// closed.
    Closed,
}

display_text! { ConnectionLimit:
    Headers => "the client took too long to send the headers of a request";
    Write => "the client does not read the responses";
    Idle => "the client did not close the connection in time";
    Displaced => "the server is full, and the client has more connections than its share";
    Closed => "the server has closed";
}
