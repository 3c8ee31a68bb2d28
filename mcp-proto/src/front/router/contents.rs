//! The contents of a router, independent of the type of its state.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::methods::CustomHandlers;
use super::rates::Rates;
use super::registry::Registry;
use super::schema_checks::InputChecks;
use super::scopes::ToolScopes;
use super::tasks::TaskTool;
use super::tool_headers::ToolHeaders;
use super::uri::UriTemplate;
use super::{Context, DEFAULT_PAGE_SIZE, HandlerMode, RouterError};
use crate::front::handler::input_rounds::Sealing;
use crate::front::spawned_handler::Spawner;
use crate::front::tasks::TaskRegistry;
use crate::peer::server::SubscriptionAccess;
use crate::rpc::Raw;
use crate::schema::{
    CacheHint, CallToolParams, Extension, GetPromptParams, Implementation, Map, Prompt, ReadResourceParams,
    Resource, ResourceTemplate, ServerCapabilities, Tool,
};

/// What a router offers, and how.
#[derive(Clone)]
pub(super) struct RouterContents<M: HandlerMode> {
    pub(super) info: Implementation,
    pub(super) instructions: Option<String>,
    pub(super) capabilities: ServerCapabilities,
    pub(super) tools: Registry<Tool, M::Handler<CallToolParams, Context>>,
    pub(super) resources: Registry<Resource, M::Handler<ReadResourceParams, Context>>,
    pub(super) templates: Registry<TemplateEntry, M::Handler<TemplateMatch, Context>>,
    pub(super) prompts: Registry<Prompt, M::Handler<GetPromptParams, Context>>,
    pub(super) methods: BTreeMap<Cow<'static, str>, M::Handler<Option<Raw>, Context>>,
    /// The methods among them that the protocol does not define.
    pub(super) custom_methods: Vec<String>,
    pub(super) custom: CustomHandlers<M>,
    pub(super) extensions: Vec<Extension>,
    pub(super) page_size: usize,
    /// The cache hints by method name.
    pub(super) cache_hints: BTreeMap<&'static str, CacheHint>,
    /// The task registry, and the tools whose calls become tasks.
    pub(super) task_registry: Option<Arc<TaskRegistry>>,
    pub(super) task_tools: Arc<BTreeMap<String, TaskTool>>,
    pub(super) sealing: Arc<Sealing>,
    pub(super) subscription_access: Option<SubscriptionAccess>,
    pub(super) headers: ToolHeaders,
    pub(super) scopes: ToolScopes,
    pub(super) input_checks: InputChecks,
    pub(super) rates: Rates,
    /// Starts the task of each handler, unless the driver runs them.
    pub(super) spawner: Option<Spawner>,
    pub(super) error: Option<RouterError>,
}

/// A template in its listed form, and parsed for matching.
pub(super) type TemplateEntry = (ResourceTemplate, UriTemplate);

/// A URI that a template matches, with its variables.
pub(super) type TemplateMatch = (String, Map<String>);

impl<M: HandlerMode> RouterContents<M> {
    /// Creates the contents of a server that offers nothing yet.
    pub(super) fn new(info: Implementation) -> Self {
        Self {
            sealing: Arc::new(Sealing::new(info.name.clone())),
            info,
            instructions: None,
            capabilities: ServerCapabilities::new(),
            tools: Registry::new(),
            resources: Registry::new(),
            templates: Registry::new(),
            prompts: Registry::new(),
            methods: BTreeMap::new(),
            custom_methods: Vec::new(),
            custom: CustomHandlers::new(),
            extensions: Vec::new(),
            page_size: DEFAULT_PAGE_SIZE,
            cache_hints: BTreeMap::new(),
            task_registry: None,
            task_tools: Arc::default(),
            subscription_access: None,
            headers: Default::default(),
            scopes: Default::default(),
            input_checks: Default::default(),
            rates: Rates::default(),
            spawner: None,
            error: None,
        }
    }
}
