//! Our ends of a child's standard input and output.

use std::io;
use std::pin::Pin;
use std::process;
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};

// A pipe has two ends with flags of their own, so making ours non-blocking is invisible to the child.
#[cfg(unix)]
type Pipe<T> = async_io::Async<T>;
// Anonymous pipes cannot be polled there.
#[cfg(windows)]
type Pipe<T> = blocking::Unblock<T>;

/// Where the child reads from: its standard input.
///
/// [`close`](futures_lite::AsyncWriteExt::close), or dropping it, is the end of file that asks a server to leave. A write
/// to a child that has gone fails with [`io::ErrorKind::BrokenPipe`].
#[derive(Debug)]
pub struct ChildStdin(Option<Pipe<process::ChildStdin>>);

/// What the child writes: its standard output.
#[derive(Debug)]
pub struct ChildStdout(Pipe<process::ChildStdout>);

#[cfg(unix)]
impl ChildStdin {
    pub(crate) fn new(pipe: process::ChildStdin) -> io::Result<Self> {
        Ok(Self(Some(Pipe::new(pipe)?)))
    }
}

#[cfg(unix)]
impl ChildStdout {
    pub(crate) fn new(pipe: process::ChildStdout) -> io::Result<Self> {
        Ok(Self(Pipe::new(pipe)?))
    }
}

#[cfg(windows)]
impl ChildStdin {
    pub(crate) fn new(pipe: process::ChildStdin) -> io::Result<Self> {
        Ok(Self(Some(Pipe::new(pipe))))
    }
}

#[cfg(windows)]
impl ChildStdout {
    pub(crate) fn new(pipe: process::ChildStdout) -> io::Result<Self> {
        Ok(Self(Pipe::new(pipe)))
    }
}

impl AsyncRead for ChildStdout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for ChildStdin {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Some(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Some(pipe) => Pin::new(pipe).poll_flush(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(pipe) = &mut self.0 else { return Poll::Ready(Ok(())) };
        let closed = std::task::ready!(Pin::new(pipe).poll_close(cx));
        // A pipe has no half-close: it is closed when its descriptor is.
        self.0 = None;
        Poll::Ready(closed)
    }
}
