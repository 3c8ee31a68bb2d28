//! Sockets on smol's reactor.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_io::Async;
use futures_lite::{AsyncRead, AsyncWrite};

/// A connected socket. In place of smol's own for two reasons: closing it tells the other side, and while nothing is
/// there to be read, looking again is no business of the system's. hyper looks several times for each message.
pub struct SmolSocket<T> {
    socket: Async<T>,
    /// There was nothing, and the reactor has not said anything since.
    waiting: bool,
}

impl<T> SmolSocket<T> {
    pub(crate) fn new(socket: Async<T>) -> Self {
        Self { socket, waiting: false }
    }
}

/// What can be told that nothing more is written.
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
    for<'a> &'a T: Read,
{
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            if self.waiting {
                ready!(self.socket.poll_readable(cx))?;
                self.waiting = false;
            }
            match self.socket.get_ref().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.waiting = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return Poll::Ready(read),
            }
        }
    }
}

impl<T: CloseWrite> AsyncWrite for SmolSocket<T>
where
    for<'a> &'a T: Write,
{
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.socket.get_ref().write(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.socket.poll_writable(cx))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => return Poll::Ready(written),
            }
        }
    }

    /// Sockets keep nothing back.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.socket.get_ref().close_write() {
            // The other side was faster.
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
