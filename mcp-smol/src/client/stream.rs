//! A link over a stream that is open from the beginning and cannot be reopened.

use std::task::{Context, Poll, ready};

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::Instant;
use mcp_proto::adapter::SystemClock;

use super::link::{Link, LinkEvent};
use crate::pump::Pump;

/// A client's link over a reader and a writer.
#[derive(Debug)]
pub struct StreamLink<R, W>(State<R, W>);

#[derive(Debug)]
enum State<R, W> {
    /// `open` has not been called.
    Waiting(R, W),
    /// `open` has been called, but not yet reported.
    Opening(Pump<R, W>),
    Open(Pump<R, W>),
    Closed {
        /// Whether `open` was called a second time.
        refuse: bool,
    },
}

impl<R, W> StreamLink<R, W> {
    pub(super) fn new(reader: R, writer: W) -> Self {
        Self(State::Waiting(reader, writer))
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Link for StreamLink<R, W> {
    fn can_reopen(&self) -> bool {
        false
    }

    fn open(&mut self) {
        self.0 = match std::mem::replace(&mut self.0, State::Closed { refuse: true }) {
            State::Waiting(reader, writer) => State::Opening(Pump::new(reader, writer)),
            State::Opening(_) | State::Open(_) | State::Closed { .. } => State::Closed { refuse: true },
        };
    }

    fn close_write(&mut self) {
        if let State::Opening(pump) | State::Open(pump) = &mut self.0 {
            pump.close_write();
        }
    }

    fn abort(&mut self) {
        self.0 = State::Closed { refuse: false };
    }

    fn outgoing(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.0 {
            State::Opening(pump) | State::Open(pump) => pump.outgoing(),
            State::Waiting(..) | State::Closed { .. } => None,
        }
    }

    fn unwritten(&self) -> usize {
        match &self.0 {
            State::Opening(pump) | State::Open(pump) => pump.unwritten(),
            State::Waiting(..) | State::Closed { .. } => 0,
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, clock: &SystemClock) {
        if let State::Opening(pump) | State::Open(pump) = &mut self.0 {
            pump.poll_write(cx, clock);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.0 {
            State::Open(pump) => pump.deadline(),
            State::Waiting(..) | State::Opening(_) | State::Closed { .. } => None,
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>, clock: &SystemClock) -> Poll<LinkEvent> {
        match &mut self.0 {
            State::Open(pump) => {
                let read = ready!(pump.poll_read(cx, clock));
                Poll::Ready(match read {
                    Ok(bytes) => LinkEvent::Input(bytes),
                    Err(end) => {
                        self.abort();
                        LinkEvent::Ended(end.to_string())
                    }
                })
            }
            State::Opening(_) => {
                if let State::Opening(pump) = std::mem::replace(&mut self.0, State::Closed { refuse: false })
                {
                    self.0 = State::Open(pump);
                }
                Poll::Ready(LinkEvent::Opened)
            }
            State::Closed { refuse: refuse @ true } => {
                *refuse = false;
                Poll::Ready(LinkEvent::OpenFailed(
                    "a stream cannot be reopened: connect again with a new stream".to_owned(),
                ))
            }
            State::Waiting(..) | State::Closed { .. } => Poll::Pending,
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.0, State::Closed { .. })
    }
}
