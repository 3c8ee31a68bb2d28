//! Tools and their handlers.

use alloc::string::String;
#[cfg(feature = "schema-validate")]
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;

use serde::de::DeserializeOwned;

use super::dispatch::tool_reply;
use super::{Router, RouterError};
use crate::front::handler::arguments::{Arguments, DescribedArguments, arguments_schema};
use crate::front::handler::context::Context;
use crate::front::handler::output::{OutputCheck, ToolOutput};
use crate::front::mode::{Handler, HandlerMode};
use crate::front::params::ToolCall;
use crate::front::reply::Reply;
use crate::front::tasks::TaskChoice;
use crate::rpc::code;
use crate::schema::{CallToolParams, CallToolResult, Json, ServerCapability, Tool};
#[cfg(feature = "http")]
use crate::transport::http::param_headers::ParamHeaders;
#[cfg(feature = "schema-validate")]
use crate::validate::{Bounds, Schema};

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Registers a tool whose handler takes `A`. Its input schema is that of `A`, and its output schema that of the
    /// handler's return type, if it has one.
    ///
    /// Arguments that do not match `A` never reach the handler: the model receives the decoding error.
    #[cfg_attr(not(feature = "schemars"), doc(hidden))]
    pub fn tool<A, F, H>(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        handler: H,
    ) -> Self
    where
        A: DescribedArguments,
        F: Future<Output: ToolOutput> + 'static, // an async closure or function
        H: Fn(A, Context<S>) -> F + Handler<M, A, Context<S>, F>, // captures: clone; not `Send`: `Router::local`
    {
        let name = name.into();
        let Some(input) = arguments_schema::<A>() else {
            self.record_error(RouterError::InputSchema { tool: name });
            return self;
        };
        let mut tool = Tool::new(name, description, input);
        tool.output_schema = F::Output::output_schema();
        self.tool_with(tool, handler)
    }
}

/// A tool as it is listed, and how its calls are checked and run.
#[derive(Clone)]
pub(super) struct RegisteredTool {
    pub(super) tool: Tool,
    /// Whether its calls become tasks.
    pub(super) task: Option<TaskTool>,
    /// The parameters that clients repeat as HTTP headers.
    #[cfg(feature = "http")]
    headers: Option<ParamHeaders>,
    #[cfg(feature = "schema-validate")]
    input: Option<Arc<Schema>>,
}

/// The task settings of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskTool {
    pub(super) choice: TaskChoice,
    pub(super) trigger: TaskTrigger,
}

/// The moment at which a call becomes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskTrigger {
    /// Before its handler starts.
    OnCall,
    /// When its handler returns `DetachedWork`.
    Detached,
}

/// Tools.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Registers a tool with an explicit description, whose handler takes `A`.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::Tool;
    /// use serde::Deserialize;
    /// use serde_json::json;
    ///
    /// #[derive(Deserialize)]
    /// struct Echo {
    ///     text: String,
    /// }
    ///
    /// let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
    /// let router = Router::new("echo", "1.0.0")
    ///     .tool_with(Tool::new("echo", "Says it again", schema), async |Echo { text }, _| text);
    /// # drop(router);
    /// ```
    pub fn tool_with<A, F, H>(self, tool: Tool, handler: H) -> Self
    where
        A: Arguments,
        F: Future<Output: ToolOutput> + 'static, // an async closure or function
        H: Fn(A, Context<S>) -> F + Handler<M, A, Context<S>, F>, // captures: clone; not `Send`: `Router::local`
    {
        self.register_tool(tool, None, decode_arguments, handler)
    }

    /// Registers a tool whose handler takes what `read` makes of the call.
    pub(super) fn register_tool<A, F, H>(
        mut self,
        tool: Tool,
        task: Option<TaskTool>,
        read: impl Fn(ToolCall, &Context) -> Result<A, Reply> + Send + Sync + 'static,
        handler: H,
    ) -> Self
    where
        F: Future<Output: ToolOutput> + 'static,
        H: Handler<M, A, Context<S>, F>,
    {
        let check = self.output_check(&tool);
        let erased = handler.erase(
            self.state.clone(),
            move |call: ToolCall, context: &Context| Ok((read(call, context)?, ())),
            move |(), output| tool_reply(check.check(output)),
        );
        self.add_tool(tool, task, erased)
    }

    /// Registers a tool whose handler takes the undecoded call.
    pub fn tool_raw<F, H>(self, tool: Tool, handler: H) -> Self
    where
        F: Future<Output: ToolOutput> + 'static, // an async closure or function
        H: Fn(CallToolParams, Context<S>) -> F + Handler<M, CallToolParams, Context<S>, F>,
    {
        self.register_tool(tool, None, |call, _| Ok(call.into_params()?), handler)
    }

    pub(super) fn add_tool(
        mut self,
        mut tool: Tool,
        task: Option<TaskTool>,
        handler: M::Handler<ToolCall, Context>,
    ) -> Self {
        let name = tool.name.clone();
        if !is_tool_name(&name) {
            self.record_error(RouterError::ToolName { name: name.clone() });
        }
        match object_schema(&tool.input_schema) {
            Some(schema) => tool.input_schema = schema,
            None => self.record_error(RouterError::InputSchema { tool: name.clone() }),
        }
        let item = RegisteredTool {
            #[cfg(feature = "schema-validate")]
            input: self.compile(&tool, "input", &tool.input_schema),
            #[cfg(feature = "http")]
            headers: self.header_params(&tool),
            task,
            tool,
        };
        let router = self.change(|contents| contents.tools.insert(name, item, handler));
        //= R5 "derived from what is registered"
        router.declare(ServerCapability::Tools)
    }

    pub(super) fn output_check(&mut self, tool: &Tool) -> OutputCheck {
        #[cfg(feature = "schema-validate")]
        let schema = tool.output_schema.as_ref().and_then(|schema| self.compile(tool, "output", schema));
        #[cfg(not(feature = "schema-validate"))]
        let schema = ();
        OutputCheck::new(tool.page().is_some(), schema)
    }
}

