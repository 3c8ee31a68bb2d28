//! Sampling: the user reads the conversation and types the model's answer.

use std::io::BufRead;

use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{CreateMessageParams, CreateMessageResult, Role, SamplingBlock};

use super::terminal_prompt::{NoAnswerError, TerminalPrompt};
use super::{Decision, Question, choose};
use crate::text::{HEADING, NAME, QUIET, Text, styled};

/// The name of the model in the result.
const MODEL: &str = "a person at a terminal";
/// The line that ends an answer of several lines.
const END: &str = ".";

/// Shows the conversation; the user types an answer, reviews it and sends it, or declines.
pub(super) fn sample(
    person: &mut TerminalPrompt<impl BufRead>,
    server: &str,
    params: &CreateMessageParams,
) -> Result<CreateMessageResult, ErrorObject> {
    answer(person, server, params)
        .map(|answer| CreateMessageResult::new(Role::Assistant, answer.as_str(), MODEL.to_owned()))
        .map_err(|NoAnswerError| ErrorObject::new(code::USER_REJECTED, "User rejected sampling request"))
}

fn answer(
    person: &mut TerminalPrompt<impl BufRead>,
    server: &str,
    params: &CreateMessageParams,
) -> Result<String, NoAnswerError> {
    show(person, server, params);
    if let Decision::Decline = choose(person, Question::Answer)? {
        return Err(NoAnswerError);
    }
    loop {
        person
            .print(styled(QUIET, format_args!("Type the model's answer. A line with only {END:?} ends it.")));
        let mut lines = Vec::new();
        loop {
            match person.ask(styled(NAME, "answer").and(": "))? {
                line if line == END => break,
                line => lines.push(line),
            }
        }
        match choose(person, Question::Send)? {
            Decision::Accept => return Ok(lines.join("\n")),
            Decision::Edit => {}
            Decision::Decline => return Err(NoAnswerError),
        }
    }
}

fn show(person: &mut TerminalPrompt<impl BufRead>, server: &str, params: &CreateMessageParams) {
    person.print("");
    person.print(styled(HEADING, server).and(" asks for a model's answer to this conversation:"));
    if let Some(prompt) = &params.system_prompt {
        person.print_block(styled(NAME, "system:"), prompt);
    }
    for message in params.messages.iter() {
        let role = match message.role {
            Role::User => "user:",
            Role::Assistant => "assistant:",
        };
        for block in message.content.blocks() {
            person.print_block(styled(NAME, role), &described(block));
        }
    }
    let tools = params.tools.iter().flat_map(|tools| tools.iter()).map(|tool| tool.name.as_str());
    let tools = tools.collect::<Vec<_>>().join(", ");
    if !tools.is_empty() {
        person.print(styled(QUIET, format_args!("The model may call {tools}; a person cannot.")));
    }
    person.print(Text::from(format!("It takes at most {} tokens.", params.max_tokens)));
}

fn described(block: &SamplingBlock) -> String {
    match block {
        SamplingBlock::Text(text) => text.text.clone(),
        SamplingBlock::Image(image) => format!("[an image, {}]", image.mime_type),
        SamplingBlock::Audio(audio) => format!("[audio, {}]", audio.mime_type),
        SamplingBlock::ToolUse(call) => format!("[calls {} with {}]", call.name, call.input.as_str()),
        SamplingBlock::ToolResult(result) => format!("[the result of call {}]", result.tool_use_id),
        SamplingBlock::Unknown(json) => json.as_str().to_owned(),
    }
}
