//! The parts of a configuration file that concern servers. Everything else in it is skipped.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::error::ConfigErrorKind;
use super::jsonc;
use super::value::{Table, Value};

/// The names of the table of servers.
pub(super) const SERVER_TABLES: [&str; 4] = ["mcpServers", "servers", "context_servers", "mcp_servers"];

/// The parts of a file that concern servers.
#[derive(Default)]
pub(super) struct Document {
    /// The tables of servers, with the names of the tables.
    pub(super) tables: Vec<(String, Value)>,
    /// The declarations of inputs.
    pub(super) inputs: Vec<Value>,
    /// Zed's timeout for all servers.
    pub(super) timeout: Option<Value>,
    /// Gemini's names of the only servers that are used.
    pub(super) allowed: Option<Value>,
    /// Gemini's names of servers that are not used, even if they are allowed.
    pub(super) excluded: Option<Value>,
}

impl Document {
    /// Reads JSON with comments and trailing commas.
    pub(super) fn from_json(text: &str) -> Result<Self, ConfigErrorKind> {
        serde_json::from_slice(&jsonc::to_json(text)).map_err(|error| syntax_error(&error))
    }

    pub(super) fn from_toml(text: &str) -> Result<Self, ConfigErrorKind> {
        toml::from_str(text).map_err(|error| {
            // Only the message: the error's own text quotes the line, which may have a secret.
            let start = error.span().map_or(0, |span| span.start);
            let (line, column) = position(text.as_bytes().get(..start).unwrap_or_default());
            ConfigErrorKind::Syntax { line, column, message: error.message().into() }
        })
    }

    fn add(&mut self, name: &str, value: Value) {
        match (name, value) {
            ("inputs", Value::List(inputs)) => self.inputs.extend(inputs),
            ("inputs", value) => self.inputs.push(value),
            ("context_server_timeout", value) => self.timeout = Some(value),
            (_, value) => self.tables.push((name.into(), value)),
        }
    }

    /// The table `mcp`: in VS Code's settings it has servers and inputs, in Gemini's the names of those that are used.
    fn add_settings(&mut self, settings: Table) {
        for (name, value) in settings {
            match name.as_str() {
                "servers" | "inputs" => self.add(&name, value),
                "allowed" => self.allowed = Some(value),
                "excluded" => self.excluded = Some(value),
                _ => {}
            }
        }
    }
}

pub(super) fn syntax_error(error: &serde_json::Error) -> ConfigErrorKind {
    // serde_json ends its message with the position, which is a field of its own here.
    let message = error.to_string();
    let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
    ConfigErrorKind::Syntax { line: error.line(), column: error.column(), message: what.into() }
}

/// The line and column, each from 1, of the character that follows this text.
pub(super) fn position(before: &[u8]) -> (usize, usize) {
    let lines = memchr::memchr_iter(b'\n', before).count();
    let column = memchr::memrchr(b'\n', before)
        .map_or(before.len(), |newline| before.len().saturating_sub(newline).saturating_sub(1));
    (lines.saturating_add(1), column.saturating_add(1))
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DocumentVisitor)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Document, A::Error> {
        let mut document = Document::default();
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "mcp" => {
                    if let Value::Table(settings) = members.next_value()? {
                        document.add_settings(settings);
                    }
                }
                "inputs" | "context_server_timeout" => document.add(&name, members.next_value()?),
                name if SERVER_TABLES.contains(&name) => document.add(name, members.next_value()?),
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(document)
    }
}
