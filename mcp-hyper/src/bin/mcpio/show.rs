//! Shows results: tools, prompts, resources and contents, and tables with aligned columns; saves their parts in files.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcp_proto::schema::{CallToolResult, ContentBlock, Json, PromptMessage, ResourceContents, Tool};
use serde_json::Value;

use crate::error::{CommandError, Result};
use crate::terminal::{HEADING, NAME, NARROWEST, QUIET, Screen, Text, styled, styled_block, width, wrap};

/// Any result as JSON: one line for programs, indented on a terminal.
pub(crate) fn json(screen: &mut Screen, result: &impl serde::Serialize) -> Result {
    let value = serde_json::to_value(result)?;
    let text = if screen.is_terminal() { serde_json::to_string_pretty(&value)? } else { value.to_string() };
    screen.line(Text::json(&text))?;
    Ok(())
}

/// Writes a result as JSON if the user wants that, else in words.
pub(crate) fn result(
    screen: &mut Screen,
    result: &impl serde::Serialize,
    in_words: impl FnOnce(&mut Screen) -> io::Result<()>,
) -> Result {
    if screen.is_json() { json(screen, result) } else { Ok(in_words(screen)?) }
}

/// Writes the result of a tool, and its images, sounds and files into `output`.
pub(crate) fn tool_result(screen: &mut Screen, tool: &CallToolResult, output: Option<&Path>) -> Result {
    result(screen, tool, |screen| content(screen, &tool.content, tool.structured_content.as_ref()))?;
    if tool.failed() {
        return Err(CommandError::in_result("the tool reports a failure"));
    }
    output.map_or(Ok(()), |output| save(output, tool.content.iter().filter_map(content_in)))
}

pub(crate) fn heading(screen: &mut Screen, text: &str) -> io::Result<()> {
    screen.line(styled(HEADING, text))
}

/// One line per name, the values aligned.
pub(crate) fn facts(screen: &mut Screen, facts: &[(&str, String)]) -> io::Result<()> {
    fact_lines(screen.columns(), facts).into_iter().try_for_each(|line| screen.line(line))
}

