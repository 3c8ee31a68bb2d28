//! Handlers that run as tasks of their own.

use alloc::sync::Arc;

use super::{Context, HandlerMode, Router, SendHandlers};
use crate::front::SpawnedHandler;

impl<S: 'static> Router<SendHandlers, S> {
    /// Makes each handler a task of its own, which `spawn` starts on the application's executor. Default: the driver
    /// runs the handlers, and one that blocks its thread stops all clients of that driver.
    ///
    /// A task is polled until the handler returns; where its request is cancelled, the task is woken and drops the
    /// handler. Handlers that block for long still belong on other threads (`unblock` of `blocking`, `spawn_blocking` of
    /// Tokio): they use up the executor's. The code of a handler before its future is returned runs in the driver.
    ///
    /// ```
    /// use mcp_proto::front::{NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// let router = Router::new("reports", "1.0.0")
    ///     .tool_with(Tool::new("report", "Writes a report", Json::empty_object()), async |NoArguments {}, _| "Done")
    ///     // `|handler| drop(tokio::spawn(handler))` with Tokio, `|handler| smol::spawn(handler).detach()` with smol.
    ///     .spawn_handlers(|handler| drop(std::thread::spawn(|| futures_lite::future::block_on(handler))));
    /// # drop(router);
    /// ```
    ///
    /// While a client leaves too many answers unread, no further handlers start; those that run go on, and their results
    /// wait in memory. If a task is dropped before its handler returns, the request is answered with
    /// [`INTERNAL_ERROR`](crate::rpc::code::INTERNAL_ERROR).
    #[must_use]
    pub fn spawn_handlers(mut self, spawn: impl Fn(SpawnedHandler) + Send + Sync + 'static) -> Self {
        self.contents.spawner = Some(Arc::new(spawn));
        self
    }
}

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Makes a handler a task of its own, if the application spawns them. `context` is that of a request with input rounds.
    pub(in crate::front) fn spawned(
        &self,
        handler: M::HandlerFuture,
        context: Option<&Context>,
    ) -> M::HandlerFuture {
        match &self.contents.spawner {
            Some(spawner) => M::spawn(handler, context.cloned(), spawner),
            None => handler,
        }
    }
}
