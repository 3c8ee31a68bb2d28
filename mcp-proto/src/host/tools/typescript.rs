//! Tools as TypeScript declarations, for models that write code against them.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::fmt::Write as _;

use serde_json::{Map, Value};

use super::content::{QuotedText, prefix_of};
use super::named_items::Entry;
use crate::consent::SafeText;
use crate::prelude::*;
use crate::schema::{Json, Tool};

/// Limits of [`TypeScriptDeclarations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeScriptLimits {
    /// How many bytes all declarations have. Tools beyond them are left out. Default 256 KiB.
    pub bytes: usize,
    /// How many bytes the types of one tool have. A tool with larger ones is declared with `unknown` ones. Default
    /// 32 KiB.
    pub tool_bytes: usize,
    /// How many bytes of a description are shown. Default 2 KiB.
    pub description_bytes: usize,
    /// How many types are nested in each other; a deeper one is `unknown`. At most 64. Default 24.
    pub depth: usize,
}

impl Default for TypeScriptLimits {
    fn default() -> Self {
        Self { bytes: 256 * 1024, tool_bytes: 32 * 1024, description_bytes: 2 * 1024, depth: 24 }
    }
}

/// Tools as TypeScript declarations, for a model that writes code instead of single calls.
///
/// The constant `tools` has a function for each tool, by its name for a model. Its argument has the type of the tool's
/// input schema; its promise has that of the output schema, `unknown` without one. The application that runs the code
/// provides the functions, and calls the tools by those names.
///
/// A type is wider than its schema where TypeScript cannot express it: lengths, patterns and conditions are missing, and a
/// reference that leaves the schema is `unknown`. The server checks the arguments in any case. The same tools and limits
/// give the same text, whatever the order in which servers connected.
///
/// Servers write descriptions, names of members and constants. They cannot leave their comments and strings, nor write
/// lines of their own: descriptions are [quoted](QuotedText), and lines of the host have no `> `. Even so, run a model's
/// code in a sandbox. Time and size are linear in the definitions.
///
/// ```
/// use mcp_proto::host::tools::{Catalogue, ServerSettings, TypeScriptDeclarations, TypeScriptLimits};
/// use mcp_proto::schema::Tool;
/// use serde_json::json;
///
/// let mut catalogue = Catalogue::default();
/// catalogue.add_server("github", ServerSettings::default());
/// let schema = json!({
///     "type": "object",
///     "properties": {
///         "title": { "type": "string", "description": "A short summary" },
///         "label": { "enum": ["bug", null] },
///     },
///     "required": ["title"],
/// });
/// catalogue.update("github", vec![Tool::new("create_issue", "Creates an issue", schema)]);
///
/// let declared = TypeScriptDeclarations::of_tools(catalogue.tools(), &TypeScriptLimits::default());
/// assert!(declared.text.contains("  mcp__github__create_issue(input: {\n"));
/// assert!(declared.text.contains("    /** > A short summary */\n    title: string;\n"));
/// assert!(declared.text.contains("    label?: \"bug\" | null;\n"));
/// assert!(declared.text.contains("  }): Promise<unknown>;\n"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeScriptDeclarations {
    /// The declarations: a module of TypeScript 4.1 or newer.
    pub text: String,
    /// Names of the tools that exceed [`TypeScriptLimits::bytes`] and are left out. The text says how many they are.
    pub left_out: Vec<String>,
}

const HEADER: &str =
    "// Tools of MCP servers. The servers wrote what follows `>` in comments.\ndeclare const tools: {\n";
const FOOTER: &str = "};\n";

/// Room for the note on tools that are left out.
const NOTE_BYTES: usize = 80;

/// A type without its names and comments, indentation included, as it counts against [`TypeScriptLimits::tool_bytes`].
const TYPE_BYTES: usize = 8;

const ANY_OBJECT: &str = "{ [key: string]: unknown }";

