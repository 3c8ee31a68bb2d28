//! The router: a server's tools, resources and prompts, with their handlers.

// First what most servers use: rustdoc lists methods in the order of the modules.
mod create;
#[cfg_attr(not(feature = "schemars"), path = "no_typed_tools.rs")]
mod typed_tools;

mod tools;

mod check;
mod contents;
pub(super) mod dispatch;
mod live_router;
mod methods;
mod prompts;
mod rates;
mod registry;
mod resources;
#[cfg_attr(not(feature = "schema-validate"), path = "no_schema_checks.rs")]
mod schema_checks;
#[cfg_attr(not(feature = "auth"), path = "no_scopes.rs")]
mod scopes;
#[cfg_attr(not(feature = "seal"), path = "no_sealing.rs")]
mod sealing;
mod strings;
mod tasks;
#[cfg_attr(not(feature = "http"), path = "no_tool_headers.rs")]
mod tool_headers;
mod uri;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;

use super::handler::context::Context;
use super::handler::input_rounds::Sealing;
use super::handler::output::{CompletionOutput, ResultOrInput};
use super::handler_error::IntoAnswer;
use super::mode::{Handler, HandlerMode, SendHandlers};
use super::params::{decode_as, decode_params};
use super::reply::Reply;
use crate::peer::server::ServerConfig;
use crate::rpc::Raw;
use crate::schema::{
    Complete, CompleteParams, CustomParams, EmptyResult, Implementation, IntoResult, Json, Meta, Method,
    MethodInfo, ResultFields, Revision, ServerCapabilities, ServerCapability,
};

pub use check::RouterError;
use contents::RouterContents;
use dispatch::reply;
pub(crate) use live_router::{ChangeListener, ListenerGuard};
pub use live_router::{LiveRouter, ServedRouter};
pub use rates::{LimitedCall, RateExceeded};
pub use uri::TemplateError;

/// The default number of items on a page: clients that read only one page still see all items of most servers.
const DEFAULT_PAGE_SIZE: usize = 1000;

/// A server: its tools, resources and prompts, with their handlers.
///
/// The server declares and lists what is registered. Handlers are async and take their decoded arguments and a
/// [`Context`]; they are dropped if the client cancels the request.
///
/// ```
/// # #[cfg(feature = "schemars")] {
/// use mcp_proto::front::Router;
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     /// The one number.
///     a: f64,
///     /// The other.
///     b: f64,
/// }
///
/// let router = Router::new("calculator", "1.0.0")
///     .instructions("Use it for sums that must be right.")
///     .tool("add", "Adds two numbers", async |Add { a, b }, _| format!("{}", a + b));
/// assert!(router.check().is_ok());
/// # }
/// ```
///
/// One router may serve many connections at once: it is cheap to clone, and may be shared as an `Arc`. Handlers that
/// share data take it as [state](Self::with_state) of type `S`.
pub struct Router<M: HandlerMode = SendHandlers, S = ()> {
    /// The state that completes the contexts of the handlers that are registered next.
    state: Arc<S>,
    contents: RouterContents<M>,
}

