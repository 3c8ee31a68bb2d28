//! Commands from the application to a client, the same for every transport, and the transport that carries them.

use core::fmt;

use crate::Instant;
use crate::peer::Passage;
#[cfg(feature = "trace-file")]
use crate::peer::recorded::{
    ClientCommand as Command, RecordedParams, RecordedRequest, RecordedResult, notification_place,
};
use crate::peer::{
    AnyParams, AnyResult, InboundId, Leniency, LostReason, Outbox, OutgoingRequest, RequestError, RequestId,
    RequestOptions,
};
#[cfg(feature = "std")]
use crate::prelude::*;
use crate::rpc::ErrorObject;
#[cfg(feature = "std")]
use crate::rpc::Id;
#[cfg(feature = "std")]
use crate::schema::Extension;
use crate::schema::{Method, Notification, NotificationInfo};
#[cfg(feature = "trace-file")]
use crate::trace_file::{MachineRecorder, MachineStep};

use super::{CacheContext, Client, CloseReason, Event, TaskCommand, WatchFilter, WatchId, WatchStart};

/// The commands of a client, given at one point in time.
///
/// Every client type returns them from its method `at`:
///
/// ```
/// use mcp_proto::Instant;
/// use mcp_proto::peer::RequestOptions;
/// use mcp_proto::peer::client::ClientConfig;
/// use mcp_proto::schema::{Implementation, ListTools, PaginatedParams};
/// use mcp_proto::transport::StreamClient;
///
/// let now = Instant::ORIGIN;
/// let mut client = StreamClient::new(ClientConfig::new(Implementation::new("host", "1.0")));
/// let tools = client.at(now).request::<ListTools>(&PaginatedParams::new(), RequestOptions::default())?;
/// client.at(now).cancel(tools, None);
/// # Ok::<(), mcp_proto::peer::RequestError>(())
/// ```
pub struct ClientCommands<'a> {
    transport: &'a mut dyn ClientTransport,
    now: Instant,
}

impl<'a> ClientCommands<'a> {
    /// Creates the commands of the client on this transport, given at `now`.
    pub fn new(transport: &'a mut dyn ClientTransport, now: Instant) -> Self {
        Self { transport, now }
    }

    /// Runs a command that may write, and lets the transport act on it.
    fn run<R: fmt::Debug>(&mut self, act: impl FnOnce(&mut Client, Instant, &mut dyn Outbox) -> R) -> R {
        let ClientLoan { client, outbox, .. } = self.transport.lend(self.now);
        let result = act(client, self.now, outbox);
        self.transport.settle(self.now);
        #[cfg(feature = "trace-file")]
        if size_of::<R>() > 0 {
            self.record(|| MachineStep::Returned(alloc::format!("{result:?}")));
        }
        result
    }

    /// Records a step, if the machine has a recorder.
    #[cfg(feature = "trace-file")]
    fn record(&mut self, step: impl FnOnce() -> MachineStep) {
        if let Some(recorder) = self.transport.lend(self.now).recorder.cloned() {
            recorder.record(Some(self.now), step(), self.transport.poll_timeout());
        }
    }

    /// The client, for a command that writes nothing and so needs no action of the transport.
    fn client(&mut self) -> &mut Client {
        self.transport.lend(self.now).client
    }

    // --- Requests ---

    /// Sends a request. Before the connection is ready the request is queued; its timeout runs.
    ///
    /// # Errors
    /// If it cannot be sent; nothing has changed then.
    pub fn request<M: Method>(
        &mut self,
        params: &M::Params,
        options: RequestOptions,
    ) -> Result<RequestId, RequestError> {
        self.send(OutgoingRequest::new::<M>(params, options))
    }

    /// Sends a request whose method is not known at compile time. As [`request`](Self::request) otherwise.
    ///
    /// # Errors
    /// If it cannot be sent; nothing has changed then. [`RequestError::Reserved`] for the handshake and subscriptions
    /// by name, which other commands send.
    pub fn send(&mut self, request: OutgoingRequest<'_>) -> Result<RequestId, RequestError> {
        record!(self, RecordedRequest::new(&request).map(Command::Send), request.method);
        self.run(|client, now, out| client.send(now, request, out))
    }