impl TypeScriptDeclarations {
    /// Declares these tools, such as all [of a catalogue](super::Catalogue::tools) or those that a conversation
    /// [selects](super::Selection::tools). Tools that exist for a [page](crate::schema::apps) alone are skipped.
    pub fn of_tools<'a>(tools: impl IntoIterator<Item = Entry<'a, Tool>>, limits: &TypeScriptLimits) -> Self {
        let mut names = TypeNames::default();
        let around = [HEADER.len(), FOOTER.len(), NOTE_BYTES].iter().sum();
        let mut room = limits.bytes.saturating_sub(around);
        let (mut functions, mut types, mut left_out) = (String::from(HEADER), String::new(), Vec::new());
        for tool in tools.into_iter().filter(|tool| tool.item.is_for_model()) {
            let declared = declare(tool, limits, &mut names);
            match room.checked_sub(declared.function.len().saturating_add(declared.types.len())) {
                Some(rest) => {
                    room = rest;
                    functions.push_str(&declared.function);
                    types.push_str(&declared.types);
                }
                None => left_out.push(tool.name.to_owned()),
            }
        }
        let mut text = [functions.as_str(), FOOTER, &types].concat();
        if !left_out.is_empty() {
            // A string takes any text.
            let _ = writeln!(text, "// {} tools are left out for want of room.", left_out.len());
        }
        Self { text, left_out }
    }
}

/// The function of a tool, and the types that it refers to.
struct Declared {
    function: String,
    types: String,
}

fn declare(tool: Entry<'_, Tool>, limits: &TypeScriptLimits, names: &mut TypeNames) -> Declared {
    let mut room = limits.tool_bytes;
    let definition = tool.definition();
    let input = Schema::read(&definition.input_schema);
    let output = tool.item.output_schema.as_ref().map(Schema::read);
    let mut types = String::new();
    let mut declare = |schema: &Schema, what| {
        let mut document = Document::new(schema, tool.name, what, limits, &mut room, names);
        let own = document.type_of(&schema.0, Position::new(limits, true).indented());
        document.declare_queued();
        types.push_str(&document.declared);
        own
    };
    let own = declare(&input, "input");
    let result = output.map_or_else(|| "unknown".into(), |schema| declare(&schema, "output"));
    let bytes = [own.len(), result.len(), types.len()].into_iter().fold(0, usize::saturating_add);
    let is_whole = room > 0 && bytes <= limits.tool_bytes;
    let note = if is_whole { "" } else { "The schemas are too large to be declared." };
    let mut function = comment(definition.description, note, 1, limits);
    let (own, result) = if is_whole { (bare(&own), bare(&result)) } else { (ANY_OBJECT, "unknown") };
    if !is_whole {
        types.clear();
    }
    // A string takes any text.
    let _ = writeln!(function, "  {}(input: {own}): Promise<{result}>;", member_name(tool.name));
    Declared { function, types }
}

/// A schema; any value if it is nested too deep to be read.
struct Schema(Value);

impl Schema {
    fn read(json: &Json) -> Self {
        Self(json.decode().unwrap_or_default())
    }
}

/// Names of types, each used once.
#[derive(Default)]
struct TypeNames {
    used: BTreeSet<String>,
    counts: BTreeMap<String, usize>,
}

impl TypeNames {
    /// A name for a part of a tool's schema. It has an underscore, so that it is no word of the language.
    fn name(&mut self, tool: &str, part: &str) -> String {
        let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut name: String = tool.chars().take(64).map(clean).collect();
        if name.starts_with(|first: char| first.is_ascii_digit()) {
            name.insert(0, '_');
        }
        name.push('_');
        name.extend(part.chars().take(48).map(clean));
        let mut free = name.clone();
        let count = self.counts.entry(name.clone()).or_insert(1);
        while !self.used.insert(free.clone()) {
            *count = count.saturating_add(1);
            free = format!("{name}_{count}");
        }
        free
    }
}

/// One schema of a tool, whose references become types with names.
struct Document<'a> {
    root: &'a Value,
    tool: &'a str,
    what: &'static str,
    limits: &'a TypeScriptLimits,
    /// The bytes that the tool's types may still have. Nothing is written once there are none.
    room: &'a mut usize,
    names: &'a mut TypeNames,
    /// The types that references name.
    aliases: BTreeMap<&'a str, Alias>,
    queue: VecDeque<(&'a str, &'a Value)>,
    declared: String,
}

struct Alias {
    name: String,
    progress: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Queued,
    /// It is being declared, and everything so far may be the type itself.
    Open,
    Done,
}

/// The position of a type in the declarations.
#[derive(Clone, Copy)]
struct Position {
    /// How much deeper types may be nested.
    depth: usize,
    indent: usize,
    /// Whether an object or array is around it, within which a type may refer to itself.
    is_inside: bool,
}

impl Position {
    fn new(limits: &TypeScriptLimits, is_inside: bool) -> Self {
        // Each level takes some stack.
        Self { depth: limits.depth.min(64), indent: 0, is_inside }
    }

