//! What stands in for methods whose features are off: the compiler's message names the feature.

#[cfg(any(not(feature = "schemars"), not(feature = "auth")))]
use alloc::string::String;
#[cfg(not(feature = "schemars"))]
use core::future::Future;
#[cfg(not(feature = "seal"))]
use core::time::Duration;

#[cfg(not(feature = "schemars"))]
use super::{Context, Handler};
use super::{HandlerMode, Router};
#[cfg(not(feature = "auth"))]
use crate::front::handler::access::ChecksScopes;
#[cfg(not(feature = "schemars"))]
use crate::front::handler::{arguments::DescribedArguments, output::ToolOutput};

#[cfg(not(feature = "schemars"))]
impl<M: HandlerMode, S: 'static> Router<M, S> {
    #[doc(hidden)]
    pub fn tool<A, F, H>(self, _: impl Into<String>, _: impl Into<String>, _: H) -> Self
    where
        A: DescribedArguments,
        F: Future<Output: ToolOutput> + 'static,
        H: Fn(A, Context<S>) -> F + Handler<M, A, Context<S>, F>,
    {
        self
    }
}

#[cfg(not(feature = "auth"))]
impl<M: HandlerMode, S: 'static> Router<M, S> {
    #[doc(hidden)]
    pub fn tool_scopes<'a>(self, _: impl Into<String>, _: impl IntoIterator<Item = &'a str>) -> Self
    where
        Self: ChecksScopes,
    {
        self
    }
}

#[cfg(not(feature = "seal"))]
/// Has no implementation.
#[diagnostic::on_unimplemented(
    message = "`Router::state_lifetime` needs the feature `seal`",
    note = "in `Cargo.toml`, add `\"seal\"` to the features of `mcp-smol`, `mcp-hyper` or `mcp-proto`; the first two have it by default"
)]
pub trait Seals {}

#[cfg(not(feature = "seal"))]
impl<M: HandlerMode, S: 'static> Router<M, S> {
    #[doc(hidden)]
    pub fn state_lifetime(self, _: Duration) -> Self
    where
        Self: Seals,
    {
        self
    }
}
