//! Stands in for `scopes` without the feature `auth`: tools require no scopes.

use super::{Context, HandlerMode, Reply, Router, RouterError};
use crate::rpc::Raw;

#[derive(Clone, Default)]
pub(super) struct ToolScopes;

impl<M: HandlerMode, S: 'static> Router<M, S> {
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
