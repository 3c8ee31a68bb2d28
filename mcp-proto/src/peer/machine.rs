//! The interfaces between a machine and its transport: the inputs and outputs of the machine, and the outbox that it
//! writes to.

use alloc::sync::Arc;
use core::ops::Range;
use core::time::Duration;

use bytes::Bytes;

use crate::codec::{Line, SseItem};
use crate::peer::{Carriage, CarriageEnd, ExchangeId};
use crate::prelude::*;
#[cfg(feature = "server")]
use crate::quota::{BytePermit, OverBudgetError};
use crate::rpc::{Frame, Id, Malformed};
use crate::schema::{MethodInfo, Revision};
use crate::{Instant, Limits};

/// A machine of either role, as a transport drives it.
pub trait Machine {
    /// The events for the application.
    type Event: core::fmt::Debug;

    /// Returns the length of the `_meta` that `text` begins with, if that is the one of the last message, which need not be
    /// scanned again.
    fn known_meta_length(&self, _text: &str) -> Option<usize> {
        None
    }
    /// Handles a message or a batch.
    fn handle_frame(&mut self, now: Instant, frame: Frame, out: &mut dyn Outbox);
    /// Handles input that is not a message, or a message skipped because of its length.
    fn handle_malformed(&mut self, now: Instant, malformed: Malformed, out: &mut dyn Outbox);
    /// Handles the end of the connection; `detail` is the transport's description of it.
    fn handle_closed(&mut self, now: Instant, detail: &str, out: &mut dyn Outbox);
    /// Runs the timers that are due at `now`.
    fn handle_timeout(&mut self, now: Instant, out: &mut dyn Outbox);
    /// Returns when [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens first.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant>;
    /// Returns the next event, in wire order.
    #[must_use]
    fn poll_event(&mut self) -> Option<Self::Event>;
    /// Returns whether the machine wants more input, that is, whether the application takes its events.
    fn wants_read(&self) -> bool;
    /// Dispatches deferred messages as far as the remote side takes the output.
    fn dispatch_deferred(&mut self, _now: Instant, _out: &mut dyn Outbox) {}
    /// Sets the charge for the message that is handled next.
    fn charge_message(&mut self, _charge: Option<MessageCharge>) {}
    /// Records that the transport has taken output; `queued` bytes are left.
    fn handle_transmitted(&mut self, _queued: usize) {}
    /// Ends the connection because of a local failure; `why` describes it.
    fn fail(&mut self, why: String);
    /// Returns whether the connection is over.
    fn is_closed(&self) -> bool;
    /// Returns the limits of the connection.
    fn limits(&self) -> &Limits;
    /// Returns how long queued bytes may wait without the transport taking any.
    fn write_timeout(&self) -> Duration;
}

// The outgoing half of a transport, for peers to write to.

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

// The principal of a request.

/// The principal of a request, as verified by the transport: the subject of an access token, or the user at the other
/// end of a socket. A name that the client claims for itself is not a principal.
///
/// It is an opaque text, compared as a whole. State issued to one principal (a request state, a task, a session) is
/// refused to every other. The text should therefore include the issuer where there are several, and must never be a
/// credential: [`Debug`](core::fmt::Debug) does not show it, but stores may keep it.
///
/// ```
/// use mcp_proto::peer::Principal;
///
/// let principal = Principal::new("https://login.example#248289761001");
/// assert_eq!(format!("{principal:?}"), "Principal(…)");
/// ```
///
/// <https://modelcontextprotocol.io/docs/2026-07-28/tutorials/security/security_best_practices>
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct Principal(Arc<str>);

impl Principal {
    /// Creates the principal of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

debug_fields! { Principal => "Principal(…)" }

/// Why a request is denied before it is processed. HTTP shows it by status and header, as long as no part of the answer
/// was sent; other transports show the JSON-RPC error alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum Denial {
    /// The client is not allowed to make the request. Status 403, with this challenge as `WWW-Authenticate`.
    Challenge(String),
    /// The server has no room for the state that the request would create, or cannot reach a store that the request
    /// needs. Status 503, with `Retry-After`.
    #[cfg_attr(feature = "trace-file", serde(alias = "NoRoom"))]
    Unavailable,
}

// What passes between a machine and its transport, held back so that layers see it outside of the machine's lock.

/// A machine that can hold back what passes between it and its transport: input that arrived and is not handled yet, and
/// output that the transport does not take yet.
///
/// The driver takes each piece out of the machine's lock, shows it to the layers, and returns what is left of it.
pub trait Passage {
    /// Holds back everything from now on.
    fn hold(&mut self);

    /// Holds back nothing from now on, unless something is held back or released and not taken. Returns whether it does.
    fn stop_holding(&mut self) -> bool;

    /// Takes the next piece that is held back, in the order of the wire: input first, as it may be the reason of output.
    fn poll_held(&mut self) -> Option<HeldPiece>;

    /// Handles input that has been shown, or lets the transport take output that has been.
    fn release(&mut self, now: Instant, held: HeldPiece);
}

/// A piece of input or output that was held back.
#[derive(Debug)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum HeldPiece {
    /// A received line, or a whole message with its charge to a byte budget.
    Received(Line, #[cfg_attr(feature = "trace-file", serde(skip))] Option<MessageCharge>),
    /// The end of the connection, with the transport's description.
    End(String),
    /// Lines to be sent, each with its line break.
    Block(#[cfg_attr(feature = "trace-file", serde(with = "crate::trace_file::frame"))] Vec<u8>),
    /// A message to be sent.
    Message(#[cfg_attr(feature = "trace-file", serde(with = "crate::trace_file::frame"))] Bytes),
    /// An event of the answer to an HTTP exchange.
    Event(ExchangeId, SseItem),
    /// The whole answer to an HTTP exchange. Its end follows.
    Answer(ExchangeId, #[cfg_attr(feature = "trace-file", serde(with = "crate::trace_file::frame"))] Bytes),
    /// The end of an HTTP exchange.
    ExchangeEnd(ExchangeId),
    /// The body of a request that begins an HTTP exchange.
    Request {
        exchange: ExchangeId,
        #[cfg_attr(feature = "trace-file", serde(with = "crate::trace_file::frame"))]
        body: Bytes,
        /// Whether headers repeat some of the arguments in it.
        has_fixed_arguments: bool,
    },
    /// A request that is not sent, because its message was dropped.
    Unsent(ExchangeId),
}

/// The charge for a message, or the refusal of one. Clients charge nothing.
#[cfg(feature = "server")]
pub(crate) type MessageCharge = Result<BytePermit, OverBudgetError>;
#[cfg(not(feature = "server"))]
pub(crate) type MessageCharge = core::convert::Infallible;
