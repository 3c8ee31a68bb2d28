//! Reading and writing a byte stream at the same time, without a task for either.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_lite::io::{ReadHalf, WriteHalf, split};
use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::Instant;
use mcp_proto::adapter::{Clock as _, SystemClock};

/// Direction in which bytes were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireDirection {
    /// From this side to the peer.
    Sent,
    /// From the peer to this side.
    Received,
}

/// Observer of the bytes sent and received.
pub(crate) type WireObserver = Box<dyn FnMut(WireDirection, &[u8]) + Send>;

/// The largest read: all that a pipe of Linux's usual capacity can hold.
pub(crate) const BLOCK: usize = 64 * 1024;
/// The first block: a peer that never sends more at once needs no larger one.
const FIRST_BLOCK: usize = 8 * 1024;
/// A read up to this size is copied out of the block, so that keeping it does not keep the block.
const COPIED: usize = 4 * 1024;
/// The rest of a block, once slices are cut off, takes further reads while it is at least this part of a block.
const SMALLEST_REST: usize = 4;
/// An output buffer that grew beyond this is shrunk before the next message.
const KEPT_OUTPUT: usize = 256 * 1024;

/// The two directions of a byte stream, both polled by one driver.
///
/// Neither direction waits for the other, so a peer that floods this side while it writes cannot deadlock it,
/// provided that **both are polled in every poll** of the driver:
///
/// ```
/// use std::future::poll_fn;
/// use std::task::Poll;
///
/// # fn main() -> std::io::Result<()> {
/// # #[cfg(unix)]
/// futures_lite::future::block_on(async {
///     let child = mcp_smol::Command::new("cat").spawn().map_err(std::io::Error::other)?;
///     let mut io = mcp_smol::Io::new(child.stdout, child.stdin);
///     if let Some(outgoing) = io.outgoing() {
///         outgoing.extend_from_slice(b"hello\n");
///     }
///     let echo = poll_fn(|cx| {
///         if let Poll::Ready(Err(error)) = io.poll_write(cx) {
///             return Poll::Ready(Err(error));
///         }
///         io.poll_read(cx)
///     })
///     .await?;
///     assert_eq!(echo.as_ref(), b"hello\n");
///     # Ok::<_, std::io::Error>(())
/// })
/// # ?; Ok(())
/// # }
/// ```
///
/// Both directions keep their progress here, so a future that polls them can be dropped at any point and
/// nothing is lost.
pub struct Io<R, W> {
    reader: R,
    writer: W,
    /// Initialized memory to read into: a read may fill its length, not its spare capacity.
    block: BytesMut,
    /// The size of the next block.
    block_size: usize,
    ended: bool,
    outgoing: Vec<u8>,
    written: usize,
    flushed: bool,
    closed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Io<ReadHalf<S>, WriteHalf<S>> {
    /// Reads and writes one stream, such as a Unix or TCP socket.
    pub fn over(stream: S) -> Self {
        let (reader, writer) = split(stream);
        Self::new(reader, writer)
    }
}

impl<R, W> Io<R, W> {
    /// Reads and writes two halves of a stream, such as a child's standard output and input.
    pub fn new(reader: R, writer: W) -> Self {
        Self {
            reader,
            writer,
            block: BytesMut::new(),
            block_size: FIRST_BLOCK,
            ended: false,
            outgoing: Vec::new(),
            written: 0,
            flushed: true,
            closed: false,
        }
    }

    //= F37 "A write does not wait until the peer has read earlier ones"
    /// The output buffer to append to; `None` until its earlier content is written.
    ///
    /// So output that the peer does not take stays in the machine that a driver fills this from, which counts it and
    /// sheds it.
    pub fn outgoing(&mut self) -> Option<&mut Vec<u8>> {
        if self.written < self.outgoing.len() {
            return None;
        }
        self.outgoing.clear();
        self.outgoing.shrink_to(KEPT_OUTPUT);
        self.written = 0;
        Some(&mut self.outgoing)
    }

    /// How many bytes of [`outgoing`](Self::outgoing) are not yet written, to tell whether a write makes progress.
    #[must_use]
    pub fn unwritten(&self) -> usize {
        self.outgoing.len() - self.written
    }

