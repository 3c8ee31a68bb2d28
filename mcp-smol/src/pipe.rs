//! Our ends of a child's standard input and output.

use std::io;
use std::pin::Pin;
use std::process;
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};

/// Where the child reads from: its standard input.
///
/// [`close`](futures_lite::AsyncWriteExt::close), or dropping it, is the end of file that asks a server to
/// leave. A write to a child that has gone fails with [`io::ErrorKind::BrokenPipe`].
#[derive(Debug)]
pub struct ChildStdin(Option<os::Pipe<process::ChildStdin>>);

/// What the child writes: its standard output.
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
        // A pipe has no half-close: it is closed when its descriptor is.
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

    /// Makes our end non-blocking, which is invisible to the child: its end has flags of its own.
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

    /// Nothing is held back.
    pub(super) fn poll_flush<T>(_: &mut Pipe<T>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(windows)]
mod os {
    use blocking::Unblock;

    use super::*;

    /// Anonymous pipes cannot be polled there.
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
