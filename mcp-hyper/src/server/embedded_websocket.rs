//! WebSockets on connections that another server accepted, and their queue from a service to its driver.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use futures_lite::{AsyncRead, AsyncWrite};
use http::request::Parts;
use http::{Method, header};
use hyper::rt::{Read as _, ReadBuf, Write as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use mcp_proto::front::HandlerMode;
use mcp_proto::front::http::{HttpChannel, HttpExchange};
use mcp_proto::quota::QuotaOwner;
use mcp_proto::transport::http::server::{HttpResponse, RequestHead, ResponseHeaders};

use crate::task_set::TaskSet;
use crate::time::{Alarm, RuntimeClock};

use super::connection::{ConnectionError, OnError, ServerError};
use super::monitor::{ConnectionMonitor, RegistryEntry, ShutdownOrder};
use super::service::{ServiceState, WebSocketOptions};
use super::socket::{MaybeTlsStream, Preface, Socket};
use super::websocket::{WebSocket, handshake};

/// Locks a mutex under which no code runs that can panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The queue of upgraded connections, from a service to its driver.
pub(super) struct UpgradeQueue<H: HandlerMode>(Mutex<Inbox<H>>);

struct Inbox<H: HandlerMode> {
    accepted: Vec<EmbeddedWebSocket<H>>,
    /// Whether the driver was dropped.
    closed: bool,
    /// The driver's task.
    waker: Option<Waker>,
}

impl<H: HandlerMode> Default for UpgradeQueue<H> {
    fn default() -> Self {
        Self(Mutex::new(Inbox { accepted: Vec::new(), closed: false, waker: None }))
    }
}

impl<H: HandlerMode> UpgradeQueue<H> {
    /// Whether a driver serves the queue.
    pub(super) fn is_open(&self) -> bool {
        !lock(&self.0).closed
    }

    pub(super) fn push(&self, websocket: EmbeddedWebSocket<H>) {
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

    fn take(&self, cx: &Context<'_>) -> Vec<EmbeddedWebSocket<H>> {
        let mut inbox = lock(&self.0);
        inbox.waker = Some(cx.waker().clone());
        std::mem::take(&mut inbox.accepted)
    }
}

/// The open connections of a service's driver.
pub(super) struct EmbeddedWebSockets<H: HandlerMode> {
    /// Boxed: the set moves them when it grows.
    open: TaskSet<Box<EmbeddedWebSocket<H>>>,
    on_error: OnError,
}

impl<H: HandlerMode> EmbeddedWebSockets<H> {
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

/// A future that serves one upgraded connection until it ends.
pub(super) struct EmbeddedWebSocket<H: HandlerMode> {
    stage: Stage<H>,
    tool_frames: bool,
    clock: Arc<RuntimeClock>,
    monitor: Arc<ConnectionMonitor>,
    alarm: Alarm,
    _entry: RegistryEntry,
}

enum Stage<H: HandlerMode> {
    /// The other server has yet to send the answer.
    Upgrading {
        upgrade: OnUpgrade,
        channel: Box<HttpChannel<H>>,
    },
    Open(Box<WebSocket<Socket<UpgradedIo>, H>>),
    Closed,
}

impl<H: HandlerMode> EmbeddedWebSocket<H> {
    /// A connection that hyper hands over once it is upgraded; `entry` counts it.
    pub(super) fn new(
        upgrade: OnUpgrade,
        channel: HttpChannel<H>,
        tool_frames: bool,
        clock: Arc<RuntimeClock>,
        (monitor, entry): (Arc<ConnectionMonitor>, RegistryEntry),
    ) -> Self {
        // The header timeout limits the wait for the upgrade.
        monitor.note_read();
        Self {
            stage: Stage::Upgrading { upgrade, channel: Box::new(channel) },
            tool_frames,
            clock,
            monitor,
            alarm: Alarm::default(),
            _entry: entry,
        }
    }

    fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        if let Stage::Upgrading { upgrade, .. } = &mut self.stage {
            let upgraded = ready!(Pin::new(upgrade).poll(cx)).map_err(ConnectionError::Http)?;
            let stage = std::mem::replace(&mut self.stage, Stage::Closed);
            let Stage::Upgrading { channel, .. } = stage else { return Poll::Ready(Ok(())) };
            let socket = Socket::new(
                MaybeTlsStream::Plain(UpgradedIo(upgraded)),
                Preface::default(),
                self.monitor.clone(),
            );
            let (clock, monitor) = (self.clock.clone(), self.monitor.clone());
            match WebSocket::start(socket, &[], *channel, self.tool_frames, clock, monitor) {
                Some(websocket) => self.stage = Stage::Open(Box::new(websocket)),
                None => return Poll::Ready(Ok(())),
            }
        }
        match &mut self.stage {
            Stage::Open(websocket) => websocket.poll(cx),
            Stage::Upgrading { .. } | Stage::Closed => Poll::Ready(Ok(())),
        }
    }
}

impl<H: HandlerMode> Future for EmbeddedWebSocket<H> {
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
                ShutdownOrder::Retire => {
                    match &mut this.stage {
                        Stage::Upgrading { channel, .. } => channel.close(),
                        Stage::Open(websocket) => websocket.retire(),
                        Stage::Closed => {}
                    }
                    this.monitor.note_retired();
                }
                ShutdownOrder::Cut(limit) => {
                    this.stage = Stage::Closed;
                    return Poll::Ready(Err(ConnectionError::LimitReached(limit)));
                }
            }
        }
    }
}

/// An upgraded connection with the asynchronous I/O traits.
struct UpgradedIo(Upgraded);

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
pub(super) type UpgradeSlot<H> = Arc<Mutex<Option<HttpChannel<H>>>>;

/// The headers that accept a handshake, or the refusal.
type HandshakeAnswer = Result<ResponseHeaders, HttpResponse>;

/// A request to become a WebSocket.
pub(super) struct Upgrade<H: HandlerMode> {
    connection: UpgradedConnection<H>,
    handshake: HandshakeAnswer,
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

    /// The exchange that answers the request, which `open` makes of the answer to the handshake.
    pub(super) fn exchange(
        self,
        shared: &ServiceState<H>,
        head: &RequestHead<'_>,
        open: impl FnOnce(HandshakeAnswer) -> (HttpExchange<H>, Option<HttpChannel<H>>),
    ) -> HttpExchange<H> {
        let Self { connection, handshake } = self;
        let (exchange, channel) = open(connection.admit(shared, head).and(handshake));
        connection.start(channel, shared, head);
        exchange
    }
}

impl<H: HandlerMode> UpgradedConnection<H> {
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
    fn start(self, channel: Option<HttpChannel<H>>, shared: &ServiceState<H>, head: &RequestHead<'_>) {
        let Some(channel) = channel else { return };
        match self {
            Self::Own(slot) => *lock(&slot) = Some(channel),
            Self::Embedded(upgrade) => {
                let ServiceState { clock, limits, .. } = shared;
                let monitor = Arc::new(ConnectionMonitor::new(limits.clone(), clock.timers().clone()));
                let entry = shared.registry.register(&owner(head), monitor.clone());
                let (tool_frames, clock) = (shared.websocket.tool_frames, clock.clone());
                let counted = (monitor, entry);
                shared.upgrades.push(EmbeddedWebSocket::new(upgrade, channel, tool_frames, clock, counted));
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
