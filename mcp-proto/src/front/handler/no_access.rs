//! Stands in for `access` without the feature `auth`: the compiler's message names the feature.

use core::convert::Infallible;

use super::context::Context;
use crate::front::handler_error::HandlerError;

/// Has no implementation.
#[diagnostic::on_unimplemented(
    message = "access and its scopes need the feature `auth`",
    label = "there are no tokens without the feature",
    note = "in `Cargo.toml`, add `\"auth\"` to the features of `mcp-hyper` or `mcp-proto`"
)]
pub trait ChecksScopes {}

impl<S> Context<S> {
    #[doc(hidden)]
    pub fn access(&self) -> Option<&Infallible>
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
