//! The state of a router, which its handlers share.

use alloc::sync::Arc;

use super::{HandlerMode, Router};

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
    #[must_use]
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
