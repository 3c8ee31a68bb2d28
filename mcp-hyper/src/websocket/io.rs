//! A stream that counts its bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};

/// A stream that counts the bytes read from it and written to it.
pub(super) struct CountedIo<Io> {
    io: Io,
    read: u64,
    written: u64,
}

impl<Io> CountedIo<Io> {
    pub(super) fn new(io: Io) -> Self {
        Self { io, read: 0, written: 0 }
    }

    #[cfg(test)]
    pub(super) fn get_mut(&mut self) -> &mut Io {
        &mut self.io
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.read
    }

    pub(super) fn bytes_written(&self) -> u64 {
        self.written
    }
}

/// Adds the bytes of a read or write to their count.
fn count(total: &mut u64, moved: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
    if let Poll::Ready(Ok(bytes)) = moved {
        *total = total.wrapping_add(bytes as u64);
    }
    moved
}

impl<Io: AsyncRead + Unpin> AsyncRead for CountedIo<Io> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        count(&mut self.read, read)
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for CountedIo<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        count(&mut self.written, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_close(cx)
    }
}
