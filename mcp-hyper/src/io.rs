//! Adapts any stream to hyper's I/O traits.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};
use hyper::rt::{Read, ReadBufCursor, Write};

/// Maximum bytes per read.
const READ: usize = 64 * 1024;

thread_local! {
    /// The first destination of every read on a thread. hyper's own buffers are uninitialised; a stream needs
    /// initialised ones, and clearing them for each attempt would be wasted, as most attempts read nothing.
    static BUFFER: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// A stream with hyper's I/O traits.
#[derive(Debug)]
pub(crate) struct HyperIo<S>(pub(crate) S);

impl<S: AsyncRead + Unpin> Read for HyperIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut buffer = BUFFER.take().unwrap_or_else(|| vec![0; READ].into_boxed_slice());
        let room = buffer.len().min(buf.remaining());
        let read = Pin::new(&mut self.0).poll_read(cx, buffer.get_mut(..room).unwrap_or_default());
        let read = read.map_ok(|count| buf.put_slice(buffer.get(..count.min(room)).unwrap_or_default()));
        BUFFER.set(Some(buffer));
        read
    }
}

impl<S: AsyncWrite + Unpin> Write for HyperIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}
