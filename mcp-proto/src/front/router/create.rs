//! New routers.

use alloc::string::String;
use alloc::sync::Arc;

use super::contents::RouterContents;
use super::{HandlerMode, Router};
use crate::front::mode::{LocalHandlers, SendHandlers};
use crate::schema::Implementation;

impl Router<SendHandlers> {
    /// Creates a server of this name and version that offers nothing yet. Its handlers must be `Send`, and it can be
    /// driven on a multi-threaded executor; [`local`](Router::local) takes handlers that are not `Send`.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::with_info(Implementation::new(name, version))
    }
}

impl Router<LocalHandlers> {
    /// Creates a server of this name and version that offers nothing yet. Its handlers may hold values that are not
    /// `Send`, such as an `Rc`; its driver then stays on one thread.
    ///
    /// ```
    /// use std::cell::Cell;
    /// use std::rc::Rc;
    ///
    /// use mcp_proto::front::{NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// let count = Rc::new(Cell::new(0));
    /// let tool = Tool::new("count", "Counts its calls", Json::empty_object());
    /// let router = Router::local("counter", "1.0.0").tool_with(tool, move |NoArguments {}, _| {
    ///     let count = count.clone();
    ///     async move {
    ///         count.set(count.get() + 1);
    ///         count.get().to_string()
    ///     }
    /// });
    /// # drop(router);
    /// ```
    pub fn local(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::with_info(Implementation::new(name, version))
    }
}

impl<M: HandlerMode> Router<M> {
    /// Creates a server that describes itself by `info` and offers nothing yet.
    pub fn with_info(info: Implementation) -> Self {
        Self { state: Arc::default(), contents: RouterContents::new(info) }
    }
}

impl<M: HandlerMode, S> Router<M, S> {
    /// Sets the instructions that tell the model how to use the server.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.contents.instructions = Some(instructions.into());
        self
    }
}
