//! Prints results in a readable form.

use std::collections::BTreeSet;
use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcp_proto::schema::{ContentBlock, Json, PromptMessage, ResourceContents, Role, Tool};
use serde_json::Value;

use crate::error::CommandError;
use crate::table::Table;
use crate::terminal::Screen;
use crate::text::{HEADING, NAME, QUIET, Text, styled, styled_block, wrap};

/// Any result as JSON: one line for programs, indented on a terminal.
pub(crate) fn json(screen: &mut Screen, result: &impl serde::Serialize) -> Result<(), CommandError> {
    let value = serde_json::to_value(result)?;
    let text = if screen.is_terminal() { serde_json::to_string_pretty(&value)? } else { value.to_string() };
    screen.line(Text::json(&text))?;
    Ok(())
}

pub(crate) fn heading(screen: &mut Screen, text: &str) -> io::Result<()> {
    screen.line(styled(HEADING, text))
}

/// One line per name, the values aligned.
pub(crate) fn facts(screen: &mut Screen, facts: &[(&str, String)]) -> io::Result<()> {
    let widest = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let columns = screen.columns().map(|columns| columns.saturating_sub(widest + 2));
    for (name, value) in facts {
        let mut name = styled(QUIET, name).and(" ".repeat(widest - name.len() + 2));
        for line in Text::block(value).plain().lines().flat_map(|line| wrap(line, columns)) {
            screen.line(if line.is_empty() { Text::default() } else { name.and(line) })?;
            name = Text::from(" ".repeat(widest + 2));
        }
    }
    Ok(())
}

pub(crate) fn tools(screen: &mut Screen, tools: &[Tool]) -> io::Result<()> {
    let mut table = Table::new(&["name", "arguments", "description"]);
    for tool in tools {
        let about = tool.description.as_deref().unwrap_or_else(|| tool.display_name());
        table.row([&tool.name, &signature(&tool.input_schema), about]);
    }
    table.print(screen)
}

/// The names of a tool's arguments, optional ones in brackets.
fn signature(schema: &Json) -> String {
    let schema: Value = schema.decode().unwrap_or_default();
    let name = |argument: Argument<'_>| match argument.required {
        true => argument.name.to_owned(),
        false => format!("[{}]", argument.name),
    };
    arguments(&schema).map(name).collect::<Vec<_>>().join(" ")
}

struct Argument<'a> {
    name: &'a str,
    schema: &'a Value,
    required: bool,
}

fn arguments(schema: &Value) -> impl Iterator<Item = Argument<'_>> {
    let required = schema.get("required").and_then(Value::as_array);
    let required: BTreeSet<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    let is_required = move |name: &str| required.contains(name);
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(move |(name, schema)| Argument {
        name,
        schema,
        required: is_required(name),
    })
}

/// The full description of one tool.
pub(crate) fn tool(screen: &mut Screen, tool: &Tool) -> io::Result<()> {
    let title = Some(tool.display_name()).filter(|title| *title != tool.name);
    let title = title.map(|title| format!(" {title}")).unwrap_or_default();
    screen.line(styled(NAME, &tool.name).and(title))?;
    for line in Text::block(tool.description.as_deref().unwrap_or_default()).plain().lines() {
        for line in wrap(line, screen.columns()) {
            screen.line(line)?;
        }
    }
    let hints = hints(tool);
    if !hints.is_empty() {
        screen.line(styled(QUIET, hints.join(", ")))?;
    }
    let schema: Value = tool.input_schema.decode().unwrap_or_default();
    let mut table = Table::new(&["argument", "type", "", "description"]);
    let mut any = false;
    for argument in arguments(&schema) {
        any = true;
        let required = if argument.required { "required" } else { "" };
        let text = |key| argument.schema.get(key).and_then(Value::as_str).unwrap_or_default();
        table.row([argument.name, &kind(argument.schema), required, text("description")]);
    }
    if any {
        screen.line("")?;
        table.print(screen)?;
    }
    if let Some(output) = &tool.output_schema {
        let output: Value = output.decode().unwrap_or_default();
        screen.line("")?;
        screen.line(styled(QUIET, "STRUCTURED RESULT").and(" ").and(Text::json(&format!("{output:#}"))))?;
    }
    Ok(())
}

