//! Checks of tool results against the tool's declarations.

use super::output::{ResultOrInput, ToolOutput};
use super::output_schema::OutputSchema;
use crate::front::handler_error::HandlerError;
use crate::schema::{CallToolResult, ContentBlock};

/// The result of a tool's handler, converted from the type that it returned.
pub(in crate::front) type ToolResult = Result<ResultOrInput<CallToolResult>, HandlerError>;

/// Checks a tool's results: against its output schema (with the feature `schema-validate`), and for text beside its
/// page.
#[derive(Clone, Default)]
pub(in crate::front) struct OutputCheck {
    has_page: bool,
    schema: OutputSchema,
}

impl OutputCheck {
    pub(in crate::front) fn new(has_page: bool, schema: OutputSchema) -> Self {
        Self { has_page, schema }
    }

    /// Converts a handler's output into the checked result for the client.
    pub(in crate::front) fn check(&self, output: impl ToolOutput) -> ToolResult {
        let mut output = output.into_tool_result()?;
        if let ResultOrInput::Result(result) = &mut output {
            self.schema.check(result)?;
            add_text(result, self.has_page);
        }
        Ok(output)
    }
}

//= S8.6 "SHOULD also serialise as text"
//= S11.12 "text content always present"
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
