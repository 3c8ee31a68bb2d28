//! Stands in for `tool_headers` without the feature `http`.

use core::fmt;

use crate::schema::Tool;

/// Uninhabited, as there are no headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamHeaderError {}

impl fmt::Display for ParamHeaderError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

#[derive(Clone, Default)]
pub(super) struct ToolHeaders;

impl ToolHeaders {
    pub(super) fn add(&mut self, _: &Tool) -> Result<(), ParamHeaderError> {
        Ok(())
    }

    pub(super) fn remove(&mut self, _: &str) {}
}
