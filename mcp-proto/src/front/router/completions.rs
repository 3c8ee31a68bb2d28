//! The check that a request for completions names something that the router knows.

use alloc::format;

use super::dispatch::unknown_prompt;
use super::{HandlerMode, Router};
use crate::front::params::{decode_params, params_error};
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{
    Complete, CompleteParams, GetPrompt, ListPrompts, ListResourceTemplates, Method, ReadResource, Reference,
};

impl<M: HandlerMode> Router<M> {
    /// Checks that a request for completions names a registered prompt or template, and one of its arguments. What
    /// hand-written handlers list is not checked.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion#error-handling>
    pub(super) fn check_completion(&self, method: &str, params: Option<&Raw>) -> Result<(), ErrorObject> {
        if method != Complete::NAME {
            return Ok(());
        }
        let CompleteParams { reference, argument, .. } = decode_params::<Complete>(params.cloned())?;
        let by_hand = |methods: [&str; 2]| methods.into_iter().any(|method| self.has_handler(method));
        //= S8.21 "`completion/complete`: unknown prompt, template or argument → -32602"
        let is_known = match &reference {
            Reference::Prompt(_) if by_hand([ListPrompts::NAME, GetPrompt::NAME]) => true,
            Reference::Resource(_) if by_hand([ListResourceTemplates::NAME, ReadResource::NAME]) => true,
            Reference::Prompt(prompt) => {
                let entry = self.contents.prompts.get(&prompt.name);
                let item = &entry.ok_or_else(|| unknown_prompt(&prompt.name))?.item;
                item.arguments.iter().flatten().any(|known| known.name == argument.name)
            }
            Reference::Resource(resource) => self.has_variable(&resource.uri, &argument.name)?,
            Reference::Unknown(_) => true,
        };
        if is_known {
            return Ok(());
        }
        Err(params_error(Complete::NAME, &format!("there is no argument {:?}", argument.name)))
    }

    /// Whether the template, or the template of the URI, has this variable.
    fn has_variable(&self, uri: &str, name: &str) -> Result<bool, ErrorObject> {
        let templates = &self.contents.templates;
        let of_uri = || templates.iter().find(|entry| entry.item.1.matches(uri).is_some());
        match templates.get(uri).or_else(of_uri) {
            Some(entry) => Ok(entry.item.1.names().any(|known| known == name)),
            // A resource has no variables.
            None if self.contents.resources.get(uri).is_some() => Ok(false),
            None => Err(params_error(Complete::NAME, &format!("there is no resource template {uri:?}"))),
        }
    }
}
