//! Checks of tool arguments and results against their JSON Schemas.

#[cfg(feature = "schema-validate")]
use alloc::sync::Arc;

use super::Router;
#[cfg(feature = "schema-validate")]
use super::{RouterError, tools::invalid_arguments};
use crate::front::HandlerMode;
use crate::front::handler::output_check::OutputCheck;
use crate::schema::Tool;
#[cfg(feature = "schema-validate")]
use crate::{
    front::Context,
    front::handler::reply::Reply,
    schema::{CallToolParams, Json},
    validate::{Bounds, Schema},
};

#[cfg(not(feature = "schema-validate"))]
impl<M: HandlerMode> Router<M> {
    pub(super) fn output_check(&mut self, tool: &Tool) -> OutputCheck {
        OutputCheck::new(tool.page().is_some())
    }
}

/// Schema checks.
#[cfg(feature = "schema-validate")]
impl<M: HandlerMode> Router<M> {
    /// Sets the bounds of tool schemas and of each check, for all tools that are registered after it.
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
        OutputCheck::with_schema(tool.page().is_some(), schema)
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