    /// Returns the halves. Unwritten output is lost.
    pub fn into_inner(self) -> (R, W) {
        (self.reader, self.writer)
    }
}

impl<R: AsyncRead + Unpin, W> Io<R, W> {
    /// Received bytes, as many as one read yields; empty at the end of the stream, and from then on.
    ///
    /// A chunk of more than 4 KiB is a slice of the block that it was read into and keeps the whole block alive; a
    /// smaller one is a copy. A block has 8 KiB until a read fills it, from then on 64 KiB.
    ///
    /// # Errors
    ///
    /// Those of the reader.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if self.ended {
            return Poll::Ready(Ok(Bytes::new()));
        }
        if self.block.len() < self.block_size / SMALLEST_REST {
            // Reuses the old block if no slice of it is left.
            self.block.resize(self.block_size, 0);
        }
        let length = loop {
            match ready!(Pin::new(&mut self.reader).poll_read(cx, &mut self.block)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                length => break length?,
            }
        };
        self.ended = length == 0;
        if length == self.block.len() {
            self.block_size = BLOCK;
        }
        Poll::Ready(Ok(match self.block.get(..length) {
            Some(small) if length <= COPIED => Bytes::copy_from_slice(small),
            Some(_) => self.block.split_to(length).freeze(),
            None => {
                return Poll::Ready(Err(io::Error::other(
                    "the reader claims to have read more bytes than its buffer holds",
                )));
            }
        }))
    }
}

impl<R, W: AsyncWrite + Unpin> Io<R, W> {
    /// Writes the content of [`outgoing`](Self::outgoing); ready when all of it has been written and flushed,
    /// which may be at once.
    ///
    /// # Errors
    ///
    /// Those of the writer, and [`io::ErrorKind::WriteZero`] if it accepts no more bytes.
    pub fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(unwritten) = self.outgoing.get(self.written..)
            && !unwritten.is_empty()
        {
            self.flushed = false;
            match ready!(Pin::new(&mut self.writer).poll_write(cx, unwritten)) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(length) => self.written = self.outgoing.len().min(self.written + length),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if !self.flushed {
            ready!(Pin::new(&mut self.writer).poll_flush(cx))?;
            self.flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes the remaining output and closes the writing direction. May be polled again afterwards.
    ///
    /// # Errors
    ///
    /// As [`poll_write`](Self::poll_write).
    pub fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.closed {
            ready!(self.poll_write(cx))?;
            ready!(Pin::new(&mut self.writer).poll_close(cx))?;
            self.closed = true;
        }
        Poll::Ready(Ok(()))
    }
}

// Omits the output buffer.
debug_fields! { [R: fmt::Debug, W: fmt::Debug] Io<R, W>(self) {
    reader,
    writer,
    ended,
    unwritten = self.unwritten(),
} }

/// A reader and a writer as one stream, such as this process's standard input and output, for libraries that expect one.
///
/// Writes are buffered until they are flushed, or until 64 KiB have come together: the frames of several messages are one
/// write of the system.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// let (stdin, stdout) = mcp_smol::stdio()?;
/// let stream = mcp_smol::Duplex::new(stdin, stdout);
/// # drop(stream);
/// # Ok(())
/// # }
/// ```
pub struct Duplex<R, W> {
    reader: R,
    writer: W,
    outgoing: Vec<u8>,
    written: usize,
}

impl<R, W> Duplex<R, W> {
    /// Reads from one half and writes to the other.
    pub fn new(reader: R, writer: W) -> Self {
        Self { reader, writer, outgoing: Vec::new(), written: 0 }
    }
}

impl<R, W: AsyncWrite + Unpin> Duplex<R, W> {
    /// Writes the buffered bytes. Ready once nothing is left.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(unwritten) = self.outgoing.get(self.written..)
            && !unwritten.is_empty()
        {
            match ready!(Pin::new(&mut self.writer).poll_write(cx, unwritten))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                length => self.written += length,
            }
        }
        self.outgoing.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }
}

impl<R: AsyncRead + Unpin, W: Unpin> AsyncRead for Duplex<R, W> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.reader).poll_read(cx, buf)
    }
}

impl<R: Unpin, W: AsyncWrite + Unpin> AsyncWrite for Duplex<R, W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.outgoing.len() >= BLOCK {
            ready!(self.poll_send(cx))?;
        }
        self.outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.writer).poll_close(cx)
    }
}

// Omits the buffered output.
debug_fields! { [R: fmt::Debug, W: fmt::Debug] Duplex<R, W> { reader, writer } }

/// How long a peer that has stopped reading may still send, such as its last answers and error output.
const READ_GRACE: Duration = Duration::from_secs(1);

/// [`Io`] that remembers how its directions have ended.
#[derive(Debug)]
pub struct Pump<R, W> {
    io: Io<R, W>,
    sending: SendState,
    /// Whether the peer has taken bytes since the last [`take_progress`](Self::take_progress).
    progressed: bool,
}

#[derive(Debug)]
enum SendState {
    Open,
    Closing,
    Closed,
    /// The reason, until it is reported; and how long to wait for more input.
    Failed {
        error: Option<io::Error>,
        deadline: Option<Instant>,
    },
}

