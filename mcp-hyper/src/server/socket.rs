//! A connection's socket, which reports its reads and writes to the monitor.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_lite::{AsyncRead, AsyncWrite};

use super::monitor::ConnectionMonitor;
use super::preface::Preface;

/// Maximum number of consecutive reads, after the server closed its side, before other connections get a turn.
const READS: usize = 16;

/// A socket that replays the preface and then reads on. It reports activity to the [`ConnectionMonitor`], and closes
/// such that the client can still read the last response.
pub(super) struct Socket<Io> {
    io: Io,
    preface: Preface,
    monitor: Arc<ConnectionMonitor>,
    write_blocked: bool,
    /// The server has closed its side.
    closed: bool,
    /// The client has closed its side.
    ended: bool,
}

impl<Io> Socket<Io> {
    /// A socket whose first bytes, `ahead`, were already read.
    pub(super) fn new(io: Io, ahead: Preface, watch: Arc<ConnectionMonitor>) -> Self {
        Self { io, preface: ahead, monitor: watch, write_blocked: false, closed: false, ended: false }
    }

    fn report_write<T>(&mut self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_pending() != self.write_blocked {
            self.write_blocked = written.is_pending();
            if self.write_blocked { self.monitor.note_blocked() } else { self.monitor.note_written() }
        }
        written
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Socket<Io> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let count = self.preface.take(buf);
        if count > 0 {
            return Poll::Ready(Ok(count));
        }
        let count = ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        if count > 0 {
            self.monitor.note_read();
        } else if !buf.is_empty() {
            self.ended = true;
        }
        Poll::Ready(Ok(count))
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.report_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.report_write(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.report_write(flushed)
    }

    /// Closes the socket. The system resets a connection that is closed while input is unread, so this waits, if need
    /// be, for the client to close its side; the monitor limits that wait.
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.closed {
            let closed = Pin::new(&mut self.io).poll_close(cx);
            ready!(self.report_write(closed))?;
            self.closed = true;
        }
        if !self.monitor.note_closed() {
            return Poll::Ready(Ok(()));
        }
        let mut scratch = [0; 4096];
        for _ in 0..READS {
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            let read = ready!(Pin::new(&mut self.io).poll_read(cx, &mut scratch));
            self.ended = matches!(read, Ok(0) | Err(_));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
