//! A plain stream, or TLS over one.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};

#[cfg_attr(not(feature = "tls"), path = "maybe_tls/plain.rs")]
mod encrypted;

#[cfg(feature = "tls")]
pub use encrypted::TlsPeer;
pub(super) use encrypted::{MaybeTlsStream, Tls};

/// A bidirectional byte stream.
trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static> AsyncRead for MaybeTlsStream<Io> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_read(cx, buf)
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin + 'static> AsyncWrite for MaybeTlsStream<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(cx, bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_close(cx)
    }
}
