//! HTTP/2 connections of clients.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_lite::{AsyncRead, AsyncWrite};
use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http2;

use super::connection::BUFFER;
use super::maybe_tls::MaybeTlsStream;
use super::monitor::{ConnectionMonitor, HttpVersion};
use super::service::ConnectionService;
use super::socket::Socket;
use super::streams::{DemandQueue, Queue, ServerMode, Streams};
use crate::io::HyperIo;
use crate::time::Timers;

type Hyper<Io, H> = http2::Connection<
    HyperIo<Socket<MaybeTlsStream<Io>>>,
    ConnectionService<H>,
    <H as ServerMode>::StreamQueue,
>;

/// An HTTP/2 connection and its streams.
pub(super) struct Http2<Io, H: ServerMode> {
    connection: Pin<Box<Hyper<Io, H>>>,
    streams: Streams<H::Task>,
}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static, H: ServerMode> Http2<Io, H> {
    /// Serves a client that speaks HTTP/2. Never returns the socket.
    pub(super) fn start(
        socket: Socket<MaybeTlsStream<Io>>,
        monitor: &ConnectionMonitor,
        serve: impl FnOnce(Option<DemandQueue<H>>) -> ConnectionService<H>,
    ) -> Result<Self, Socket<MaybeTlsStream<Io>>> {
        monitor.set_version(HttpVersion::Http2);
        let limits = monitor.limits();
        let queue = Queue::new();
        let mut builder = http2::Builder::new(H::StreamQueue::from(queue.clone()));
        builder
            .timer(SharedTimers(monitor.timers().clone()))
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(limits.header_bytes)
            .max_send_buf_size(BUFFER)
            .keep_alive_interval(limits.ping_interval)
            .keep_alive_timeout(limits.write_timeout);
        let connection = Box::pin(builder.serve_connection(HyperIo(socket), serve(Some(queue.clone()))));
        let streams = Streams::new(queue, monitor.timers().clone(), limits.write_timeout);
        Ok(Self { connection, streams })
    }

    /// Serves the streams. Ready when the connection has ended.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
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
    pub(super) fn shut_down(&mut self) {
        self.connection.as_mut().graceful_shutdown();
    }
}

/// hyper requires a timer type that can be shared.
struct SharedTimers(Timers);

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
