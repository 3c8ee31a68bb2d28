//! The interface between a client's driver and its link.

use std::task::{Context, Poll};

use bytes::Bytes;
use mcp_proto::Instant;
use mcp_proto::adapter::SystemClock;

/// A connection to a server that can be opened, written to, read from and closed.
pub trait Link {
    /// Whether it can be opened more than once.
    fn can_reopen(&self) -> bool;

    /// Opens it; reopens it if it is open. [`LinkEvent::Opened`] or [`LinkEvent::OpenFailed`] reports the result.
    fn open(&mut self);

    /// Closes the writing direction once its buffer is written.
    fn close_write(&mut self);

    /// Closes it, without further events.
    fn abort(&mut self);

    /// The output buffer to append to; `None` while earlier output is being written.
    fn outgoing(&mut self) -> Option<&mut Vec<u8>>;

    /// Bytes of it not yet written.
    fn unwritten(&self) -> usize;

    /// Continues writing. [`LinkEvent::Ended`] reports a failure once reading has ended.
    fn poll_write(&mut self, cx: &mut Context<'_>, clock: &SystemClock);

    /// The next event. To be polled at the [deadline](Self::deadline) too.
    fn poll_event(&mut self, cx: &mut Context<'_>, clock: &SystemClock) -> Poll<LinkEvent>;

    /// When an event is due, whatever else happens.
    fn deadline(&self) -> Option<Instant>;

    /// Whether it is closed and its process, if any, is gone.
    fn is_closed(&self) -> bool;
}

/// An event on a link.
#[derive(Debug)]
pub enum LinkEvent {
    /// The link is open.
    Opened,
    /// The link could not be opened, with the reason as text.
    OpenFailed(String),
    /// Bytes were received.
    Input(Bytes),
    /// The link has ended, with the reason as text.
    Ended(String),
}
