//! Non-blocking use of descriptors whose flags other processes share.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::{RecvFlags, SendFlags};

use crate::RuntimeKind;
use crate::threaded::{ThreadReader, ThreadWriter};
use crate::watch::{Direction, Watch};

/// Descriptors below this are the standard streams, which other code uses by number.
const FIRST_OTHER: i32 = 3;

/// This process's own copy of the descriptor of a standard stream.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) fd: OwnedFd,
    pub(crate) kind: Kind,
}

/// How a descriptor is used without setting the flags that it shares with other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A pipe opened a second time, so non-blocking only for this process.
    Pipe,
    /// Each call carries a flag not to block.
    Socket,
    /// Operations block.
    Other,
}

/// One direction of a standard stream.
#[derive(Debug)]
pub(super) enum Channel<T> {
    Watched(Watch, Kind),
    /// Blocks a thread.
    Threaded(T),
}

pub(super) type Source = Channel<ThreadReader<File>>;
pub(super) type Sink = Channel<ThreadWriter<File>>;

pub(crate) type Descriptors = (Descriptor, Descriptor);

/// Opens standard input and output.
pub(super) fn open() -> io::Result<Descriptors> {
    let stdin = descriptor(rustix::stdio::stdin(), OFlags::RDONLY)?;
    Ok((stdin, descriptor(rustix::stdio::stdout(), OFlags::WRONLY)?))
}

/// Makes streams of the descriptors, on a runtime.
pub(super) fn streams((stdin, stdout): Descriptors, runtime: RuntimeKind) -> io::Result<(Source, Sink)> {
    let source = channel(stdin, runtime, Direction::Read, ThreadReader::new)?;
    Ok((source, channel(stdout, runtime, Direction::Write, ThreadWriter::new)?))
}

fn channel<T>(
    descriptor: Descriptor,
    runtime: RuntimeKind,
    direction: Direction,
    threaded: impl FnOnce(File) -> T,
) -> io::Result<Channel<T>> {
    let Descriptor { fd, kind } = descriptor;
    Ok(match kind {
        Kind::Pipe | Kind::Socket => Channel::Watched(Watch::new(runtime, fd, direction)?, kind),
        Kind::Other => Channel::Threaded(threaded(File::from(fd))),
    })
}

/// Redirects descriptors 0 and 1 to `/dev/null` and standard error.
pub(super) fn redirect() -> io::Result<()> {
    let nothing = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(nothing)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(())
}

fn descriptor(fd: BorrowedFd<'_>, access: OFlags) -> io::Result<Descriptor> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
    if kind == FileType::Fifo
        && let Some(fd) = reopen(fd, access)
    {
        return Ok(Descriptor { fd, kind: Kind::Pipe });
    }
    let fd = rustix::io::fcntl_dupfd_cloexec(fd, FIRST_OTHER)?;
    let kind = if kind == FileType::Socket { Kind::Socket } else { Kind::Other };
    Ok(Descriptor { fd, kind })
}

/// Opens the same pipe again, with flags of its own. Fails if it belongs to another user, or if its other end is
/// closed.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn reopen(fd: BorrowedFd<'_>, access: OFlags) -> Option<OwnedFd> {
    use std::os::fd::AsRawFd as _;

    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Not possible here: opening `/dev/fd` on these systems shares the flags.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn reopen(_: BorrowedFd<'_>, _: OFlags) -> Option<OwnedFd> {
    None
}

/// Reads once, without blocking if the kind of descriptor allows that.
pub(crate) fn read(fd: BorrowedFd<'_>, kind: Kind, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    match kind {
        Kind::Pipe | Kind::Other => rustix::io::read(fd, buffer),
        Kind::Socket => Ok(rustix::net::recv(fd, buffer, RecvFlags::DONTWAIT)?.1),
    }
}

/// Writes once, without blocking if the kind of descriptor allows that.
pub(crate) fn write(fd: BorrowedFd<'_>, kind: Kind, bytes: &[u8]) -> rustix::io::Result<usize> {
    match kind {
        Kind::Pipe | Kind::Other => rustix::io::write(fd, bytes),
        Kind::Socket => rustix::net::send(fd, bytes, SendFlags::DONTWAIT),
    }
}

impl AsyncRead for Source {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Watched(watch, kind) => {
                watch.poll_with(cx, buffer.len(), |fd| read(fd, *kind, &mut *buffer))
            }
            Self::Threaded(reader) => Pin::new(reader).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Sink {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Watched(watch, kind) => watch.poll_with(cx, bytes.len(), |fd| write(fd, *kind, bytes)),
            Self::Threaded(writer) => Pin::new(writer).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            // Neither pipes nor sockets are buffered.
            Self::Watched(..) => Poll::Ready(Ok(())),
            Self::Threaded(writer) => Pin::new(writer).poll_flush(cx),
        }
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            // Dropping closes them. Shutting a socket down would end it for every process that shares it.
            Self::Watched(..) => Poll::Ready(Ok(())),
            Self::Threaded(writer) => Pin::new(writer).poll_close(cx),
        }
    }
}