    /// Follows, queries or cancels a task by its identifier alone: after a restart, or for
    /// [`TaskMode::Handle`](crate::peer::TaskMode::Handle). Before the connection is ready this waits.
    ///
    /// # Errors
    /// If it cannot be sent; nothing has changed then.
    pub fn task(
        &mut self,
        id: &str,
        command: TaskCommand,
        options: RequestOptions,
    ) -> Result<RequestId, RequestError> {
        record!(self, Command::Task(id.into(), command, options.clone()));
        self.run(|client, now, out| client.task(now, id, command, options, out))
    }

    /// Cancels a request, and tells the server if the request was sent: a stream and a legacy server get a
    /// notification; over modern HTTP the exchange is aborted. The request resolves as
    /// [`Outcome::Cancelled`](crate::peer::Outcome::Cancelled); one that has ended already is left alone.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
    pub fn cancel(&mut self, request: RequestId, reason: Option<&str>) {
        record!(self, Command::Cancel(request, reason.map(Into::into)));
        self.run(|client, now, out| client.cancel(now, request, reason, out));
    }

    /// Sends a paused request again at once: the user has finished with the page that the server required, and the
    /// server has not confirmed it yet. Has no effect on any other request.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation>
    pub fn retry(&mut self, request: RequestId) {
        record!(self, Command::Retry(request));
        self.run(|client, now, out| client.retry(now, request, out));
    }

    /// Answers a request of the server (legacy revisions), or an input request from a result. Has no effect if the
    /// request was answered, cancelled or lost already.
    pub fn respond(&mut self, request: InboundId, answer: Result<&dyn AnyResult, ErrorObject>) {
        record!(self, Command::Respond(request, answer.clone().map(RecordedResult::new)));
        self.run(|client, now, out| client.respond(now, request, answer, out));
    }

    // --- Notifications ---

    /// Sends a notification.
    ///
    /// # Errors
    /// If it cannot be sent now: the connection must be ready, and its revision must have the notification.
    pub fn notify<N: Notification>(&mut self, params: &N::Params) -> Result<(), RequestError> {
        self.notify_known(N::INFO, params)
    }

    /// Sends a notification of the table, or of a type that is defined elsewhere.
    pub(crate) fn notify_known(
        &mut self,
        info: &'static NotificationInfo,
        params: &dyn AnyParams,
    ) -> Result<(), RequestError> {
        record!(
            self,
            notification_place(info).map(|place| Command::Notify(place, RecordedParams::new(params))),
            info.name
        );
        self.run(|client, _, out| client.notify(info, params, out))
    }

    /// Sends a notification that is not known at compile time.
    ///
    /// # Errors
    /// If it cannot be sent now, or needs a capability that the client has not declared; [`RequestError::Reserved`] for
    /// names of the protocol that other commands send.
    pub fn notify_custom(&mut self, method: &str, params: &dyn AnyParams) -> Result<(), RequestError> {
        record!(self, Command::NotifyCustom(method.into(), RecordedParams::new(params)));
        self.run(|client, _, out| client.notify_custom(method, params, out))
    }

    // --- Watches ---

    /// Watches for changes, on servers of every era. The watch lasts until [`unwatch`](Self::unwatch), until it has
    /// [ended](super::WatchState::Ended), or until the connection is over.
    ///
    /// Watch first, and fetch once the watch is [on](super::WatchState::On): this way no change in between is missed. A
    /// change may be reported more than once.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>
    ///
    /// # Errors
    /// If the connection is closed, or closing.
    pub fn watch(&mut self, filter: WatchFilter, start: WatchStart) -> Result<WatchId, RequestError> {
        record!(self, Command::Watch(filter.clone(), start));
        self.run(|client, now, out| client.watch(now, filter, start, out))
    }

    /// Replaces the filter of a watch. Changes that match both filters are reported without a gap. The watch is
    /// [on](super::WatchState::On) again, with an event, once the server has acknowledged the new filter.
    pub fn set_watch_filter(&mut self, watch: WatchId, filter: WatchFilter) {
        record!(self, Command::SetWatchFilter(watch, filter.clone()));
        self.run(|client, now, out| client.set_watch_filter(now, watch, filter, out));
    }

    /// Ends a watch: it has no further events, not even those that are queued.
    pub fn unwatch(&mut self, watch: WatchId) {
        record!(self, Command::Unwatch(watch));
        self.run(|client, now, out| client.unwatch(now, watch, out));
    }

    // --- Cache ---

