//! Sockets on smol's reactor.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_io::Async;
use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::adapter::WakeFlag;

/// A connected socket that is read and written only when the reactor says that it is ready.
///
/// `async_io`'s own type tries every operation first, in every poll: most of these system calls find nothing. Its
/// `close` does not shut down the write side either.
pub struct SmolSocket<T> {
    socket: Async<T>,
    /// The socket's own method, which no trait of the standard library has.
    shutdown: fn(&T, Shutdown) -> io::Result<()>,
    awaits_read: bool,
    awaits_write: bool,
    // Where the reactor has a thread of its own, only the wake tells that the socket is ready.
    readable: WakeFlag,
    /// Most sockets take every write at once.
    writable: Option<WakeFlag>,
}

impl<T> SmolSocket<T> {
    pub(crate) fn new(socket: Async<T>, shutdown: fn(&T, Shutdown) -> io::Result<()>) -> Self {
        let readable = WakeFlag::default();
        Self { socket, shutdown, awaits_read: false, awaits_write: false, readable, writable: None }
    }
}

impl SmolSocket<TcpStream> {
    /// The peer's address, unless it has disconnected already.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        self.socket.get_ref().peer_addr().ok()
    }
}

#[cfg(unix)]
impl SmolSocket<UnixStream> {
    /// The peer's address, which has a path if the peer has bound its socket to one.
    pub(crate) fn peer_address(&self) -> Option<std::os::unix::net::SocketAddr> {
        self.socket.get_ref().peer_addr().ok()
    }
}

impl<T> AsyncRead for SmolSocket<T>
where
    for<'s> &'s T: Read,
{
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            if self.awaits_read {
                let Self { socket, readable, .. } = &mut *self;
                ready!(readable.poll_ready(cx, |cx| socket.poll_readable(cx)))?;
                self.awaits_read = false;
            }
            let mut socket = self.socket.get_ref();
            match socket.read(buf) {
                Ok(count) => {
                    // A read that leaves room has emptied the socket. If more arrives, the reactor says so.
                    self.awaits_read = 0 < count && count < buf.len();
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.awaits_read = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl<T> AsyncWrite for SmolSocket<T>
where
    for<'s> &'s T: Write,
{
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            if self.awaits_write {
                let Self { socket, writable, .. } = &mut *self;
                let writable = writable.get_or_insert_default();
                ready!(writable.poll_ready(cx, |cx| socket.poll_writable(cx)))?;
                self.awaits_write = false;
            }
            let mut socket = self.socket.get_ref();
            match socket.write(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.awaits_write = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match (self.shutdown)(self.socket.get_ref(), Shutdown::Write) {
            // The peer has already disconnected.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            closed => closed,
        })
    }
}

impl<T> fmt::Debug for SmolSocket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmolSocket").finish_non_exhaustive()
    }
}
