//! This process's own standard input and output, for a server that speaks over them.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as os;
#[cfg(windows)]
use windows as os;

/// This process's standard input.
#[derive(Debug)]
pub struct Stdin(os::Source);

/// This process's standard output.
#[derive(Debug)]
pub struct Stdout(Option<os::Sink>);

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes this process's standard input and output, for the protocol and nothing else.
///
/// A server must not write anything but messages to its standard output, yet any library may `println!`, and
/// any program started by a handler inherits both streams. So on Unix descriptor 1 is made to lead to
/// standard error and descriptor 0 to `/dev/null`: what is printed is logged, a child process cannot swallow
/// requests, and the streams returned here lead where those did before. To leave the descriptors alone there
/// is [`stdio_shared`], which also is what this function does on Windows.
///
/// Input that was read through [`std::io::stdin`] before, and so may have been buffered there, is lost to the
/// stream returned.
///
/// # How they are read and written
///
/// Pipes (Linux) and sockets (Unix) are polled, as is everything else in this crate. That they do not block
/// is not a property of the descriptors, which are shared with whoever started us and would stay that way
/// after our end: on Linux a pipe is opened again through `/proc`, and sockets are asked not to block call by
/// call. Files, terminals and what else cannot be polled, pipes on other systems and where `/proc` is missing
/// or closed to us, and everything on Windows go through a thread of the `blocking` pool, which costs a
/// switch of threads per read and write.
///
/// Specification 2026-07-28, basic/transports/stdio.
///
/// # Errors
///
/// [`io::ErrorKind::AlreadyExists`] if they were taken before; otherwise the system's.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// let (stdin, stdout) = mcp_smol::stdio()?;
/// let io = mcp_smol::Io::new(stdin, stdout);
/// println!("this goes to standard error");
/// # Ok(())
/// # }
/// ```
pub fn stdio() -> io::Result<(Stdin, Stdout)> {
    take(|| {
        let streams = os::open()?;
        os::redirect()?;
        Ok(streams)
    })
}

/// Like [`stdio`], but leaves the descriptors 0 and 1 in place.
///
/// Nobody else may use them: a stray `println!` corrupts the conversation.
///
/// # Errors
///
/// As [`stdio`].
pub fn stdio_shared() -> io::Result<(Stdin, Stdout)> {
    take(os::open)
}

fn take(open: impl FnOnce() -> io::Result<(os::Source, os::Sink)>) -> io::Result<(Stdin, Stdout)> {
    if TAKEN.swap(true, Ordering::AcqRel) {
        let error = "standard input and output have been taken already";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, error));
    }
    match open() {
        Ok((source, sink)) => Ok((Stdin(source), Stdout(Some(sink)))),
        Err(error) => {
            TAKEN.store(false, Ordering::Release);
            Err(error)
        }
    }
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stdout {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Some(sink) => Pin::new(sink).poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Some(sink) => Pin::new(sink).poll_flush(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    /// The client sees the end of our output, unless another process shares it.
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(sink) = &mut self.0 else { return Poll::Ready(Ok(())) };
        let closed = std::task::ready!(Pin::new(sink).poll_close(cx));
        self.0 = None;
        Poll::Ready(closed)
    }
}
