//! Adapters between hyper and the traits of streams, bodies and headers.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_lite::{AsyncRead, AsyncWrite};
use http::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use mcp_proto::transport::http::Fields;

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

/// A body that is wholly in memory.
#[derive(Debug)]
pub(crate) struct BufferedBody(pub(crate) Bytes);

impl Body for BufferedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = std::mem::take(&mut self.0);
        Poll::Ready((!data.is_empty()).then(|| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.0.len()).unwrap_or(u64::MAX))
    }
}

/// The headers of a message.
pub(crate) struct Headers<'h>(pub(crate) &'h HeaderMap);

impl Fields for Headers<'_> {
    fn each<'a>(&'a self, show: &mut dyn FnMut(&str, &'a [u8])) {
        self.0.iter().for_each(|(name, value)| show(name.as_str(), value.as_bytes()));
    }
}
