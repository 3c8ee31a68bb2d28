//! Commands from the application to a server, the same for every transport, and the interface of a transport to them.

use core::fmt;
use core::task::Waker;

use super::subscriptions::Subscriber;
use super::{Answer, CloseReason, Event, ListKind, Server, Topic};
use crate::Instant;
use crate::peer::Passage;
#[cfg(feature = "trace-file")]
use crate::peer::recorded::{
    RecordedAnswer, RecordedParams, RecordedRequest, ServerCommand as Command, notification_place,
};
use crate::peer::{
    AnyParams, Denial, InboundId, LostReason, Outbox, Outcome, OutgoingRequest, Principal, RequestError,
    RequestId, RequestOptions,
};
use crate::prelude::*;
use crate::rpc::ErrorObject;
#[cfg(feature = "std")]
use crate::schema::InputRequest;
use crate::schema::tasks::{TaskUpdated, TaskUpdatedParams};
use crate::schema::{
    CallToolResult, ElicitationComplete, ElicitationCompleteParams, LoggingMessageParams, Method,
    Notification, NotificationInfo, ProgressParams,
};
#[cfg(feature = "trace-file")]
use crate::trace_file::{MachineRecorder, MachineStep};

/// The commands of a server, given at one point in time.
///
/// Every server type returns them from its method `at`:
///
/// ```
/// use mcp_proto::Instant;
/// use mcp_proto::peer::server::{ListKind, ServerConfig};
/// use mcp_proto::schema::Implementation;
/// use mcp_proto::transport::StreamServer;
///
/// let now = Instant::ORIGIN;
/// let mut server = StreamServer::new(ServerConfig::new(Implementation::new("demo", "1.0")));
/// server.at(now).list_changed(ListKind::Tools);
/// server.at(now).close();
/// assert!(server.is_closed());
/// ```
pub struct ServerCommands<'a> {
    transport: &'a mut dyn ServerTransport,
    now: Instant,
}

impl<'a> ServerCommands<'a> {
    /// Creates the commands of the server on this transport, given at `now`.
    pub fn new(transport: &'a mut dyn ServerTransport, now: Instant) -> Self {
        Self { transport, now }
    }

    /// Runs a command that may write, and lets the transport act on it.
    pub(super) fn run<R: fmt::Debug>(
        &mut self,
        act: impl FnOnce(&mut Server, Instant, &mut dyn Outbox) -> R,
    ) -> R {
        let ServerLoan { server, outbox, .. } = self.transport.lend(self.now);
        let result = act(server, self.now, outbox);
        self.transport.settle(self.now);
        #[cfg(feature = "trace-file")]
        if size_of::<R>() > 0 {
            self.record(|| MachineStep::Returned(alloc::format!("{result:?}")));
        }
        result
    }

    /// Records a step, if the machine has a recorder.
    #[cfg(feature = "trace-file")]
    pub(super) fn record(&mut self, step: impl FnOnce() -> MachineStep) {
        if let Some(recorder) = self.transport.lend(self.now).recorder.cloned() {
            recorder.record(Some(self.now), step(), self.transport.poll_timeout());
        }
    }

    /// Whether each request of a legacy client has a stream of its own, which carries the messages that belong to it.
    #[cfg(feature = "std")]
    pub(crate) fn has_streams(&mut self) -> bool {
        self.transport.lend(self.now).outbox.has_streams()
    }

    /// Checks the texts of an input request that a task delivers.
    #[cfg(feature = "std")]
    pub(crate) fn check_texts(&mut self, request: &InputRequest) -> Result<(), RequestError> {
        record!(self, Command::CheckTexts(request.clone()));
        self.run(|server, _, _| server.check_texts(request))
    }

    // --- Answers ---

    /// Answers a request. Has no effect if it was answered or cancelled already.
    ///
    /// An answer that the protocol does not allow for this request is replaced by an error: -32603 for one that does
    /// not encode or is of a kind that is not possible there, -32021 for one that asks for input of a kind that the
    /// client did not declare, makes a task for a client that did not declare tasks, or is of a type of an extension that
    /// the client did not declare.
    /// [`Diagnostic::AnswerReplaced`](super::Diagnostic::AnswerReplaced) reports it.
    pub fn respond(&mut self, request: InboundId, answer: Answer<'_>) {
        record!(self, Command::Respond(request, RecordedAnswer::new(&answer)));
        self.run(|server, _, out| server.respond(request, answer, out));
    }

