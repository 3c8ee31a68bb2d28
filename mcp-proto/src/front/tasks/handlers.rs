//! The source of task handlers for the runner.

use core::future::Future;

use crate::front::handler::context::Context;
use crate::front::handler::detached::DetachedWork;
use crate::front::reply::Reply;
use crate::schema::CallToolParams;

/// The work of a task.
pub(in crate::front) enum TaskWork {
    /// A call, to be answered by the handler of its tool.
    Call(CallToolParams),
    /// The rest of a call whose handler has run.
    Detached(DetachedWork),
}

/// The handlers of tasks. [`ServedRouter`](crate::front::ServedRouter) implements it.
pub(in crate::front) trait TaskHandlers: Sized {
    /// The future of a running handler.
    type HandlerFuture: Future<Output = Reply> + Unpin;

    /// The handlers as they are now, whatever changes later.
    fn snapshot(&self) -> Self;

    /// Starts the work of a task, in the context of that task.
    fn begin_task(&self, work: TaskWork, context: Context) -> Self::HandlerFuture;
}
