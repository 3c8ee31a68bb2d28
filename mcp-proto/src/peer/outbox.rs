//! The outgoing half of a transport, for peers to write to.

use core::ops::Range;

use crate::peer::{Carriage, CarriageEnd, Denial};
use crate::prelude::*;
use crate::rpc::Id;
use crate::schema::{MethodInfo, Revision};

/// The kind of a message, for transports that treat kinds differently: an HTTP request is an exchange of its own, and a
/// reply may use the quota reserved for replies.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageKind<'a> {
    /// A request from this side.
    Request {
        /// Its id on the wire.
        id: i64,
        /// Its method.
        method: &'a str,
        /// The method, where it is known to be one of the protocol's.
        info: Option<&'static MethodInfo>,
        /// Where its parameters lie in the outbox's buffer; empty if it has none.
        params: Range<usize>,
        /// The parameter that identifies the subject of a request of an extension.
        name_param: Option<&'a str>,
        /// The peer's request on whose behalf it is made, if any.
        related: Option<&'a Id>,
        /// The revision that it is encoded for.
        revision: Revision,
    },
    /// A notification from this side.
    Notification {
        /// Its method.
        method: &'a str,
        /// The peer's request that it belongs to, if any.
        request: Option<&'a Id>,
        /// The revision that it is encoded for.
        revision: Revision,
    },
    /// The answer to a request of the other side; `None` where its id could not be read.
    Reply(Option<&'a Id>),
    /// A part of the result of a request, before its answer: only where [`Outbox::takes_parts`] says so.
    PartialResult(&'a Id),
}

//= F1 "Transports are apart from the protocol"
/// The outgoing half of a transport, as a peer sees it.
///
/// A peer encodes each message once, straight into the transport's buffer: it appends to [`buffer`](Self::buffer) and
/// then calls [`commit`](Self::commit). The next call of `buffer` drops appended bytes that were not committed.
pub trait Outbox {
    /// The buffer to append the next message to. Its present content belongs to the transport.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// Commits the appended message.
    fn commit(&mut self, about: MessageKind<'_>);

    /// Commits the appended message, an error that answers a request of the other side; `id` is `None` if the request's
    /// id could not be read. For transports that report errors outside of the message too.
    fn commit_error(&mut self, id: Option<&Id>, code: i64) {
        let _ = code;
        self.commit(MessageKind::Reply(id));
    }

    /// Whether parts of the result of a request can be delivered before its answer.
    fn takes_parts(&self, request: &Id) -> bool {
        let _ = request;
        false
    }

    /// Whether messages that belong to no request can be delivered. While they cannot, changes are remembered rather
    /// than written, each of them once.
    fn has_reader(&self) -> bool {
        true
    }

    /// The number of bytes committed and not yet handed to the transport.
    fn queued(&self) -> usize;

    /// Whether there is no room for notifications and requests from this side: more than `limit` bytes are queued, or
    /// the server's byte budget is used up.
    fn is_full(&self, limit: usize) -> bool {
        self.queued() > limit
    }

    /// Notifies the other side that this side no longer waits for request `id`: by a notification on a stream, by
    /// ending the exchange over HTTP.
    fn cancel(&mut self, id: i64, reason: Option<&str>);

    /// Whether each committed request has a carriage, which keeps the message.
    fn has_carriages(&self) -> bool {
        false
    }

    /// Takes the carriage of the request that was committed last, for its record: `None` on a stream, which has none.
    fn take_carriage(&mut self) -> Option<Box<Carriage>> {
        None
    }

    /// Handles the end of a request that has a carriage.
    fn release(&mut self, carriage: Box<Carriage>, end: CarriageEnd) {
        let _ = (carriage, end);
    }

    /// Whether each request of a legacy client has a stream of its own, which carries the messages that belong to it.
    fn has_streams(&self) -> bool {
        false
    }

    /// Makes the next answer report why access is denied, or none report it. For transports that report it outside of the
    /// message.
    fn deny(&mut self, denial: Option<&Denial>) {
        let _ = denial;
    }

    /// Closes the SSE stream that waits for the answer to a request of the other side, where the client reconnects for it.
    fn close_sse_stream(&mut self, id: &Id) {
        let _ = id;
    }
}
