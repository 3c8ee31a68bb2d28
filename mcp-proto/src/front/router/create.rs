//! New routers, and the state that their handlers share.

use alloc::sync::Arc;

use super::RouterContents;
use super::{HandlerMode, Router};
use crate::front::mode::{LocalHandlers, SendHandlers};
use crate::prelude::*;
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
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.contents.instructions = Some(instructions.into());
        self
    }
}

/// State.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Sets the state that handlers share: they take a [`Context<T>`](super::Context) and call its
    /// [`state`](super::Context::state).
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use mcp_proto::front::{Context, NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// struct Visits(AtomicU64);
    ///
    /// async fn visit(_: NoArguments, cx: Context<Visits>) -> String {
    ///     format!("visit {}", cx.state().0.fetch_add(1, Ordering::Relaxed) + 1)
    /// }
    ///
    /// let router = Router::new("counter", "1.0.0")
    ///     .with_state(Visits(AtomicU64::new(0)))
    ///     .tool_with(Tool::new("visit", "Counts its calls", Json::empty_object()), visit);
    /// # drop(router);
    /// ```
    ///
    /// All clients share the state, over every transport: what belongs to one user is stored by
    /// [principal](super::Context::principal). Handlers of a [`SendHandlers`](crate::front::SendHandlers) router need
    /// a state that is `Send` and `Sync`; those of a [local](Router::local) router may share an `Rc` or a `Cell`.
    ///
    /// Handlers that were registered before keep the state that they were registered with; at first it is `()`. A
    /// state of type `Arc<T>` is shared with the rest of the program.
    pub fn with_state<T: 'static>(self, state: T) -> Router<M, T> {
        self.replace_state(Arc::new(state))
    }

    pub(super) fn replace_state<T>(self, state: Arc<T>) -> Router<M, T> {
        Router { state, contents: self.contents }
    }
}

impl<M: HandlerMode> Router<M> {
    /// The state of the contexts that drivers make.
    pub(crate) fn state(&self) -> &Arc<()> {
        &self.state
    }
}

impl<M: HandlerMode, S> Clone for Router<M, S> {
    /// Clones share handlers, state, tasks and the keys of request states.
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), contents: self.contents.clone() }
    }
}
