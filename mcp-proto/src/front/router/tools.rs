//! Tools and their handlers.

#[cfg(feature = "schemars")]
use alloc::string::String;
use core::fmt;
use core::future::Future;

use serde::de::DeserializeOwned;

use super::input_checks::object_schema;
use super::replies::tool_reply;
use super::{Router, RouterError};
use crate::front::handler::context::Context;
#[cfg(feature = "schemars")]
use crate::front::handler::json_schema;
use crate::front::handler::mode::{Handler, HandlerMode};
use crate::front::handler::output::ToolOutput;
use crate::front::handler::reply::Reply;
use crate::rpc::code;
use crate::schema::{CallToolParams, CallToolResult, ServerCapability, Tool};
#[cfg(feature = "http")]
use crate::transport::http::param_headers::ParamHeaders;

/// Tools.
impl<M: HandlerMode> Router<M> {
    /// Registers a tool whose handler takes `A`. Its input schema is that of `A`, and its output schema that of the
    /// handler's return type, if it has one.
    ///
    /// Arguments that do not match `A` never reach the handler: the model receives the decoding error.
    #[cfg(feature = "schemars")]
    #[must_use]
    pub fn tool<A, F, H>(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        handler: H,
    ) -> Self
    where
        A: DeserializeOwned + schemars::JsonSchema + 'static,
        F: Future<Output: ToolOutput> + 'static,
        H: Fn(A, Context) -> F + Handler<M, A, Context, F>,
    {
        let name = name.into();
        let Some(input) = json_schema::of_arguments::<A>() else {
            self.record_error(RouterError::InputSchema { tool: name });
            return self;
        };
        let mut tool = Tool::new(name, description, input);
        tool.output_schema = F::Output::output_schema();
        self.tool_with(tool, handler)
    }

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
        A: DeserializeOwned + 'static,
        F: Future<Output: ToolOutput> + 'static,
        H: Fn(A, Context) -> F + Handler<M, A, Context, F>,
    {
        let check = self.output_check(&tool);
        let erased = handler.erase(
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
        F: Future<Output: ToolOutput> + 'static,
        H: Fn(CallToolParams, Context) -> F + Handler<M, CallToolParams, Context, F>,
    {
        let check = self.output_check(&tool);
        let erased = handler.erase(
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
        #[cfg(feature = "schema-validate")]
        self.add_input_check(&tool);
        #[cfg(feature = "http")]
        match ParamHeaders::from_schema(tool.input_schema.as_str()) {
            Ok(None) => {}
            Ok(Some(headers)) => {
                self.param_headers.insert(tool.name.clone(), headers);
            }
            Err(error) => self.record_error(RouterError::ParamHeader { tool: tool.name.clone(), error }),
        }
        if let Err(name) = self.tools.insert(tool.name.clone(), tool, handler) {
            self.record_error(RouterError::Duplicate { kind: "tool", name });
        }
        self.declare(ServerCapability::Tools)
    }
}

/// Whether `name` is a valid tool name (S8.4).
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

/// The reply to arguments that do not match: a tool result or a protocol error, as the revision demands.
pub(super) fn invalid_arguments(tool: &str, error: &dyn fmt::Display, context: &Context) -> Reply {
    let message = alloc::format!("the arguments do not fit the tool {tool}: {error}");
    if context.revision().differences().invalid_arguments_are_results {
        Reply::result(CallToolResult::error(message))
    } else {
        Reply::error(code::INVALID_PARAMS, message)
    }
}
