//! Stands in for `scopes` without the feature `auth`: tools require no scopes.

use alloc::string::String;

use super::{Context, HandlerMode, Reply, Router, RouterError};
use crate::front::handler::access::ChecksScopes;
use crate::rpc::Raw;

#[derive(Clone, Default)]
pub(super) struct ToolScopes;

impl<M: HandlerMode, S: 'static> Router<M, S> {
    #[doc(hidden)]
    #[must_use]
    pub fn tool_scopes<'a>(self, _: impl Into<String>, _: impl IntoIterator<Item = &'a str>) -> Self
    where
        Self: ChecksScopes,
    {
        self
    }

    pub(super) fn remove_scopes(&mut self, _: &str) {}

    pub(super) fn missing_tool(&self) -> Option<RouterError> {
        None
    }

    pub(super) fn check_call_scopes(
        &self,
        _: &str,
        _: Option<&Raw>,
        context: Context,
    ) -> Result<Context, Reply> {
        Ok(context)
    }

    pub(super) fn check_scopes(&self, _: &str, context: Context) -> Result<Context, Reply> {
        Ok(context)
    }
}
