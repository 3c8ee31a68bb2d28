//! Preparation of a schema for the compiler: checks its limits, finds its dialects, and guards and weighs its references.

use jsonschema::Draft;
use serde_json::{Map, Value, json};

use crate::codec::percent_decode;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::rpc::json_value::JsonValue;

/// The keyword that guards a reference. Its value is the reference.
pub(super) const GUARD: &str = "mcp-proto:guard";

/// The longest schema, in bytes of its text: the largest schemas of real tools are a tenth of that.
const SCHEMA_BYTES: usize = 256 * 1024;

/// How deep arrays and objects may nest in a schema, which uses two levels for each level of the value that it describes.
const SCHEMA_DEPTH: usize = 64;

/// How deep schemas with `unevaluated` keywords may nest: each level doubles the work.
const UNEVALUATED: usize = 4;

/// The divisor of [`Bounds::references`] for a schema with `unevaluated` keywords.
const REFERENCES_UNEVALUATED: usize = 4;

/// Prepares a schema: the guarded schema, its dialect and its contents.
pub(super) fn prepare(text: &str, bounds: &Bounds) -> Result<(Value, Dialect, Contents), SchemaError> {
    if text.len() > SCHEMA_BYTES {
        return Err(SchemaError::Bound(Bound::Bytes));
    }
    // The text is valid JSON: the parser can only refuse its depth.
    let read = serde_json::from_str(text).map_err(|_| SchemaError::Bound(Bound::Depth))?;
    let JsonValue::<false>(mut schema) = read;
    //= C1.23 "JSON Schema 2020-12 supported and assumed where `$schema` is absent"
    //= S1.13 "Schema rules (2020-12"
    let dialect = named_dialect(&schema)?.unwrap_or(Dialect::Draft2020_12);
    let mut contents = Contents::default();
    let start = WalkPosition { depth: 0, unevaluated: 0, dialect };
    contents.visit(&mut schema, KeywordContent::Schema, start, bounds)?;
    if contents.unevaluated && contents.guarded > bounds.references / REFERENCES_UNEVALUATED {
        return Err(SchemaError::Bound(Bound::References));
    }
    Ok((schema, dialect, contents))
}

/// The dialect that a schema's `$schema` names.
fn named_dialect(schema: &Value) -> Result<Option<Dialect>, SchemaError> {
    match schema.get("$schema") {
        Some(Value::String(uri)) => match Dialect::from_uri(uri) {
            Some(dialect) => Ok(Some(dialect)),
            //= C1.23 "unknown dialect → clear error, not a crash"
            None => Err(SchemaError::Dialect { uri: uri.clone() }),
        },
        _ => Ok(None),
    }
}

/// The position of the walk.
#[derive(Clone, Copy)]
struct WalkPosition {
    depth: usize,
    /// The number of enclosing schemas with `unevaluated` keywords.
    unevaluated: usize,
    dialect: Dialect,
}

/// What a schema contains, as far as it was visited.
#[derive(Default)]
pub(super) struct Contents {
    /// The number of JSON values in it.
    pub(super) values: usize,
    guarded: usize,
    /// The number of regular expressions in it.
    pub(super) patterns: usize,
    unevaluated: bool,
    /// Whether a reference has a guard that does not bound the work when the validator searches for all errors.
    pub(super) is_inexplicable: bool,
    /// The distinct references in it.
    pub(super) references: OrderedSet<String>,
}