    fn indented(self) -> Self {
        Self { indent: self.indent.saturating_add(1), ..self }
    }

    fn deeper(self) -> Option<Self> {
        Some(Self { depth: self.depth.checked_sub(1)?, ..self })
    }

    fn inside(self) -> Self {
        Self { is_inside: true, ..self }
    }
}

impl<'a> Document<'a> {
    fn new(
        schema: &'a Schema,
        tool: &'a str,
        what: &'static str,
        limits: &'a TypeScriptLimits,
        room: &'a mut usize,
        names: &'a mut TypeNames,
    ) -> Self {
        let (aliases, queue) = (BTreeMap::new(), VecDeque::new());
        let declared = String::new();
        Self { root: &schema.0, tool, what, limits, room, names, aliases, queue, declared }
    }

    /// Takes room for a text.
    fn spend(&mut self, bytes: usize) {
        *self.room = self.room.saturating_sub(bytes);
    }

    /// Declares the types that were referred to.
    fn declare_queued(&mut self) {
        while let Some((reference, schema)) = self.queue.pop_front() {
            if self.aliases.get(reference).is_some_and(|alias| alias.progress == Progress::Queued) {
                self.declare(reference, schema, Position::new(self.limits, false));
            }
        }
    }

    fn declare(&mut self, reference: &'a str, schema: &'a Value, position: Position) {
        self.set_progress(reference, Progress::Open);
        let own = self.type_of(schema, Position { is_inside: false, indent: 0, ..position });
        self.set_progress(reference, Progress::Done);
        let note = self.comment_of(schema, 0);
        if let Some(alias) = self.aliases.get(reference) {
            // A string takes any text.
            let _ = writeln!(self.declared, "{note}type {} = {};", alias.name, bare(&own));
        }
    }

    fn set_progress(&mut self, reference: &str, progress: Progress) {
        if let Some(alias) = self.aliases.get_mut(reference) {
            alias.progress = progress;
        }
    }

    /// The type that a reference within the schema names. Outside of objects and arrays, a type is declared before the one
    /// that refers to it, so that one that is only itself is found: TypeScript has no such types.
    fn reference(&mut self, reference: &'a str, position: Position) -> String {
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(target) = target else { return unknown() };
        if !self.aliases.contains_key(reference) {
            let part = reference.rsplit('/').next().filter(|part| *part != "#").unwrap_or(self.what);
            let name = self.names.name(self.tool, part);
            self.spend(name.len());
            self.aliases.insert(reference, Alias { name, progress: Progress::Queued });
            self.queue.push_back((reference, target));
        }
        let progress = self.aliases.get(reference).map(|alias| alias.progress);
        match progress {
            Some(Progress::Open) if !position.is_inside => return unknown(),
            Some(Progress::Queued) if !position.is_inside => self.declare(reference, target, position),
            _ => {}
        }
        self.aliases.get(reference).map_or_else(unknown, |alias| alias.name.clone())
    }

