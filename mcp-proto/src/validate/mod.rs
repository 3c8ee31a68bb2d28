//! Validation of tool arguments and structured results against JSON Schemas.
//!
//! With the feature `schema-validate`, a [`Router`](crate::front::Router) checks the arguments of a tool before its
//! handler runs, and the handler's result against the tool's output schema; a [`Client`](crate::front::Client) checks
//! structured results against the output schema that the server listed. A program that drives the state machines itself
//! uses [`Schema`] and [`OutputSchemas`].
//!
//! ```
//! use mcp_proto::schema::Json;
//! use mcp_proto::validate::{Bounds, Schema};
//!
//! let schema = Json::new(r#"{"type": "object", "properties": {"degrees": {"type": "number"}}}"#)?;
//! let schema = Schema::compile(&schema, &Bounds::default())?;
//! assert!(schema.check(&Json::new(r#"{"degrees": 21.5}"#)?).is_ok());
//! let error = schema.check(&Json::new(r#"{"degrees": "warm"}"#)?).unwrap_err();
//! assert_eq!(error.to_string(), r#"/degrees: value is not of type "number""#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Dialects
//!
//! The supported dialects are JSON Schema 2020-12, which is the default of a schema without `$schema`, 2019-09,
//! draft-07, draft-06 and draft-04. A schema in another dialect is refused: [`SchemaError::Dialect`].
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/index#json-schema-usage>
//!
//! - `format` is an annotation, in every dialect: no value is refused for it.
//! - Regular expressions must match in linear time: a schema with look-around or back-references in a pattern is
//!   refused.
//! - Nothing is ever fetched. A reference must lead into the schema itself or to the meta-schema of its dialect; any
//!   other makes the schema unusable: [`SchemaError::Reference`].
//!
//! # Hostile schemas
//!
//! A client compiles schemas that its server wrote, and a few lines of JSON can describe more work than a computer will
//! ever do. [`Bounds`] limits the size of a schema and the work of one check: beyond it, both end with
//! [`SchemaError::Bound`] or [`CheckError::Bound`]. Work is counted in steps, not measured by a clock, so that the same
//! input always has the same outcome.

mod compile;
mod prepare;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;

use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::schema::{CallToolResult, Json, Tool};

pub use compile::{CheckError, Schema};
pub use prepare::{Bound, Bounds, Dialect, SchemaError};

// The output schemas of a server's tools, by which a client checks their results.

/// The greatest number of tools remembered.
const TOOLS: usize = 4096;

/// The greatest size of their names and schemas together, in bytes.
const BYTES: usize = 4 * 1024 * 1024;

/// The greatest number of schemas kept compiled: few tools are in use, and a compiled schema may be large.
const COMPILED: usize = 32;

/// The output schemas of a server's tools, as the server listed them.
///
/// Schemas are compiled when they are first needed. Beyond 4,096 tools or 4 MiB of schemas, the schemas that were
/// listed first are forgotten, and the results of their tools pass unchecked.
///
/// ```
/// use mcp_proto::schema::{CallToolResult, Tool};
/// use mcp_proto::validate::{OutputError, OutputSchemas};
/// use serde_json::json;
///
/// let mut schemas = OutputSchemas::default();
/// let output = json!({"type": "object", "required": ["degrees"]});
/// schemas.learn(&[Tool::new("weather", "", json!({"type": "object"})).with_output_schema(output)]);
/// let result = CallToolResult::from_structured(&json!({"degrees": 21.5}))?;
/// assert!(schemas.check("weather", &result).is_ok());
/// assert_eq!(schemas.check("weather", &CallToolResult::text("warm")), Err(OutputError::Missing));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub struct OutputSchemas {
    bounds: Bounds,
    tools: OrderedMap<String, Entry>,
    /// The tools' names, in the order in which they were listed.
    listed: OrderedMap<u64, String>,
    /// The next key in `listed`.
    next: u64,
    bytes: usize,
    /// The names of the tools with a compiled schema, the oldest first.
    compiled: VecDeque<String>,
}

struct Entry {
    text: Json,
    /// The key in `listed`.
    place: u64,
    compiled: Option<Compiled>,
}

type Compiled = Arc<Result<Schema, SchemaError>>;

/// A tool's output schema, as far as it is known and compiled.
pub(crate) enum Lookup {
    /// The tool has no output schema, or is not known.
    Unknown,
    /// The text of the schema: compile it and [store](OutputSchemas::store_compiled) the result.
    Text(Json),
    /// The compiled schema, or why it cannot be used.
    Compiled(Compiled),
}

/// Why a result does not match its tool's output schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputError {
    /// The tool has an output schema, but the result has no structured content.
    Missing,
    /// The structured content is not an object, as it must be up to 2025-11-25.
    NotAnObject,
    /// The structured content does not match the schema, or cannot be checked.
    Value(CheckError),
    /// The schema cannot be used.
    Schema(SchemaError),
}

error_text! { OutputError:
    Missing => "the tool has an output schema, but its result has no structured content";
    NotAnObject => "the structured result of a server before 2026-07-28 must be an object";
    Value(error) => "the structured result does not fit the output schema: {error}";
    Schema(error) => "the structured result cannot be checked: {error}";
}

impl Default for OutputSchemas {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl OutputSchemas {
    /// An empty collection with these limits of schemas and checks.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            tools: OrderedMap::new(),
            listed: OrderedMap::new(),
            next: 0,
            bytes: 0,
            compiled: VecDeque::new(),
        }
    }

    /// Learns the output schemas of listed tools, one page or all of them. Other tools keep their schemas.
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

    /// Checks the structured content of a call's result, unless the tool failed.
    ///
    /// # Errors
    /// If the result does not match the tool's output schema: see [`OutputError`].
    pub fn check(&mut self, tool: &str, result: &CallToolResult) -> Result<(), OutputError> {
        let schema = match self.look_up(tool) {
            Lookup::Unknown => return Ok(()),
            Lookup::Compiled(schema) => schema,
            Lookup::Text(text) => {
                let compiled = compile(&text, &self.bounds);
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

    /// The limits of schemas and checks.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Stores the compiled form of `text`, unless the tool has another schema by now.
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

/// Checks a result against its tool's schema, unless the tool failed.
pub(crate) fn check(
    schema: &Result<Schema, SchemaError>,
    result: &CallToolResult,
) -> Result<(), OutputError> {
    match schema {
        Err(error) if !result.failed() => Err(OutputError::Schema(error.clone())),
        Ok(schema) => check_structured(schema, result),
        Err(_) => Ok(()),
    }
}

/// Checks a result's structured content against a schema, unless the tool failed.
pub(crate) fn check_structured(schema: &Schema, result: &CallToolResult) -> Result<(), OutputError> {
    if result.failed() {
        return Ok(());
    }
    let structured = result.structured_content.as_ref().ok_or(OutputError::Missing)?;
    schema.check(structured).map_err(OutputError::Value)
}
