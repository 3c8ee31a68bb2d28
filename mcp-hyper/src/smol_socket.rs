//! Sockets on smol's reactor.

use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_io::Async;
use futures_lite::{AsyncRead, AsyncWrite};

/// A connected socket whose `close` shuts down the write side, which `async_io`'s own does not.
pub struct SmolSocket<T>(Async<T>);

impl<T> SmolSocket<T> {
    pub(crate) fn new(socket: Async<T>) -> Self {
        Self(socket)
    }
}

impl SmolSocket<TcpStream> {
    /// The peer's address, unless it has disconnected already.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        self.0.get_ref().peer_addr().ok()
    }
}

#[cfg(unix)]
impl SmolSocket<UnixStream> {
    /// The peer's address, which has a path if the peer has bound its socket to one.
    pub(crate) fn peer_address(&self) -> Option<std::os::unix::net::SocketAddr> {
        self.0.get_ref().peer_addr().ok()
    }
}

/// A socket whose write side can be shut down.
#[doc(hidden)]
pub trait CloseWrite {
    fn close_write(&self) -> io::Result<()>;
}

impl CloseWrite for TcpStream {
    fn close_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

#[cfg(unix)]
impl CloseWrite for UnixStream {
    fn close_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl<T> AsyncRead for SmolSocket<T>
where
    Async<T>: AsyncRead + Unpin,
{
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<T: CloseWrite> AsyncWrite for SmolSocket<T>
where
    Async<T>: AsyncWrite + Unpin,
{
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.0.get_ref().close_write() {
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