    /// The type of a schema. A type of several parts is in parentheses.
    fn type_of(&mut self, schema: &'a Value, position: Position) -> String {
        self.spend(TYPE_BYTES);
        let Some(position) = position.deeper().filter(|_| *self.room > 0) else { return unknown() };
        let members = match schema {
            Value::Object(members) => members,
            Value::Bool(false) => return "never".into(),
            _ => return unknown(),
        };
        let mut parts = Vec::new();
        if let Some(Value::String(reference)) = members.get("$ref") {
            parts.push(self.reference(reference, position));
        }
        parts.push(match (members.get("const"), members.get("enum")) {
            (Some(value), _) => self.literal(value, position),
            (None, Some(Value::Array(values))) => {
                union(values.iter().map(|value| self.literal(value, position)).collect())
            }
            _ => self.typed(members, position),
        });
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(schemas)) = members.get(key)
                && !schemas.is_empty()
            {
                parts.push(union(schemas.iter().map(|schema| self.type_of(schema, position)).collect()));
            }
        }
        if let Some(Value::Array(schemas)) = members.get("allOf") {
            parts.extend(schemas.iter().map(|schema| self.type_of(schema, position)));
        }
        let own = intersection(parts);
        // OpenAPI's.
        if members.get("nullable") == Some(&Value::Bool(true)) {
            union(vec![own, "null".into()])
        } else {
            own
        }
    }

    /// The type that `type` names, or that the other members imply.
    fn typed(&mut self, members: &'a Map<String, Value>, position: Position) -> String {
        let has = |keys: &[&str]| keys.iter().any(|key| members.contains_key(*key));
        let types: Vec<&str> = match members.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ if has(&["properties", "required", "additionalProperties", "patternProperties"]) => {
                vec!["object"]
            }
            _ if has(&["items", "prefixItems"]) => vec!["array"],
            _ => return unknown(),
        };
        let (mut parts, mut seen) = (Vec::new(), BTreeSet::new());
        for name in types.into_iter().filter(|name| seen.insert(*name)) {
            parts.push(match name {
                "string" | "boolean" | "null" => name.into(),
                "number" | "integer" => "number".into(),
                "object" => self.object(members, position),
                "array" => self.array(members, position),
                _ => unknown(),
            });
        }
        union(parts)
    }

    fn object(&mut self, members: &'a Map<String, Value>, position: Position) -> String {
        let names = members.get("required").and_then(Value::as_array);
        let required: BTreeSet<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
        let empty = Map::new();
        let properties = members.get("properties").and_then(Value::as_object);
        let known = properties.unwrap_or(&empty);
        let mut lines = Vec::new();
        let inner = position.inside().indented();
        for (name, schema) in properties.into_iter().flatten() {
            let mark = if required.contains(name.as_str()) { "" } else { "?" };
            let own = self.type_of(schema, inner);
            let note = self.comment_of(schema, inner.indent);
            self.spend(name.len().saturating_add(note.len()));
            lines.push((note, format!("{}{mark}: {};", member_name(name), bare(&own))));
        }
        for name in required.into_iter().filter(|name| !known.contains_key(*name)) {
            self.spend(name.len());
            lines.push((String::new(), format!("{}: unknown;", member_name(name))));
        }
        let others = self.other_members(members, lines.is_empty(), inner);
        match others {
            Some(own) if lines.is_empty() => return own,
            // TypeScript wants all members to have its type.
            Some(_) => lines.push((String::new(), "[key: string]: unknown;".into())),
            None => {}
        }
        block(lines, position.indent)
    }

    /// The type of an object of members without known names; `None` if there are no such members.
    fn other_members(
        &mut self,
        members: &'a Map<String, Value>,
        are_all: bool,
        position: Position,
    ) -> Option<String> {
        let has_patterns = members.contains_key("patternProperties");
        match members.get("additionalProperties") {
            Some(Value::Bool(false)) if are_all && !has_patterns => Some("Record<string, never>".into()),
            None | Some(Value::Bool(false)) if !are_all && !has_patterns => None,
            Some(schema @ Value::Object(_)) if are_all && !has_patterns => {
                let own = self.type_of(schema, position);
                Some(format!("{{ [key: string]: {} }}", bare(&own)))
            }
            _ => Some(ANY_OBJECT.into()),
        }
    }

    fn array(&mut self, members: &'a Map<String, Value>, position: Position) -> String {
        let position = position.inside();
        let prefix = members.get("prefixItems").and_then(Value::as_array);
        // As a tuple was written before the dialect of 2020-12.
        let older = members.get("items").and_then(Value::as_array);
        let rest = members.get(if older.is_some() { "additionalItems" } else { "items" });
        match prefix.or(older) {
            Some(items) if !items.is_empty() => self.tuple(items, rest, members, position),
            _ => {
                let item = rest.map_or_else(unknown, |schema| self.type_of(schema, position));
                format!("Array<{}>", bare(&item))
            }
        }
    }

    fn tuple(
        &mut self,
        items: &'a [Value],
        rest: Option<&'a Value>,
        members: &'a Map<String, Value>,
        position: Position,
    ) -> String {
        let count =
            |key| members.get(key).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        // Without `minItems` all may be missing, but that is hardly ever meant.
        let required = count("minItems").unwrap_or(items.len());
        let mut parts = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let own = self.type_of(item, position);
            parts.push(if index < required { bare(&own).to_owned() } else { format!("({})?", bare(&own)) });
        }
        let is_closed =
            rest == Some(&Value::Bool(false)) || count("maxItems").is_some_and(|most| most <= items.len());
        if !is_closed {
            let own = rest.map_or_else(unknown, |schema| self.type_of(schema, position));
            // As `...Array<T>`, the type of an item could not refer to the tuple.
            parts.push(format!("...{own}[]"));
        }
        format!("[{}]", parts.join(", "))
    }

    /// The type of this one value.
    fn literal(&mut self, value: &Value, position: Position) -> String {
        self.spend(1);
        let Some(position) = position.deeper().filter(|_| *self.room > 0) else { return unknown() };
        match value {
            Value::String(text) => {
                self.spend(text.len());
                string_literal(text)
            }
            Value::Array(values) => {
                let values: Vec<_> = values.iter().map(|value| self.literal(value, position)).collect();
                format!("[{}]", values.join(", "))
            }
            Value::Object(members) => {
                let member = |(name, value): (&String, &Value)| {
                    self.spend(name.len());
                    format!("{}: {}", member_name(name), self.literal(value, position))
                };
                let members: Vec<_> = members.iter().map(member).collect();
                if members.is_empty() {
                    "Record<string, never>".into()
                } else {
                    format!("{{ {} }}", members.join("; "))
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        }
    }

    /// The comment of a member or type with this schema.
    fn comment_of(&self, schema: &Value, indent: usize) -> String {
        let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        comment(text, "", indent, self.limits)
    }
}

/// An object type, each member with its comment in a line of its own.
fn block(lines: Vec<(String, String)>, indent: usize) -> String {
    let mut text = String::from("{\n");
    for (note, line) in lines {
        text.push_str(&note);
        push_indent(&mut text, indent.saturating_add(1));
        text.push_str(&line);
        text.push('\n');
    }
    push_indent(&mut text, indent);
    text.push('}');
    text
}

fn unknown() -> String {
    "unknown".into()
}

/// A type of several parts without its parentheses, where nothing beside it could take a part.
fn bare(text: &str) -> &str {
    text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text)
}

