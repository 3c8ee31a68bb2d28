//! Stands in for `schema_checks` without the feature `schema-validate`: nothing is checked.

use core::fmt;

use super::{Context, HandlerMode, Reply, Router};
use crate::front::handler::output_check::OutputCheck;
use crate::front::handler::output_schema::OutputSchema;
use crate::schema::{CallToolParams, Tool};

/// Uninhabited, as schemas are not compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaError {}

impl fmt::Display for SchemaError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

#[derive(Clone, Default)]
pub(super) struct InputChecks;

impl<M: HandlerMode, S: 'static> Router<M, S> {
    pub(super) fn add_input_check(&mut self, _: &Tool) {}

    pub(super) fn remove_input_check(&mut self, _: &str) {}

    pub(super) fn output_check(&mut self, tool: &Tool) -> OutputCheck {
        OutputCheck::new(tool.page().is_some(), OutputSchema)
    }

    pub(super) fn check_arguments(&self, _: &CallToolParams, _: &Context) -> Result<(), Reply> {
        Ok(())
    }
}
