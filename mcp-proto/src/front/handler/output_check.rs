//! Checks of tool results against the tool's declarations.

#[cfg(feature = "schema-validate")]
use alloc::{format, sync::Arc};

use super::error::HandlerError;
use super::output::{ResultOrInput, ToolOutput};
use crate::schema::{CallToolResult, ContentBlock};
#[cfg(feature = "schema-validate")]
use crate::{
    rpc::{ErrorObject, code},
    validate::{Schema, check_structured},
};

/// The result of a tool's handler, converted from the type that it returned.
pub(in crate::front) type ToolResult = Result<ResultOrInput<CallToolResult>, HandlerError>;

/// Checks a tool's results: against its output schema (with the feature `schema-validate`), and for text beside its
/// page.
#[derive(Clone, Default)]
pub(in crate::front) struct OutputCheck {
    has_page: bool,
    #[cfg(feature = "schema-validate")]
    schema: Option<Arc<Schema>>,
}

impl OutputCheck {
    #[cfg(not(feature = "schema-validate"))]
    pub(in crate::front) fn new(has_page: bool) -> Self {
        Self { has_page }
    }

    #[cfg(feature = "schema-validate")]
    pub(in crate::front) fn with_schema(has_page: bool, schema: Option<Arc<Schema>>) -> Self {
        Self { has_page, schema }
    }

    /// Converts a handler's output into the checked result for the client.
    pub(in crate::front) fn check(&self, output: impl ToolOutput) -> ToolResult {
        let mut output = output.into_tool_result()?;
        if let ResultOrInput::Result(result) = &mut output {
            #[cfg(feature = "schema-validate")]
            self.validate(result)?;
            add_text(result, self.has_page);
        }
        Ok(output)
    }

    /// S8.6. The client must not receive a result that breaks the declared schema. The model cannot correct it, so the
    /// failure is a protocol error rather than a result with `isError`.
    #[cfg(feature = "schema-validate")]
    fn validate(&self, result: &CallToolResult) -> Result<(), HandlerError> {
        let Some(schema) = &self.schema else { return Ok(()) };
        check_structured(schema, result).map_err(|error| {
            ErrorObject::new(code::INTERNAL_ERROR, format!("the tool has failed: {error}")).into()
        })
    }
}

/// Adds text to a result that has only structured content, and to every result without text of a tool with a page.
fn add_text(result: &mut CallToolResult, has_page: bool) {
    let wanting = if has_page {
        !result.content.iter().any(|block| block.as_text().is_some())
    } else {
        result.content.is_empty()
    };
    match &result.structured_content {
        Some(structured) if wanting => result.content.push(ContentBlock::text(structured.as_str())),
        None if wanting && has_page => {
            result.content.push(ContentBlock::text("The result is on the tool's page."))
        }
        _ => {}
    }
}
