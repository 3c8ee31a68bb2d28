//! Finds the marked parameters of an input schema in one pass.
//!
//! A mark is a keyword of a schema: an `x-mcp-header` that is the name of a property, or part of an example, is none.

use alloc::borrow::Cow;

use memchr::memmem;

use super::{Param, ParamHeaders, Properties, display_path};
use crate::prelude::*;
use crate::rpc::JsonStr;
use crate::rpc::json_reader::{NotJson, Reader};
use crate::transport::http::header::PARAM_PREFIX;

const MARK: &str = "x-mcp-header";
/// The nesting of a schema that is refused, as serde_json refuses it.
const MAX_DEPTH: usize = 128;

/// Why a tool cannot be called over HTTP: a parameter has an invalid `x-mcp-header` mark.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParamHeaderError {
    /// The input schema is not JSON.
    Schema(String),
    /// The mark is not a string.
    NotText {
        /// The mark's path in the schema.
        at: String,
    },
    /// The mark is empty, or contains characters that header names do not allow.
    Name {
        /// The mark's path in the schema.
        at: String,
        /// The mark.
        name: String,
    },
    /// Another parameter has the same mark, ignoring case.
    Duplicate {
        /// The mark's path in the schema.
        at: String,
        /// The mark.
        name: String,
    },
    /// The parameter's declared type is not string, integer or boolean.
    Type {
        /// The mark's path in the schema.
        at: String,
    },
    /// The mark is not on a parameter, or keywords other than `properties` lead to that parameter.
    Unreachable {
        /// The mark's path in the schema.
        at: String,
    },
    /// More parameters are marked than [`ParamHeaders::MAX_HEADERS`](super::ParamHeaders::MAX_HEADERS).
    TooMany,
}

error_text! { ParamHeaderError:
    Schema(error) => "its input schema cannot be read: {error}";
    NotText { at } => "the x-mcp-header of {at} is not text";
    Name { at, name } => "the x-mcp-header of {at} cannot be the name of a header: {name:?}";
    Duplicate { at, name } => "the x-mcp-header of {at} is that of another parameter: {name:?}";
    Type { at } =>
        "{at} has an x-mcp-header, and is declared neither as a string nor as an integer nor as a boolean";
    Unreachable { at } => "{at} has an x-mcp-header, and is not reached through properties alone";
    TooMany => "more than {} parameters have an x-mcp-header", super::ParamHeaders::MAX_HEADERS;
}

pub(super) fn read(schema: &str) -> Result<Option<ParamHeaders>, ParamHeaderError> {
    // With an escape in it, the name is still the same.
    let may_be_marked =
        [MARK, "\\u"].iter().any(|part| memmem::find(schema.as_bytes(), part.as_bytes()).is_some());
    if !may_be_marked {
        return Ok(None);
    }
    let mut marks =
        SchemaReader { reader: Reader::new(schema), names: Vec::new(), path: Vec::new(), depth: 0 };
    let root = marks.value(SchemaPosition::Root).and_then(|root| {
        marks.reader.end()?;
        Ok(root)
    });
    match root {
        Err(Some(error)) => Err(error),
        Err(None) => Err(ParamHeaderError::Schema(Reader::error(schema).to_string())),
        Ok(_) if marks.names.is_empty() => Ok(None),
        Ok(Param { properties, .. }) => Ok(Some(ParamHeaders { names: marks.names, root: properties })),
    }
}

/// A reader's error, which `Reader::error` describes.
impl From<NotJson> for Option<ParamHeaderError> {
    fn from(NotJson: NotJson) -> Self {
        None
    }
}

struct SchemaReader<'a> {
    reader: Reader<'a>,
    names: Vec<Box<str>>,
    /// The path of the current position in the schema.
    path: Vec<Cow<'a, str>>,
    /// The number of objects and lists around it.
    depth: usize,
}

impl<'a> SchemaReader<'a> {
    fn path_text(&self) -> String {
        match display_path(self.path.iter().map(|name| &**name)) {
            root if root.is_empty() => "the root".into(),
            at => at,
        }
    }

