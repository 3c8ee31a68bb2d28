//! Tools of test servers, and the form that some of them show.

use mcp_proto::schema::{
    ElicitParams, ElicitResult, ElicitSchema, Prompt, PromptArgument, StringSchema, Tool,
};
use serde_json::{Value, json};

pub fn tool(name: &str) -> Tool {
    Tool::new(name, "A tool", json!({"type": "object"}))
}

/// A prompt with one argument.
pub fn prompt(name: &str, argument: &str) -> Prompt {
    let mut prompt = Prompt::new(name);
    prompt.arguments = Some(vec![PromptArgument::new(argument)]);
    prompt
}

/// A form that asks for a name.
pub fn name_form() -> ElicitParams {
    ElicitParams::form("Your name?", ElicitSchema::new([("name", StringSchema::new().into())]))
}

/// The name that the user entered.
pub fn named(answer: &ElicitResult) -> String {
    serde_json::to_value(answer).unwrap()["content"]["name"].as_str().unwrap_or("no name").to_owned()
}

/// The answer of a user who enters a name.
pub fn accept(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

/// Asks for two names at once.
#[cfg(all(feature = "std", feature = "server"))]
pub async fn ask_two_names(
    _: mcp_proto::front::NoArguments,
    cx: mcp_proto::front::Context,
) -> Result<String, mcp_proto::front::HandlerError> {
    let (one, other) =
        futures_lite::future::try_zip(cx.elicit("one", name_form()), cx.elicit("other", name_form())).await?;
    Ok(format!("{} and {}", named(&one), named(&other)))
}