fn union(parts: Vec<String>) -> String {
    if parts.is_empty() {
        return "never".into();
    }
    if parts.iter().any(|part| part == "unknown") {
        return unknown();
    }
    joined(parts, " | ", bare)
}

fn intersection(mut parts: Vec<String>) -> String {
    parts.retain(|part| part != "unknown");
    joined(parts, " & ", |part| part)
}

/// Joins the parts, each once, in order.
fn joined(mut parts: Vec<String>, operator: &str, shown: fn(&str) -> &str) -> String {
    let mut seen = BTreeSet::new();
    parts.retain(|part| seen.insert(part.clone()));
    match parts.as_mut_slice() {
        [] => unknown(),
        [only] => core::mem::take(only),
        parts => {
            let parts: Vec<_> = parts.iter().map(|part| shown(part)).collect();
            format!("({})", parts.join(operator))
        }
    }
}

/// The name of a member: a string unless it is a plain word that means nothing in the language.
fn member_name(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$'))
        && name.starts_with(|first: char| !first.is_ascii_digit());
    if is_plain && !RESERVED.contains(&name) { name.to_owned() } else { string_literal(name) }
}

/// Words of the language, and members that objects have anyway.
const RESERVED: &[&str] = &[
    "__proto__",
    "abstract",
    "accessor",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "constructor",
    "continue",
    "debugger",
    "declare",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "get",
    "if",
    "import",
    "in",
    "instanceof",
    "new",
    "null",
    "private",
    "protected",
    "prototype",
    "public",
    "readonly",
    "return",
    "set",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// A string: its escapes are those of JSON, and hide no character.
fn string_literal(text: &str) -> String {
    SafeText::json(&Value::from(text).to_string()).to_string()
}

/// A comment of the words of a server, and a line of the host; empty without words. It ends where it should.
fn comment(text: &str, note: &str, indent: usize, limits: &TypeScriptLimits) -> String {
    let shown = prefix_of(text, limits.description_bytes);
    let cut = if shown.len() < text.len() { " […]" } else { "" };
    let mut lines = Vec::new();
    if !shown.trim().is_empty() {
        let quoted = format!("{}{cut}", QuotedText::new(shown)).replace("*/", "* /");
        lines.extend(quoted.lines().map(ToOwned::to_owned));
    }
    lines.extend(Some(note.to_owned()).filter(|note| !note.is_empty()));
    let mut written = String::new();
    if let [line] = lines.as_slice() {
        push_indent(&mut written, indent);
        // A string takes any text.
        let _ = writeln!(written, "/** {} */", line.trim_end());
    } else if !lines.is_empty() {
        push_indent(&mut written, indent);
        written.push_str("/**\n");
        for line in lines {
            push_indent(&mut written, indent);
            let _ = writeln!(written, " * {}", line.trim_end());
        }
        push_indent(&mut written, indent);
        written.push_str(" */\n");
    }
    written
}

fn push_indent(text: &mut String, indent: usize) {
    text.extend(core::iter::repeat_n("  ", indent));
}
