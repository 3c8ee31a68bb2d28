//! The connection and the task of a handler, as its context uses them, and reports of handlers that block.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Poll, Waker};
use core::time::Duration;

use super::inbound_request::InboundRequest;
use crate::front::Error;
use crate::front::request_slots::RequestLink;
use crate::peer::server::Cancellation;
use crate::peer::{AnyParams, InboundId, RequestError};
use crate::rpc::Raw;
use crate::schema::tasks::legacy::RelatedTask;
use crate::schema::{
    InputRequest, Json, LoggingMessageParams, Meta, NotificationInfo, Number, ProgressParams, meta,
};
use crate::{Instant, UnixTime};

/// The connection of a handler's client. The server implements it for each of its transports.
pub(in crate::front) trait HandlerConnection: Send + Sync {
    // --- Notifications ---

    /// Reports progress on a request, if the client asked for reports.
    fn progress(&self, request: InboundId, params: &ProgressParams);

    /// How many progress reports a second are sent on one request: [`Limits::progress_out`](crate::Limits::progress_out).
    fn progress_out(&self) -> u32;

    /// How many input rounds a request may have: [`Limits::input_rounds`](crate::Limits::input_rounds).
    fn input_rounds(&self) -> u32;

    /// Logs on behalf of a request or of the connection, if the client wants messages of this level.
    fn log(&self, request: Option<InboundId>, params: &LoggingMessageParams);

    /// Sends a notification of a legacy session that belongs to no open request.
    fn notify_session(&self, info: &'static NotificationInfo, params: &dyn AnyParams);

    /// Sends a notification that the protocol does not define, on the stream of a request or in a legacy session.
    fn notify_custom(
        &self,
        request: Option<InboundId>,
        method: &str,
        params: &dyn AnyParams,
    ) -> Result<(), RequestError>;

    /// Tells the client that the user has finished with a web page (2025-11-25). Returns whether it was sent.
    fn elicitation_complete(&self, id: &str) -> bool;

    // --- Requests of the client ---

    /// Whether a request is neither answered nor cancelled.
    fn is_active(&self, request: InboundId) -> bool;

    /// Ready once a request is not active; until then `waker` waits under `key`.
    fn poll_inactive(&self, request: InboundId, key: &mut Option<u64>, waker: &Waker) -> Poll<()>;

    /// Removes the waker that waits under `key` in [`poll_inactive`](Self::poll_inactive).
    fn remove_waiter(&self, request: InboundId, key: Option<u64>);

    /// Closes the stream that would carry the answer of a request, where the client can fetch the answer later.
    fn close_sse_stream(&self, request: InboundId);

    /// Schedules the handler of a request to be polled by its driver.
    fn wake_handler(&self, request: InboundId);

    // --- Requests of the server ---

    /// Checks the texts of an input request that a task delivers.
    fn check_texts(&self, input: &InputRequest) -> Result<(), RequestError>;

    /// The link for requests to the client, either on behalf of one of the client's requests or independent of them.
    fn request_link(self: Arc<Self>, on_behalf_of: Option<InboundId>) -> Arc<dyn RequestLink>;

    /// Whether each request of a legacy client has its own stream, which carries the server's requests on its behalf.
    fn has_streams(&self) -> bool;

    /// Reports the handler of a request, which kept the driver for long.
    fn handler_blocked(&self, request: InboundId, blocked: BlockedHandler);

    // --- Time ---

    fn now(&self) -> Instant;

    /// The time of day.
    fn unix_time(&self) -> UnixTime;
}

/// A future that borrows the task or the request.
pub(in crate::front) type TaskFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sends a progress report.
pub(in crate::front) type SendReport = Box<dyn FnOnce() + Send>;

/// A task whose handler runs. The tasks of [`tasks`](crate::front::tasks) implement it.
pub(in crate::front) trait HandlerTask: Send + Sync {
    fn id(&self) -> &str;

    /// Sets the status message of the task.
    fn set_status(&self, message: String);

    /// Sends a progress report by `send`, if its value exceeds the last one and the task has not ended: now, or when its
    /// turn comes at `per_second` reports a second, unless a newer one replaces it. The last one precedes the end.
    fn report_progress(&self, progress: &Number, per_second: u32, send: SendReport);

    fn has_ended(&self) -> bool;

    fn wait_ended(&self) -> TaskFuture<'_, ()>;

    /// Why the task has ended; `None` while it runs.
    fn cancellation(&self) -> Option<Cancellation>;

    /// Sends an input request on behalf of the task, under a key like `key`. The answer is not decoded.
    fn request_input<'a>(
        self: Arc<Self>,
        request: &'a InboundRequest,
        key: &'a str,
        input: InputRequest,
    ) -> TaskFuture<'a, Result<Raw, Error>>;
}

/// The `_meta` of a message that belongs to a task (2025-11-25).
pub(in crate::front) fn related_task_meta(id: &str) -> Meta {
    [(meta::RELATED_TASK, related_task(id))].into_iter().collect()
}

/// The value of [`meta::RELATED_TASK`].
pub(in crate::front) fn related_task(id: &str) -> Json {
    Json::encode(&RelatedTask::new(String::from(id))).unwrap_or_else(|_| Json::null())
}

/// How long a handler may keep its driver before it is reported.
const PATIENCE: Duration = Duration::from_secs(1);

/// A handler that kept its driver for more than a second in one poll, or before it returned its future. Every client of
/// that driver waited. The feature `tracing` also emits it as an event of the target `mcp_proto::server`.
///
/// Work that blocks belongs on another thread: with `unblock` of the crate `blocking`, or `spawn_blocking` of Tokio.
/// [`Router::spawn_handlers`](crate::front::Router::spawn_handlers) makes each handler a task apart from the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockedHandler {
    /// The method of its request; `None` for a notification, and for a method that the protocol does not define.
    pub method: Option<&'static str>,
    /// The tool, the prompt, or the URI of the resource.
    pub name: Option<String>,
    /// How long the poll took.
    pub elapsed: Duration,
}

impl BlockedHandler {
    /// The approximate size in bytes.
    pub(in crate::front) fn bytes(&self) -> usize {
        self.name.as_ref().map_or(0, String::len)
    }
}

impl fmt::Display for BlockedHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the handler of {}", self.method.unwrap_or("a notification or a custom method"))?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        write!(
            f,
            " blocked its driver for {:?}, and every client of it waited: move blocking work to another thread \
             (`blocking::unblock`, `tokio::task::spawn_blocking`), or give each handler a task of its own \
             (`Router::spawn_handlers`)",
            self.elapsed
        )
    }
}

/// Takes the reports about the handlers of a server, where the events of a connection reach no listener.
pub(in crate::front) trait HandlerReports: Send + Sync {
    /// Reports a handler that blocked its driver.
    fn handler_blocked(&self, blocked: BlockedHandler);

    /// Reports that a handler logs although the server does not declare it. Returns whether this is the first report.
    fn undeclared_logging(&self) -> bool;
}

/// Reports the handler of a request to `connection` if it kept the driver for long: in a poll that began at `begun`, or
/// before it returned its future. Without a method it is that of the request.
pub(in crate::front) fn report_if_blocked(
    connection: &dyn HandlerConnection,
    begun: Instant,
    (request, method, name): (InboundId, Option<&'static str>, Option<&str>),
) {
    let elapsed = connection.now().saturating_since(begun);
    if elapsed > PATIENCE {
        let blocked = BlockedHandler { method, name: name.map(String::from), elapsed };
        connection.handler_blocked(request, blocked);
    }
}
