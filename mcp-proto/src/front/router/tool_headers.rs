//! The parameters of tools that clients repeat as HTTP headers.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;

use super::{HandlerMode, Router};
use crate::schema::Tool;
pub(super) use crate::transport::http::param_headers::ParamHeaderError;
use crate::transport::http::param_headers::ParamHeaders;

/// The parameters that clients repeat as HTTP headers, by tool.
#[derive(Clone, Default)]
pub(super) struct ToolHeaders(Arc<BTreeMap<String, ParamHeaders>>);

impl ToolHeaders {
    pub(super) fn add(&mut self, tool: &Tool) -> Result<(), ParamHeaderError> {
        if let Some(headers) = ParamHeaders::from_schema(tool.input_schema.as_str())? {
            Arc::make_mut(&mut self.0).insert(tool.name.clone(), headers);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, tool: &str) {
        if self.0.contains_key(tool) {
            Arc::make_mut(&mut self.0).remove(tool);
        }
    }
}

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// The parameters of a tool that clients repeat as HTTP headers, if it has any.
    pub(crate) fn param_headers(&self, tool: &str) -> Option<&ParamHeaders> {
        self.contents.headers.0.get(tool)
    }
}
