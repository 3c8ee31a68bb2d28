//! The access that the token of a request grants, and the scopes that handlers demand of it.

use alloc::format;
use alloc::sync::Arc;

use super::context::Context;
use super::error::HandlerError;
use crate::auth::Scopes;
use crate::auth::server::{Access, GrantedAccess, parse_scopes};

impl Context {
    /// What the token allows that the request came with, where the server [demands one](crate::front::guard). The
    /// token itself is not for handlers: it is for this server alone.
    pub fn access(&self) -> Option<&Access> {
        self.caller_access().as_ref().map(GrantedAccess::access)
    }

    /// Demands that the token allows all of this, broader scopes included. If it does not, return the error at once:
    /// the client is told with status 403 what it needs, and may come back with a better token. Once something was
    /// sent, such as progress, that can only be told by an error: so demand first, and all at once.
    ///
    /// ```
    /// use mcp_proto::front::{Context, HandlerError};
    ///
    /// async fn delete(cx: Context, path: String) -> Result<&'static str, HandlerError> {
    ///     if path.starts_with("/shared/") {
    ///         cx.require(["files:write", "files:shared"])?;
    ///     }
    ///     // …
    ///     Ok("deleted")
    /// }
    /// ```
    ///
    /// What does not depend on the arguments is better said [once](crate::front::Router::tool_scopes).
    ///
    /// Where the server demands no tokens, such as on standard input and output, everything is allowed.
    ///
    /// # Errors
    /// If the token does not allow it.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling>
    pub fn require<'a>(&self, scopes: impl IntoIterator<Item = &'a str>) -> Result<(), HandlerError> {
        let needed = parse_scopes(scopes)
            .map_err(|scope| HandlerError::new(format!("what is demanded is no scope: {scope:?}")))?;
        let Some(authorized) = self.caller_access() else { return Ok(()) };
        if authorized.grants(&needed) {
            return Ok(());
        }
        let all = match self.declared_scopes() {
            Some(declared) => declared.union(&needed),
            None => needed,
        };
        Err(HandlerError::denied(format!("this needs the scopes {all}"), authorized.challenge(&all)))
    }

    /// The same for a tool that needs these scopes, which are remembered.
    pub(in crate::front) fn declare(self, scopes: &Arc<Scopes>) -> Result<Self, HandlerError> {
        self.require(scopes.iter())?;
        Ok(self.with_declared_scopes(scopes.clone()))
    }
}
