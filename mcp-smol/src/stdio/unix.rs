//! Non-blocking use of descriptors whose flags other processes share.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use async_io::Async;
use blocking::Unblock;
use futures_lite::{AsyncRead, AsyncWrite};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::{RecvFlags, SendFlags};

use crate::reactor::start_reactor;
use crate::ready_io::ReadyIo;

/// Descriptors below this are the standard streams, which other code uses by number.
const FIRST_OTHER: i32 = 3;

/// One direction of a standard stream.
#[derive(Debug)]
pub(super) enum Channel {
    /// Opened a second time, so non-blocking only for this process.
    Pipe(ReadyIo<OwnedFd>),
    /// Each call carries a flag not to block.
    Socket(ReadyIo<OwnedFd>),
    /// Blocks a thread.
    Other(Unblock<File>),
}

pub(super) type Source = Channel;
pub(super) type Sink = Channel;

pub(super) fn open() -> io::Result<(Source, Sink)> {
    start_reactor()?;
    Ok((channel(rustix::stdio::stdin(), OFlags::RDONLY)?, channel(rustix::stdio::stdout(), OFlags::WRONLY)?))
}

/// Redirects descriptors 0 and 1 to `/dev/null` and standard error.
pub(super) fn redirect() -> io::Result<()> {
    let nothing = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(nothing)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(())
}

fn channel(fd: BorrowedFd<'_>, access: OFlags) -> io::Result<Channel> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
    if kind == FileType::Fifo
        && let Some(pipe) = reopen(fd, access)
        && let Ok(pipe) = Async::new_nonblocking(pipe)
    {
        return Ok(Channel::Pipe(ReadyIo::new(pipe)));
    }
    let own = rustix::io::fcntl_dupfd_cloexec(fd, FIRST_OTHER)?;
    Ok(match kind {
        FileType::Socket => Channel::Socket(ReadyIo::new(Async::new_nonblocking(own)?)),
        _ => Channel::Other(Unblock::new(File::from(own))),
    })
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

impl AsyncRead for Channel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Pipe(pipe) => pipe.poll_read(cx, buffer),
            Self::Socket(socket) => socket
                .poll_read_with(cx, |fd| Ok(rustix::net::recv(fd, &mut *buffer, RecvFlags::DONTWAIT)?.1)),
            Self::Other(other) => Pin::new(other).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Channel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Pipe(pipe) => pipe.poll_write(cx, bytes),
            Self::Socket(socket) => {
                socket.poll_write_with(cx, |fd| rustix::net::send(fd, bytes, SendFlags::DONTWAIT))
            }
            Self::Other(other) => Pin::new(other).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            // Neither is buffered.
            Self::Pipe(_) | Self::Socket(_) => Poll::Ready(Ok(())),
            Self::Other(other) => Pin::new(other).poll_flush(cx),
        }
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            // Dropping closes them. Shutting a socket down would end it for every process that shares it.
            Self::Pipe(_) | Self::Socket(_) => Poll::Ready(Ok(())),
            Self::Other(other) => Pin::new(other).poll_close(cx),
        }
    }
}
