//! Replies built from the return values of handlers.

use alloc::string::String;

use crate::front::handler::output::{PromptOutput, ResultOrInput};
use crate::front::handler::output_check::ToolResult;
use crate::front::handler_error::HandlerError;
use crate::front::reply::Reply;
use crate::peer::AnyResult;
use crate::peer::server::resource_not_found;
use crate::schema::{CallToolResult, Revision};

/// The reply to a tool call. Failures become results for the model, except protocol errors.
pub(super) fn tool_reply(result: ToolResult) -> Reply {
    match result {
        Ok(ResultOrInput::Result(result)) => Reply::result(result),
        Ok(ResultOrInput::InputRequired(needed)) => Reply::InputRequired(needed),
        Err(error) => match error.into_message() {
            //= S8.7 "business failures → isError result"
            Ok(message) => Reply::result(CallToolResult::error(message)),
            Err(reply) => reply,
        },
    }
}

/// The reply to `prompts/get`, with the listed description unless the result has its own.
pub(crate) fn prompt_reply(output: impl PromptOutput, described: Option<&str>, revision: Revision) -> Reply {
    let answered = output.into_prompt_result().map(|answered| match answered {
        ResultOrInput::Result(mut result) => {
            if result.description.is_none() {
                result.description = described.map(String::from);
            }
            ResultOrInput::Result(result)
        }
        needed @ ResultOrInput::InputRequired(_) => needed,
    });
    reply(answered, revision)
}

/// The reply to any other request.
pub(crate) fn reply<R: AnyResult + Send + 'static>(
    answered: Result<ResultOrInput<R>, HandlerError>,
    revision: Revision,
) -> Reply {
    match answered {
        Ok(ResultOrInput::Result(result)) => Reply::result(result),
        Ok(ResultOrInput::InputRequired(needed)) => Reply::InputRequired(needed),
        Err(error) => error.into_reply(|uri| resource_not_found(uri, revision)),
    }
}