impl Contents {
    fn visit(
        &mut self,
        value: &mut Value,
        content: KeywordContent,
        mut position: WalkPosition,
        bounds: &Bounds,
    ) -> Result<(), SchemaError> {
        count(&mut self.values, bounds.values, Bound::Values)?;
        let deeper = position.depth.saturating_add(1);
        //= S1.13 "bounds"
        if deeper > SCHEMA_DEPTH {
            return Err(SchemaError::Bound(Bound::Depth));
        }
        if content == KeywordContent::Schema && value.is_object() {
            position.dialect = named_dialect(value)?.unwrap_or(position.dialect);
            if ["unevaluatedProperties", "unevaluatedItems"].iter().any(|key| value.get(key).is_some()) {
                self.unevaluated = true;
                count(&mut position.unevaluated, UNEVALUATED, Bound::Unevaluated)?;
            }
        }
        position.depth = deeper;
        match value {
            Value::Array(items) => {
                items.iter_mut().try_for_each(|item| self.visit(item, content, position, bounds))
            }
            Value::Object(fields) => {
                for (key, field) in fields.iter_mut() {
                    if content == KeywordContent::Schema {
                        self.patterns = self.patterns.saturating_add(patterns(key, field));
                        if self.patterns > bounds.patterns {
                            return Err(SchemaError::Bound(Bound::Patterns));
                        }
                    }
                    self.visit(field, content.for_keyword(key), position, bounds)?;
                }
                match content {
                    KeywordContent::Schema => self.guard(fields, position.dialect, bounds.references),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Guards the references of a schema: moves them into an `allOf`, which has the same meaning.
    fn guard(
        &mut self,
        fields: &mut Map<String, Value>,
        dialect: Dialect,
        most: usize,
    ) -> Result<(), SchemaError> {
        if dialect.ignores_beside_references() && fields.get("$ref").is_some_and(Value::is_string) {
            fields.retain(|key, _| matches!(key.as_str(), "$ref" | "$schema" | "$defs" | "definitions"));
        }
        let mut guarded = Vec::new();
        for keyword in REFERENCES {
            let Some(Value::String(reference)) = fields.get(keyword) else { continue };
            count(&mut self.guarded, most, Bound::References)?;
            if steps(reference).is_some_and(|steps| !is_schema_path(&steps)) {
                return Err(SchemaError::Reference { reference: reference.clone() });
            }
            self.references.insert(reference.clone());
            guarded.push(if dialect.has_conditions() {
                json!({ "if": { GUARD: reference }, "then": { keyword: reference }, "else": false })
            } else {
                // `is_valid` stops at the guard, but a search for all errors evaluates both parts.
                self.is_inexplicable = true;
                json!({ "allOf": [{ GUARD: reference }, { keyword: reference }] })
            });
            fields.remove(keyword);
        }
        if guarded.is_empty() {
            return Ok(());
        }
        match fields.get_mut("allOf") {
            // At the end, so that references to the existing elements stay valid.
            Some(Value::Array(all)) => all.append(&mut guarded),
            Some(_) => {
                let reason = "`allOf` is not a list".to_owned();
                return Err(SchemaError::Invalid { pointer: String::new(), reason });
            }
            None => {
                fields.insert("allOf".to_owned(), Value::Array(guarded));
            }
        }
        Ok(())
    }
}

fn count(counted: &mut usize, most: usize, bound: Bound) -> Result<(), SchemaError> {
    *counted = counted.saturating_add(1);
    if *counted > most { Err(SchemaError::Bound(bound)) } else { Ok(()) }
}

// --- References ---

/// The kind of value that a keyword of a schema has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeywordContent {
    /// A schema or a list of schemas. Unknown keywords count as schemas, since references may lead into them.
    Schema,
    /// An object of schemas by name.
    Named,
    /// Values that are not schemas.
    Data,
}

impl KeywordContent {
    /// The kind of the value of `key` within a value of this kind.
    fn for_keyword(self, key: &str) -> Self {
        match self {
            Self::Data => Self::Data,
            Self::Named => Self::Schema,
            Self::Schema => match key {
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies" => Self::Named,
                "enum" | "const" | "default" | "examples" | "required" | "dependentRequired"
                | "$vocabulary" => Self::Data,
                _ => Self::Schema,
            },
        }
    }
}

/// The keywords by which a schema refers to another.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The steps of a reference's JSON Pointer; `None` if it has none, or its percent-encoding or UTF-8 is not valid.
pub(super) fn steps(reference: &str) -> Option<Vec<String>> {
    let (_, fragment) = reference.split_once('#')?;
    if !(fragment.is_empty() || fragment.starts_with('/')) {
        return None;
    }
    fragment.split('/').skip(1).map(step).collect()
}

fn step(segment: &str) -> Option<String> {
    let text = String::from_utf8(percent_decode(segment)?).ok()?;
    Some(text.replace("~1", "/").replace("~0", "~"))
}

/// Whether these steps lead to a schema, rather than into data or to a collection of schemas.
fn is_schema_path(steps: &[String]) -> bool {
    let end = steps.iter().fold(KeywordContent::Schema, |content, step| content.for_keyword(step));
    end == KeywordContent::Schema
}

/// Follows steps from the root of a document.
pub(super) fn follow<'a>(root: &'a Value, steps: &[String]) -> Option<&'a Value> {
    steps.iter().try_fold(root, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The weight of a schema, without the definitions in it.
pub(super) fn weight(schema: &Value) -> Weight {
    let mut weight = Weight::default();
    weigh(schema, &mut weight);
    weight
}

/// The number of regular expressions in the value of a keyword, without those of its subschemas.
fn patterns(key: &str, value: &Value) -> usize {
    match (key, value) {
        ("pattern", _) => 1,
        ("patternProperties", Value::Object(fields)) => fields.len(),
        _ => 0,
    }
}

pub(super) fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn weigh(schema: &Value, weight: &mut Weight) {
    weight.values = weight.values.saturating_add(1);
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                if matches!(key.as_str(), "$defs" | "definitions") {
                    continue;
                }
                weight.patterns = weight.patterns.saturating_add(wide(patterns(key, value)));
                weigh(value, weight);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| weigh(item, weight)),
        _ => {}
    }
}

/// The size of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// The number of values in it, itself included.
    values: u64,
    /// The bytes of all strings in it.
    bytes: u64,
}

