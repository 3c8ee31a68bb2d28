//! What passes between a machine and its transport, held back so that layers see it outside of the machine's lock.

use bytes::Bytes;

use crate::Instant;
use crate::codec::{Line, SseItem};
use crate::peer::ExchangeId;
use crate::prelude::*;
#[cfg(feature = "server")]
use crate::quota::{BytePermit, OverBudgetError};

/// A machine that can hold back what passes between it and its transport: input that arrived and is not handled yet, and
/// output that the transport does not take yet.
///
/// The driver takes each piece out of the machine's lock, shows it to the layers, and returns what is left of it.
pub trait Passage {
    /// Holds back everything from now on.
    fn hold(&mut self);

    /// Takes the next piece that is held back, in the order of the wire: input first, as it may be the reason of output.
    fn poll_held(&mut self) -> Option<HeldPiece>;

    /// Handles input that has been shown, or lets the transport take output that has been.
    fn release(&mut self, now: Instant, held: HeldPiece);
}

/// A piece of input or output that was held back.
#[derive(Debug)]
pub enum HeldPiece {
    /// A received line, or a whole message with its charge to a byte budget.
    Received(Line, Option<MessageCharge>),
    /// The end of the connection, with the transport's description.
    End(String),
    /// Lines to be sent, each with its line break.
    Block(Vec<u8>),
    /// A message to be sent.
    Message(Bytes),
    /// An event of the answer to an HTTP exchange.
    Event(ExchangeId, SseItem),
    /// The whole answer to an HTTP exchange. Its end follows.
    Answer(ExchangeId, Bytes),
    /// The end of an HTTP exchange.
    ExchangeEnd(ExchangeId),
    /// The body of a request that begins an HTTP exchange.
    Request {
        exchange: ExchangeId,
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
