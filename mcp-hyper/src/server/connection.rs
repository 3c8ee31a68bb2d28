//! One server connection, from its first byte to its last.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_lite::{AsyncRead, AsyncWrite};
use hyper::server::conn::http1;
use mcp_proto::front::{Attachments, SendHandlers};
use mcp_proto::quota::QuotaOwner;

use super::http2::Http2;
use super::limits::HEADERS;
use super::maybe_tls::MaybeTlsStream;
use super::monitor::{ConnectionLimit, ConnectionMonitor, HttpVersion, ShutdownOrder};
use super::preface::{Preface, Protocol};
use super::registry::RegistryEntry;
use super::service::{ConnectionService, HttpService};
use super::socket::Socket;
use super::streams::{DemandQueue, ServerMode};
use super::websocket::{UpgradeSlot, WebSocket};
use crate::io::HyperIo;
use crate::time::Alarm;

/// hyper's minimum buffer size for an HTTP/1 connection, in bytes.
const LEAST_BUFFER: usize = 8192;
/// Buffer limit in bytes per direction, unless the header limit is greater. Longer bodies pass through in pieces.
pub(super) const BUFFER: usize = 64 * 1024;

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

type ConnectionSocket<Io> = Socket<MaybeTlsStream<Io>>;
type Http1<Io, H> = http1::Connection<HyperIo<ConnectionSocket<Io>>, ConnectionService<H>>;

enum Stage<Io, H: ServerMode> {
    /// The TLS handshake, and the detection of the HTTP version.
    Handshaking {
        io: MaybeTlsStream<Io>,
        preface: Preface,
    },
    Http1(Pin<Box<Http1<Io, H>>>),
    Http2(Http2<Io, H>),
    WebSocket(Box<WebSocket<ConnectionSocket<Io>, H>>),
    Closed,
}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static, H: ServerMode> Connection<Io, H> {
    pub(super) fn new(
        service: HttpService<H>,
        io: Io,
        peer: Option<IpAddr>,
        attachments: Attachments,
    ) -> Self {
        let shared = service.shared();
        let watch = Arc::new(ConnectionMonitor::new(shared.limits.clone(), shared.clock.timers().clone()));
        let entry = shared.registry.register(&QuotaOwner::from_client(None, peer), watch.clone());
        let io = MaybeTlsStream::new(io, shared.tls.as_ref());
        if io.is_handshaking() {
            watch.note_read();
        }
        let stage = Stage::Handshaking { io, preface: Preface::default() };
        Self {
            stage,
            service,
            peer,
            attachments,
            monitor: watch,
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
                    if io.is_handshaking() {
                        ready!(io.poll_handshake(cx)).map_err(ConnectionError::Handshake)?;
                        self.monitor.note_handshake();
                        io.attach_peer(&mut self.attachments);
                    }
                    let beginning = ready!(preface.poll_read(io, || self.monitor.note_read(), cx));
                    let beginning = beginning.map_err(ConnectionError::Io)?;
                    let Stage::Handshaking { io, preface } =
                        std::mem::replace(&mut self.stage, Stage::Closed)
                    else {
                        return Poll::Ready(Ok(()));
                    };
                    let socket = Socket::new(io, preface, self.monitor.clone());
                    self.stage = match beginning {
                        Protocol::Closed => return Poll::Ready(Ok(())),
                        Protocol::Http1 => self.http1(socket),
                        Protocol::Http2 => self.http2(socket),
                    };
                }
                Stage::Http1(connection) => {
                    ready!(connection.as_mut().poll(cx)).map_err(ConnectionError::Http)?;
                    let stage = std::mem::replace(&mut self.stage, Stage::Closed);
                    let (Stage::Http1(connection), Some(channel)) = (stage, self.upgrades.take()) else {
                        return Poll::Ready(Ok(()));
                    };
                    let http1::Parts { io: HyperIo(socket), read_buf, .. } =
                        Pin::into_inner(connection).into_parts();
                    let shared = self.service.shared();
                    let (clock, monitor) = (shared.clock.clone(), self.monitor.clone());
                    match WebSocket::start(socket, &read_buf, channel, shared.websocket, clock, monitor, cx) {
                        Some(websocket) => self.stage = Stage::WebSocket(Box::new(websocket)),
                        None => return Poll::Ready(Ok(())),
                    }
                }
                Stage::WebSocket(websocket) => return websocket.poll(cx),
                Stage::Http2(connection) => return connection.poll(cx).map_err(ConnectionError::Http),
                Stage::Closed => return Poll::Ready(Ok(())),
            }
        }
    }

    fn http2(&self, socket: Socket<MaybeTlsStream<Io>>) -> Stage<Io, H> {
        let serve = |queue| self.connection_service(queue);
        match Http2::start(socket, &self.monitor, serve) {
            Ok(connection) => Stage::Http2(connection),
            // hyper refuses it there.
            Err(socket) => self.http1(socket),
        }
    }

    fn http1(&self, socket: Socket<MaybeTlsStream<Io>>) -> Stage<Io, H> {
        self.monitor.set_version(HttpVersion::Http1);
        let limits = self.monitor.limits();
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
                ShutdownOrder::Cut(overrun) => {
                    this.stage = Stage::Closed;
                    return Poll::Ready(Err(ConnectionError::LimitReached(overrun)));
                }
            }
        }
    }
}

impl<Io, H: ServerMode> fmt::Debug for Connection<Io, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

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

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handshake(error) => write!(f, "the TLS handshake failed: {error}"),
            Self::Io(error) => write!(f, "the socket failed: {error}"),
            Self::Http(error) => write!(f, "{error}"),
            #[cfg(feature = "websocket")]
            Self::WebSocket(detail) => write!(f, "a client's WebSocket was closed: {detail}"),
            Self::LimitReached(overrun) => write!(f, "{overrun}"),
        }
    }
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
