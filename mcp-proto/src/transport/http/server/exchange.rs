//! The server's side of one exchange without a session: a request of the modern era, or messages of legacy clients on a
//! server without sessions.

#[cfg(feature = "std")]
use alloc::sync::Arc;

use super::Setup;
#[cfg(all(feature = "trace-file", feature = "std"))]
use super::recorded::whole_body_step;
#[cfg(feature = "trace-file")]
use super::recorded::{ExchangeInput, chunk_step, head_step};
use super::request_head::RetainedHead;
#[cfg(feature = "std")]
use super::response::AnswerBody;
use super::response::{Chunk, ExchangeOutput, ResponseHead, Stage};
use super::route::{ModernRequest, StatelessPost};
use crate::Instant;
#[cfg(feature = "std")]
use crate::peer::server::KnownMeta;
use crate::peer::server::{PreparedConfig, Server, ServerCommands, ServerLoan, ServerTransport};
use crate::peer::{LostReason, Machine as _, Outbox, Principal, server as peer};
use crate::prelude::*;
use crate::quota::BytePermit;
use crate::rpc::{Frame, Message};
#[cfg(feature = "trace-file")]
use crate::trace_file::{MachineRecorder, MachineStep, json};

/// A request on the server that has no session, from its admission to the end of its answer: one of the modern era, or
/// one of the legacy era on a [stateless](super::HttpServerConfig::stateless) server.
///
/// If the first output is the response, the answer is one JSON value; otherwise it is an event stream. The client's
/// disconnect cancels the request.
///
/// **Inputs** are the `handle_*` methods, **outputs** the `poll_*` methods, here and of [`ServerTransport`]; they can be
/// called in any order.
/// [`at`](Self::at) returns the **commands**.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#receiving-messages>
pub struct Exchange {
    setup: Setup,
    server: Server,
    output: ExchangeOutput,
    /// The number of bytes queued when the current command or input began.
    queued_before: usize,
    /// When the client last took output, or when output was first queued.
    waiting_since: Option<Instant>,
    /// When the next keep-alive comment is due.
    comment_at: Option<Instant>,
    body: Option<BytePermit>,
    #[cfg(feature = "trace-file")]
    recorder: Option<MachineRecorder>,
}

impl Exchange {
    fn new(
        setup: &Setup,
        prepared: &PreparedConfig,
        head: RetainedHead,
        principal: Option<Principal>,
        now: Instant,
    ) -> Self {
        #[cfg(feature = "trace-file")]
        let recorder = head.recorder;
        #[cfg(feature = "trace-file")]
        let recorded = recorder.as_ref().map(|recorder| {
            let input = ExchangeInput::Open(principal.clone());
            recorder.record(Some(now), MachineStep::Http(json(&input)), None);
            prepared.recorded(recorder)
        });
        #[cfg(feature = "trace-file")]
        let prepared = recorded.as_ref().unwrap_or(prepared);
        let RetainedHead { accepts, permit, .. } = head;
        let mut server = Server::from_prepared(prepared);
        server.set_principal(principal);
        Self {
            setup: setup.clone(),
            server,
            output: ExchangeOutput::new(accepts, permit.as_ref().map(BytePermit::account)),
            queued_before: 0,
            waiting_since: None,
            comment_at: now.after(setup.config().keepalive),
            body: permit,
            #[cfg(feature = "trace-file")]
            recorder,
        }
    }

    /// Opens an exchange for a request.
    ///
    /// The server answers some requests itself; for any other it queues an event for the application.
    #[must_use]
    pub fn open(setup: &Setup, request: ModernRequest, now: Instant) -> Self {
        Self::open_prepared(setup, request, now, |_| ())
    }

    /// Like [`open`](Self::open), with an entry of the server's cache for the request's `_meta`.
    #[cfg(feature = "std")]
    pub(crate) fn open_with_meta(
        setup: &Setup,
        request: ModernRequest,
        known: Option<Arc<KnownMeta>>,
        now: Instant,
    ) -> Self {
        Self::open_prepared(setup, request, now, |server| server.compare_meta(known))
    }

    fn open_prepared(
        setup: &Setup,
        request: ModernRequest,
        now: Instant,
        prepare: impl FnOnce(&mut Server),
    ) -> Self {
        let ModernRequest { request, head, principal } = request;
        //= S3.13 "SSE of a request carries only notifications for that request"
        let mut exchange = Self::new(setup, setup.modern(), head, principal, now);
        exchange.output.has_parts = setup.config().has_parts(&request.method);
        prepare(&mut exchange.server);
        exchange.run(now, |server, out| server.handle_exchange(now, request, out));
        exchange.output.stage = Stage::Handling;
        exchange
    }

