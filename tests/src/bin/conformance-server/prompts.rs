//! Prompts.

use mcp_proto::front::{NoArguments, Router};
use mcp_proto::schema::{CompleteParams, ContentBlock, Prompt, PromptArgument, PromptMessage, Reference};
use serde::Deserialize;

use crate::content::{PIXEL, text};

#[derive(Deserialize)]
struct Arguments {
    arg1: String,
    arg2: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Embedded {
    resource_uri: String,
}

pub(crate) fn add(router: Router) -> Router {
    router
        .prompt(
            prompt("test_simple_prompt", "A prompt without arguments", &[]),
            async |NoArguments {}, _| "This is a simple prompt for testing.",
        )
        .prompt(
            prompt("test_prompt_with_arguments", "A prompt with two arguments", &["arg1", "arg2"]),
            async |Arguments { arg1, arg2 }, _| {
                format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
            },
        )
        .prompt(
            prompt("test_prompt_with_embedded_resource", "A prompt with a resource in it", &["resourceUri"]),
            async |Embedded { resource_uri }, _| {
                let contents = text(&resource_uri, "text/plain", "Embedded resource content for testing.");
                vec![
                    PromptMessage::user(ContentBlock::resource(contents)),
                    PromptMessage::user("Please process the embedded resource above."),
                ]
            },
        )
        .prompt(
            prompt("test_prompt_with_image", "A prompt with an image in it", &[]),
            async |NoArguments {}, _| {
                vec![
                    PromptMessage::user(ContentBlock::image(PIXEL, "image/png")),
                    PromptMessage::user("Please analyze the image above."),
                ]
            },
        )
        .completion(async |params: CompleteParams, _| complete(&params))
}

/// A prompt that requires all its arguments.
fn prompt(name: &str, description: &str, arguments: &[&str]) -> Prompt {
    let mut prompt = Prompt::new(name);
    prompt.description = Some(description.to_owned());
    let required = |name: &&str| {
        let mut argument = PromptArgument::new(*name);
        argument.description = Some("A text".to_owned());
        argument.required = Some(true);
        argument
    };
    prompt.arguments = (!arguments.is_empty()).then(|| arguments.iter().map(required).collect());
    prompt
}

fn complete(params: &CompleteParams) -> Vec<String> {
    let known: &[&str] = match &params.reference {
        Reference::Prompt(prompt) if prompt.name == "test_prompt_with_arguments" => {
            &["paris", "park", "party"]
        }
        _ => &[],
    };
    let begins = |value: &&&str| value.starts_with(&params.argument.value);
    known.iter().filter(begins).map(|value| (*value).to_owned()).collect()
}
