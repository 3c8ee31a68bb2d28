//! The TypeScript types of JSON schemas, and texts of a server in comments, strings and names.

use alloc::collections::VecDeque;
use core::fmt::Write as _;

use serde_json::{Map, Value};

use super::TypeScriptLimits;
use crate::consent::SafeText;
use crate::host::tools::{QuotedText, prefix_of};
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::schema::Json;

/// A type without its names, comments and indentation, as it counts against [`TypeScriptLimits::tool_bytes`].
const TYPE_BYTES: usize = 8;

pub(super) const ANY_OBJECT: &str = "{ [key: string]: unknown }";

/// A schema; any value if it is nested too deep to be read.
pub(super) struct Schema(pub(super) Value);

impl Schema {
    pub(super) fn read(json: &Json) -> Self {
        Self(json.decode().unwrap_or_default())
    }
}

/// Names of types, each used once.
#[derive(Default)]
pub(super) struct TypeNames {
    used: OrderedSet<String>,
    counts: OrderedMap<String, usize>,
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
pub(super) struct Document<'a> {
    root: &'a Value,
    tool: &'a str,
    what: &'static str,
    limits: &'a TypeScriptLimits,
    /// The bytes that the tool's types may still have. Nothing is written once there are none.
    room: &'a mut usize,
    names: &'a mut TypeNames,
    /// The types that references name.
    aliases: OrderedMap<&'a str, Alias>,
    queue: VecDeque<(&'a str, &'a Value)>,
    pub(super) declared: String,
}

struct Alias {
    name: String,
    state: AliasState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AliasState {
    Queued,
    /// It is being declared, and everything so far may be the type itself.
    Open,
    Done,
}

/// The position of a type in the declarations.
#[derive(Clone, Copy)]
pub(super) struct Position {
    /// How much deeper types may be nested.
    depth: usize,
    indent: usize,
    /// Whether an object or array is around it, within which a type may refer to itself.
    is_inside: bool,
}

impl Position {
    pub(super) fn new(limits: &TypeScriptLimits, is_inside: bool) -> Self {
        // Each level takes some stack.
        Self { depth: limits.depth.min(64), indent: 0, is_inside }
    }

    pub(super) fn indented(self) -> Self {
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
    pub(super) fn new(
        schema: &'a Schema,
        tool: &'a str,
        what: &'static str,
        limits: &'a TypeScriptLimits,
        room: &'a mut usize,
        names: &'a mut TypeNames,
    ) -> Self {
        let (aliases, queue) = (OrderedMap::new(), VecDeque::new());
        let declared = String::new();
        Self { root: &schema.0, tool, what, limits, room, names, aliases, queue, declared }
    }

    /// Takes room for a text.
    fn spend(&mut self, bytes: usize) {
        *self.room = self.room.saturating_sub(bytes);
    }

    /// Declares the types that were referred to.
    pub(super) fn declare_queued(&mut self) {
        while let Some((reference, schema)) = self.queue.pop_front() {
            if self.aliases.get(reference).is_some_and(|alias| alias.state == AliasState::Queued) {
                self.declare(reference, schema, Position::new(self.limits, false));
            }
        }
    }

    fn declare(&mut self, reference: &'a str, schema: &'a Value, position: Position) {
        self.set_state(reference, AliasState::Open);
        let own = self.type_of(schema, Position { is_inside: false, indent: 0, ..position });
        self.set_state(reference, AliasState::Done);
        let note = self.comment_of(schema, 0);
        if let Some(alias) = self.aliases.get(reference) {
            // A string takes any text.
            let _ = writeln!(self.declared, "{note}type {} = {};", alias.name, bare(&own));
        }
    }

    fn set_state(&mut self, reference: &str, state: AliasState) {
        if let Some(alias) = self.aliases.get_mut(reference) {
            alias.state = state;
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
            self.aliases.insert(reference, Alias { name, state: AliasState::Queued });
            self.queue.push_back((reference, target));
        }
        let state = self.aliases.get(reference).map(|alias| alias.state);
        match state {
            Some(AliasState::Open) if !position.is_inside => return unknown(),
            Some(AliasState::Queued) if !position.is_inside => self.declare(reference, target, position),
            _ => {}
        }
        self.aliases.get(reference).map_or_else(unknown, |alias| alias.name.clone())
    }

    /// The type of a schema. A type of several parts is in parentheses.
    pub(super) fn type_of(&mut self, schema: &'a Value, position: Position) -> String {
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
        let (mut parts, mut seen) = (Vec::new(), OrderedSet::new());
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
        let required: OrderedSet<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
        let empty = Map::new();
        let properties = members.get("properties").and_then(Value::as_object);
        let known = properties.unwrap_or(&empty);
        let mut lines = Vec::new();
        let inner = position.inside().indented();
        for (name, schema) in properties.into_iter().flatten() {
            if *self.room == 0 {
                break;
            }
            let mark = if required.contains(name.as_str()) { "" } else { "?" };
            let own = self.type_of(schema, inner);
            let note = self.comment_of(schema, inner.indent);
            let indent = inner.indent.saturating_mul(INDENT.len());
            self.spend([name.len(), note.len(), indent].into_iter().fold(0, usize::saturating_add));
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
            if *self.room == 0 {
                break;
            }
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
                let values = values.iter().map_while(|value| {
                    let has_room = *self.room > 0;
                    has_room.then(|| self.literal(value, position))
                });
                let values: Vec<_> = values.collect();
                format!("[{}]", values.join(", "))
            }
            Value::Object(members) => {
                let member = |(name, value): (&String, &Value)| {
                    self.spend(name.len());
                    let has_room = *self.room > 0;
                    has_room.then(|| format!("{}: {}", member_name(name), self.literal(value, position)))
                };
                let members: Vec<_> = members.iter().map_while(member).collect();
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
pub(super) fn bare(text: &str) -> &str {
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
    let mut seen = OrderedSet::new();
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
pub(super) fn member_name(name: &str) -> String {
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
pub(super) fn comment(text: &str, note: &str, indent: usize, limits: &TypeScriptLimits) -> String {
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

const INDENT: &str = "  ";

fn push_indent(text: &mut String, indent: usize) {
    text.extend(core::iter::repeat_n(INDENT, indent));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The types around them would copy them again and again.
    #[test]
    fn types_beyond_the_room_of_a_tool_are_not_written() {
        let members: Map<String, Value> = (0..4_000).map(|n| (n.to_string(), json!({}))).collect();
        let items = vec![json!({ "type": "null" }); 50_000];
        for innermost in [
            json!({ "properties": members }),
            json!({ "prefixItems": items, "items": false }),
            json!({ "const": items }),
        ] {
            let schema = (0..50).fold(innermost, |inner, _| json!({ "properties": { "a": inner } }));
            let limits = TypeScriptLimits { depth: 64, ..TypeScriptLimits::default() };
            let (schema, mut room, mut names) = (Schema(schema), limits.tool_bytes, TypeNames::default());
            let mut document = Document::new(&schema, "t", "input", &limits, &mut room, &mut names);
            let own = document.type_of(&schema.0, Position::new(&limits, true));
            assert!(own.len() < 4 * limits.tool_bytes, "{}", own.len());
            assert_eq!(room, 0);
        }
    }
}
