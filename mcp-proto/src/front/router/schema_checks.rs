//! Tools held to their schemas.

#[cfg(feature = "schema-validate")]
use alloc::{collections::BTreeMap, format, string::String, sync::Arc};

use super::{Router, ToolOutput, output};
#[cfg(feature = "schema-validate")]
use super::{RouterError, invalid_arguments};
use crate::front::HandlerMode;
use crate::front::reply::Reply;
use crate::schema::{Json, Tool};
#[cfg(feature = "schema-validate")]
use crate::{
    front::{Context, reply::HandlerError},
    rpc::{ErrorObject, code},
    schema::{CallToolParams, CallToolResult},
    validate::{Bounds, Schema, check_structured},
};

/// The schema of a tool's arguments, whose `type` is `object`: arguments are nothing else, so it need not be written.
pub(super) fn object_schema(schema: &Json) -> Option<Json> {
    let mut fields: serde_json::Map<_, _> = schema.decode().ok()?;
    match fields.get("type") {
        Some(kind) => (kind == "object").then(|| schema.clone()),
        None => {
            fields.insert("type".into(), "object".into());
            Some(serde_json::Value::from(fields).into())
        }
    }
}

/// What the results of a tool are held to: without the feature `schema-validate`, to what its page needs alone.
#[derive(Clone, Default)]
pub(in crate::front) struct OutputCheck {
    has_page: bool,
    #[cfg(feature = "schema-validate")]
    schema: Option<Arc<Schema>>,
}

impl OutputCheck {
    /// What to answer for what a handler returned.
    #[cfg(not(feature = "schema-validate"))]
    pub(in crate::front) fn reply(&self, output: impl ToolOutput) -> Reply {
        output::tool_reply(output, self.has_page)
    }

    /// What to answer for what a handler returned.
    #[cfg(feature = "schema-validate")]
    pub(in crate::front) fn reply(&self, output: impl ToolOutput) -> Reply {
        let answered = output.into_tool_result().and_then(|answered| {
            if let super::ResultOrInput::Result(result) = &answered {
                self.validate(result)?;
            }
            Ok(answered)
        });
        output::tool_reply(answered, self.has_page)
    }

    /// S8.6. The client must not get what it was not promised; and it is no failure that the model could do better
    /// about, so that it is not told of it by `isError`.
    #[cfg(feature = "schema-validate")]
    fn validate(&self, result: &CallToolResult) -> Result<(), HandlerError> {
        let Some(schema) = &self.schema else { return Ok(()) };
        check_structured(schema, result).map_err(|fault| {
            ErrorObject::new(code::INTERNAL_ERROR, format!("the tool has failed: {fault}")).into()
        })
    }
}

#[cfg(not(feature = "schema-validate"))]
impl<M: HandlerMode> Router<M> {
    pub(super) fn output_check(&mut self, tool: &Tool) -> OutputCheck {
        OutputCheck { has_page: tool.page().is_some() }
    }
}

/// What the arguments of tools are held to.
#[cfg(feature = "schema-validate")]
#[derive(Default)]
pub(super) struct InputChecks {
    bounds: Bounds,
    schemas: BTreeMap<String, Arc<Schema>>,
}

/// Checks against schemas.
#[cfg(feature = "schema-validate")]
impl<M: HandlerMode> Router<M> {
    /// The bounds of the tools' schemas and of each check. It concerns the tools that are registered after it.
    ///
    /// Arguments are checked against the tool's input schema before its handler runs, and structured results against
    /// its output schema before they are sent.
    #[must_use]
    pub fn schema_bounds(mut self, bounds: Bounds) -> Self {
        self.input_checks.bounds = bounds;
        self
    }

    pub(super) fn add_input_check(&mut self, tool: &Tool) {
        if let Some(schema) = self.compile(tool, "input", &tool.input_schema) {
            self.input_checks.schemas.insert(tool.name.clone(), schema);
        }
    }

    pub(super) fn output_check(&mut self, tool: &Tool) -> OutputCheck {
        let schema = tool.output_schema.as_ref().and_then(|schema| self.compile(tool, "output", schema));
        OutputCheck { has_page: tool.page().is_some(), schema }
    }

    fn compile(&mut self, tool: &Tool, which: &'static str, schema: &Json) -> Option<Arc<Schema>> {
        match Schema::compile(schema, &self.input_checks.bounds) {
            Ok(schema) => Some(Arc::new(schema)),
            Err(error) => {
                self.record_error(RouterError::Schema { tool: tool.name.clone(), which, error });
                None
            }
        }
    }

    /// S8.7, S8.8
    pub(super) fn check_arguments(&self, call: &CallToolParams, context: &Context) -> Result<(), Reply> {
        let Some(schema) = self.input_checks.schemas.get(&call.name) else { return Ok(()) };
        let checked = match &call.arguments {
            Some(arguments) => schema.check(arguments),
            None => schema.check(&Json::empty_object()),
        };
        checked.map_err(|error| invalid_arguments(&call.name, &error, context))
    }
}
