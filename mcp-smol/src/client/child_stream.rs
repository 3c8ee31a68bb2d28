//! A child's standard streams as one stream, for libraries that expect one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::adapter::SystemClock;

use super::link::{ChildLink, Link as _, LinkEvent};
use crate::io::{BLOCK, Pump};
use crate::reactor::Alarm;
use crate::{Command, Killer, RuntimeKind, SpawnError, StderrLine};

/// The standard input and output of a child process as one stream, whose end says how the process ended.
///
/// Writes are buffered until they are flushed, or until 64 KiB have come together. Reading ends with an error that has the
/// exit status and the last lines of standard error. Closing it ends the child's input, discards its remaining output,
/// and waits until the process has exited, by the steps of [`Command::shutdown`]. Dropping it ends the process at once, as
/// described at [`Process`](crate::Process).
///
/// ```no_run
/// use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
/// use mcp_smol::{ChildStream, Command};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let mut stream = ChildStream::spawn(Command::new("my-server"), |line| eprintln!("{}", line.text))?;
/// stream.write_all(b"hello").await?;
/// stream.flush().await?;
/// let mut answer = [0; 5];
/// stream.read_exact(&mut answer).await?;
/// stream.close().await?;
/// # Ok(())
/// # }
/// ```
pub struct ChildStream {
    link: ChildLink,
    clock: SystemClock,
    alarm: Alarm,
    /// Output of the child that is not read yet.
    unread: Bytes,
    /// Input for the child that is not flushed yet.
    unsent: Vec<u8>,
    /// How the process ended.
    end: Option<String>,
}

impl ChildStream {
    /// Starts a program. `show` gets each line of its standard error while the stream is polled, and must return quickly;
    /// errors quote the last lines besides.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn spawn(
        command: Command,
        show: impl FnMut(StderrLine) + Send + 'static,
    ) -> Result<Self, SpawnError> {
        let (clock, runtime) = (SystemClock::new(), RuntimeKind::default());
        let mut link = ChildLink::new(command, runtime, Some(Box::new(show)));
        link.open();
        if let Some(error) = link.spawn_error.take() {
            return Err(error);
        }
        let alarm = Alarm::new(runtime.into(), clock);
        Ok(Self { link, clock, alarm, unread: Bytes::new(), unsent: Vec::new(), end: None })
    }

    /// A handle that kills the program at once, for programs that cannot wait for the shutdown steps.
    pub fn killer(&self) -> Killer {
        self.link.killer.clone()
    }

    /// Waits for output or for the end. Ready once there is either.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.link.poll_event(cx, &self.clock) {
                Poll::Ready(LinkEvent::Opened) => {}
                Poll::Ready(LinkEvent::Input(bytes)) => self.unread = bytes,
                Poll::Ready(LinkEvent::Ended(detail) | LinkEvent::OpenFailed(detail)) => {
                    self.end = Some(detail);
                }
                Poll::Pending => {
                    ready!(self.alarm.poll_until(self.link.deadline(), cx));
                    continue;
                }
            }
            if self.end.is_some() || !self.unread.is_empty() {
                return Poll::Ready(());
            }
        }
    }

    /// Writes the buffered bytes. Ready once nothing is left. If the child no longer reads, the next read gives the reason.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { link, clock, unsent, .. } = self;
        let Some(pump) = link.pump() else {
            unsent.clear();
            return Poll::Ready(());
        };
        loop {
            pump.poll_write(cx, clock);
            if pump.has_closed() {
                unsent.clear();
                // Reading has a deadline now.
                cx.waker().wake_by_ref();
                return Poll::Ready(());
            }
            match pump.outgoing() {
                Some(_) if unsent.is_empty() => return Poll::Ready(()),
                Some(outgoing) => outgoing.append(unsent),
                None => return Poll::Pending,
            }
        }
    }
}

impl AsyncRead for ChildStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.unread.is_empty() && self.end.is_none() {
            ready!(self.poll_event(cx));
        }
        if let (true, Some(end)) = (self.unread.is_empty(), &self.end) {
            return Poll::Ready(Err(io::Error::other(end.clone())));
        }
        let length = self.unread.len().min(buf.len());
        self.unread.copy_to_slice(buf.get_mut(..length).unwrap_or_default());
        Poll::Ready(Ok(length))
    }
}

impl AsyncWrite for ChildStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.unsent.len() >= BLOCK {
            ready!(self.poll_send(cx));
        }
        self.unsent.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx).map(Ok)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx));
        self.link.pump().into_iter().for_each(Pump::close_write);
        let clock = self.clock;
        while !self.link.is_closed() {
            self.link.pump().into_iter().for_each(|pump| pump.poll_write(cx, &clock));
            ready!(self.poll_event(cx));
            self.unread.clear();
        }
        Poll::Ready(Ok(()))
    }
}

debug_fields! { ChildStream { link, end } }