/// The lines of [`facts`], on a terminal of this width.
pub(crate) fn fact_lines(columns: Option<usize>, facts: &[(&str, String)]) -> Vec<Text> {
    let widest = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let columns = columns.map(|columns| columns.saturating_sub(widest + 2));
    let mut lines = Vec::new();
    for (name, value) in facts {
        let mut name = styled(QUIET, name).and(" ".repeat(widest - name.len() + 2));
        for line in Text::block(value).plain().lines().flat_map(|line| wrap(line, columns)) {
            lines.push(if line.is_empty() { Text::default() } else { name.and(line) });
            name = Text::from(" ".repeat(widest + 2));
        }
    }
    lines
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
    let mut arguments = arguments(&schema).peekable();
    let any = arguments.peek().is_some();
    for argument in arguments {
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
fn content(screen: &mut Screen, blocks: &[ContentBlock], structured: Option<&Json>) -> io::Result<()> {
    for block in blocks {
        screen.line(text_of(block))?;
    }
    if let Some(json) = structured {
        let value: Value = json.decode().unwrap_or_default();
        let texts: Vec<&str> = blocks.iter().filter_map(ContentBlock::as_text).collect();
        if !is_shown(&texts, &value) {
            screen.line(styled_block(QUIET, Text::json(&format!("{value:#}")).plain()))?;
        }
    }
    Ok(())
}

/// Whether the texts say this value: servers repeat structured content as text for older clients. Some have an object with
/// the value as its `result` alone, and a text for each item of a list.
fn is_shown(texts: &[&str], value: &Value) -> bool {
    let says = |text: &str, value: &Value| {
        value.as_str() == Some(text) || serde_json::from_str::<Value>(text).is_ok_and(|said| said == *value)
    };
    let inner = value.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("result"));
    let items = inner.and_then(Value::as_array).filter(|items| items.len() == texts.len());
    texts.iter().any(|text| says(text, value) || inner.is_some_and(|inner| says(text, inner)))
        || items.is_some_and(|items| items.iter().zip(texts).all(|(item, text)| says(text, item)))
}

pub(crate) fn messages(screen: &mut Screen, messages: &[PromptMessage]) -> io::Result<()> {
    for message in messages {
        screen.labelled(styled(NAME, format_args!("{}:", message.role)), text_of(&message.content))?;
    }
    Ok(())
}

fn text_of(block: &ContentBlock) -> Text {
    let quiet = |text: String| styled(QUIET, format_args!("[{text}]"));
    let media = |mime_type: &str, data: &str| quiet(format!("{mime_type}, {}", size_of(data)));
    match block {
        ContentBlock::Text(text) => Text::block(&text.text),
        ContentBlock::Image(image) => media(&image.mime_type, &image.data),
        ContentBlock::Audio(audio) => media(&audio.mime_type, &audio.data),
        ContentBlock::ResourceLink(link) => quiet(format!("{}: {}", link.display_name(), link.uri)),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::Text(contents) => {
                quiet(contents.uri.clone()).and(Text::block("\n")).and(Text::block(&contents.text))
            }
            other => quiet(description(other)),
        },
        ContentBlock::Unknown(json) => quiet(json.as_str().to_owned()),
        _ => quiet("content of another kind".to_owned()),
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
///
/// # Errors
/// If a part is not valid, or cannot be printed.
pub(crate) fn raw_contents(screen: &mut Screen, contents: &[ResourceContents]) -> Result {
    for part in contents {
        let (bytes, _) = content_of(part);
        screen.raw(&bytes.ok_or_else(invalid_base64)?)?;
    }
    Ok(())
}

/// One line about the contents of a resource.
fn description(contents: &ResourceContents) -> String {
    let mime_type = contents.mime_type().unwrap_or("no media type");
    let length = match contents {
        ResourceContents::Text(text) => format!("{} characters", text.text.chars().count()),
        ResourceContents::Blob(blob) => size_of(&blob.blob),
        ResourceContents::Unknown(json) => format!("{} bytes of JSON", json.as_str().len()),
        _ => "content of another kind".to_owned(),
    };
    format!("{}, {mime_type}, {length}", contents.uri().unwrap_or("?"))
}

/// Divisor of the terminal's width: the limit of every column but the last.
const PART: usize = 2;

/// The limit of every column but the last where there is no terminal: one long name of a server must not pad every row.
const WIDEST: usize = 200;

/// The gap between columns.
const GAP: usize = 2;

/// The indentation of a last column that has lines of its own.
const INDENT: usize = 4;

/// Lines of a cell to show before the rest is omitted.
const TALLEST: usize = 6;

/// Rows of cells. The first column holds names.
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [&str; N]) {
        // Escaped before it is measured. Runs of white space become one space, so that a cell is one line.
        let cell = |text: &str| Text::from(text.split_whitespace().collect::<Vec<_>>().join(" ")).plain();
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    pub(crate) fn print(&self, screen: &mut Screen) -> io::Result<()> {
        for line in self.lines(screen.columns()) {
            screen.line(line)?;
        }
        Ok(())
    }

    fn lines(&self, columns: Option<usize>) -> Vec<Text> {
        self.groups(columns).concat()
    }

    /// The lines of the headings, and those of each row.
    pub(crate) fn groups(&self, columns: Option<usize>) -> Vec<Vec<Text>> {
        let starts = self.starts(columns.map_or(WIDEST, |columns| columns / PART));
        let headings: Vec<String> = self.headings.iter().map(|heading| heading.to_uppercase()).collect();
        let headings = self.row_lines(&headings, &starts, columns, |_, text| styled(QUIET, text));
        let style = |column, text: &str| if column == 0 { styled(NAME, text) } else { Text::from(text) };
        let rows = self.rows.iter().map(|row| self.row_lines(row, &starts, columns, style));
        std::iter::once(headings).chain(rows).collect()
    }

    /// The position at which each column begins.
    fn starts(&self, widest: usize) -> Vec<usize> {
        let mut start = 0;
        (0..self.headings.len())
            .map(|column| {
                let begins = start;
                let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell));
                let heading = self.headings.get(column).map_or(0, |heading| width(heading));
                start += cells.filter(|cell| *cell <= widest).chain([heading]).max().unwrap_or(0) + GAP;
                begins
            })
            .collect()
    }

    /// Lines of a row. After a cell wider than its column the row continues on the next line.
    fn row_lines(
        &self,
        row: &[String],
        starts: &[usize],
        columns: Option<usize>,
        style: impl Fn(usize, &str) -> Text,
    ) -> Vec<Text> {
        let mut lines = Vec::new();
        let mut line = Text::default();
        let mut filled = 0;
        for (column, (cell, start)) in row.iter().zip(starts).enumerate() {
            let last = column + 1 == starts.len();
            // A last column that would be too narrow has lines of its own.
            let is_narrow = |columns: usize| last && column > 0 && columns.saturating_sub(*start) < NARROWEST;
            let start = if columns.is_some_and(is_narrow) { &INDENT } else { start };
            let room = columns.filter(|_| last).map(|columns| columns.saturating_sub(*start));
            let parts = if last { cut(wrap(cell, room)) } else { vec![cell.clone()] };
            for (index, part) in parts.iter().enumerate() {
                // An empty cell needs no line of its own.
                if index > 0 || (filled > 0 && filled + GAP > *start && !part.is_empty()) {
                    lines.push(std::mem::take(&mut line));
                    filled = 0;
                }
                if !part.is_empty() {
                    let gap = " ".repeat(start.saturating_sub(filled));
                    line = line.and(gap).and(style(column, part));
                    filled = start + width(part);
                }
            }
        }
        lines.push(line);
        lines
    }
}