impl<M: HandlerMode, S: 'static> Router<M, S> {
    // --- Methods and capabilities ---

    /// Sets the handler of completions: it suggests values for an argument of a prompt or a template.
    ///
    /// A request for a prompt, a template or an argument that is not registered is answered with
    /// [`INVALID_PARAMS`](crate::rpc::code::INVALID_PARAMS), and does not reach the handler. Values that the other
    /// arguments already have are in [`CompleteParams::context`].
    #[must_use]
    pub fn completion<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output: CompletionOutput> + 'static,
        H: Fn(CompleteParams, Context<S>) -> F + Handler<M, CompleteParams, Context<S>, F>,
    {
        let erased = handler.erase(
            self.state.clone(),
            |params: Option<Raw>, context: &Context| match decode_params::<Complete>(params) {
                Ok(params) => Ok((params, context.revision())),
                Err(error) => Err(Reply::Error(error)),
            },
            |revision: Revision, output: F::Output| {
                reply(output.into_complete_result().map(ResultOrInput::Result), revision)
            },
        );
        self.contents.methods.insert(Complete::NAME.into(), erased);
        //= S8.17 "completions capability"
        //= R5 "derived from what is registered"
        self.declare(ServerCapability::Completions)
    }

    /// Sets the handler of any method, in place of the router's own: for lists that change, for example. The router
    /// declares the capability that the method requires.
    ///
    /// A cacheable result includes its lifetime: a list as a [`CachedPage`](crate::schema::CachedPage), any other
    /// result as [`Cached`](crate::schema::Cached).
    ///
    /// ```
    /// use core::time::Duration;
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::{CachedPage, ListTools, ListToolsResult};
    ///
    /// let router = Router::new("changing", "1.0.0").handler::<ListTools, _, _>(async |_params, _| {
    ///     CachedPage::new(Duration::from_secs(5), ListToolsResult::new(Vec::new()))
    /// });
    /// # drop(router);
    /// ```
    #[must_use]
    pub fn handler<T, F, H>(mut self, handler: H) -> Self
    where
        T: Method<Result: Send>,
        F: Future<Output: IntoAnswer<<T::Result as ResultFields>::HandlerOutput>> + 'static,
        H: Fn(T::Params, Context<S>) -> F + Handler<M, T::Params, Context<S>, F>,
    {
        let erased = handler.erase(
            self.state.clone(),
            |params: Option<Raw>, context: &Context| match decode_params::<T>(params) {
                Ok(params) => Ok((params, context.revision())),
                Err(error) => Err(Reply::Error(error)),
            },
            |revision: Revision, output: F::Output| {
                let answer = output.into_answer().map(IntoResult::into_result);
                reply(answer.map(ResultOrInput::<T::Result>::Result), revision)
            },
        );
        self.contents.methods.insert(T::NAME.into(), erased);
        if !MethodInfo::all().any(|info| info.name == T::NAME) {
            self.refuse_reserved(T::NAME);
            self.contents.custom_methods.push(T::NAME.into());
        }
        //= R5 "raw handlers checked"
        match T::INFO.server_capability {
            Some(capability) => self.declare(capability),
            None => self,
        }
    }

    /// Sets the handler of a method that the protocol does not define, such as an extension's. It takes the parameters
    /// undecoded and returns the result.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::EmptyResult;
    ///
    /// let router = Router::new("printer", "1.0.0").custom("com.example/status", async |_params, _| {
    ///     let mut result = EmptyResult::new();
    ///     result.extra.insert("paper", "low");
    ///     result
    /// });
    /// # drop(router);
    /// ```
    #[must_use]
    pub fn custom<F, H>(mut self, method: impl Into<String>, handler: H) -> Self
    where
        F: Future<Output: IntoAnswer<EmptyResult>> + 'static,
        H: Fn(CustomParams, Context<S>) -> F + Handler<M, CustomParams, Context<S>, F>,
    {
        let method = method.into();
        let name = method.clone();
        let erased = handler.erase(
            self.state.clone(),
            move |params: Option<Raw>, context: &Context| match decode_as(&name, params) {
                Ok(params) => Ok((params, context.revision())),
                Err(error) => Err(Reply::Error(error)),
            },
            |revision: Revision, output: F::Output| {
                reply(output.into_answer().map(ResultOrInput::Result), revision)
            },
        );
        self.refuse_reserved(&method);
        self.contents.custom_methods.push(method.clone());
        self.contents.methods.insert(method.into(), erased);
        self
    }

    /// Declares a capability that does not follow from the registrations.
    ///
    /// Examples: lists change, resources can be subscribed to, the server logs.
    #[must_use]
    pub fn declare(mut self, capability: ServerCapability) -> Self {
        self.contents.capabilities = self.contents.capabilities.with(capability);
        self
    }

    /// Declares an extension with its settings: an object. To register its methods and result types as well, see
    /// [`with_extension`](Self::with_extension).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extensions>
    #[must_use]
    pub fn extension(mut self, identifier: impl Into<String>, settings: impl Into<Json>) -> Self {
        let identifier = identifier.into();
        if !Meta::is_extension(&identifier) {
            self.record_error(RouterError::Extension { identifier: identifier.clone() });
        }
        self.contents.capabilities.extensions.get_or_insert_default().insert(identifier, settings);
        self
    }

    /// Sets the number of items on one page of a list. Default 1,000.
    #[must_use]
    pub fn page_size(mut self, items: usize) -> Self {
        self.contents.page_size = items;
        self
    }

    // --- Getters ---

    /// The server's name, version and description.
    pub fn info(&self) -> &Implementation {
        &self.contents.info
    }

    /// Returns the configuration of a machine for this router, with the default of every other option.
    pub fn config(&self) -> ServerConfig {
        let mut config = ServerConfig::new(self.contents.info.clone());
        config.instructions.clone_from(&self.contents.instructions);
        config.capabilities = self.contents.capabilities.clone();
        config.custom_methods.clone_from(&self.contents.custom_methods);
        config.extensions.clone_from(&self.contents.extensions);
        config.other_methods = self.contents.custom.has_fallback();
        config.cache_by_method.clone_from(&self.contents.cache_hints);
        config.task_access = self.task_access();
        config.subscription_access.clone_from(&self.contents.subscription_access);
        config
    }

    /// The capabilities that the server declares.
    pub fn capabilities(&self) -> &ServerCapabilities {
        &self.contents.capabilities
    }

    pub(super) fn sealing(&self) -> &Arc<Sealing> {
        &self.contents.sealing
    }

    fn record_error(&mut self, problem: RouterError) {
        self.contents.error.get_or_insert(problem);
    }
}

impl<M: HandlerMode, S> fmt::Debug for Router<M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("info", &self.contents.info)
            .field("tools", &self.contents.tools.iter().map(|entry| &entry.item.name).collect::<Vec<_>>())
            .field(
                "resources",
                &self.contents.resources.iter().map(|entry| &entry.item.uri).collect::<Vec<_>>(),
            )
            .field("prompts", &self.contents.prompts.iter().map(|entry| &entry.item.name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
