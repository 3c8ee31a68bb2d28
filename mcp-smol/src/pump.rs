//! Reads and writes an open stream until both directions have ended.

use std::fmt;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::Instant;
use mcp_proto::adapter::{Clock as _, SystemClock};

use crate::Io;

/// How long a peer that has stopped reading may still send, such as its last answers and error output.
const READ_GRACE: Duration = Duration::from_secs(1);

/// [`Io`] that remembers how its directions have ended.
#[derive(Debug)]
pub(crate) struct Pump<R, W> {
    io: Io<R, W>,
    sending: SendState,
}

#[derive(Debug)]
enum SendState {
    Open,
    Closing,
    Closed,
    /// The reason, until it is reported; and how long to wait for more input.
    Failed {
        error: Option<io::Error>,
        deadline: Option<Instant>,
    },
}

/// Why reading has ended.
#[derive(Debug)]
pub(crate) enum ReadEnd {
    /// The peer closed its side.
    Eof,
    Read(io::Error),
    /// Writing failed, and the peer has sent nothing since.
    Write(io::Error),
}

/// Empty for a plain end of file.
impl fmt::Display for ReadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eof => Ok(()),
            Self::Read(error) => write!(f, "reading from it failed: {error}"),
            Self::Write(error) => write!(f, "writing to it failed: {error}"),
        }
    }
}

impl<R, W> Pump<R, W> {
    pub(crate) fn new(reader: R, writer: W) -> Self {
        Self { io: Io::new(reader, writer), sending: SendState::Open }
    }

    /// The reader and the writer.
    pub(crate) fn streams(&mut self) -> (&mut R, &mut W) {
        self.io.streams()
    }

    /// Closes the writing direction once its buffer is written.
    pub(crate) fn close_write(&mut self) {
        if let SendState::Open = self.sending {
            self.sending = SendState::Closing;
        }
    }

    /// Whether nothing more can be written, because the writing direction is closed or has failed.
    pub(crate) fn has_closed(&self) -> bool {
        matches!(self.sending, SendState::Closed | SendState::Failed { .. })
    }

    /// Whether the writing direction was closed by [`close_write`](Self::close_write), not by a failure.
    pub(crate) fn is_half_closed(&self) -> bool {
        matches!(self.sending, SendState::Closed)
    }

    /// When reading ends because writing has failed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.sending {
            SendState::Failed { deadline, .. } => deadline,
            SendState::Open | SendState::Closing | SendState::Closed => None,
        }
    }

    /// Bytes not yet written.
    pub(crate) fn unwritten(&self) -> usize {
        self.io.unwritten()
    }

    /// The output buffer to append to; `None` while earlier output is being written.
    pub(crate) fn outgoing(&mut self) -> Option<&mut Vec<u8>> {
        match self.sending {
            SendState::Open => self.io.outgoing(),
            SendState::Closing | SendState::Closed | SendState::Failed { .. } => None,
        }
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Pump<R, W> {
    /// Continues writing. [`poll_read`](Self::poll_read) reports a failure once reading has ended.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, clock: &SystemClock) {
        let written = match self.sending {
            SendState::Open => self.io.poll_write(cx),
            SendState::Closing => self.io.poll_close(cx).map_ok(|()| self.sending = SendState::Closed),
            SendState::Closed | SendState::Failed { .. } => return,
        };
        if let Poll::Ready(Err(error)) = written {
            self.sending = SendState::Failed { error: Some(error), deadline: Some(clock.now() + READ_GRACE) };
        }
    }

    /// Received bytes; `Err` once no more will come. To be polled at the [deadline](Self::deadline) too.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        clock: &SystemClock,
    ) -> Poll<Result<Bytes, ReadEnd>> {
        let end = match self.io.poll_read(cx) {
            Poll::Ready(Ok(bytes)) if bytes.is_empty() => ReadEnd::Eof,
            Poll::Ready(Ok(bytes)) => return Poll::Ready(Ok(bytes)),
            Poll::Ready(Err(error)) => ReadEnd::Read(error),
            Poll::Pending => match &mut self.sending {
                SendState::Failed { deadline, .. } if deadline.is_some_and(|end| end <= clock.now()) => {
                    *deadline = None;
                    ReadEnd::Eof
                }
                _ => return Poll::Pending,
            },
        };
        // The first failure explains the later ones.
        let failure = match &mut self.sending {
            SendState::Failed { error, .. } => error.take(),
            SendState::Open | SendState::Closing | SendState::Closed => None,
        };
        Poll::Ready(Err(failure.map_or(end, ReadEnd::Write)))
    }
}
