//! The interface between a server's commands and the transport that carries them.

use core::task::Waker;

use crate::Instant;
use crate::peer::{Denial, InboundId, LostReason, Outbox};
use crate::rpc::ErrorObject;

use super::{Answer, CloseReason, Event, Server, ServerCommands};

/// A server on its transport: a byte stream, a message channel, an HTTP exchange or an HTTP session.
///
/// [`ServerCommands::new`] returns the commands, which are the same for every transport. Inputs and outputs of a single
/// kind of transport are methods of its own type.
pub trait ServerTransport {
    /// The server, for its getters.
    fn peer(&self) -> &Server;

    /// Handles the timeouts that are due. Does nothing if [`poll_timeout`](Self::poll_timeout) is later than `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// The next event, in the order in which it happened.
    #[must_use]
    fn poll_event(&mut self) -> Option<Event>;

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens first.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next waker of a task that waits for one of several outputs. Call and drop it outside of locks. Default:
    /// none, as a transport with a single output leaves waking to its driver.
    fn poll_waker(&mut self) -> Option<Waker> {
        None
    }

    /// Whether each request of a legacy client has a stream of its own, which carries the messages that belong to it.
    /// Default: no.
    fn has_streams(&self) -> bool {
        false
    }

    /// Whether the client has left so many answers unread that no further handler should run. Default: no.
    fn is_congested(&self) -> bool {
        false
    }

    /// Lends the server and its outbox to a command. A command that writes ends with [`settle`](Self::settle).
    #[doc(hidden)]
    fn lend(&mut self, now: Instant) -> ServerLoan<'_>;

    /// Acts on the output of a command: dispatches deferred requests, starts the write timeout.
    #[doc(hidden)]
    fn settle(&mut self, now: Instant);

    /// Carries out [`ServerCommands::deny`]. Default: sends the error alone.
    #[doc(hidden)]
    fn deny(&mut self, now: Instant, request: InboundId, error: ErrorObject, _denial: &Denial) {
        let ServerLoan { server, outbox } = self.lend(now);
        server.respond(request, Answer::Error(error), outbox);
        self.settle(now);
    }

    /// Carries out [`ServerCommands::close_sse_stream`]. Default: does nothing, for transports without such a stream.
    #[doc(hidden)]
    fn close_sse_stream(&mut self, _now: Instant, _request: InboundId) {}

    /// Carries out [`ServerCommands::abort`].
    #[doc(hidden)]
    fn abort(&mut self, now: Instant, why: LostReason) {
        self.lend(now).server.abort(CloseReason::Lost(why));
        self.settle(now);
    }
}

#[cfg(feature = "std")]
impl dyn ServerTransport + Send {
    /// The commands of the peer, given at `now`.
    pub(crate) fn at(&mut self, now: Instant) -> ServerCommands<'_> {
        ServerCommands::new(self, now)
    }
}

/// The server and the outbox, as lent to a command by a [`ServerTransport`]. Other crates can pass it on, but not open
/// it.
#[doc(hidden)]
pub struct ServerLoan<'a> {
    pub(crate) server: &'a mut Server,
    pub(crate) outbox: &'a mut dyn Outbox,
}
