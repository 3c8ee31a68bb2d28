//! This process's own standard input and output, for a server that communicates over them.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};

use crate::RuntimeKind;

#[cfg(unix)]
pub(crate) mod unix;
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

/// Takes this process's standard input and output exclusively for the protocol.
///
/// A server must write only messages to its standard output, yet any library may `println!`, and any program
/// started by a handler inherits both streams. So on Unix this function redirects descriptor 1 to standard error
/// and descriptor 0 to `/dev/null`: printed text is logged, a child process cannot swallow requests, and the
/// returned streams lead where the descriptors led before. To leave the descriptors alone use [`stdio_shared`];
/// on Windows both functions do the same.
///
/// Input that was read through [`std::io::stdin`] before, and so may have been buffered there, is lost to the
/// stream returned.
///
/// # How they are read and written
///
/// Pipes (Linux) and sockets (Unix) are polled, as all other I/O in this crate. Setting the descriptors themselves
/// non-blocking would affect the parent process, which shares them, even after this process has ended. So on Linux
/// the crate opens a pipe a second time through `/proc`, and it reads and writes sockets with a flag not to block in
/// each call. Files, terminals and other descriptors that cannot be polled, pipes on other systems or without access
/// to `/proc`, and everything on Windows go through a thread each, which costs a thread switch per read and write.
///
/// Specification 2026-07-28, basic/transports/stdio.
///
/// # Errors
///
/// [`io::ErrorKind::AlreadyExists`] if the streams are already taken; otherwise the system's.
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
    stdio_on(RuntimeKind::default())
}

/// [`stdio`] on a runtime.
pub(crate) fn stdio_on(runtime: RuntimeKind) -> io::Result<(Stdin, Stdout)> {
    take(|| {
        runtime.start()?;
        let (source, sink) = os::streams(os::open()?, runtime)?;
        redirect()?;
        Ok((Stdin(source), Stdout(Some(sink))))
    })
}

/// Takes the descriptors like [`stdio`], to use them without a runtime.
#[cfg(all(unix, feature = "server"))]
pub(crate) fn stdio_descriptors() -> io::Result<os::Descriptors> {
    take(|| {
        let descriptors = os::open()?;
        redirect()?;
        Ok(descriptors)
    })
}

//= S2.1 "Only MCP messages on stdout"
//= S2.1 "logs to stderr"
fn redirect() -> io::Result<()> {
    os::redirect()
}

/// Like [`stdio`], but leaves the descriptors 0 and 1 in place.
///
/// No other code may use them: a stray `println!` corrupts the conversation.
///
/// # Errors
///
/// As [`stdio`].
pub fn stdio_shared() -> io::Result<(Stdin, Stdout)> {
    take(|| {
        let runtime = RuntimeKind::default();
        runtime.start()?;
        let (source, sink) = os::streams(os::open()?, runtime)?;
        Ok((Stdin(source), Stdout(Some(sink))))
    })
}

fn take<T>(open: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if TAKEN.swap(true, Ordering::AcqRel) {
        let error = "standard input and output are already taken";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, error));
    }
    open().inspect_err(|_| TAKEN.store(false, Ordering::Release))
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

    /// The client sees the end of the output, unless another process shares it.
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(sink) = &mut self.0 else { return Poll::Ready(Ok(())) };
        let closed = std::task::ready!(Pin::new(sink).poll_close(cx));
        self.0 = None;
        Poll::Ready(closed)
    }
}