fn hints(tool: &Tool) -> Vec<&'static str> {
    let Some(hints) = &tool.annotations else { return Vec::new() };
    let says = |hint: Option<bool>, yes, no| hint.map(|hint| if hint { yes } else { no });
    [
        says(hints.read_only_hint, "read-only", "may change something"),
        says(hints.destructive_hint, "may destroy something", "destroys nothing"),
        says(hints.idempotent_hint, "idempotent", "not idempotent"),
        says(hints.open_world_hint, "open world", "closed world"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The type of a value in one or two words.
fn kind(schema: &Value) -> String {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        return choices.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    match schema.get("type") {
        Some(Value::String(name)) if name == "array" => match schema.get("items").map(kind) {
            Some(items) => format!("list of {items}"),
            None => "list".to_owned(),
        },
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        _ => match ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array()) {
            Some(parts) => parts.iter().map(kind).collect::<Vec<_>>().join(" | "),
            None => "any".to_owned(),
        },
    }
}

/// The content of a tool's result.
pub(crate) fn content(
    screen: &mut Screen,
    blocks: &[ContentBlock],
    structured: Option<&Json>,
) -> io::Result<()> {
    for block in blocks {
        screen.line(text_of(block))?;
    }
    if let Some(json) = structured {
        let value: Value = json.decode().unwrap_or_default();
        if !blocks.iter().filter_map(ContentBlock::as_text).any(|text| is_json(text, &value)) {
            screen.line(styled_block(QUIET, Text::json(&format!("{value:#}")).plain()))?;
        }
    }
    Ok(())
}

/// Whether the text is this value as JSON: servers repeat structured content as text for older clients.
fn is_json(text: &str, value: &Value) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|repeated| repeated == *value)
}

pub(crate) fn messages(screen: &mut Screen, messages: &[PromptMessage]) -> io::Result<()> {
    for message in messages {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        screen.labelled(styled(NAME, format_args!("{role}:")), text_of(&message.content))?;
    }
    Ok(())
}

fn text_of(block: &ContentBlock) -> Text {
    let quiet = |text: String| styled(QUIET, format_args!("[{text}]"));
    match block {
        ContentBlock::Text(text) => Text::block(&text.text),
        ContentBlock::Image(image) => {
            quiet(format!("{}, {} bytes", image.mime_type, decoded(&image.data).len()))
        }
        ContentBlock::Audio(audio) => {
            quiet(format!("{}, {} bytes", audio.mime_type, decoded(&audio.data).len()))
        }
        ContentBlock::ResourceLink(link) => quiet(format!("{}: {}", link.display_name(), link.uri)),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::Text(contents) => {
                quiet(contents.uri.clone()).and(Text::block("\n")).and(Text::block(&contents.text))
            }
            other => quiet(description(other)),
        },
        ContentBlock::Unknown(json) => quiet(json.as_str().to_owned()),
    }
}

/// The contents of a resource: text, and one line about each binary part.
pub(crate) fn contents(screen: &mut Screen, contents: &[ResourceContents]) -> io::Result<()> {
    for part in contents {
        if contents.len() > 1 && screen.is_terminal() {
            heading(screen, part.uri().unwrap_or("?"))?;
        }
        match part {
            ResourceContents::Text(text) => screen.line(Text::block(&text.text))?,
            other => screen.line(styled(QUIET, format_args!("[{}]", description(other))))?,
        }
    }
    Ok(())
}

/// The bytes of a resource as the server sent them.
pub(crate) fn raw_contents(screen: &mut Screen, contents: &[ResourceContents]) -> io::Result<()> {
    for part in contents {
        match part {
            ResourceContents::Text(text) => screen.raw(text.text.as_bytes())?,
            ResourceContents::Blob(blob) => screen.raw(&decoded(&blob.blob))?,
            ResourceContents::Unknown(json) => screen.raw(json.as_str().as_bytes())?,
        }
    }
    Ok(())
}

/// One line about the contents of a resource.
pub(crate) fn description(contents: &ResourceContents) -> String {
    let mime_type = contents.mime_type().unwrap_or("no media type");
    let length = match contents {
        ResourceContents::Text(text) => format!("{} characters", text.text.chars().count()),
        ResourceContents::Blob(blob) => format!("{} bytes", decoded(&blob.blob).len()),
        ResourceContents::Unknown(json) => format!("{} bytes of JSON", json.as_str().len()),
    };
    format!("{}, {mime_type}, {length}", contents.uri().unwrap_or("?"))
}

/// Decodes base64; empty if it is invalid.
fn decoded(base64: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(base64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn signature_brackets_optional_arguments() {
        let schema = json!({"properties": {"to": {}, "delay_ms": {}}, "required": ["to"]});
        assert_eq!(signature(&schema.into()), "to [delay_ms]");
        assert_eq!(signature(&json!({}).into()), "");
    }

    #[test]
    fn types_are_named_in_one_or_two_words() {
        for (schema, expected) in [
            (json!({"type": "array", "items": {"type": "string"}}), "list of string"),
            (json!({"type": ["string", "null"]}), "string | null"),
            (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), "integer | null"),
            (json!({"enum": ["a", 1]}), "\"a\" | 1"),
            (json!({}), "any"),
        ] {
            assert_eq!(kind(&schema), expected);
        }
    }

    #[test]
    fn structured_content_repeated_as_text_is_recognised() {
        let sum = json!({"sum": 5});
        assert!(is_json("{ \"sum\": 5 }", &sum));
        assert!(!is_json("5", &sum));
    }
}
