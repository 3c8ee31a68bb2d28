//! Checks of tool arguments and results against their JSON Schemas.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;

use super::tools::invalid_arguments;
use super::{Context, HandlerMode, Reply, Router, RouterError};
use crate::front::handler::output_check::OutputCheck;
use crate::front::handler::output_schema::OutputSchema;
use crate::schema::{CallToolParams, Json, Tool};
pub(super) use crate::validate::SchemaError;
use crate::validate::{Bounds, Schema};

/// The schemas that check the arguments of tools.
#[derive(Clone, Default)]
pub(super) struct InputChecks {
    bounds: Bounds,
    schemas: Arc<BTreeMap<String, Arc<Schema>>>,
}

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Sets the bounds of tool schemas and of each check, for all tools that are registered after it.
    ///
    /// Arguments are checked against the tool's input schema before its handler runs, and structured results against
    /// its output schema before they are sent.
    #[must_use]
    pub fn schema_bounds(mut self, bounds: Bounds) -> Self {
        self.contents.input_checks.bounds = bounds;
        self
    }

    pub(super) fn add_input_check(&mut self, tool: &Tool) {
        if let Some(schema) = self.compile(tool, "input", &tool.input_schema) {
            Arc::make_mut(&mut self.contents.input_checks.schemas).insert(tool.name.clone(), schema);
        }
    }

    pub(super) fn remove_input_check(&mut self, tool: &str) {
        if self.contents.input_checks.schemas.contains_key(tool) {
            Arc::make_mut(&mut self.contents.input_checks.schemas).remove(tool);
        }
    }

    pub(super) fn output_check(&mut self, tool: &Tool) -> OutputCheck {
        let schema = tool.output_schema.as_ref().and_then(|schema| self.compile(tool, "output", schema));
        OutputCheck::new(tool.page().is_some(), OutputSchema(schema))
    }

    //= S8.23 "Schemas of tools are valid in their declared or default dialect"
    fn compile(&mut self, tool: &Tool, which: &'static str, schema: &Json) -> Option<Arc<Schema>> {
        match Schema::compile(schema, &self.contents.input_checks.bounds) {
            Ok(schema) => Some(Arc::new(schema)),
            Err(error) => {
                self.record_error(RouterError::Schema { tool: tool.name.clone(), which, error });
                None
            }
        }
    }

    //= S8.8 "Validate inputs"
    pub(super) fn check_arguments(&self, call: &CallToolParams, context: &Context) -> Result<(), Reply> {
        let Some(schema) = self.contents.input_checks.schemas.get(&call.name) else { return Ok(()) };
        let checked = match &call.arguments {
            Some(arguments) => schema.check(arguments),
            None => schema.check(&Json::empty_object()),
        };
        checked.map_err(|error| invalid_arguments(&call.name, &error, context))
    }
}
