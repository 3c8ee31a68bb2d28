//! Stands in for `typed_tools` without the feature `schemars`: the compiler's message names the feature.

use alloc::string::String;
use core::future::Future;

use super::{Context, Handler, HandlerMode, Router};
use crate::front::handler::arguments::DescribedArguments;
use crate::front::handler::output::ToolOutput;

impl<M: HandlerMode, S: 'static> Router<M, S> {
    #[doc(hidden)]
    #[must_use]
    pub fn tool<A, F, H>(self, _: impl Into<String>, _: impl Into<String>, _: H) -> Self
    where
        A: DescribedArguments,
        F: Future<Output: ToolOutput> + 'static,
        H: Fn(A, Context<S>) -> F + Handler<M, A, Context<S>, F>,
    {
        self
    }
}
