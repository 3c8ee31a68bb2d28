//! WebSockets on connections that another server accepted, which calls the service for their upgrade.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use futures_lite::{AsyncRead, AsyncWrite};
use hyper::rt::{Read as _, ReadBuf, Write as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use mcp_proto::front::HandlerMode;
use mcp_proto::front::http::HttpChannel;
use mcp_proto::quota::QuotaOwner;

use super::{WebSocket, WebSocketOptions};
use crate::server::connection::ConnectionError;
use crate::server::driver::{OnError, ServerError};
use crate::server::monitor::{ConnectionMonitor, ShutdownOrder};
use crate::server::preface::Preface;
use crate::server::registry::RegistryEntry;
use crate::server::service::ServiceState;
use crate::server::socket::Socket;
use crate::task_set::TaskSet;
use crate::time::{Alarm, RuntimeClock};

/// The queue of upgraded connections, from a service to its driver.
pub(in crate::server) struct UpgradeQueue<H: HandlerMode>(Mutex<Inbox<H>>);

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
    fn inbox(&self) -> MutexGuard<'_, Inbox<H>> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a driver serves the queue.
    pub(super) fn is_open(&self) -> bool {
        !self.inbox().closed
    }

    pub(super) fn push(&self, websocket: EmbeddedWebSocket<H>) {
        let mut inbox = self.inbox();
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
    pub(in crate::server) fn close(&self) {
        let mut inbox = self.inbox();
        inbox.closed = true;
        let dropped = std::mem::take(&mut inbox.accepted);
        drop(inbox);
        drop(dropped);
    }

    fn take(&self, cx: &Context<'_>) -> Vec<EmbeddedWebSocket<H>> {
        let mut inbox = self.inbox();
        inbox.waker = Some(cx.waker().clone());
        std::mem::take(&mut inbox.accepted)
    }
}

/// The open connections of a service's driver.
pub(in crate::server) struct EmbeddedWebSockets<H: HandlerMode> {
    /// Boxed: the set moves them when it grows.
    open: TaskSet<Box<EmbeddedWebSocket<H>>>,
    on_error: OnError,
}

impl<H: HandlerMode> EmbeddedWebSockets<H> {
    pub(in crate::server) fn new(on_error: OnError) -> Self {
        Self { open: TaskSet::default(), on_error }
    }

    /// Serves the connections of the queue.
    pub(in crate::server) fn poll(&mut self, queue: &UpgradeQueue<H>, cx: &mut Context<'_>) {
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
    pub(in crate::server) fn clear(&mut self) {
        self.open = TaskSet::default();
    }
}

/// A future that serves one upgraded connection until it ends.
pub(super) struct EmbeddedWebSocket<H: HandlerMode> {
    stage: Stage<H>,
    options: WebSocketOptions,
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
    /// A connection of the client `owner` that hyper hands over once it is upgraded.
    pub(super) fn new(
        upgrade: OnUpgrade,
        channel: HttpChannel<H>,
        shared: &ServiceState<H>,
        owner: &QuotaOwner,
    ) -> Self {
        let monitor = Arc::new(ConnectionMonitor::new(shared.limits.clone(), shared.clock.timers().clone()));
        let entry = shared.registry.register(owner, monitor.clone());
        // The header timeout limits the wait for the upgrade.
        monitor.note_read();
        Self {
            stage: Stage::Upgrading { upgrade, channel: Box::new(channel) },
            options: shared.websocket,
            clock: shared.clock.clone(),
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
            let socket = Socket::new(UpgradedIo(upgraded), Preface::default(), self.monitor.clone());
            let (clock, monitor) = (self.clock.clone(), self.monitor.clone());
            match WebSocket::start(socket, &[], *channel, self.options, clock, monitor, cx) {
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