/// Checks of arguments and results against the schemas of tools.
#[cfg(feature = "schema-validate")]
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Sets the bounds of tool schemas and of each check, for all tools that are registered after it.
    ///
    /// Arguments are checked against the tool's input schema before its handler runs, and structured results against
    /// its output schema before they are sent.
    pub fn schema_bounds(mut self, bounds: Bounds) -> Self {
        self.contents.schema_bounds = bounds;
        self
    }

    //= S8.23 "Schemas of tools are valid in their declared or default dialect"
    fn compile(&mut self, tool: &Tool, which: &'static str, schema: &Json) -> Option<Arc<Schema>> {
        let compiled = Schema::compile(schema, &self.contents.schema_bounds);
        let record = |error| self.record_error(RouterError::Schema { tool: tool.name.clone(), which, error });
        compiled.map(Arc::new).map_err(record).ok()
    }
}

#[cfg(feature = "schema-validate")]
impl RegisteredTool {
    //= S8.8 "Validate inputs"
    pub(super) fn check_arguments(&self, call: &ToolCall, context: &Context) -> Result<(), Reply> {
        let Some(schema) = &self.input else { return Ok(()) };
        let refuse = |error: &dyn fmt::Display| invalid_arguments(&call.name, error, context);
        let arguments = call.arguments.as_ref().map_or_else(|| Ok(Json::empty_object()), Json::try_from);
        let arguments = arguments.map_err(|error| refuse(&error))?;
        schema.check(&arguments).map_err(|error| refuse(&error))
    }
}

#[cfg(feature = "http")]
impl<M: HandlerMode, S: 'static> Router<M, S> {
    //= S8.9 "x-mcp-header constraints (C4)"
    fn header_params(&mut self, tool: &Tool) -> Option<ParamHeaders> {
        ParamHeaders::from_schema(tool.input_schema.as_str()).unwrap_or_else(|error| {
            self.record_error(RouterError::ParamHeader { tool: tool.name.clone(), error });
            None
        })
    }

    /// The parameters of a tool that clients repeat as HTTP headers, if it has any.
    pub(crate) fn param_headers(&self, tool: &str) -> Option<&ParamHeaders> {
        self.contents.tools.get(tool)?.item.headers.as_ref()
    }
}

//= S8.5 "inputSchema is a JSON Schema object (type object)"
/// Adds `type: object` to the schema of a tool's arguments, which may omit it because arguments are always objects.
fn object_schema(schema: &Json) -> Option<Json> {
    let mut fields: serde_json::Map<_, _> = schema.decode().ok()?;
    match fields.get("type") {
        Some(kind) => (kind == "object").then(|| schema.clone()),
        None => {
            fields.insert("type".into(), "object".into());
            Some(serde_json::Value::from(fields).into())
        }
    }
}

//= S8.4 "Names 1–128 of [A-Za-z0-9_.-], unique, case-sensitive"
/// Whether `name` is a valid tool name.
pub(super) fn is_tool_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=128).contains(&name.len()) && name.chars().all(allowed)
}

pub(super) fn decode_arguments<A: DeserializeOwned>(call: ToolCall, context: &Context) -> Result<A, Reply> {
    let decoded = match &call.arguments {
        Some(arguments) => arguments.decode(),
        None => serde_json::from_str("{}"),
    };
    decoded.map_err(|error| invalid_arguments(&call.name, &error, context))
}

//= S8.7 "SHOULD input validation and business failures → isError result"
/// The reply to arguments that do not match: a tool result or a protocol error, as the revision demands.
pub(super) fn invalid_arguments(tool: &str, error: &dyn fmt::Display, context: &Context) -> Reply {
    let message = alloc::format!("the arguments do not fit the tool {tool}: {error}");
    if context.revision().differences().invalid_arguments_are_results {
        Reply::result(CallToolResult::error(message))
    } else {
        Reply::error(code::INVALID_PARAMS, message)
    }
}