fn cut(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > TALLEST {
        lines.truncate(TALLEST);
        if let Some(last) = lines.last_mut() {
            last.push_str(" …");
        }
    }
    lines
}

/// The bytes of a part, unless they are invalid, and its media type.
type Content<'a> = (Option<Cow<'a, [u8]>>, Option<&'a str>);

/// A part of a resource.
pub(crate) fn content_of(contents: &ResourceContents) -> Content<'_> {
    let bytes = match contents {
        ResourceContents::Text(text) => Some(text.text.as_bytes().into()),
        ResourceContents::Blob(blob) => decoded(&blob.blob).map(Cow::from),
        ResourceContents::Unknown(json) => Some(json.as_str().as_bytes().into()),
        _ => None,
    };
    (bytes, contents.mime_type())
}

/// A part of a tool's result that is no text for the screen.
pub(crate) fn content_in(block: &ContentBlock) -> Option<Content<'_>> {
    match block {
        ContentBlock::Image(image) => Some((decoded(&image.data).map(Cow::from), Some(&image.mime_type))),
        ContentBlock::Audio(audio) => Some((decoded(&audio.data).map(Cow::from), Some(&audio.mime_type))),
        ContentBlock::Resource(embedded) => Some(content_of(&embedded.resource)),
        _ => None,
    }
}

/// Decodes base64; `None` if it is invalid.
fn decoded(base64: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(base64).ok()
}

/// The number of bytes that base64 stands for, in words.
pub(crate) fn size_of(base64: &str) -> String {
    decoded(base64).map_or("invalid base64".into(), |bytes| format!("{} bytes", bytes.len()))
}

/// The server sent bytes that cannot be read.
pub(crate) fn invalid_base64() -> CommandError {
    CommandError::server("the server sent a part that is not valid base64").with_kind("invalid")
}

/// The most parts of a result that are saved: the server chooses how many there are.
const MOST: usize = 100;

/// Saves the first part in this file, and further ones beside it. The user chose the name of the first, so that a file which
/// is there is replaced, but the server chooses how many there are: no other file is.
///
/// # Errors
/// If there is no part, there are too many, or one is invalid or cannot be written.
pub(crate) fn save<'a>(output: &Path, parts: impl Iterator<Item = Content<'a>>) -> Result {
    let mut messages = Screen::messages();
    let mut count = 0;
    for (bytes, mime_type) in parts {
        count += 1;
        if count > MOST {
            let why = format_args!("the result has more than {MOST} parts: the others are not saved");
            return Err(CommandError::server(why));
        }
        let bytes = bytes.ok_or_else(invalid_base64)?;
        let path = numbered(output, count);
        let failed = CommandError::server_of(format!("--output {}", path.display()));
        let mut options = OpenOptions::new();
        match count {
            1 => options.write(true).create(true).truncate(true),
            // Neither a file nor a link that is there is followed.
            _ => options.write(true).create_new(true),
        };
        options.open(&path).and_then(|mut file| file.write_all(&bytes)).map_err(failed)?;
        let (path, mime_type) = (path.display(), mime_type.unwrap_or("no media type"));
        messages.line(styled(QUIET, format_args!("saved {path}: {mime_type}, {} bytes", bytes.len())))?;
    }
    match count {
        0 => Err(CommandError::server("the result has nothing to save in a file")),
        _ => Ok(()),
    }
}

