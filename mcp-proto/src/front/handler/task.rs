//! The task that a handler works on, as its context uses it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;

use super::inbound_request::InboundRequest;
use crate::front::Error;
use crate::peer::server::Cancellation;
use crate::rpc::Raw;
use crate::schema::tasks::legacy::RelatedTask;
use crate::schema::{InputRequest, Json, Meta, Number, meta};

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