impl Size {
    /// Measures a value, and stops after `most` values.
    pub(super) fn of(value: &Value, most: u64) -> Self {
        let mut size = Self::default();
        size.add(value, most);
        size
    }

    fn add(&mut self, value: &Value, most: u64) {
        self.values = self.values.saturating_add(1);
        match value {
            Value::String(text) => self.add_text(text),
            Value::Array(items) => {
                for item in items {
                    if self.values > most {
                        return;
                    }
                    self.add(item, most);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    if self.values > most {
                        return;
                    }
                    self.add_text(name);
                    self.add(field, most);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn add_text(&mut self, text: &str) {
        self.bytes = self.bytes.saturating_add(wide(text.len()));
    }
}

/// The size of a schema, without the targets of its references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    /// The number of values in it, itself included.
    pub(super) values: u64,
    /// The number of regular expressions in it.
    pub(super) patterns: u64,
}

impl Weight {
    /// A weight that exceeds every budget.
    pub(super) const UNBEARABLE: Self = Self { values: u64::MAX, patterns: 0 };

    /// The most steps that a value of this size can cost: each part of the value is compared with each part of the
    /// schema, and each regular expression reads the value's strings byte by byte.
    pub(super) fn steps(self, size: Size) -> u64 {
        let compared = size.values.saturating_add(size.bytes / 64).saturating_mul(self.values);
        compared.saturating_add(size.bytes.saturating_mul(self.patterns))
    }
}

// Limits of schemas and checks, dialects, and why a schema cannot be used.

config! {
    /// Limits of schemas and checks. A schema or value over a limit is refused, never accepted unchecked.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/index#composition-keyword-resource-use>
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Bounds {
        /// How many JSON values a schema may consist of: subschemas and all values of their keywords.
        ///
        /// Default 20,000.
        pub values: usize = 20_000,

        /// How many references a schema may have.
        ///
        /// Default 1,000. With `unevaluatedProperties` or `unevaluatedItems` it is a quarter of that, because the
        /// references are followed once more for these.
        pub references: usize = 1000,

        /// How many regular expressions a schema may have. The program of each is bounded to 128 KiB.
        ///
        /// Default 64: 8 MiB at most for one schema.
        pub patterns: usize = 64,

        /// The longest value that is checked, in bytes of its text.
        ///
        /// Default 8 MiB.
        pub instance_bytes: usize = 8 * 1024 * 1024,

        /// How many steps one check may take: about one for each comparison of a part of the schema with a part of the
        /// value, and one for each byte that a regular expression reads.
        ///
        /// Default 50 million: about a second, many times the work of checking real results.
        pub steps: u64 = 50_000_000,
    }
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bound {
    /// The length of the schema's or the value's text.
    Bytes,
    /// The depth of nesting, or of references that lead into one another.
    Depth,
    /// The number of values in the schema.
    Values,
    /// The number of references in the schema.
    References,
    /// The number of regular expressions in the schema.
    Patterns,
    /// The depth to which schemas with `unevaluatedProperties` or `unevaluatedItems` are nested.
    Unevaluated,
    /// The work of a check.
    Steps,
}

display_text! { Bound:
    Bytes => "it is too long";
    Depth => "it nests too deeply";
    Values => "it has too many parts";
    References => "it has too many references";
    Patterns => "it has too many regular expressions";
    Unevaluated => "it nests `unevaluated` keywords too deeply";
    Steps => "the check takes too much work";
}

/// A dialect of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// Draft 4.
    Draft4,
    /// Draft 6.
    Draft6,
    /// Draft 7.
    Draft7,
    /// 2019-09.
    Draft2019_09,
    /// 2020-12: the default of a schema without `$schema`.
    Draft2020_12,
}

/// The validator's name of each dialect.
const DRAFTS: [(Dialect, Draft); 5] = [
    (Dialect::Draft4, Draft::Draft4),
    (Dialect::Draft6, Draft::Draft6),
    (Dialect::Draft7, Draft::Draft7),
    (Dialect::Draft2019_09, Draft::Draft201909),
    (Dialect::Draft2020_12, Draft::Draft202012),
];

impl Dialect {
    /// The dialect that `$schema` names.
    pub fn from_uri(uri: &str) -> Option<Self> {
        let named = Draft::from_schema_uri(uri);
        DRAFTS.into_iter().find(|(_, draft)| *draft == named).map(|(dialect, _)| dialect)
    }

    pub(super) fn draft(self) -> Draft {
        DRAFTS
            .into_iter()
            .find(|(dialect, _)| *dialect == self)
            .map_or(Draft::Draft202012, |(_, draft)| draft)
    }

    /// Whether it has `if`, `then` and `else`.
    pub(super) const fn has_conditions(self) -> bool {
        !matches!(self, Self::Draft4 | Self::Draft6)
    }

    /// Whether the dialect ignores the keywords beside a `$ref`.
    pub(super) const fn ignores_beside_references(self) -> bool {
        matches!(self, Self::Draft4 | Self::Draft6 | Self::Draft7)
    }
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// The schema's dialect is not supported: see [the list](super#dialects).
    Dialect {
        /// The value of `$schema`.
        uri: String,
    },
    /// The schema refers to an outside schema, which is never fetched, or to a missing target.
    Reference {
        /// The reference, as far as it is known.
        reference: String,
    },
    /// The schema is not valid in its dialect, or has a regular expression that is not supported.
    Invalid {
        /// The invalid part of the schema, as a JSON Pointer; empty for the whole schema.
        pointer: String,
        /// Why that part is not valid.
        reason: String,
    },
    /// The schema exceeds a limit.
    Bound(Bound),
    /// The validator panicked on the schema.
    Failed,
}

error_text! { SchemaError:
    Dialect { uri } => "the dialect {uri:?} of JSON Schema is not supported";
    Reference { reference } => "the schema refers to {reference:?}, which is not part of it";
    Invalid { pointer, reason } if pointer.is_empty() => "the schema is not valid: {reason}";
    Invalid { pointer, reason } => "the schema is not valid at {pointer}: {reason}";
    Bound(bound) => "the schema exceeds a limit: {bound}";
    Failed => "the validator failed on the schema";
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use serde_json::json;

    use super::*;

    #[test]
    fn references_have_their_pointer_in_the_fragment() {
        assert_eq!(steps("#"), Some(Vec::new()));
        assert_eq!(steps("#/$defs/a~1b/%7E0c"), Some(["$defs", "a/b", "~c"].map(str::to_owned).to_vec()));
        assert_eq!(steps("http://a/b#/x"), Some(["x".to_owned()].to_vec()));
        for without in ["", "other.json", "#anchor", "#/%zz", "#/%"] {
            assert_eq!(steps(without), None, "{without}");
        }
    }

    /// C1.27
    #[test]
    fn references_lead_only_to_schemas() {
        let leads = |reference: &str| is_schema_path(&steps(reference).unwrap());
        for schema in
            ["#", "#/$defs/a", "#/properties/const", "#/allOf/0", "#/x-mine", "#/items/properties/enum"]
        {
            assert!(leads(schema), "{schema}");
        }
        for other in
            ["#/const", "#/enum/0", "#/properties", "#/$defs/a/default/b", "#/properties/a/const/$ref"]
        {
            assert!(!leads(other), "{other}");
        }
    }

    #[test]
    fn schema_weight_excludes_definitions() {
        let weighed = |schema| (weight(&schema).values, weight(&schema).patterns);
        assert_eq!(weighed(json!({"type": "string", "enum": ["a", "b"]})), (5, 0));
        assert_eq!(weighed(json!({"type": "string", "$defs": {"a": {"pattern": "a"}}})), (2, 0));
        assert_eq!(weighed(json!({"pattern": "a", "patternProperties": {"b": true, "c": true}})), (5, 3));
    }
}
