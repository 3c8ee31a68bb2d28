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
        Router {
            state,
            info: self.info,
            instructions: self.instructions,
            capabilities: self.capabilities,
            tools: self.tools,
            resources: self.resources,
            templates: self.templates,
            prompts: self.prompts,
            methods: self.methods,
            custom_methods: self.custom_methods,
            custom: self.custom,
            extensions: self.extensions,
            page_size: self.page_size,
            cache_hints: self.cache_hints,
            task_registry: self.task_registry,
            task_tools: self.task_tools,
            sealing: self.sealing,
            subscription_access: self.subscription_access,
            headers: self.headers,
            scopes: self.scopes,
            input_checks: self.input_checks,
            rates: self.rates,
            error: self.error,
        }
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
        Self {
            state: self.state.clone(),
            info: self.info.clone(),
            instructions: self.instructions.clone(),
            capabilities: self.capabilities.clone(),
            tools: self.tools.clone(),
            resources: self.resources.clone(),
            templates: self.templates.clone(),
            prompts: self.prompts.clone(),
            methods: self.methods.clone(),
            custom_methods: self.custom_methods.clone(),
            custom: self.custom.clone(),
            extensions: self.extensions.clone(),
            page_size: self.page_size,
            cache_hints: self.cache_hints.clone(),
            task_registry: self.task_registry.clone(),
            task_tools: self.task_tools.clone(),
            sealing: self.sealing.clone(),
            subscription_access: self.subscription_access.clone(),
            headers: self.headers.clone(),
            scopes: self.scopes.clone(),
            input_checks: self.input_checks.clone(),
            rates: self.rates.clone(),
            error: self.error.clone(),
        }
    }
}