    /// Answers a request with an error because access is denied. Over HTTP the answer has the status and the header of
    /// the [denial](Denial), unless a part of it was sent already or it is one of several; other transports send the
    /// error alone.
    pub fn deny(&mut self, request: InboundId, error: ErrorObject, denial: &Denial) {
        record!(self, Command::Deny(request, error.clone(), denial.clone()));
        self.run(|server, _, out| {
            out.deny(Some(denial));
            server.respond(request, Answer::Error(error), out);
            out.deny(None);
        });
    }

    /// Closes the SSE stream that waits for the answer to a request; the client reconnects for it (2025-11-25 over
    /// HTTP). Has no effect on other transports and revisions.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>
    pub fn close_sse_stream(&mut self, request: InboundId) {
        record!(self, Command::CloseSseStream(request));
        self.run(|server, _, out| {
            if let Some(id) = server.wire_id(request) {
                out.close_sse_stream(id);
            }
        });
    }

    // --- Notifications ---

    /// Reports progress on a request. Returns whether it was accepted: the client must have asked for it, each report
    /// must exceed the previous one, and none follows the answer. The client's token replaces the one in `params`.
    ///
    /// At most [`Limits::progress_out`](crate::Limits::progress_out) reports a second are sent. One that comes too early
    /// waits for its turn or for the answer, whichever comes first; a newer one replaces it.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress>
    pub fn progress(&mut self, request: InboundId, params: &ProgressParams) -> bool {
        record!(self, Command::Progress(request, params.clone()));
        self.run(|server, now, out| server.progress(now, request, params, out))
    }

    /// Sends a part of a tool's result before the answer, where the transport has such parts (over HTTP with
    /// `HttpServerConfig::chunked_results`) and the client reads what it is sent. Returns whether it was sent; the result
    /// is still sent whole.
    pub fn partial_result(&mut self, request: InboundId, part: &CallToolResult) -> bool {
        record!(self, Command::PartialResult(request, part.clone()));
        self.run(|server, _, out| server.partial_result(request, part, out))
    }

    /// Sends a log message, on behalf of a request or of the connection. Returns whether it was sent: a modern client
    /// must have asked for this level with the request; a legacy one gets the level that it asked for, or `info` and
    /// above until it asks.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>
    pub fn log(&mut self, request: Option<InboundId>, params: &LoggingMessageParams) -> bool {
        record!(self, Command::Log(request, params.clone()));
        self.run(|server, _, out| server.log(request, params, out))
    }

    /// Notifies the client's subscriptions that a list has changed. While too much output is queued, or no stream is
    /// open to carry it, the change is remembered and then sent once, no matter how often the list has changed.
    pub fn list_changed(&mut self, list: ListKind) {
        record!(self, Command::ListChanged(list));
        self.run(|server, now, out| {
            //= S1.19 "Only negotiated capabilities used"
            if server.config.capabilities.has(list.capability()) {
                server.notify_changed(now, Topic::List(list), out);
            }
        });
    }

    /// Notifies the client's subscriptions that a resource has changed; as [`list_changed`](Self::list_changed)
    /// otherwise. A change of a sub-resource is reported under the URI that was subscribed to.
    pub fn resource_updated(&mut self, uri: &str) {
        record!(self, Command::ResourceUpdated(uri.into()));
        //= S5.8 "updated if `resources.subscribe` declared"
        self.run(|server, now, out| server.notify_changed(now, Topic::Resource(uri.into()), out));
    }

    /// Sends the status of a task to the client's subscriptions to it (the tasks extension). Returns whether there was
    /// one.
    ///
    /// <https://modelcontextprotocol.io/extensions/tasks>
    pub fn task_updated(&mut self, params: &TaskUpdatedParams) -> bool {
        record!(self, Command::TaskUpdated(params.clone()));
        let topic = Topic::Task(params.task_id.as_str().into());
        self.run(|server, _, out| {
            //= S11.10 "notifications/tasks only with taskIds"
            let listening: Vec<Subscriber> = server.subscriptions.subscribers_of(&topic).collect();
            let is_sent = !listening.is_empty() && server.has_room(out);
            for subscriber in listening.into_iter().filter(|_| is_sent) {
                server.notify_subscriber(subscriber, TaskUpdated::NAME, params, out);
            }
            is_sent
        })
    }

