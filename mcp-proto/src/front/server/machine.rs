//! What the front needs of a server's machine, whatever carries its messages.

use core::task::Waker;

use crate::Instant;
use crate::peer::server::{self, Answer, ListKind, Session};
use crate::peer::{AnyParams, Denial, InboundId, LostReason, OutgoingRequest, RequestError, RequestId};
use crate::rpc::ErrorObject;
use crate::schema::tasks::TaskUpdatedParams;
use crate::schema::{LoggingMessageParams, NotificationInfo, ProgressParams};
use crate::transport::{Framing, Transport};

/// The server role of a connection, as the front drives it.
///
/// The transports of this crate implement it; whoever implements it anew wraps one of them.
pub trait ServerMachine {
    /// Answers a request. One that was answered or cancelled already is left alone.
    fn respond(&mut self, now: Instant, request: InboundId, answer: Answer<'_>);

    /// Answers a request with an error because it is denied. Over HTTP the status says why, as long as nothing was sent;
    /// elsewhere the error is all there is.
    fn deny(&mut self, now: Instant, request: InboundId, error: ErrorObject, _denial: &Denial) {
        self.respond(now, request, Answer::Error(error));
    }

    /// Reports progress on a request, if the client has asked for it. Returns whether it was sent.
    fn progress(&mut self, now: Instant, request: InboundId, params: &ProgressParams) -> bool;

    /// Logs, on behalf of a request or of the connection, if the client wants to know. Returns whether it was sent.
    fn log(&mut self, now: Instant, request: Option<InboundId>, params: &LoggingMessageParams) -> bool;

    /// Tells those who asked that a list has changed.
    fn list_changed(&mut self, now: Instant, list: ListKind);

    /// Tells those who asked that a resource has changed.
    fn resource_updated(&mut self, now: Instant, uri: &str);

    /// Tells those who listen for a task how it is doing (the tasks extension). Returns whether anybody was told.
    fn task_updated(&mut self, now: Instant, params: &TaskUpdatedParams) -> bool;

    /// Tells the client of a legacy session something that belongs to no request which is still open. Returns whether it
    /// was sent.
    fn notify_session(
        &mut self,
        now: Instant,
        info: &'static NotificationInfo,
        params: &dyn AnyParams,
    ) -> bool;

    /// Whether each request of a legacy client has a stream of its own, on which it expects what concerns that request.
    fn has_streams(&self) -> bool {
        false
    }

    /// Tells the client that the person is done with a page on the web (2025-11-25). Returns whether it was sent.
    fn elicitation_complete(&mut self, now: Instant, id: &str) -> bool;

    /// Asks the client (legacy revisions), on behalf of its own request `of` or of none.
    ///
    /// # Errors
    /// If it can not be sent; nothing has changed then.
    fn request(
        &mut self,
        now: Instant,
        of: Option<InboundId>,
        request: OutgoingRequest<'_>,
    ) -> Result<RequestId, RequestError>;

    /// Stops waiting for a request, and tells the client so.
    fn cancel(&mut self, now: Instant, request: RequestId, reason: Option<&str>);

    /// Lets go of the stream that is to carry a request's answer, where each request has one and the client can fetch
    /// the answer later. Does nothing otherwise.
    fn close_sse_stream(&mut self, _now: Instant, _request: InboundId) {}

    /// Closes in an orderly way.
    fn close(&mut self, now: Instant);

    /// Ends everything at once.
    fn abort(&mut self, now: Instant, why: LostReason);

    /// Time has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// Whether the client leaves so many answers unread that no further handler should run. Default: no.
    fn is_congested(&self) -> bool {
        false
    }

    /// The next event.
    fn poll_event(&mut self) -> Option<server::Event>;

    /// The next of those to wake who wait for a part of its output, where it has several parts: it may be called and
    /// dropped only outside of locks. One that has a single output leaves waking to its driver.
    fn poll_waker(&mut self) -> Option<Waker> {
        None
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The legacy session, once the client has opened one.
    fn session(&self) -> Option<&Session>;
}

impl<F: Framing> ServerMachine for Transport<server::Server, F> {
    fn respond(&mut self, now: Instant, request: InboundId, answer: Answer<'_>) {
        Self::respond(self, now, request, answer);
    }

    fn progress(&mut self, now: Instant, request: InboundId, params: &ProgressParams) -> bool {
        Self::progress(self, now, request, params)
    }

    fn log(&mut self, now: Instant, request: Option<InboundId>, params: &LoggingMessageParams) -> bool {
        Self::log(self, now, request, params)
    }

    fn list_changed(&mut self, now: Instant, list: ListKind) {
        Self::list_changed(self, now, list);
    }

    fn resource_updated(&mut self, now: Instant, uri: &str) {
        Self::resource_updated(self, now, uri);
    }

    fn task_updated(&mut self, now: Instant, params: &TaskUpdatedParams) -> bool {
        Self::task_updated(self, now, params)
    }

    fn notify_session(
        &mut self,
        now: Instant,
        info: &'static NotificationInfo,
        params: &dyn AnyParams,
    ) -> bool {
        Self::notify_session(self, now, info, params)
    }

    fn elicitation_complete(&mut self, now: Instant, id: &str) -> bool {
        Self::elicitation_complete(self, now, id)
    }

    fn request(
        &mut self,
        now: Instant,
        _of: Option<InboundId>,
        request: OutgoingRequest<'_>,
    ) -> Result<RequestId, RequestError> {
        // All messages share one stream.
        self.send(now, request)
    }

    fn cancel(&mut self, now: Instant, request: RequestId, reason: Option<&str>) {
        Self::cancel(self, now, request, reason);
    }

    fn close(&mut self, now: Instant) {
        Self::close(self, now);
    }

    fn abort(&mut self, _: Instant, why: LostReason) {
        Self::abort(self, why);
    }

    fn handle_timeout(&mut self, now: Instant) {
        Self::handle_timeout(self, now);
    }

    fn is_congested(&self) -> bool {
        self.queued() > self.peer().config().limits.queued_bytes
    }

    fn poll_event(&mut self) -> Option<server::Event> {
        Self::poll_event(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Self::poll_timeout(self)
    }

    fn session(&self) -> Option<&Session> {
        Self::session(self)
    }
}
