//! WebSockets on connections that another server accepted, and their queue from a service to its driver.

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

use super::error::{ConnectionError, OnError, ServerError};
use super::monitor::{ConnectionMonitor, ShutdownOrder};
use super::registry::RegistryEntry;
use super::socket::{MaybeTlsStream, Preface, Socket};
use super::websocket::WebSocket;
use crate::task_set::TaskSet;
use crate::time::{Alarm, RuntimeClock};

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
