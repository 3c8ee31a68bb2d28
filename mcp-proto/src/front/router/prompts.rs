//! Prompts and completions, with their handlers.

use core::future::Future;

use super::combine::{PROMPT_METHODS, TEMPLATE_METHODS};
use super::dispatch::{prompt_reply, reply, unknown_prompt};
use super::origin::Origin;
use super::string_arguments::from_strings;
use super::{Context, Router, RouterError};
use crate::front::handler::arguments::Arguments;
use crate::front::handler::output::{CompletionOutput, PromptOutput, ResultOrInput};
use crate::front::params::{decode_params, params_error};
use crate::front::reply::Reply;
use crate::front::{Handler, HandlerMode};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{
    Complete, CompleteParams, GetPromptParams, Method, Prompt, Reference, Revision, ServerCapability,
};

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
    pub fn prompt<A, F, H>(self, prompt: Prompt, handler: H) -> Self
    where
        A: Arguments,
        F: Future<Output: PromptOutput> + 'static, // an async closure or function
        H: Fn(A, Context<S>) -> F + Handler<M, A, Context<S>, F>, // captures: clone; not `Send`: `Router::local`
    {
        let read = |get: GetPromptParams| {
            from_strings(&get.arguments.unwrap_or_default())
                .map_err(|error| Reply::Error(params_error("prompts/get", &error)))
        };
        self.add_prompt(prompt, read, handler)
    }

    /// Registers a prompt whose handler takes the undecoded request.
    ///
    /// The request includes the answers to the input requests of an earlier attempt.
    pub fn prompt_raw<F, H>(self, prompt: Prompt, handler: H) -> Self
    where
        F: Future<Output: PromptOutput> + 'static, // an async closure or function
        H: Fn(GetPromptParams, Context<S>) -> F + Handler<M, GetPromptParams, Context<S>, F>,
    {
        self.add_prompt(prompt, Ok, handler)
    }

    /// Sets the handler of completions: it suggests values for an argument of a prompt or a template.
    ///
    /// A request for a prompt, a template or an argument that is not registered is answered with
    /// [`INVALID_PARAMS`](crate::rpc::code::INVALID_PARAMS), and does not reach the handler. Values that the other
    /// arguments already have are in [`CompleteParams::context`].
    pub fn completion<F, H>(mut self, handler: H) -> Self
    where
        F: Future<Output: CompletionOutput> + 'static,
        H: Fn(CompleteParams, Context<S>) -> F + Handler<M, CompleteParams, Context<S>, F>,
    {
        let erased = handler.erase(
            self.state.clone(),
            |params, context: &Context| Ok((decode_params::<Complete>(params)?, context.revision())),
            |revision: Revision, output: F::Output| {
                reply(output.into_complete_result().map(ResultOrInput::Result), revision)
            },
        );
        self.contents.methods.insert(Complete::NAME.into(), erased);
        //= S8.17 "completions capability"
        //= R5 "derived from what is registered"
        self.declare(ServerCapability::Completions)
    }

    /// Registers a prompt whose handler takes what `read` makes of the request.
    fn add_prompt<A, F, H>(
        self,
        prompt: Prompt,
        read: impl Fn(GetPromptParams) -> Result<A, Reply> + Send + Sync + 'static,
        handler: H,
    ) -> Self
    where
        F: Future<Output: PromptOutput> + 'static,
        H: Handler<M, A, Context<S>, F>,
    {
        let described = prompt.description.clone();
        let erased = handler.erase(
            self.state.clone(),
            move |get: GetPromptParams, context: &Context| Ok((read(get)?, context.revision())),
            move |revision: Revision, output: F::Output| prompt_reply(output, described.as_deref(), revision),
        );
        let router = self.change(|contents| match &*prompt.name {
            "" => Err(RouterError::PromptName),
            name => contents.prompts.insert(name.into(), prompt, erased),
        });
        //= R5 "derived from what is registered"
        router.declare(ServerCapability::Prompts)
    }
}

impl<M: HandlerMode> Router<M> {
    /// Checks that a request for completions names a registered prompt or template, and one of its arguments. What
    /// hand-written handlers list is not checked. Returns where the item was registered, unless it was in this router.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion#error-handling>
    pub(super) fn completed_item(
        &self,
        method: &str,
        params: Option<&Raw>,
    ) -> Result<Option<(&Origin<M>, CompleteParams)>, ErrorObject> {
        if method != Complete::NAME {
            return Ok(None);
        }
        let completed = decode_params::<Complete>(params.cloned())?;
        let CompleteParams { reference, argument, .. } = &completed;
        let by_hand = |methods: [&str; 2]| methods.into_iter().any(|method| self.has_handler(method));
        //= S8.21 "`completion/complete`: unknown prompt, template or argument → -32602"
        let (is_known, origin) = match reference {
            Reference::Prompt(_) if by_hand(PROMPT_METHODS) => (true, None),
            Reference::Resource(_) if by_hand(TEMPLATE_METHODS) => (true, None),
            Reference::Prompt(prompt) => {
                let entry = self.contents.prompts.get(&prompt.name);
                let entry = entry.ok_or_else(|| unknown_prompt(&prompt.name))?;
                let mut arguments = entry.item.arguments.iter().flatten();
                (arguments.any(|known| known.name == argument.name), entry.origin.as_deref())
            }
            Reference::Resource(resource) => self.find_variable(&resource.uri, &argument.name)?,
            Reference::Unknown(_) => {
                let what = "\"ref\" is neither a prompt nor a resource template";
                return Err(params_error(Complete::NAME, &what));
            }
        };
        if is_known {
            return Ok(origin.map(|origin| (origin, completed)));
        }
        Err(params_error(Complete::NAME, &format!("there is no argument {:?}", completed.argument.name)))
    }

    /// Whether the template, or the template of the URI, has this variable; and where the template was registered.
    fn find_variable(&self, uri: &str, name: &str) -> Result<(bool, Option<&Origin<M>>), ErrorObject> {
        let templates = &self.contents.templates;
        let of_uri = || templates.iter().find(|entry| entry.item.1.matches(uri).is_some());
        match templates.get(uri).or_else(of_uri) {
            Some(entry) => Ok((entry.item.1.names().any(|known| known == name), entry.origin.as_deref())),
            // A resource has no variables.
            None if self.contents.resources.get(uri).is_some() => Ok((false, None)),
            None => Err(params_error(Complete::NAME, &format!("there is no resource template {uri:?}"))),
        }
    }
}
