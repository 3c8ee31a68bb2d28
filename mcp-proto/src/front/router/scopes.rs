//! The scopes that tools require.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::{Context, HandlerMode, Router, RouterError};
use crate::auth::Scopes;
use crate::auth::server::parse_scopes;
use crate::front::params::decode_params;
use crate::front::reply::Reply;
use crate::prelude::*;
use crate::rpc::Raw;
use crate::schema::{CallTool, Method as _};

/// The scopes that tools require.
#[derive(Clone, Default)]
pub(super) struct ToolScopes(Arc<BTreeMap<String, Arc<Scopes>>>);

impl ToolScopes {
    pub(super) fn remove(&mut self, tool: &str) {
        if self.0.contains_key(tool) {
            Arc::make_mut(&mut self.0).remove(tool);
        }
    }

    /// Adds the scopes of another router, whose tools have other names here.
    pub(super) fn absorb(&mut self, other: &Self, name: impl Fn(&str) -> String) {
        if !other.0.is_empty() {
            let renamed = other.0.iter().map(|(tool, scopes)| (name(tool), scopes.clone()));
            Arc::make_mut(&mut self.0).extend(renamed);
        }
    }
}

/// Scopes.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Sets the scopes that calls of a tool require.
    ///
    /// They add to the scopes of [every request](crate::auth::server::Protection::required). They are checked before
    /// anything else of the call, and before a task starts. Scopes that depend on the arguments are
    /// [required](Context::require) by the handler.
    ///
    /// Where the server requires no tokens, such as on standard input and output, everything is allowed.
    ///
    /// ```
    /// use mcp_proto::front::{NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// let router = Router::new("notes", "1.0.0")
    ///     .tool_with(Tool::new("clear", "Deletes all notes", Json::empty_object()), async |NoArguments {}, _| "done")
    ///     .tool_scopes("clear", ["notes:write"]);
    /// assert!(router.check().is_ok());
    /// ```
    pub fn tool_scopes<'a>(
        mut self,
        tool: impl Into<String>,
        scopes: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let tool = tool.into();
        match parse_scopes(scopes) {
            Ok(scopes) => {
                Arc::make_mut(&mut self.contents.scopes.0).insert(tool, Arc::new(scopes));
            }
            Err(scope) => self.record_error(RouterError::Scope { tool, scope }),
        }
        self
    }

    /// Returns a tool that requires scopes but is not registered: most likely it has another name, and would run
    /// unprotected.
    pub(super) fn missing_tool(&self) -> Option<RouterError> {
        self.unregistered_tool(self.contents.scopes.0.keys())
    }

    /// Checks the scopes of a request that a handler of its method answers, if it is a tool call.
    pub(super) fn check_call_scopes(
        &self,
        method: &str,
        params: Option<&Raw>,
        context: Context,
    ) -> Result<Context, Reply> {
        if method != CallTool::NAME || self.contents.scopes.0.is_empty() {
            return Ok(context);
        }
        let call = decode_params::<CallTool>(params.cloned())?;
        self.check_scopes(&call.name, context)
    }

    //= S8.8 "access control"
    /// Checks that the token of a call grants the scopes of its tool.
    pub(super) fn check_scopes(&self, tool: &str, context: Context) -> Result<Context, Reply> {
        let Some(scopes) = self.contents.scopes.0.get(tool) else { return Ok(context) };
        let revision = context.revision();
        context.declare(scopes).map_err(|denied| denied.into_reply(revision))
    }
}
