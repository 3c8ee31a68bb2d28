//! Tools and their handlers.

use core::fmt;
use core::future::Future;

use serde::de::DeserializeOwned;

use super::dispatch::tool_reply;
use super::{Router, RouterError};
use crate::front::handler::arguments::Arguments;
use crate::front::handler::context::Context;
use crate::front::handler::output::ToolOutput;
use crate::front::mode::{Handler, HandlerMode};
use crate::front::reply::Reply;
use crate::rpc::code;
use crate::schema::{CallToolParams, CallToolResult, Json, ServerCapability, Tool};

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
    #[must_use]
    pub fn tool_with<A, F, H>(mut self, tool: Tool, handler: H) -> Self
    where
        A: Arguments,
        F: Future<Output: ToolOutput> + 'static, // an async closure or function
        H: Fn(A, Context<S>) -> F + Handler<M, A, Context<S>, F>, // captures: clone; not `Send`: `Router::local`
    {
        let check = self.output_check(&tool);
        let erased = handler.erase(
            self.state.clone(),
            |call: CallToolParams, context: &Context| {
                decode_arguments(&call, context).map(|arguments| (arguments, ()))
            },
            move |(), output| tool_reply(check.check(output)),
        );
        self.add_tool(tool, erased)
    }

    /// Registers a tool whose handler takes the undecoded call.
    #[must_use]
    pub fn tool_raw<F, H>(mut self, tool: Tool, handler: H) -> Self
    where
        F: Future<Output: ToolOutput> + 'static, // an async closure or function
        H: Fn(CallToolParams, Context<S>) -> F + Handler<M, CallToolParams, Context<S>, F>,
    {
        let check = self.output_check(&tool);
        let erased = handler.erase(
            self.state.clone(),
            |call: CallToolParams, _: &Context| Ok((call, ())),
            move |(), output| tool_reply(check.check(output)),
        );
        self.add_tool(tool, erased)
    }

    pub(super) fn add_tool(mut self, mut tool: Tool, handler: M::Handler<CallToolParams, Context>) -> Self {
        if !is_tool_name(&tool.name) {
            self.record_error(RouterError::ToolName { name: tool.name.clone() });
        }
        match object_schema(&tool.input_schema) {
            Some(schema) => tool.input_schema = schema,
            None => self.record_error(RouterError::InputSchema { tool: tool.name.clone() }),
        }
        self.add_input_check(&tool);
        //= S8.9 "x-mcp-header constraints (C4)"
        if let Err(error) = self.contents.headers.add(&tool) {
            self.record_error(RouterError::ParamHeader { tool: tool.name.clone(), error });
        }
        if let Err(name) = self.contents.tools.insert(tool.name.clone(), tool, handler) {
            self.record_error(RouterError::Duplicate { kind: "tool", name });
        }
        //= R5 "derived from what is registered"
        self.declare(ServerCapability::Tools)
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
fn is_tool_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=128).contains(&name.len()) && name.chars().all(allowed)
}

pub(super) fn decode_arguments<A: DeserializeOwned>(
    call: &CallToolParams,
    context: &Context,
) -> Result<A, Reply> {
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
