//! The router: a server's tools, resources and prompts, with their handlers.

// First what most servers use: rustdoc lists methods in the order of the modules.
mod create;
mod tools;

mod check;
mod combine;
pub(super) mod dispatch;
mod layers;
mod live_router;
mod methods;
mod origin;
mod prompts;
mod registry;
mod resources;
#[cfg(feature = "skills")]
mod skills;
mod string_arguments;
mod tasks;
mod tool_limits;
mod uri;

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::iter;
use core::time::Duration;

use super::handler::context::Context;
use super::handler::inbound_request::NotificationContext;
use super::handler::input_rounds::Sealing;
use super::layer::Layers;
use super::mode::{Handler, HandlerMode, NotificationHandlers, SendHandlers};
use super::params::ToolCall;
use super::spawned_handler::Spawner;
use super::tasks::TaskRegistry;
use crate::ordered_map::OrderedMap;
#[cfg(feature = "seal")]
use crate::peer::server::Sealer;
use crate::peer::server::{ServerConfig, SubscriptionAccess};
use crate::prelude::*;
use crate::redact::Redactor;
use crate::rpc::Raw;
use crate::schema::{
    CacheHint, Extension, GetPromptParams, Implementation, Map, Prompt, ReadResourceParams, Resource,
    ResourceTemplate, ServerCapabilities,
};
#[cfg(feature = "seal")]
use crate::single_use::SingleUse;

use origin::{Origin, PartAccess};
use registry::Registry;
use tool_limits::{ByTool, Rates};
use tools::RegisteredTool;
use uri::UriTemplate;

pub use check::RouterError;
pub(crate) use live_router::{ChangeListener, ListenerGuard};
pub use live_router::{LiveRouter, ServedRouter};
pub use origin::{mounted_name, mounted_uri};
pub(in crate::front) use tool_limits::ToolTimeout;
pub use tool_limits::{LimitedCall, RateExceeded};
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
#[must_use = "a router does nothing until it is served"]
pub struct Router<M: HandlerMode = SendHandlers, S = ()> {
    /// The state that completes the contexts of the handlers that are registered next.
    state: Arc<S>,
    contents: RouterContents<M>,
}

/// What a router offers, and how.
#[derive(Clone)]
struct RouterContents<M: HandlerMode> {
    info: Implementation,
    instructions: Option<String>,
    capabilities: ServerCapabilities,
    tools: Registry<RegisteredTool, M::Handler<ToolCall, Context>, Origin<M>>,
    resources: Registry<Resource, M::Handler<ReadResourceParams, Context>, Origin<M>>,
    templates: Registry<TemplateEntry, M::Handler<TemplateMatch, Context>, Origin<M>>,
    prompts: Registry<Prompt, M::Handler<GetPromptParams, Context>, Origin<M>>,
    #[cfg(feature = "skills")]
    skills: Arc<Vec<skills::RegisteredSkills>>,
    methods: OrderedMap<Cow<'static, str>, M::Handler<Option<Raw>, Context>>,
    /// The methods among them that the protocol does not define.
    custom_methods: Vec<String>,
    /// Answers the requests that have no other handler.
    fallback: Option<M::Handler<(String, Option<Raw>), Context>>,
    notifications: NotificationHandlers<M, NotificationContext>,
    extensions: Vec<Extension>,
    page_size: usize,
    /// The cache hints by method name.
    cache_hints: OrderedMap<&'static str, CacheHint>,
    task_registry: Option<Arc<TaskRegistry>>,
    sealing: Arc<Sealing>,
    subscription_access: Option<SubscriptionAccess>,
    /// The checks of the routers that this one was combined from, each for its own resources.
    part_access: Vec<Arc<PartAccess>>,
    #[cfg(feature = "auth")]
    /// The scopes that tools require.
    scopes: ByTool<Arc<crate::auth::Scopes>>,
    #[cfg(feature = "schema-validate")]
    schema_bounds: crate::validate::Bounds,
    rates: Rates,
    /// The rates of the parts whose hand-written handler answers tool calls.
    call_rates: Vec<Rates>,
    /// Whether registered tools come from parts that limit tool calls.
    limits_parts: bool,
    tool_timeouts: ByTool<Duration>,
    /// Starts the task of each handler, unless the driver runs them.
    spawner: Option<Spawner>,
    layers: Layers<M>,
    error: Option<RouterError>,
}

/// A template in its listed form, and parsed for matching.
type TemplateEntry = (ResourceTemplate, UriTemplate);

/// A URI that a template matches, with its variables.
type TemplateMatch = (String, Map<String>);

