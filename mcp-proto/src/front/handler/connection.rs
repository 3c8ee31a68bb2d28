//! The connection that delivered a request, as its handler uses it.

use alloc::sync::Arc;
use core::task::{Poll, Waker};

use crate::front::BlockedHandler;
use crate::front::request_slots::RequestLink;
use crate::peer::{AnyParams, InboundId, RequestError};
use crate::schema::{InputRequest, LoggingMessageParams, NotificationInfo, ProgressParams};
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