//= F36 "End of input or a broken pipe closes the connection for good"
/// Why reading has ended.
#[derive(Debug)]
pub(crate) enum ReadEnd {
    /// The peer closed its side.
    Eof,
    Read(io::Error),
    /// Writing failed, and the peer has sent nothing since.
    Write(io::Error),
}

// Empty for a plain end of file.
display_text! { ReadEnd:
    Eof => "";
    Read(error) => "reading from it failed: {error}";
    Write(error) => "writing to it failed: {error}";
}

impl<R, W> Pump<R, W> {
    pub(crate) fn new(reader: R, writer: W) -> Self {
        Self { io: Io::new(reader, writer), sending: SendState::Open, progressed: false }
    }

    /// The reader and the writer.
    pub(crate) fn streams(&mut self) -> (&mut R, &mut W) {
        (&mut self.io.reader, &mut self.io.writer)
    }

    /// Closes the writing direction once its buffer is written.
    pub(crate) fn close_write(&mut self) {
        if let SendState::Open = self.sending {
            self.sending = SendState::Closing;
        }
    }

    /// Whether nothing more can be written, because the writing direction is closed or has failed.
    pub(crate) fn has_closed(&self) -> bool {
        matches!(self.sending, SendState::Closed | SendState::Failed { .. })
    }

    /// Whether [`close_write`](Self::close_write) was called, and writing has not failed.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.sending, SendState::Closing | SendState::Closed)
    }

    /// Whether the writing direction was closed by [`close_write`](Self::close_write), not by a failure.
    pub(crate) fn is_half_closed(&self) -> bool {
        matches!(self.sending, SendState::Closed)
    }

    /// When reading ends because writing has failed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if let SendState::Failed { deadline, .. } = self.sending { deadline } else { None }
    }

    /// Bytes not yet written.
    pub(crate) fn unwritten(&self) -> usize {
        self.io.unwritten()
    }

    /// Whether the peer has taken bytes since the last call.
    pub(crate) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progressed)
    }

    /// The output buffer to append to; `None` while earlier output is being written.
    pub(crate) fn outgoing(&mut self) -> Option<&mut Vec<u8>> {
        if let SendState::Open = self.sending { self.io.outgoing() } else { None }
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Pump<R, W> {
    /// Continues writing. [`poll_read`](Self::poll_read) reports a failure once reading has ended.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, clock: &SystemClock) {
        let before = self.unwritten();
        let written = match self.sending {
            SendState::Open => self.io.poll_write(cx),
            SendState::Closing => self.io.poll_close(cx).map_ok(|()| self.sending = SendState::Closed),
            SendState::Closed | SendState::Failed { .. } => return,
        };
        self.progressed |= self.unwritten() < before;
        if let Poll::Ready(Err(error)) = written {
            self.sending = SendState::Failed { error: Some(error), deadline: Some(clock.now() + READ_GRACE) };
        }
    }

    /// Received bytes; `Err` once no more will come. To be polled at the [deadline](Self::deadline) too.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        clock: &SystemClock,
    ) -> Poll<Result<Bytes, ReadEnd>> {
        let end = match self.io.poll_read(cx) {
            Poll::Ready(Ok(bytes)) if bytes.is_empty() => ReadEnd::Eof,
            Poll::Ready(Ok(bytes)) => return Poll::Ready(Ok(bytes)),
            Poll::Ready(Err(error)) => ReadEnd::Read(error),
            Poll::Pending => match &mut self.sending {
                SendState::Failed { deadline, .. } if deadline.is_some_and(|end| end <= clock.now()) => {
                    *deadline = None;
                    ReadEnd::Eof
                }
                _ => return Poll::Pending,
            },
        };
        // The first failure explains the later ones.
        let failure =
            if let SendState::Failed { error, .. } = &mut self.sending { error.take() } else { None };
        Poll::Ready(Err(failure.map_or(end, ReadEnd::Write)))
    }
}

/// Implements `AsyncWrite` by an optional writer, whose descriptor closing drops: pipes have no half-close.
macro_rules! write_until_closed {
    ($stream:ty) => {
        impl futures_lite::AsyncWrite for $stream {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                match &mut self.0 {
                    Some(writer) => Pin::new(writer).poll_write(cx, bytes),
                    None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                }
            }

            fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.0.as_mut().map_or(Poll::Ready(Ok(())), |writer| Pin::new(writer).poll_flush(cx))
            }

            fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let flushed = std::task::ready!(self.as_mut().poll_flush(cx));
                self.0 = None;
                Poll::Ready(flushed)
            }
        }
    };
}
pub(crate) use write_until_closed;

#[cfg(test)]
mod tests;