impl<M: HandlerMode> RouterContents<M> {
    /// Creates the contents of a server that offers nothing yet.
    fn new(info: Implementation) -> Self {
        Self {
            sealing: Arc::new(Sealing::new(info.name.clone())),
            info,
            instructions: None,
            capabilities: ServerCapabilities::new(),
            tools: Registry::new("tool"),
            resources: Registry::new("resource"),
            templates: Registry::new("resource template"),
            prompts: Registry::new("prompt"),
            #[cfg(feature = "skills")]
            skills: Arc::default(),
            methods: OrderedMap::new(),
            custom_methods: Vec::new(),
            fallback: None,
            notifications: NotificationHandlers::new(),
            extensions: Vec::new(),
            page_size: DEFAULT_PAGE_SIZE,
            cache_hints: OrderedMap::new(),
            task_registry: None,
            subscription_access: None,
            part_access: Vec::new(),
            #[cfg(feature = "auth")]
            scopes: Default::default(),
            #[cfg(feature = "schema-validate")]
            schema_bounds: Default::default(),
            rates: Rates::default(),
            call_rates: Vec::new(),
            limits_parts: false,
            tool_timeouts: ByTool::default(),
            spawner: None,
            layers: Layers::new(),
            error: None,
        }
    }
}

impl<M: HandlerMode, S: 'static> Router<M, S> {
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
        // The layers see the methods that do not exist, too.
        config.other_methods = self.contents.fallback.is_some() || !self.contents.layers.is_empty();
        config.cache_by_method =
            self.contents.cache_hints.iter().map(|(method, hint)| (*method, *hint)).collect();
        config.task_access = self.task_access();
        config.subscription_access = self.contents.combined_access();
        config
    }

    /// A redactor that also hides the fields which the schemas of the tools mark by `"format": "password"`, for a trace of the
    /// server: a call may come on another connection than the one that lists its tool.
    pub fn redactor(&self) -> Redactor {
        let tools = self.contents.tools.iter().map(|entry| &entry.item.tool);
        let schemas = tools.flat_map(|tool| iter::once(&tool.input_schema).chain(&tool.output_schema));
        schemas.fold(Redactor::new(), |redactor, schema| redactor.schema(schema.as_str()))
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

    /// Changes the contents, and records the error if that fails.
    fn change(mut self, change: impl FnOnce(&mut RouterContents<M>) -> Result<(), RouterError>) -> Self {
        if let Err(error) = change(&mut self.contents) {
            self.record_error(error);
        }
        self
    }
}

/// Request states, which clients of 2026-07-28 store between input rounds.
#[cfg(feature = "seal")]
impl<M: HandlerMode, S: 'static> Router<M, S> {
    setters! {
        /// Sets the keys that seal request states.
        ///
        /// The states serve handlers that [request input](crate::front::Context::elicit) from clients of 2026-07-28.
        /// Instances of a server must share the keys if a client's requests may reach any of them.
        ///
        /// Without this, states are sealed with a random key that only this router holds: valid for one process, until it
        /// ends.
        ///
        /// ```
        /// use mcp_proto::front::Router;
        /// use mcp_proto::peer::server::{SealKey, Sealer};
        ///
        /// # fn secret(name: &str) -> [u8; 32] { [7; 32] }
        /// // The newest key first, then the previous key for as long as states sealed with it are valid.
        /// let sealer = Sealer::new(SealKey::new(secret("2026-08")), [SealKey::new(secret("2026-07"))]);
        /// let router = Router::new("shop", "1.0.0").seal(sealer);
        /// # drop(router);
        /// ```
        pub fn seal(self, sealer: Sealer) { Arc::make_mut(&mut self.contents.sealing).set_sealer(sealer) }

        /// Sets the lifetime of a request state, which is the time that a client has for its answers. Default ten minutes.
        pub fn state_lifetime(self, lifetime: Duration) {
            Arc::make_mut(&mut self.contents.sealing).lifetime = lifetime
        }

        /// Makes each request state valid for one use, recorded in `store`. Otherwise a client can send the same answers
        /// again until their state expires, which is harmless for most servers.
        ///
        /// With a store, a client that loses the connection while it sends its answers must start its request over.
        pub fn single_use(self, store: Arc<dyn SingleUse>) {
            Arc::make_mut(&mut self.contents.sealing).single_use = Some(store)
        }
    }
}

/// Has no implementation: the compiler's message names the feature.
#[cfg(not(feature = "seal"))]
#[diagnostic::on_unimplemented(
    message = "`Router::state_lifetime` needs the feature `seal`",
    note = "in `Cargo.toml`, add `\"seal\"` to the features of `mcp-smol`, `mcp-hyper` or `mcp-proto`; the first two have it by default"
)]
pub trait Seals {}

#[cfg(not(feature = "seal"))]
impl<M: HandlerMode, S: 'static> Router<M, S> {
    #[doc(hidden)]
    pub fn state_lifetime(self, _: Duration) -> Self
    where
        Self: Seals,
    {
        self
    }
}

debug_fields! { [M: HandlerMode, S] Router<M, S>(self) {
    info = self.contents.info,
    tools = self.contents.tools.iter().map(|entry| &entry.item.tool.name).collect::<Vec<_>>(),
    resources = self.contents.resources.iter().map(|entry| &entry.item.uri).collect::<Vec<_>>(),
    prompts = self.contents.prompts.iter().map(|entry| &entry.item.name).collect::<Vec<_>>(),
} }
