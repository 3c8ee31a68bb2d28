//! The interface between a client's commands and the transport that carries them.

use crate::Instant;
use crate::peer::{LostReason, Outbox};

use super::{Client, ClientCommands, CloseReason, Event};

/// A client on its transport: a byte stream, a message channel or HTTP.
///
/// [`at`](Self::at) returns the commands, which are the same for every transport. Inputs and outputs of a single kind
/// of transport are methods of its own type.
pub trait ClientTransport {
    /// The commands of the peer, given at `now`.
    fn at(&mut self, now: Instant) -> ClientCommands<'_>;

    /// The client, for its getters.
    fn peer(&self) -> &Client;

    /// Handles the timeouts that are due. Does nothing if [`poll_timeout`](Self::poll_timeout) is later than `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// The next event, in the order of the wire.
    #[must_use]
    fn poll_event(&mut self) -> Option<Event>;

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens first.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant>;

    /// Lends the client and its outbox to a command. A command that writes ends with [`settle`](Self::settle).
    #[doc(hidden)]
    fn lend(&mut self, now: Instant) -> ClientLoan<'_>;

    /// Acts on the output of a command: begins exchanges, starts the write timeout.
    #[doc(hidden)]
    fn settle(&mut self, now: Instant);

    /// Carries out [`ClientCommands::abort`].
    #[doc(hidden)]
    fn abort(&mut self, now: Instant, why: LostReason) {
        self.lend(now).client.abort(CloseReason::Lost(why));
        self.settle(now);
    }
}

/// The client and the outbox, as lent to a command by a [`ClientTransport`]. Other crates can pass it on, but not open
/// it.
#[doc(hidden)]
pub struct ClientLoan<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) outbox: &'a mut dyn Outbox,
}
