//! Sockets on Tokio's reactor.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_lite::{AsyncRead, AsyncWrite};
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

/// A socket of Tokio with the asynchronous traits of this crate: for
/// [`HttpService::connection`](crate::HttpService::connection), say.
pub struct TokioSocket<T>(T);

impl<T> From<T> for TokioSocket<T> {
    fn from(socket: T) -> Self {
        Self(socket)
    }
}

impl TokioSocket<TcpStream> {
    /// The peer's address, unless it has disconnected already.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok()
    }
}

#[cfg(unix)]
impl TokioSocket<UnixStream> {
    /// The peer's address, which has a path if the peer has bound its socket to one.
    pub(crate) fn peer_address(&self) -> Option<std::os::unix::net::SocketAddr> {
        self.0.peer_addr().ok().map(Into::into)
    }
}

impl<T: tokio::io::AsyncRead + Unpin> AsyncRead for TokioSocket<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }
}

impl<T: tokio::io::AsyncWrite + Unpin> AsyncWrite for TokioSocket<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll_shutdown(cx)) {
            // The peer has already disconnected.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            closed => closed,
        })
    }
}

impl<T> fmt::Debug for TokioSocket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioSocket").finish_non_exhaustive()
    }
}
