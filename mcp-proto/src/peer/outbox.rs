//! Where a peer puts what it has to say.

use alloc::vec::Vec;

use crate::rpc::Id;
use crate::schema::Revision;

/// What a message is, for transports that treat kinds apart: an HTTP request is an exchange of its own, and a reply may
/// use the quota that is kept for replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageKind<'a> {
    /// A request of this side.
    Request {
        /// Its id on the wire.
        id: i64,
        /// Its method.
        method: &'a str,
        /// The peer's request on whose behalf it is made, where it is made on behalf of one.
        related: Option<&'a Id>,
        /// The revision that it is written at.
        revision: Revision,
    },
    /// A notification of this side.
    Notification {
        /// Its method.
        method: &'a str,
        /// The peer's request that it belongs to, where it belongs to one.
        request: Option<&'a Id>,
        /// The revision that it is written at.
        revision: Revision,
    },
    /// The answer to a request of the other side; `None` where its id could not be read.
    Reply(Option<&'a Id>),
}

/// The outgoing half of a transport, as a peer sees it.
///
/// A peer encodes each message once, straight into the transport's buffer: it appends to [`buffer`](Self::buffer) and
/// then calls [`commit`](Self::commit). What was appended and not committed is dropped by the next call of `buffer`.
pub trait Outbox {
    /// The buffer to append the next message to. What it holds already is the transport's own.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// Ends the message that was appended.
    fn commit(&mut self, about: MessageKind<'_>);

    /// Ends the message that was appended, a request that goes out again under a new id; it went out first under the id
    /// `first`. For transports that know their requests by that.
    fn commit_retry(&mut self, first: i64, about: MessageKind<'_>) {
        let _ = first;
        self.commit(about);
    }

    /// Ends the message that was appended, an error that answers a request of the other side; `None` where its id could
    /// not be read. For transports that show by more than the message what went wrong.
    fn commit_error(&mut self, id: Option<&Id>, code: i64) {
        let _ = code;
        self.commit(MessageKind::Reply(id));
    }

    /// Whether somebody reads what belongs to no request. While nobody does, changes are kept in mind rather than
    /// written, each of them once.
    fn has_reader(&self) -> bool {
        true
    }

    /// The bytes committed and not yet handed to the transport.
    fn queued(&self) -> usize;

    /// Whether notifications and requests of this side have no room: more than `limit` bytes are queued, or the byte
    /// budget of the server has none.
    fn is_full(&self, limit: usize) -> bool {
        self.queued() > limit
    }

    /// Tells the other side that this side no longer waits for request `id`: a notification on a stream, the end of the
    /// exchange over HTTP.
    fn cancel(&mut self, id: i64, reason: Option<&str>);

    /// As [`cancel`](Self::cancel), for a request that is out under the id `id`, and went out first under the id `first`.
    fn cancel_retry(&mut self, first: i64, id: i64, reason: Option<&str>) {
        let _ = first;
        self.cancel(id, reason);
    }

    /// This side no longer waits for request `id`, and the other side may not be told: what is held for the answer can
    /// go. On a stream nothing is.
    fn forget(&mut self, id: i64) {
        let _ = id;
    }
}
