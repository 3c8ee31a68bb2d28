//! Finds the marked parameters of an input schema in one pass.
//!
//! A mark is a keyword of a schema: an `x-mcp-header` that is the name of a property, or part of an example, is none.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use memchr::memmem;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Param, ParamHeaderError, ParamHeaders, Properties, display_path};
use crate::rpc::JsonStr;
use crate::transport::http::header::PARAM_PREFIX;

const MARK: &str = "x-mcp-header";

pub(super) fn read(schema: &str) -> Result<Option<ParamHeaders>, ParamHeaderError> {
    // With an escape in it, the name is still the same.
    let may_be_marked =
        [MARK, "\\u"].iter().any(|part| memmem::find(schema.as_bytes(), part.as_bytes()).is_some());
    if !may_be_marked {
        return Ok(None);
    }
    let mut walk = ToolSchemaWalk { names: Vec::new(), path: Vec::new(), error: None };
    let mut text = serde_json::Deserializer::from_str(schema);
    let root = SchemaNode { walk: &mut walk, position: SchemaPosition::Root }.deserialize(&mut text);
    let root = root.and_then(|root| text.end().map(|()| root));
    match (root, walk.error) {
        (_, Some(error)) => Err(error),
        (Err(error), None) => Err(ParamHeaderError::Schema(error.to_string())),
        (Ok(_), None) if walk.names.is_empty() => Ok(None),
        (Ok(Param { properties: below, .. }), None) => {
            Ok(Some(ParamHeaders { names: walk.names, root: below }))
        }
    }
}

struct ToolSchemaWalk<'de> {
    names: Vec<Box<str>>,
    /// The path of the current position in the schema.
    path: Vec<Cow<'de, str>>,
    error: Option<ParamHeaderError>,
}

impl ToolSchemaWalk<'_> {
    /// Records the error and ends the walk.
    fn fail<E: serde::de::Error>(&mut self, error: ParamHeaderError) -> E {
        self.error = Some(error);
        E::custom("invalid")
    }

    fn path_text(&self) -> String {
        match display_path(self.path.iter().map(|name| &**name)) {
            root if root.is_empty() => "the root".into(),
            at => at,
        }
    }

    //= S8.9 "x-mcp-header constraints (C4)"
    /// Adds the mark of the current parameter; returns the index of its header.
    fn add_mark(&mut self, mark: &RawValue) -> Result<usize, ParamHeaderError> {
        let at = || self.path_text();
        let Ok(JsonStr(name)) = serde_json::from_str(mark.get()) else {
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

struct SchemaNode<'w, 'de> {
    walk: &'w mut ToolSchemaWalk<'de>,
    position: SchemaPosition,
}

impl<'de> SchemaNode<'_, 'de> {
    /// Reads the members of a schema.
    fn schema<A: MapAccess<'de>>(self, mut map: A) -> Result<Param, A::Error> {
        let Self { walk, position: place } = self;
        let mut param = Param::default();
        let mut is_simple = false;
        while let Some(JsonStr(keyword)) = map.next_key()? {
            match &*keyword {
                //= C4.11 "or not statically reachable through `properties`"
                MARK if place != SchemaPosition::Parameter => {
                    let at = walk.path_text();
                    return Err(walk.fail(ParamHeaderError::Unreachable { at }));
                }
                MARK => {
                    let mark: &RawValue = map.next_value()?;
                    param.header_index = Some(walk.add_mark(mark).map_err(|error| walk.fail(error))?);
                }
                "type" => is_simple = is_simple_type(map.next_value()?),
                name => match place.for_keyword(name) {
                    Some(SchemaPosition::Parameters) => {
                        param.properties =
                            walk.child(&mut map, keyword, SchemaPosition::Parameters)?.properties
                    }
                    Some(other) => drop(walk.child(&mut map, keyword, other)?),
                    None => drop(map.next_value::<IgnoredAny>()?),
                },
            }
        }
        //= C4.11 "not on string/integer/boolean"
        if param.header_index.is_some() && !is_simple {
            let at = walk.path_text();
            return Err(walk.fail(ParamHeaderError::Type { at }));
        }
        Ok(param)
    }

    /// Reads an object of schemas by name.
    fn named<A: MapAccess<'de>>(self, mut map: A, place: SchemaPosition) -> Result<Param, A::Error> {
        let mut below = Properties::default();
        while let Some(JsonStr(name)) = map.next_key()? {
            let key = (place == SchemaPosition::Parameter).then(|| Box::from(&*name));
            let param = self.walk.child(&mut map, name, place)?;
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

impl<'de> ToolSchemaWalk<'de> {
    fn child<A: MapAccess<'de>>(
        &mut self,
        map: &mut A,
        name: Cow<'de, str>,
        place: SchemaPosition,
    ) -> Result<Param, A::Error> {
        self.path.push(name);
        let param = map.next_value_seed(SchemaNode { walk: self, position: place })?;
        self.path.pop();
        Ok(param)
    }
}

impl<'de> DeserializeSeed<'de> for SchemaNode<'_, 'de> {
    type Value = Param;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Param, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SchemaNode<'_, 'de> {
    type Value = Param;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Param, A::Error> {
        match self.position {
            SchemaPosition::Root | SchemaPosition::Parameter | SchemaPosition::Elsewhere => self.schema(map),
            SchemaPosition::Parameters => self.named(map, SchemaPosition::Parameter),
            SchemaPosition::NamedSchemas => self.named(map, SchemaPosition::Elsewhere),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Param, A::Error> {
        while seq
            .next_element_seed(SchemaNode { walk: self.walk, position: SchemaPosition::Elsewhere })?
            .is_some()
        {}
        Ok(Param::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Param, E> {
        Ok(Param::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Param, E> {
        Ok(Param::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Param, E> {
        Ok(Param::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Param, E> {
        Ok(Param::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Param, E> {
        Ok(Param::default())
    }

    fn visit_unit<E>(self) -> Result<Param, E> {
        Ok(Param::default())
    }
}

/// Returns whether `type` allows only strings, integers, booleans and null, and not null alone.
fn is_simple_type(declared: &RawValue) -> bool {
    let is_simple = |JsonStr(name): &JsonStr<'_>| matches!(&**name, "string" | "integer" | "boolean");
    if let Ok(one) = serde_json::from_str(declared.get()) {
        return is_simple(&one);
    }
    let Ok(several) = serde_json::from_str::<Vec<JsonStr<'_>>>(declared.get()) else { return false };
    several.iter().any(is_simple) && several.iter().all(|name| is_simple(name) || &*name.0 == "null")
}

/// Returns whether a byte may occur in a token:
/// <https://www.rfc-editor.org/rfc/rfc9110.html#section-5.6.2>
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