    /// Sets the authorization context of later requests, as after a new login. Private answers cached under another
    /// context are hidden, and found again once that context is back.
    pub fn set_cache_context(&mut self, context: CacheContext) {
        record!(self, Command::SetCacheContext(context.clone()));
        self.client().set_cache_context(context);
    }

    /// Ends the authorization context: clears private answers, and does not cache the answers to requests made before.
    /// For adapters that change the credentials of requests: call this before the first request with new credentials is
    /// sent, and send no request with the old ones afterwards.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-scope-field>
    pub fn end_cache_context(&mut self) {
        record!(self, Command::EndCacheContext);
        self.client().end_cache_context();
    }

    /// Clears the cache of answers.
    pub fn clear_cache(&mut self) {
        record!(self, Command::ClearCache);
        self.client().clear_cache();
    }

    // --- The end ---

    /// Closes the connection in an orderly way: takes no more requests, lets those in flight finish within
    /// [`ClientConfig::close_timeout`](super::ClientConfig::close_timeout), then ends the link. A stream's sending half
    /// is closed, and the server has as long again to end; over HTTP a legacy session is deleted.
    pub fn close(&mut self) {
        record!(self, Command::Close);
        self.run(|client, now, out| client.close(now, out));
    }

    /// Ends the connection at once: requests in flight are lost, and queued output is discarded.
    pub fn abort(&mut self, why: LostReason) {
        record!(self, Command::Abort(why.clone()));
        self.transport.abort(self.now, why);
    }

    /// Reports a deviation of the server, if the configuration tolerates deviations. Returns whether it does.
    pub(crate) fn tolerate(&mut self, leniency: Leniency) -> bool {
        record!(
            self,
            match leniency {
                Leniency::EmptyCursor { method } => Some(Command::EmptyCursor(method.into())),
                _ => None,
            },
            "a tolerated deviation"
        );
        self.client().tolerate(leniency)
    }

    /// Reports that the result of this tool lacks its structured content, if the configuration tolerates that. Returns
    /// whether it does.
    #[cfg(feature = "schema-validate")]
    pub(crate) fn tolerate_missing_output(&mut self, tool: &str) -> bool {
        record!(self, Command::MissingOutput(tool.into()));
        self.client().tolerate_missing_output(tool)
    }

    /// Registers what handlers answer, before the handshake.
    #[cfg(feature = "std")]
    pub(crate) fn register(&mut self, extensions: Vec<Extension>, methods: Vec<String>, others: bool) {
        record!(self, Command::Register(extensions.clone(), methods.clone(), others));
        self.client().add_extensions(extensions);
        self.client().answer_custom(methods, others);
    }

    /// Ends the client before it sends anything, if its extensions cannot be used together. Returns whether it did.
    #[cfg(feature = "std")]
    pub(crate) fn refuse_invalid_extensions(&mut self) -> bool {
        record!(self, Command::RefuseInvalidExtensions);
        let is_refused = self.client().refuse_invalid_extensions();
        if is_refused {
            self.transport.settle(self.now);
        }
        is_refused
    }

    /// Keeps the answer to a request out of the cache: a layer has changed one of the two.
    #[cfg(feature = "std")]
    pub(crate) fn withhold_answer(&mut self, id: &Id) {
        record!(self, Command::WithholdAnswer(id.clone()));
        self.client().withhold_answer(id);
    }
}

debug_fields! { ClientCommands<'_> { now } }

//= F2 "Custom transports and custom adapters can be plugged in"
/// A client on its transport: a byte stream, a message channel or HTTP.
///
/// [`ClientCommands::new`] returns the commands, which are the same for every transport. Inputs and outputs of a single
/// kind of transport are methods of its own type.
pub trait ClientTransport {
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

    /// Returns what passes between the machine and its transport, if that can be held back for layers.
    #[doc(hidden)]
    fn passage(&mut self) -> Option<&mut dyn Passage> {
        None
    }
}

#[cfg(feature = "std")]
impl dyn ClientTransport + Send {
    /// The commands of the peer, given at `now`.
    pub(crate) fn at(&mut self, now: Instant) -> ClientCommands<'_> {
        ClientCommands::new(self, now)
    }
}

/// The client and the outbox, as lent to a command by a [`ClientTransport`]. Other crates can pass it on, but not open
/// it.
#[doc(hidden)]
pub struct ClientLoan<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) outbox: &'a mut dyn Outbox,
    #[cfg(feature = "trace-file")]
    pub(crate) recorder: Option<&'a MachineRecorder>,
}