/// `logo.png`, `logo-2.png` and so on.
fn numbered(output: &Path, number: usize) -> PathBuf {
    if number < 2 {
        return output.to_owned();
    }
    let mut name = output.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = output.extension() {
        name.push(".");
        name.push(extension);
    }
    output.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use serde_json::json;

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
        assert!(is_shown(&["{ \"sum\": 5 }"], &sum));
        assert!(!is_shown(&["5"], &sum));
        for (result, texts) in [(json!(5), &["5"][..]), (json!("a"), &["a"]), (json!(["a", 5]), &["a", "5"])]
        {
            assert!(is_shown(texts, &json!({ "result": result })), "{result}");
        }
        assert!(!is_shown(&["a"], &json!({ "result": ["a", "b"] })));
        assert!(!is_shown(&["5"], &json!({ "result": 5, "more": 6 })));
    }

    fn plain(table: &Table, columns: Option<usize>) -> Vec<String> {
        table.lines(columns).iter().map(Text::plain).collect()
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["name", "about"]);
        table.row(["echo", "Says it\nagain"]);
        table.row(["緑茶", "Tea"]);
        assert_eq!(plain(&table, None), ["NAME  ABOUT", "echo  Says it again", "緑茶  Tea"]);
    }

    #[test]
    fn last_column_is_wrapped_under_itself() {
        let mut table = Table::new(&["name", "about"]);
        table.row(["echo", "one two three four five six seven"]);
        let lines = plain(&table, Some(30));
        assert_eq!(lines[1..], ["echo  one two three four five", "      six seven"]);
    }

    #[test]
    fn very_long_cell_is_cut() {
        let mut table = Table::new(&["name", "about"]);
        table.row(["echo", &"word ".repeat(200)]);
        let lines = plain(&table, Some(40));
        assert_eq!(lines.len(), 1 + TALLEST);
        assert!(lines.last().is_some_and(|line| line.ends_with('…')));
    }

    #[test]
    fn row_continues_below_a_cell_that_is_too_wide() {
        let mut table = Table::new(&["name", "about"]);
        table.row([&"x".repeat(30), "long"]);
        table.row(["a", "short"]);
        let expected = ["NAME  ABOUT", &"x".repeat(30), "      long", "a     short"];
        assert_eq!(plain(&table, Some(40)), expected);
        assert_eq!(plain(&table, None)[2], format!("a{}short", " ".repeat(31)));
    }

    #[test]
    fn cells_of_a_peer_are_measured_as_they_are_shown() {
        let mut table = Table::new(&["name", "about"]);
        table.row(["a\u{200b}\x1b[2J", "tool"]);
        table.row(["b", "tool"]);
        let shown = r"a\u{200b}\u{1b}[2J";
        assert_eq!(
            plain(&table, None)[1..],
            [format!("{shown}  tool"), format!("b{}tool", " ".repeat(shown.len() + 1))]
        );
    }

    #[test]
    fn long_name_does_not_pad_all_rows() {
        let mut table = Table::new(&["name", "about"]);
        table.row([&"x".repeat(10_000), "long"]);
        (0..1000).for_each(|_| table.row(["a", "short"]));
        let bytes: usize = plain(&table, None).iter().map(String::len).sum();
        assert!(bytes < 30_000, "{bytes}");
    }

    #[test]
    fn cell_may_be_empty() {
        let mut table = Table::new(&["name", "arguments", "about"]);
        table.row(["a", "", "first"]);
        table.row(["bb", "x", ""]);
        assert_eq!(plain(&table, None), ["NAME  ARGUMENTS  ABOUT", "a                first", "bb    x"]);
    }

    #[test]
    fn server_replaces_no_file_but_the_one_that_the_user_named() {
        let folder = std::env::temp_dir().join(format!("mcp-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let save = |parts: usize| {
            let parts = (0..parts).map(|_| (Some(Cow::from(b"new".as_slice())), None));
            super::save(&folder.join("a.txt"), parts)
        };
        fs::write(folder.join("a.txt"), "old").unwrap();
        fs::write(folder.join("a-2.txt"), "old").unwrap();
        assert!(save(2).is_err());
        assert_eq!((read("a.txt"), read("a-2.txt")), ("new".to_owned(), "old".to_owned()));
        fs::remove_file(folder.join("a-2.txt")).unwrap();
        save(2).unwrap();
        assert_eq!(read("a-2.txt"), "new");
        fs::remove_file(folder.join("a-2.txt")).unwrap();
        assert!(save(1_000).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), MOST);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn further_parts_are_numbered_before_the_extension() {
        let names = |output: &str| [1, 2].map(|number| numbered(Path::new(output), number));
        assert_eq!(names("a/logo.png"), ["a/logo.png", "a/logo-2.png"].map(PathBuf::from));
        assert_eq!(names("logo"), ["logo", "logo-2"].map(PathBuf::from));
    }
}