    //= S8.9 "x-mcp-header constraints (C4)"
    /// Adds the mark of the current parameter; returns the index of its header.
    fn add_mark(&mut self, mark: &str) -> Result<usize, ParamHeaderError> {
        let at = || self.path_text();
        let Ok(JsonStr(name)) = serde_json::from_str(mark) else {
            return Err(ParamHeaderError::NotText { at: at() });
        };
        //= C4.11 "empty, not a token, has CTL/CR/LF"
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(ParamHeaderError::Name { at: at(), name: display_path([&*name]) });
        }
        //= C4.11 "not unique case-insensitively"
        let is_taken = |taken: &&str| taken.eq_ignore_ascii_case(&name);
        if self
            .names
            .iter()
            .filter_map(|taken| taken.strip_prefix(PARAM_PREFIX))
            .any(|taken| is_taken(&taken))
        {
            return Err(ParamHeaderError::Duplicate { at: at(), name: display_path([&*name]) });
        }
        let index = self.names.len();
        if index >= ParamHeaders::MAX_HEADERS {
            return Err(ParamHeaderError::TooMany);
        }
        let mut full = String::with_capacity(PARAM_PREFIX.len().saturating_add(name.len()));
        full.push_str(PARAM_PREFIX);
        full.extend(name.chars().map(|char| char.to_ascii_lowercase()));
        self.names.push(full.into());
        Ok(index)
    }

    /// Reads the value at the reader.
    ///
    /// # Errors
    /// If a mark breaks the rules; `None` if the text is not JSON.
    fn value(&mut self, position: SchemaPosition) -> Result<Param, Option<ParamHeaderError>> {
        let first = self.reader.first_byte()?;
        if !matches!(first, b'{' | b'[') {
            self.reader.skip()?;
            return Ok(Param::default());
        }
        self.reader.enter(first)?;
        self.depth = self.depth.saturating_add(1);
        if self.depth >= MAX_DEPTH {
            return Err(Some(ParamHeaderError::Schema("recursion limit exceeded".into())));
        }
        let param = match position {
            _ if first == b'[' => self.list()?,
            SchemaPosition::Root | SchemaPosition::Parameter | SchemaPosition::Elsewhere => {
                self.schema(position)?
            }
            SchemaPosition::Parameters => self.named(SchemaPosition::Parameter)?,
            SchemaPosition::NamedSchemas => self.named(SchemaPosition::Elsewhere)?,
        };
        self.depth = self.depth.saturating_sub(1);
        Ok(param)
    }

    fn child(
        &mut self,
        name: Cow<'a, str>,
        position: SchemaPosition,
    ) -> Result<Param, Option<ParamHeaderError>> {
        self.path.push(name);
        let param = self.value(position)?;
        self.path.pop();
        Ok(param)
    }

    fn list(&mut self) -> Result<Param, Option<ParamHeaderError>> {
        let mut is_first = true;
        while self.reader.item(&mut is_first, b']')? {
            self.value(SchemaPosition::Elsewhere)?;
        }
        Ok(Param::default())
    }

    /// Reads the members of a schema.
    fn schema(&mut self, position: SchemaPosition) -> Result<Param, Option<ParamHeaderError>> {
        let (mut param, mut is_simple, mut is_first) = (Param::default(), false, true);
        while let Some(keyword) = self.reader.name(&mut is_first)? {
            match &*keyword {
                //= C4.11 "or not statically reachable through `properties`"
                MARK if position != SchemaPosition::Parameter => {
                    return Err(Some(ParamHeaderError::Unreachable { at: self.path_text() }));
                }
                MARK => {
                    let mark = self.reader.skip()?;
                    param.header_index = Some(self.add_mark(mark)?);
                }
                "type" => is_simple = is_simple_type(self.reader.skip()?),
                name => match position.for_keyword(name) {
                    Some(SchemaPosition::Parameters) => {
                        param.properties = self.child(keyword, SchemaPosition::Parameters)?.properties
                    }
                    Some(other) => drop(self.child(keyword, other)?),
                    None => _ = self.reader.skip()?,
                },
            }
        }
        //= C4.11 "not on string/integer/boolean"
        if param.header_index.is_some() && !is_simple {
            return Err(Some(ParamHeaderError::Type { at: self.path_text() }));
        }
        Ok(param)
    }

    /// Reads an object of schemas by name.
    fn named(&mut self, position: SchemaPosition) -> Result<Param, Option<ParamHeaderError>> {
        let (mut below, mut is_first) = (Properties::default(), true);
        while let Some(name) = self.reader.name(&mut is_first)? {
            let key = (position == SchemaPosition::Parameter).then(|| Box::from(&*name));
            let param = self.child(name, position)?;
            // Of a repeated name, the last one counts.
            match key {
                Some(key) if param.header_index.is_some() || !param.properties.0.is_empty() => {
                    below.0.insert(key, param);
                }
                Some(key) => drop(below.0.remove(&key)),
                None => {}
            }
        }
        Ok(Param { header_index: None, properties: below })
    }
}

/// The kind of value at a position in a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    /// The whole schema.
    Root,
    /// The schema of a parameter.
    Parameter,
    /// A schema that applies to no single parameter, or only conditionally; or an array of such schemas.
    Elsewhere,
    /// An object of schemas by parameter name.
    Parameters,
    /// An object of schemas by other names.
    NamedSchemas,
}

impl SchemaPosition {
    /// Returns the position that a keyword's value is at; `None` if the value is no schema.
    fn for_keyword(self, keyword: &str) -> Option<Self> {
        match keyword {
            "properties" if self == Self::Elsewhere => Some(Self::NamedSchemas),
            "properties" => Some(Self::Parameters),
            "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions" => {
                Some(Self::NamedSchemas)
            }
            "items"
            | "additionalItems"
            | "prefixItems"
            | "unevaluatedItems"
            | "contains"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "contentSchema"
            | "allOf"
            | "anyOf"
            | "oneOf"
            | "not"
            | "if"
            | "then"
            | "else" => Some(Self::Elsewhere),
            _ => None,
        }
    }
}

/// Returns whether `type` allows only strings, integers, booleans and null, and not null alone.
fn is_simple_type(declared: &str) -> bool {
    let is_simple = |JsonStr(name): &JsonStr<'_>| matches!(&**name, "string" | "integer" | "boolean");
    if let Ok(one) = serde_json::from_str(declared) {
        return is_simple(&one);
    }
    let Ok(several) = serde_json::from_str::<Vec<JsonStr<'_>>>(declared) else { return false };
    several.iter().any(is_simple) && several.iter().all(|name| is_simple(name) || &*name.0 == "null")
}

/// Returns whether a byte may occur in a token:
/// <https://www.rfc-editor.org/rfc/rfc9110.html#section-5.6.2>
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
