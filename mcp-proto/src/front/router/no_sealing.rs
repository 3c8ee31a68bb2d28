//! Stands in for `sealing` without the feature `seal`: the compiler's message names the feature.

use core::time::Duration;

use super::{HandlerMode, Router};

/// Has no implementation.
#[diagnostic::on_unimplemented(
    message = "`Router::state_lifetime` needs the feature `seal`",
    note = "in `Cargo.toml`, add `\"seal\"` to the features of `mcp-smol`, `mcp-hyper` or `mcp-proto`; the first two have it by default"
)]
pub trait Seals {}

impl<M: HandlerMode, S: 'static> Router<M, S> {
    #[doc(hidden)]
    #[must_use]
    pub fn state_lifetime(self, _: Duration) -> Self
    where
        Self: Seals,
    {
        self
    }
}