    /// Opens an exchange for requests of a legacy client on a [stateless](super::HttpServerConfig::stateless) server.
    ///
    /// The answer has no session id, and the client's disconnect cancels the requests.
    #[must_use]
    pub fn open_stateless(setup: &Setup, post: StatelessPost, now: Instant) -> Self {
        let StatelessPost { frame, revision, head, principal } = post;
        let mut exchange = Self::new(setup, setup.legacy(), head, principal, now);
        if let Some(revision) = revision {
            exchange.server.set_stateless(revision);
        }
        if let Frame::Single(Message::Request(request)) = &frame {
            exchange.output.has_parts = setup.config().has_parts(&request.method);
        }
        // The status of an error of the legacy era is that of a result.
        exchange.output.stage = Stage::Handling;
        exchange.run(now, |server, out| server.handle_frame(now, frame, out));
        exchange
    }

    /// Returns the server's commands, executed at `now`.
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
        // The requests of a legacy batch may all be cancelled by a later message of it.
        let unanswerable = self.server.session().is_some() && self.server.unanswered() == 0;
        if self.server.is_closed() || unanswerable {
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
        now.after(self.setup.config().keepalive)
    }

    fn comment_deadline(&self) -> Option<Instant> {
        // While earlier output is unread, a comment would not be read either.
        self.comment_at.filter(|_| !self.output.is_over() && self.waiting_since.is_none())
    }

    // --- Inputs ---

    /// Cancels the request: the client has disconnected.
    pub fn handle_disconnect(&mut self, now: Instant) {
        record!(self, Some(now), MachineStep::Http(json(&ExchangeInput::Disconnect)));
        self.run(now, |server, out| {
            //= S3.16 "Client disconnect = cancel"
            server.abort(peer::CloseReason::Lost(LostReason::Disconnected(String::new())));
            out.clear();
        });
    }

    // --- Outputs ---

    /// Returns the head of the answer once its status and form are decided.
    #[must_use]
    pub fn poll_head(&mut self) -> Option<ResponseHead> {
        let head = self.output.head()?;
        record!(self, None, head_step(0, &head));
        Some(head)
    }

    /// Returns the next part of the body.
    ///
    /// Call it again only when that part has been written: the write timeout and the limits cover only bytes that are
    /// still queued here.
    #[must_use]
    pub fn poll_body(&mut self) -> Chunk {
        #[cfg(feature = "trace-file")]
        let was_waiting = self.waiting_since.is_some();
        self.waiting_since = None;
        let chunk = self.output.take();
        #[cfg(feature = "trace-file")]
        if was_waiting || chunk != Chunk::Pending {
            record!(self, None, chunk_step(0, &chunk));
        }
        chunk
    }

    /// Takes the body of a JSON answer whose head was taken: nothing follows it, and the exchange can be dropped. `None` for
    /// an event stream, and for several requests.
    #[cfg(feature = "std")]
    pub(crate) fn take_body(&mut self) -> Option<AnswerBody> {
        let deadline = self.write_deadline();
        if self.server.session().is_some() {
            return None;
        }
        let body = self.output.take_body(deadline)?;
        record!(self, None, whole_body_step(0, &body.bytes));
        Some(body)
    }

    /// Takes the `_meta` of the request for the server's cache, if the request was admitted.
    #[cfg(feature = "std")]
    pub(crate) fn take_meta(&mut self) -> Option<Arc<KnownMeta>> {
        self.server.take_meta()
    }

    // --- Getters ---

    /// Returns whether every request was answered, and the client took the answers.
    #[cfg(feature = "std")]
    pub(crate) fn is_done(&self) -> bool {
        !self.server.has_requests() && self.output.queued() == 0
    }

    /// Returns whether the exchange is over. Queued output may still be sent.
    pub fn is_closed(&self) -> bool {
        self.server.is_closed()
    }
}

impl ServerTransport for Exchange {
    fn peer(&self) -> &Server {
        &self.server
    }

    fn handle_timeout(&mut self, now: Instant) {
        record!(self, Some(now), MachineStep::Timeout);
        if self.write_deadline().is_some_and(|deadline| deadline <= now) {
            let waited = self.setup.config().server.write_timeout;
            self.run(now, |server, out| {
                server.fail(alloc::format!("the client read nothing of its answer for {waited:?}"));
                out.clear();
            });
        }
        self.run(now, |server, out| server.handle_timeout(now, out));
        if self.comment_deadline().is_some_and(|deadline| deadline <= now) {
            self.comment_at = self.next_comment(now);
            self.run(now, |_, out| out.keep_alive());
        }
    }

    fn poll_event(&mut self) -> Option<peer::Event> {
        let event = self.server.poll_event()?;
        record!(self, None, MachineStep::Event(format!("{event:?}")));
        Some(event)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let deadlines = [self.server.poll_timeout(), self.write_deadline(), self.comment_deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn lend(&mut self, _: Instant) -> ServerLoan<'_> {
        self.queued_before = self.output.queued();
        ServerLoan {
            server: &mut self.server,
            outbox: &mut self.output,
            #[cfg(feature = "trace-file")]
            recorder: self.recorder.as_ref(),
        }
    }

    fn settle(&mut self, now: Instant) {
        Self::settle(self, now);
    }
}

debug_fields! { Exchange { server } }
