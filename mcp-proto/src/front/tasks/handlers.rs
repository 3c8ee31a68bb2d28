//! How the runner of tasks gets their handlers.

use core::future::Future;

use crate::front::handler::context::Context;
use crate::front::handler::detached::DetachedWork;
use crate::front::handler::reply::Reply;
use crate::schema::CallToolParams;

/// The work of a task.
pub(in crate::front) enum TaskWork {
    /// A call, for the handler of its tool.
    Call(CallToolParams),
    /// The rest of a call whose handler has run.
    Detached(DetachedWork),
}

/// The handlers of tasks. The router implements it.
pub(in crate::front) trait TaskHandlers {
    /// A handler that is running.
    type HandlerFuture: Future<Output = Reply> + Unpin;

    /// Begins the work of a task, in the context of that task.
    fn begin_task(&self, work: TaskWork, context: Context) -> Self::HandlerFuture;
}
