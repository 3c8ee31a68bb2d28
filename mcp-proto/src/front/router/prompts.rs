//! Prompts and their handlers.

use core::future::Future;

use super::replies::prompt_reply;
use super::strings::from_strings;
use super::{Context, Router, RouterError};
use crate::front::handler::arguments::Arguments;
use crate::front::handler::output::PromptOutput;
use crate::front::params::params_error;
use crate::front::reply::Reply;
use crate::front::{Handler, HandlerMode};
use crate::schema::{GetPromptParams, Prompt, Revision, ServerCapability};

/// Prompts.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Registers a prompt; its handler takes its arguments as a struct or a map.
    ///
    /// Arguments are strings; a field that is a number or a `bool` is parsed. The router checks that all required
    /// arguments are present before the handler runs.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::schema::{Prompt, PromptArgument};
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize)]
    /// struct Review {
    ///     code: String,
    /// }
    ///
    /// let mut prompt = Prompt::new("review");
    /// let mut code = PromptArgument::new("code");
    /// code.required = Some(true);
    /// prompt.arguments = Some(vec![code]);
    /// let router = Router::new("reviews", "1.0.0")
    ///     .prompt(prompt, async |Review { code }, _| format!("Review this code:\n{code}"));
    /// # drop(router);
    /// ```
    #[must_use]
    pub fn prompt<A, F, H>(self, prompt: Prompt, handler: H) -> Self
    where
        A: Arguments,
        F: Future<Output: PromptOutput> + 'static, // an async closure or function
        H: Fn(A, Context<S>) -> F + Handler<M, A, Context<S>, F>, // captures: clone; not `Send`: `Router::local`
    {
        let described = prompt.description.clone();
        let erased = handler.erase(
            self.state.clone(),
            |get: GetPromptParams, context: &Context| {
                from_strings(&get.arguments.unwrap_or_default())
                    .map(|arguments| (arguments, context.revision()))
                    .map_err(|error| Reply::Error(params_error("prompts/get", &error)))
            },
            move |revision: Revision, output: F::Output| prompt_reply(output, described.as_deref(), revision),
        );
        self.add_prompt(prompt, erased)
    }

    /// Registers a prompt whose handler takes the undecoded request.
    ///
    /// The request includes the answers to the input requests of an earlier attempt.
    #[must_use]
    pub fn prompt_raw<F, H>(self, prompt: Prompt, handler: H) -> Self
    where
        F: Future<Output: PromptOutput> + 'static, // an async closure or function
        H: Fn(GetPromptParams, Context<S>) -> F + Handler<M, GetPromptParams, Context<S>, F>,
    {
        let described = prompt.description.clone();
        let erased = handler.erase(
            self.state.clone(),
            |get: GetPromptParams, context: &Context| Ok((get, context.revision())),
            move |revision: Revision, output: F::Output| prompt_reply(output, described.as_deref(), revision),
        );
        self.add_prompt(prompt, erased)
    }

    fn add_prompt(mut self, prompt: Prompt, handler: M::Handler<GetPromptParams, Context>) -> Self {
        if prompt.name.is_empty() {
            self.record_error(RouterError::PromptName);
        }
        if let Err(name) = self.contents.prompts.insert(prompt.name.clone(), prompt, handler) {
            self.record_error(RouterError::Duplicate { kind: "prompt", name });
        }
        //= R5 "derived from what is registered"
        self.declare(ServerCapability::Prompts)
    }
}