    /// Notifies a legacy client outside of any open request, for example of a task's status. Returns whether the
    /// notification was sent: the session's revision must have it, and the client must have said that it is ready.
    pub fn notify_session(&mut self, info: &'static NotificationInfo, params: &dyn AnyParams) -> bool {
        record!(
            self,
            notification_place(info).map(|place| Command::NotifySession(place, RecordedParams::new(params))),
            info.name
        );
        self.run(|server, _, out| match server.ready_session() {
            Some(session) if info.revisions.contains(session.revision) => {
                let revision = session.revision;
                server.notify(info.name, None, params, revision, out)
            }
            _ => false,
        })
    }

    /// Notifies the client that an interaction with a page is complete. `id` is the elicitation's. Returns whether it
    /// was sent: only in a session of 2025-11-25, never by modern servers, whose clients ask again.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation>
    pub fn elicitation_complete(&mut self, id: &str) -> bool {
        record!(self, Command::ElicitationComplete(id.into()));
        self.run(|server, _, out| match server.ready_session() {
            //= S9.4 "no completion notification"
            Some(session) if session.revision.differences().url_elicitation_error => {
                let (revision, params) = (session.revision, ElicitationCompleteParams::new(id));
                server.notify(ElicitationComplete::NAME, None, &params, revision, out)
            }
            _ => false,
        })
    }

    // --- Requests to the client ---

    /// Sends the client a request. Only legacy clients accept one, and only if they have declared its capability. To
    /// ask a modern client, answer its request with [`Answer::InputRequired`].
    ///
    /// A request that waits for a person or a model has no timeout unless the options give it one.
    ///
    /// # Errors
    /// If it cannot be sent; nothing has changed then.
    pub fn request<M: Method>(
        &mut self,
        params: &M::Params,
        options: RequestOptions,
    ) -> Result<RequestId, RequestError> {
        self.send(None, OutgoingRequest::new::<M>(params, options))
    }

    /// Sends the client a request whose method is not known at compile time. With `related`, a request of the client,
    /// it is sent on the stream of that request, if it has one of its own and is unanswered. As
    /// [`request`](Self::request) otherwise.
    ///
    /// # Errors
    /// If it cannot be sent; nothing has changed then.
    pub fn send(
        &mut self,
        related: Option<InboundId>,
        request: OutgoingRequest<'_>,
    ) -> Result<RequestId, RequestError> {
        record!(
            self,
            RecordedRequest::new(&request).map(|sent| Command::Send(related, sent)),
            request.method
        );
        self.run(|server, now, out| server.send(now, related, request, out))
    }

    /// Cancels a request of this side, and notifies the client. The request resolves as
    /// [`Outcome::Cancelled`]; one that has ended already is left alone.
    pub fn cancel(&mut self, request: RequestId, reason: Option<&str>) {
        record!(self, Command::Cancel(request, reason.map(Into::into)));
        self.run(|server, _, out| {
            let connection = server.connection.used_mut();
            if connection.is_some_and(|connection| connection.outbound.remove(request).is_some()) {
                out.cancel(request.number(), reason);
                server.resolve(request, Outcome::Cancelled);
            }
        });
    }

    // --- The connection ---

    /// Sets the principal of later requests, as verified by the transport, for example by the credentials of a socket's
    /// other end. The context of each later request contains it.
    pub fn set_principal(&mut self, principal: Option<Principal>) {
        record!(self, Command::SetPrincipal(principal.clone()));
        // This writes nothing: the transport has nothing to act on.
        self.transport.lend(self.now).server.set_principal(principal);
    }

    /// Closes the connection in an orderly way: takes no more requests, ends subscriptions by their results, cancels
    /// this side's own requests, lets those in flight finish within
    /// [`ServerConfig::close_timeout`](super::ServerConfig::close_timeout), and answers the rest with an error.
    pub fn close(&mut self) {
        record!(self, Command::Close);
        self.run(|server, now, out| server.begin_close(now, false, out));
    }

    /// Ends the connection at once: requests in flight are not answered, and queued output need not be sent.
    pub fn abort(&mut self, why: LostReason) {
        record!(self, Command::Abort(why.clone()));
        self.transport.abort(self.now, why);
    }
}

debug_fields! { ServerCommands<'_> { now } }

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

    /// Carries out [`ServerCommands::abort`].
    #[doc(hidden)]
    fn abort(&mut self, now: Instant, why: LostReason) {
        self.lend(now).server.abort(CloseReason::Lost(why));
        self.settle(now);
    }

    /// Returns what passes between the machine and its transport, if that can be held back for layers.
    #[doc(hidden)]
    fn passage(&mut self) -> Option<&mut dyn Passage> {
        None
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
    #[cfg(feature = "trace-file")]
    pub(crate) recorder: Option<&'a MachineRecorder>,
}
