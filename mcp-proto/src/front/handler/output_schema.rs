//! Checks of structured results against output schemas.

use alloc::format;
use alloc::sync::Arc;

use crate::front::handler_error::HandlerError;
use crate::rpc::{ErrorObject, code};
use crate::schema::CallToolResult;
use crate::validate::{Schema, check_structured};

/// The output schema of a tool, if it has one.
#[derive(Clone, Default)]
pub(in crate::front) struct OutputSchema(pub(in crate::front) Option<Arc<Schema>>);

impl OutputSchema {
    //= S8.6 "outputSchema declared → structuredContent conforms"
    /// The client must not receive a result that breaks the declared schema. The model cannot correct it, so the
    /// failure is a protocol error rather than a result with `isError`.
    pub(super) fn check(&self, result: &CallToolResult) -> Result<(), HandlerError> {
        let Some(schema) = &self.0 else { return Ok(()) };
        check_structured(schema, result).map_err(|error| {
            ErrorObject::new(code::INTERNAL_ERROR, format!("the tool has failed: {error}")).into()
        })
    }
}
