//! One request that stands alone, and its answer.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::Instant;
use crate::peer::server::{self as peer, Server, ServerCommands, ServerLoan, ServerTransport};
use crate::peer::{Denial, InboundId, LostReason, Outbox};
use crate::quota::BytePermit;
use crate::rpc::{ErrorObject, Frame, Message};

use super::output::{ExchangeOutput, Stage};
use super::response::{Chunk, ResponseHead};
use super::{ModernRequest, Setup};

/// One request of the modern era, from its admission to the end of its answer.
///
/// The answer is one JSON value if the first thing to be sent is the reply, and a stream of events otherwise. The
/// client's disconnect cancels the request.
///
/// **Inputs** are the `handle_*` methods, **outputs** the `poll_*` methods; they depend on no order. [`at`](Self::at) gives
/// the **commands**.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#receiving-messages>
pub struct Exchange {
    setup: Setup,
    server: Server,
    output: ExchangeOutput,
    /// How many bytes were queued when the current command or input began.
    queued_before: usize,
    /// When the client last took something, or there was nothing to take.
    waiting_since: Option<Instant>,
    /// When a comment is due.
    comment_at: Option<Instant>,
    /// The permit for the request's body, which the application may hold until it has answered.
    body: Option<BytePermit>,
}

impl Exchange {
    /// Takes a request in. What the protocol answers by itself is answered at once; else there is an event for the
    /// application.
    #[must_use]
    pub fn open(setup: &Setup, request: ModernRequest, now: Instant) -> Self {
        let mut exchange = Self {
            setup: setup.clone(),
            server: Server::from_prepared(setup.modern()),
            output: ExchangeOutput::new(request.accepts, request.permit.as_ref().map(BytePermit::account)),
            queued_before: 0,
            waiting_since: None,
            comment_at: None,
            body: request.permit,
        };
        exchange.server.set_principal(request.principal);
        let frame = Frame::Single(Message::Request(request.request));
        exchange.run(now, |server, out| server.handle_frame(now, frame, out));
        exchange.output.stage = Stage::Handling;
        exchange.comment_at = exchange.next_comment(now);
        exchange
    }

    /// The commands, given at `now`.
    pub fn at(&mut self, now: Instant) -> ServerCommands<'_> {
        ServerCommands::new(self, now)
    }

    fn run<R>(&mut self, now: Instant, act: impl FnOnce(&mut Server, &mut ExchangeOutput) -> R) -> R {
        self.queued_before = self.output.queued();
        let result = act(&mut self.server, &mut self.output);
        self.settle(now);
        result
    }

    fn settle(&mut self, now: Instant) {
        if self.server.is_closed() {
            self.output.end();
        }
        let queued = self.output.queued();
        if queued == 0 {
            self.waiting_since = None;
        } else {
            self.waiting_since.get_or_insert(now);
        }
        if queued > self.queued_before {
            self.comment_at = self.next_comment(now);
        }
        if self.output.is_over() {
            self.body = None;
        }
        self.output.update_permit();
    }

    fn write_deadline(&self) -> Option<Instant> {
        Some(self.waiting_since? + self.setup.config().server.write_timeout)
    }

    fn next_comment(&self, now: Instant) -> Option<Instant> {
        let every = self.setup.config().keepalive;
        (every != Duration::MAX).then(|| now + every)
    }

    fn comment_deadline(&self) -> Option<Instant> {
        // One that was not taken shows that another would not be.
        self.comment_at.filter(|_| !self.output.is_over() && self.waiting_since.is_none())
    }

    // --- Inputs ---

    /// The client does not wait for the answer any more.
    pub fn handle_disconnect(&mut self, now: Instant) {
        self.run(now, |server, out| {
            server.abort(peer::CloseReason::Lost(LostReason::Disconnected(String::new())));
            out.clear();
        });
    }

    /// Time has passed. Does nothing if [`poll_timeout`](Self::poll_timeout) is later than `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.write_deadline().is_some_and(|deadline| deadline <= now) {
            let waited = self.setup.config().server.write_timeout;
            self.run(now, |server, out| {
                server.fail(alloc::format!("the client took nothing of its answer for {waited:?}"));
                out.clear();
            });
        }
        self.run(now, |server, out| server.handle_timeout(now, out));
        if self.comment_deadline().is_some_and(|deadline| deadline <= now) {
            self.comment_at = self.next_comment(now);
            self.run(now, |_, out| out.keep_alive());
        }
    }

    // --- Outputs ---

    /// The next event, in the order in which it happened.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<peer::Event> {
        self.server.poll_event()
    }

    /// The head of the answer, once it is known what it is.
    #[must_use]
    pub fn poll_head(&mut self) -> Option<ResponseHead> {
        self.output.head()
    }

    /// The next part of the body. Ask again only when that has been written: what stays in here is what its write
    /// timeout and its limits see.
    #[must_use]
    pub fn poll_body(&mut self) -> Chunk {
        self.waiting_since = None;
        self.output.take()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing else happens first.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.server.poll_timeout(), self.write_deadline(), self.comment_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    // --- Getters ---

    /// Whether it is over. What is queued may still be sent.
    pub fn is_closed(&self) -> bool {
        self.server.is_closed()
    }

    /// The server, for its getters.
    pub fn peer(&self) -> &Server {
        &self.server
    }
}

impl ServerTransport for Exchange {
    fn at(&mut self, now: Instant) -> ServerCommands<'_> {
        ServerCommands::new(self, now)
    }

    fn peer(&self) -> &Server {
        &self.server
    }

    fn handle_timeout(&mut self, now: Instant) {
        Self::handle_timeout(self, now);
    }

    fn poll_event(&mut self) -> Option<peer::Event> {
        self.server.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Self::poll_timeout(self)
    }

    fn lend(&mut self, _: Instant) -> ServerLoan<'_> {
        self.queued_before = self.output.queued();
        ServerLoan { server: &mut self.server, outbox: &mut self.output }
    }

    fn settle(&mut self, now: Instant) {
        Self::settle(self, now);
    }

    fn deny(&mut self, now: Instant, request: InboundId, error: ErrorObject, denial: &Denial) {
        self.run(now, |server, out| {
            out.deny(denial);
            server.respond(request, peer::Answer::Error(error), out);
        });
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("server", &self.server).finish_non_exhaustive()
    }
}
