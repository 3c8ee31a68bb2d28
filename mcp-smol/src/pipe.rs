//! This process's ends of a child's standard input and output.

use std::io;
use std::pin::Pin;
use std::process;
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};

use crate::RuntimeKind;

/// Writes to the child's standard input.
///
/// [`close`](futures_lite::AsyncWriteExt::close), or dropping it, sends the end of file that asks a server to exit. A
/// write after the child has exited fails with [`io::ErrorKind::BrokenPipe`].
#[derive(Debug)]
pub struct ChildStdin(Option<os::Writer>);

/// Reads the child's standard output.
#[derive(Debug)]
pub struct ChildStdout(os::Reader);

impl ChildStdin {
    pub(crate) fn new(runtime: RuntimeKind, pipe: process::ChildStdin) -> io::Result<Self> {
        Ok(Self(Some(os::writer(runtime, pipe)?)))
    }
}

impl ChildStdout {
    pub(crate) fn new(runtime: RuntimeKind, pipe: process::ChildStdout) -> io::Result<Self> {
        Ok(Self(os::reader(runtime, pipe)?))
    }
}

impl AsyncRead for ChildStdout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        os::poll_read(&mut self.0, cx, buffer)
    }
}

impl AsyncWrite for ChildStdin {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Some(pipe) => os::poll_write(pipe, cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Some(pipe) => os::poll_flush(pipe, cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = std::task::ready!(self.as_mut().poll_flush(cx));
        // A pipe has no half-close: closing means dropping the descriptor.
        self.0 = None;
        Poll::Ready(flushed)
    }
}

#[cfg(unix)]
mod os {
    use super::*;
    use crate::watch::{Direction, Watch};

    pub(super) type Reader = Watch;
    pub(super) type Writer = Watch;

    /// Makes this process's end non-blocking. The child does not notice: its end has flags of its own.
    pub(super) fn reader(runtime: RuntimeKind, pipe: process::ChildStdout) -> io::Result<Reader> {
        Watch::nonblocking(runtime, pipe.into(), Direction::Read)
    }

    pub(super) fn writer(runtime: RuntimeKind, pipe: process::ChildStdin) -> io::Result<Writer> {
        Watch::nonblocking(runtime, pipe.into(), Direction::Write)
    }

    pub(super) fn poll_read(
        pipe: &mut Reader,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        pipe.poll_read(cx, buffer)
    }

    pub(super) fn poll_write(
        pipe: &mut Writer,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        pipe.poll_write(cx, bytes)
    }

    /// Does nothing: pipes are not buffered.
    pub(super) fn poll_flush(_: &mut Writer, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(windows)]
mod os {
    use super::*;
    use crate::threaded::{ThreadReader, ThreadWriter};

    /// Anonymous pipes cannot be polled on Windows.
    pub(super) type Reader = ThreadReader<process::ChildStdout>;
    pub(super) type Writer = ThreadWriter<process::ChildStdin>;

    pub(super) fn reader(_: RuntimeKind, pipe: process::ChildStdout) -> io::Result<Reader> {
        Ok(ThreadReader::new(pipe))
    }

    pub(super) fn writer(_: RuntimeKind, pipe: process::ChildStdin) -> io::Result<Writer> {
        Ok(ThreadWriter::new(pipe))
    }

    pub(super) fn poll_read(
        pipe: &mut Reader,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(pipe).poll_read(cx, buffer)
    }

    pub(super) fn poll_write(
        pipe: &mut Writer,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(pipe).poll_write(cx, bytes)
    }

    pub(super) fn poll_flush(pipe: &mut Writer, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(pipe).poll_flush(cx)
    }
}
