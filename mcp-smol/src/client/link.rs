//! What the driver of a client needs of a link.

use std::task::{Context, Poll};

use bytes::Bytes;

/// Something that can be opened, written to, read from and ended.
pub trait Link {
    /// Whether it can be opened more than once.
    fn can_reopen(&self) -> bool;

    /// Opens it, afresh if it is open. [`LinkEvent::Opened`] or [`LinkEvent::OpenFailed`] will tell.
    fn open(&mut self);

    /// Closes the direction that is written to, after what is in it.
    fn close_write(&mut self);

    /// Ends it, without telling anything more.
    fn abort(&mut self);

    /// Where to append what is to be sent, unless something is being sent already.
    fn outgoing(&mut self) -> Option<&mut Vec<u8>>;

    /// How many bytes of that are yet to be written.
    fn unwritten(&self) -> usize;

    /// Goes on writing. A failure is told as [`LinkEvent::Ended`], once nothing more is to be read.
    fn poll_write(&mut self, cx: &mut Context<'_>);

    /// What has happened on it.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<LinkEvent>;

    /// Whether nothing of it is left.
    fn is_closed(&self) -> bool;
}

/// Something that has happened on a link.
#[derive(Debug)]
pub enum LinkEvent {
    /// It is open.
    Opened,
    /// It could not be opened; why, for people.
    OpenFailed(String),
    /// Bytes have come.
    Input(Bytes),
    /// It has ended; what there is to say about that, for people.
    Ended(String),
}
