//! The access that the token of a request grants, and the scopes that handlers demand of it.

use super::context::Context;
use crate::front::handler_error::HandlerError;
#[cfg(feature = "auth")]
use crate::{
    alloc::{format, sync::Arc},
    auth::Scopes,
    auth::server::{Access, GrantedAccess, parse_scopes},
};

#[cfg(feature = "auth")]
impl<S> Context<S> {
    /// The access that the request's token grants; `None` where the server [requires no tokens](crate::front::guard).
    /// Handlers never see the token itself: it is meant for this server alone.
    pub fn access(&self) -> Option<&Access> {
        self.inbound_request().caller.access.as_ref().map(GrantedAccess::access)
    }

    /// Requires that the token grants all of these scopes; broader scopes include narrower ones. On an error, return it
    /// at once: the client receives status 403 with the missing scopes and may retry with a better token. After
    /// anything was sent, such as progress, the server can only send an error instead: so require all scopes first, in
    /// one call.
    ///
    /// ```
    /// use mcp_proto::front::{Context, HandlerError};
    /// # use mcp_proto::front::Router;
    /// # use mcp_proto::schema::{Json, Tool};
    /// # #[derive(serde::Deserialize)] struct Delete { path: String }
    ///
    /// async fn delete(Delete { path }: Delete, cx: Context) -> Result<&'static str, HandlerError> {
    ///     if path.starts_with("/shared/") {
    ///         cx.require(["files:write", "files:shared"])?;
    ///     }
    ///     // …
    ///     Ok("deleted")
    /// }
    /// # drop(Router::new("files", "1").tool_with(Tool::new("delete", "", Json::empty_object()), delete));
    /// ```
    ///
    /// Scopes that do not depend on the arguments are better declared [once](crate::front::Router::tool_scopes).
    ///
    /// Where the server requires no tokens, such as on standard input and output, everything is allowed.
    ///
    /// # Errors
    /// If the token does not grant one of the scopes.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling>
    pub fn require<'a>(&self, scopes: impl IntoIterator<Item = &'a str>) -> Result<(), HandlerError> {
        let needed = parse_scopes(scopes)
            .map_err(|scope| HandlerError::new(format!("the required scope is not valid: {scope:?}")))?;
        let Some(authorized) = &self.inbound_request().caller.access else { return Ok(()) };
        if authorized.grants(&needed) {
            return Ok(());
        }
        let all = match &self.declared_scopes {
            Some(declared) => declared.union(&needed),
            None => needed,
        };
        Err(HandlerError::denied(
            format!("this request requires the scopes {all}"),
            authorized.challenge(&all),
        ))
    }

    /// Requires a tool's declared scopes and remembers them for later calls of `require`.
    pub(in crate::front) fn declare(mut self, scopes: &Arc<Scopes>) -> Result<Self, HandlerError> {
        self.require(scopes.iter())?;
        self.declared_scopes = Some(scopes.clone());
        Ok(self)
    }
}

/// Has no implementation: the compiler's message names the feature.
#[cfg(not(feature = "auth"))]
#[diagnostic::on_unimplemented(
    message = "access and its scopes need the feature `auth`",
    label = "there are no tokens without the feature",
    note = "in `Cargo.toml`, add `\"auth\"` to the features of `mcp-hyper` or `mcp-proto`"
)]
pub trait ChecksScopes {}

#[cfg(not(feature = "auth"))]
impl<S> Context<S> {
    #[doc(hidden)]
    pub fn access(&self) -> Option<&core::convert::Infallible>
    where
        Self: ChecksScopes,
    {
        None
    }

    #[doc(hidden)]
    pub fn require<'a>(&self, _: impl IntoIterator<Item = &'a str>) -> Result<(), HandlerError>
    where
        Self: ChecksScopes,
    {
        Ok(())
    }
}
