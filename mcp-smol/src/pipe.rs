//! This process's ends of a child's standard input and output.

use std::io;
use std::pin::Pin;
use std::process;
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};

/// Writes to the child's standard input.
///
/// [`close`](futures_lite::AsyncWriteExt::close), or dropping it, sends the end of file that asks a server to exit. A
/// write after the child has exited fails with [`io::ErrorKind::BrokenPipe`].
#[derive(Debug)]
pub struct ChildStdin(Option<os::Pipe<process::ChildStdin>>);

/// Reads the child's standard output.
#[derive(Debug)]
pub struct ChildStdout(os::Pipe<process::ChildStdout>);

impl ChildStdin {
    pub(crate) fn new(pipe: process::ChildStdin) -> io::Result<Self> {
        Ok(Self(Some(os::pipe(pipe)?)))
    }
}

impl ChildStdout {
    pub(crate) fn new(pipe: process::ChildStdout) -> io::Result<Self> {
        Ok(Self(os::pipe(pipe)?))
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
    use std::os::fd::AsFd;

    use async_io::Async;

    use super::*;
    use crate::ready_io::ReadyIo;

    pub(super) type Pipe<T> = ReadyIo<T>;

    /// Makes this process's end non-blocking. The child does not notice: its end has flags of its own.
    pub(super) fn pipe<T: AsFd>(pipe: T) -> io::Result<Pipe<T>> {
        Ok(ReadyIo::new(Async::new(pipe)?))
    }

    pub(super) fn poll_read<T: AsFd>(
        pipe: &mut Pipe<T>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        pipe.poll_read(cx, buffer)
    }

    pub(super) fn poll_write<T: AsFd>(
        pipe: &mut Pipe<T>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        pipe.poll_write(cx, bytes)
    }

    /// Does nothing: pipes are not buffered.
    pub(super) fn poll_flush<T>(_: &mut Pipe<T>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(windows)]
mod os {
    use blocking::Unblock;

    use super::*;

    /// Anonymous pipes cannot be polled on Windows.
    pub(super) type Pipe<T> = Unblock<T>;

    pub(super) fn pipe<T>(pipe: T) -> io::Result<Pipe<T>> {
        Ok(Unblock::new(pipe))
    }

    pub(super) fn poll_read<T: io::Read + Send + 'static>(
        pipe: &mut Pipe<T>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(pipe).poll_read(cx, buffer)
    }

    pub(super) fn poll_write<T: io::Write + Send + 'static>(
        pipe: &mut Pipe<T>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(pipe).poll_write(cx, bytes)
    }

    pub(super) fn poll_flush<T: io::Write + Send + 'static>(
        pipe: &mut Pipe<T>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(pipe).poll_flush(cx)
    }
}
