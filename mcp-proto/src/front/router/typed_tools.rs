//! Tools whose schemas come from the types of their handlers.

use alloc::string::String;
use core::future::Future;

use super::{Context, Handler, HandlerMode, Router, RouterError};
use crate::front::handler::arguments::DescribedArguments;
use crate::front::handler::json_schema;
use crate::front::handler::output::ToolOutput;
use crate::schema::Tool;

impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Registers a tool whose handler takes `A`. Its input schema is that of `A`, and its output schema that of the
    /// handler's return type, if it has one.
    ///
    /// Arguments that do not match `A` never reach the handler: the model receives the decoding error.
    #[must_use]
    pub fn tool<A, F, H>(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        handler: H,
    ) -> Self
    where
        A: DescribedArguments,
        F: Future<Output: ToolOutput> + 'static, // an async closure or function
        H: Fn(A, Context<S>) -> F + Handler<M, A, Context<S>, F>, // captures: clone; not `Send`: `Router::local`
    {
        let name = name.into();
        let Some(input) = json_schema::of_arguments::<A>() else {
            self.record_error(RouterError::InputSchema { tool: name });
            return self;
        };
        let mut tool = Tool::new(name, description, input);
        tool.output_schema = F::Output::output_schema();
        self.tool_with(tool, handler)
    }
}
