//! Preparation of a schema for the compiler: checks its limits, finds its dialects and guards its references.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::references::{self, KeywordContent, REFERENCES};
use super::{Bound, Bounds, Dialect, SchemaError};

/// The keyword that guards a reference. Its value is the reference.
pub(super) const GUARD: &str = "mcp-proto:guard";

/// How deep schemas with `unevaluated` keywords may nest: each level doubles the work.
const UNEVALUATED: usize = 4;

/// The divisor of [`Bounds::references`] for a schema with `unevaluated` keywords.
const REFERENCES_UNEVALUATED: usize = 4;

pub(super) struct PreparedSchema {
    pub(super) schema: Value,
    pub(super) dialect: Dialect,
    /// The distinct references in the schema.
    pub(super) references: BTreeSet<String>,
    /// The number of JSON values in it.
    pub(super) values: usize,
    /// The number of regular expressions in it.
    pub(super) patterns: usize,
    /// Whether the guards also bound the work when the validator searches for all errors.
    pub(super) explainable: bool,
}

pub(super) fn prepare(text: &str, bounds: &Bounds) -> Result<PreparedSchema, SchemaError> {
    if text.len() > bounds.schema_bytes {
        return Err(SchemaError::Bound(Bound::Bytes));
    }
    // The text is valid JSON: the parser can only refuse its depth.
    let mut schema: Value = serde_json::from_str(text).map_err(|_| SchemaError::Bound(Bound::Depth))?;
    //= C1.23 "JSON Schema 2020-12 supported and assumed where `$schema` is absent"
    //= S1.13 "Schema rules (2020-12"
    let dialect = named_dialect(&schema)?.unwrap_or(Dialect::Draft2020_12);
    let mut walk = SchemaWalk {
        bounds,
        values: 0,
        guarded: 0,
        patterns: 0,
        unevaluated: false,
        explainable: true,
        references: BTreeSet::new(),
    };
    walk.visit(&mut schema, KeywordContent::Schema, WalkPosition { depth: 0, unevaluated: 0, dialect })?;
    if walk.unevaluated && walk.guarded > bounds.references / REFERENCES_UNEVALUATED {
        return Err(SchemaError::Bound(Bound::References));
    }
    let SchemaWalk { references, values, patterns, explainable, .. } = walk;
    Ok(PreparedSchema { schema, dialect, references, values, patterns, explainable })
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

struct SchemaWalk<'a> {
    bounds: &'a Bounds,
    values: usize,
    guarded: usize,
    patterns: usize,
    unevaluated: bool,
    explainable: bool,
    references: BTreeSet<String>,
}

impl SchemaWalk<'_> {
    fn visit(
        &mut self,
        value: &mut Value,
        content: KeywordContent,
        mut position: WalkPosition,
    ) -> Result<(), SchemaError> {
        count(&mut self.values, self.bounds.values, Bound::Values)?;
        let deeper = position.depth.saturating_add(1);
        //= S1.13 "bounds"
        if deeper > self.bounds.schema_depth {
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
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.visit(item, content, position)),
            Value::Object(fields) => {
                for (key, field) in fields.iter_mut() {
                    if content == KeywordContent::Schema {
                        self.count_patterns(key, field)?;
                    }
                    self.visit(field, content.for_keyword(key), position)?;
                }
                if content == KeywordContent::Schema { self.guard(fields, position.dialect) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    fn count_patterns(&mut self, key: &str, value: &Value) -> Result<(), SchemaError> {
        let patterns = match (key, value) {
            ("pattern", _) => 1,
            ("patternProperties", Value::Object(fields)) => fields.len(),
            _ => return Ok(()),
        };
        self.patterns = self.patterns.saturating_add(patterns);
        if self.patterns > self.bounds.patterns {
            return Err(SchemaError::Bound(Bound::Patterns));
        }
        Ok(())
    }

    /// Guards the references of a schema: moves them into an `allOf`, which has the same meaning.
    fn guard(&mut self, fields: &mut Map<String, Value>, dialect: Dialect) -> Result<(), SchemaError> {
        if dialect.ignores_beside_references() && fields.get("$ref").is_some_and(Value::is_string) {
            fields.retain(|key, _| matches!(key.as_str(), "$ref" | "$schema" | "$defs" | "definitions"));
        }
        let mut guarded = Vec::new();
        for keyword in REFERENCES {
            let Some(Value::String(reference)) = fields.get(keyword) else { continue };
            count(&mut self.guarded, self.bounds.references, Bound::References)?;
            if references::steps(reference).is_some_and(|steps| !references::is_schema_path(&steps)) {
                return Err(SchemaError::Reference { reference: reference.clone() });
            }
            self.references.insert(reference.clone());
            guarded.push(if dialect.has_conditions() {
                json!({ "if": { GUARD: reference }, "then": { keyword: reference }, "else": false })
            } else {
                // `is_valid` stops at the guard, but a search for all errors evaluates both parts.
                self.explainable = false;
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
