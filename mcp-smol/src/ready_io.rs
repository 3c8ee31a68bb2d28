//! A descriptor whose readiness is checked before each operation is tried.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};

use async_io::Async;
use rustix::io::Errno;

/// Like [`Async`], but tries an operation only when the descriptor is ready.
///
/// `Async` tries the operation in every poll, and once more after each success because the event it waited for still
/// counts. This type saves that system call per message, and a poll for another reason costs none.
#[derive(Debug)]
pub(crate) struct ReadyIo<T> {
    io: Async<T>,
    awaits_read: bool,
    awaits_write: bool,
}

impl<T: AsFd> ReadyIo<T> {
    pub(crate) fn new(io: Async<T>) -> Self {
        Self { io, awaits_read: false, awaits_write: false }
    }

    pub(crate) fn poll_read_with(
        &mut self,
        cx: &mut Context<'_>,
        mut read: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if self.awaits_read {
                ready!(self.io.poll_readable(cx))?;
                self.awaits_read = false;
            }
            match read(self.io.get_ref().as_fd()) {
                Err(Errno::AGAIN) => self.awaits_read = true,
                Err(Errno::INTR) => {}
                result => return Poll::Ready(result.map_err(io::Error::from)),
            }
        }
    }

    pub(crate) fn poll_write_with(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if self.awaits_write {
                ready!(self.io.poll_writable(cx))?;
                self.awaits_write = false;
            }
            match write(self.io.get_ref().as_fd()) {
                Err(Errno::AGAIN) => self.awaits_write = true,
                Err(Errno::INTR) => {}
                result => return Poll::Ready(result.map_err(io::Error::from)),
            }
        }
    }

    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_read_with(cx, |fd| rustix::io::read(fd, &mut *buffer))
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |fd| rustix::io::write(fd, bytes))
    }
}
