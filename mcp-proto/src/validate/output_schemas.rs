//! What a client remembers of its server's tools, to check their results.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;

use super::{Bounds, CheckError, Schema, SchemaError};
use crate::schema::{CallToolResult, Json, Tool};

/// How many tools are remembered.
const TOOLS: usize = 4096;

/// How many bytes the names and schemas of all of them may have.
const BYTES: usize = 4 * 1024 * 1024;

/// How many schemas are kept compiled: the tools in use are few, and a compiled schema may be large.
const COMPILED: usize = 32;

/// The output schemas of a server's tools, as it has listed them.
///
/// Schemas are compiled when they are first needed. If there are more than a few thousand, or megabytes of them, those
/// that were listed first are forgotten, and the results of their tools pass unchecked.
///
/// ```
/// use mcp_proto::schema::{CallToolResult, Tool};
/// use mcp_proto::validate::{OutputError, OutputSchemas};
/// use serde_json::json;
///
/// let mut schemas = OutputSchemas::default();
/// let output = json!({"type": "object", "required": ["degrees"]});
/// schemas.learn(&[Tool::new("weather", "", json!({"type": "object"})).with_output_schema(output)]);
/// let result = CallToolResult::structured(&json!({"degrees": 21.5}))?;
/// assert!(schemas.check("weather", &result).is_ok());
/// assert_eq!(schemas.check("weather", &CallToolResult::text("warm")), Err(OutputError::Missing));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub struct OutputSchemas {
    bounds: Bounds,
    tools: BTreeMap<String, Entry>,
    /// Their names by when they were listed, in steps of `next`.
    listed: BTreeMap<u64, String>,
    next: u64,
    bytes: usize,
    /// Those that are compiled, longest ago first.
    compiled: VecDeque<String>,
}

struct Entry {
    text: Json,
    /// Its place in `listed`.
    place: u64,
    compiled: Option<Compiled>,
}

type Compiled = Arc<Result<Schema, SchemaError>>;

/// What is known of a tool's output schema.
pub(crate) enum Lookup {
    /// That it has none, or nothing.
    Unknown,
    /// Its text, to be compiled and [kept](OutputSchemas::keep).
    Text(Json),
    /// The schema itself, or why it can not be used.
    Compiled(Compiled),
}

/// Why a result is not what its tool promises.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputError {
    /// The tool has an output schema, and the result nothing structured.
    Missing,
    /// What is structured is not what the schema describes, or that can not be told.
    Value(CheckError),
    /// The schema can not be used.
    Schema(SchemaError),
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no structured result where the tool promises one"),
            Self::Value(error) => write!(f, "the structured result does not fit the output schema: {error}"),
            Self::Schema(error) => write!(f, "the structured result can not be checked: {error}"),
        }
    }
}

impl core::error::Error for OutputError {}

impl Default for OutputSchemas {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl OutputSchemas {
    /// Nothing yet; schemas and checks are held to these bounds.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            tools: BTreeMap::new(),
            listed: BTreeMap::new(),
            next: 0,
            bytes: 0,
            compiled: VecDeque::new(),
        }
    }

    /// Takes note of tools that were listed, one page or all of them. Those that were not stay as they are.
    pub fn learn(&mut self, tools: &[Tool]) {
        for tool in tools {
            let known = self.tools.get(&tool.name);
            match (&tool.output_schema, known) {
                (Some(schema), Some(entry)) if entry.text == *schema => {}
                (None, None) => {}
                (schema, _) => {
                    self.forget(&tool.name);
                    if let Some(schema) = schema {
                        self.remember(tool.name.clone(), schema.clone());
                    }
                }
            }
        }
    }

    /// Checks the result of a call: its structured part, unless the tool failed.
    ///
    /// # Errors
    /// If it is not what the tool promises.
    pub fn check(&mut self, tool: &str, result: &CallToolResult) -> Result<(), OutputError> {
        let schema = match self.look_up(tool) {
            Lookup::Unknown => return Ok(()),
            Lookup::Compiled(schema) => schema,
            Lookup::Text(text) => {
                let compiled = self.compile(&text);
                self.store_compiled(tool, &text, compiled.clone());
                compiled
            }
        };
        check(&schema, result)
    }

    pub(crate) fn look_up(&self, tool: &str) -> Lookup {
        match self.tools.get(tool) {
            None => Lookup::Unknown,
            Some(Entry { compiled: Some(schema), .. }) => Lookup::Compiled(schema.clone()),
            Some(Entry { text, compiled: None, .. }) => Lookup::Text(text.clone()),
        }
    }

    /// What schemas and checks are held to.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn compile(&self, text: &Json) -> Compiled {
        compile(text, &self.bounds)
    }

    /// Keeps what came of compiling `text`, unless the tool has another schema by now.
    pub(crate) fn store_compiled(&mut self, tool: &str, text: &Json, schema: Compiled) {
        let Some(entry) = self.tools.get_mut(tool).filter(|entry| entry.text == *text) else { return };
        if entry.compiled.replace(schema).is_some() {
            return;
        }
        self.compiled.push_back(tool.to_string());
        if self.compiled.len() > COMPILED
            && let Some(entry) = self.compiled.pop_front().and_then(|oldest| self.tools.get_mut(&oldest))
        {
            entry.compiled = None;
        }
    }

    fn remember(&mut self, name: String, text: Json) {
        let bytes = size(&name, &text);
        if bytes > BYTES {
            return;
        }
        while self.tools.len() >= TOOLS || self.bytes.saturating_add(bytes) > BYTES {
            let Some((_, oldest)) = self.listed.pop_first() else { break };
            self.forget(&oldest);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        let place = self.next;
        self.next = place.saturating_add(1);
        self.listed.insert(place, name.clone());
        self.tools.insert(name, Entry { text, place, compiled: None });
    }

    fn forget(&mut self, name: &str) {
        let Some(entry) = self.tools.remove(name) else { return };
        self.bytes = self.bytes.saturating_sub(size(name, &entry.text));
        self.listed.remove(&entry.place);
        if entry.compiled.is_some() {
            self.compiled.retain(|compiled| compiled != name);
        }
    }
}

impl fmt::Debug for OutputSchemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tools.keys()).finish()
    }
}

fn size(name: &str, text: &Json) -> usize {
    name.len().saturating_add(text.as_str().len())
}

pub(crate) fn compile(text: &Json, bounds: &Bounds) -> Compiled {
    Arc::new(Schema::compile(text, bounds))
}

/// Checks a result against its tool's schema.
pub(crate) fn check(
    schema: &Result<Schema, SchemaError>,
    result: &CallToolResult,
) -> Result<(), OutputError> {
    if result.failed() {
        return Ok(());
    }
    let schema = schema.as_ref().map_err(|error| OutputError::Schema(error.clone()))?;
    check_structured(schema, result)
}

/// Checks a result that is no failure against a schema.
pub(crate) fn check_structured(schema: &Schema, result: &CallToolResult) -> Result<(), OutputError> {
    if result.failed() {
        return Ok(());
    }
    let structured = result.structured_content.as_ref().ok_or(OutputError::Missing)?;
    schema.check(structured).map_err(OutputError::Value)
}
