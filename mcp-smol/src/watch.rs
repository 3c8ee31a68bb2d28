//! A non-blocking descriptor that is read and written only when the reactor says it is ready.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

#[cfg(feature = "smol")]
use async_io::Async;
use futures_lite::{AsyncRead, AsyncWrite};
#[cfg(feature = "smol")]
use mcp_proto::adapter::WakeFlag;
use rustix::io::Errno;
#[cfg(feature = "tokio")]
use tokio::net::unix::pipe;

use crate::RuntimeKind;

/// A descriptor, watched for one direction by the reactor of a [`RuntimeKind`].
///
/// A read that fills only a part of its buffer has emptied a pipe or socket, so the next one waits for readiness instead
/// of being tried in vain; a partial write has filled it. Terminals and files, where that is not so, are not watched.
#[derive(Debug)]
pub(crate) enum Watch {
    /// `Async` by itself tries each operation first, and once more after each success, because the event it waited for
    /// still counts.
    #[cfg(feature = "smol")]
    Smol { io: Async<OwnedFd>, direction: Direction, awaits: bool, flag: WakeFlag },
    /// tokio's pipes take any descriptor; no other of its types does so without `unsafe`.
    #[cfg(feature = "tokio")]
    TokioReader(pipe::Receiver),
    #[cfg(feature = "tokio")]
    TokioWriter(pipe::Sender),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Watch {
    /// Watches a descriptor, each of whose operations must be one that does not block.
    pub(crate) fn new(runtime: RuntimeKind, fd: OwnedFd, direction: Direction) -> io::Result<Self> {
        Ok(match (runtime, direction) {
            #[cfg(feature = "smol")]
            (RuntimeKind::Smol, _) => {
                let (io, flag) = (Async::new_nonblocking(fd)?, WakeFlag::default());
                Self::Smol { io, direction, awaits: false, flag }
            }
            #[cfg(feature = "tokio")]
            (RuntimeKind::Tokio, Direction::Read) => {
                Self::TokioReader(pipe::Receiver::from_owned_fd_unchecked(fd)?)
            }
            #[cfg(feature = "tokio")]
            (RuntimeKind::Tokio, Direction::Write) => {
                Self::TokioWriter(pipe::Sender::from_owned_fd_unchecked(fd)?)
            }
        })
    }

    /// Watches a descriptor whose flags belong to this process alone, and sets it non-blocking.
    pub(crate) fn nonblocking(runtime: RuntimeKind, fd: OwnedFd, direction: Direction) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Self::new(runtime, fd, direction)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            #[cfg(feature = "smol")]
            Self::Smol { io, .. } => io.get_ref().as_fd(),
            #[cfg(feature = "tokio")]
            Self::TokioReader(pipe) => pipe.as_fd(),
            #[cfg(feature = "tokio")]
            Self::TokioWriter(pipe) => pipe.as_fd(),
        }
    }

    /// Waits for readiness: on async-io for the next event, on tokio until an operation has found it exhausted.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            #[cfg(feature = "smol")]
            Self::Smol { io, direction, flag, .. } => {
                // If the reactor has a thread of its own, only the wake tells: see `WakeFlag`.
                flag.poll_ready(cx, |cx| match direction {
                    Direction::Read => io.poll_readable(cx),
                    Direction::Write => io.poll_writable(cx),
                })
            }
            #[cfg(feature = "tokio")]
            Self::TokioReader(pipe) => pipe.poll_read_ready(cx),
            #[cfg(feature = "tokio")]
            Self::TokioWriter(pipe) => pipe.poll_write_ready(cx),
        }
    }

    /// Reads or writes up to `most` bytes by `operate`.
    pub(crate) fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        mut operate: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if self.must_wait() {
                ready!(self.poll_ready(cx))?;
            }
            match self.try_once(most, &mut operate) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                result => return Poll::Ready(result.map_err(io::Error::from)),
            }
        }
    }

    fn must_wait(&self) -> bool {
        match self {
            #[cfg(feature = "smol")]
            Self::Smol { awaits, .. } => *awaits,
            #[cfg(feature = "tokio")]
            Self::TokioReader(_) | Self::TokioWriter(_) => true,
        }
    }

    /// Runs the operation, and notes whether the next one must wait.
    fn try_once(
        &mut self,
        most: usize,
        operate: &mut impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<usize>,
    ) -> rustix::io::Result<usize> {
        // tokio notes that if the operation seems to fail.
        #[cfg(feature = "tokio")]
        fn noted(
            result: &mut rustix::io::Result<usize>,
            most: usize,
            operate: impl FnOnce() -> rustix::io::Result<usize>,
        ) -> io::Result<()> {
            *result = operate();
            if is_exhausted(*result, most) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        }

        match self {
            #[cfg(feature = "smol")]
            Self::Smol { io, awaits, .. } => {
                let result = operate(io.get_ref().as_fd());
                *awaits = is_exhausted(result, most);
                result
            }
            #[cfg(feature = "tokio")]
            Self::TokioReader(pipe) => {
                let mut result = Err(Errno::AGAIN);
                let _ = pipe.try_io(|| noted(&mut result, most, || operate(pipe.as_fd())));
                result
            }
            #[cfg(feature = "tokio")]
            Self::TokioWriter(pipe) => {
                let mut result = Err(Errno::AGAIN);
                let _ = pipe.try_io(|| noted(&mut result, most, || operate(pipe.as_fd())));
                result
            }
        }
    }
}

impl AsyncRead for Watch {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_with(cx, buf.len(), |fd| rustix::io::read(fd, &mut *buf))
    }
}

impl AsyncWrite for Watch {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_with(cx, bytes.len(), |fd| rustix::io::write(fd, bytes))
    }

    /// Does nothing: descriptors are not buffered.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing: dropping it closes the descriptor.
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Whether the next operation would find the descriptor not ready.
fn is_exhausted(result: rustix::io::Result<usize>, most: usize) -> bool {
    match result {
        Ok(length) => length < most,
        Err(error) => error == Errno::AGAIN,
    }
}
