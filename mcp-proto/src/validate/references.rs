//! Targets of references, as far as the text of a reference determines them.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::meter::Weight;

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
    pub(super) fn for_keyword(self, key: &str) -> Self {
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
pub(super) const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The steps of a reference's JSON Pointer; `None` if it has none, or its percent-encoding or UTF-8 is not valid.
pub(super) fn steps(reference: &str) -> Option<Vec<String>> {
    let (_, fragment) = reference.split_once('#')?;
    if !(fragment.is_empty() || fragment.starts_with('/')) {
        return None;
    }
    fragment.split('/').skip(1).map(step).collect()
}

fn step(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                (high << 4) | low
            }
            byte => byte,
        });
    }
    Some(String::from_utf8(bytes).ok()?.replace("~1", "/").replace("~0", "~"))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Whether these steps lead to a schema, rather than into data or to a collection of schemas.
pub(super) fn is_schema_path(steps: &[String]) -> bool {
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

fn weigh(schema: &Value, weight: &mut Weight) {
    weight.values = weight.values.saturating_add(1);
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                let patterns = match (key.as_str(), value) {
                    ("$defs" | "definitions", _) => continue,
                    ("patternProperties", Value::Object(fields)) => fields.len(),
                    ("pattern", _) => 1,
                    _ => 0,
                };
                let patterns = u64::try_from(patterns).unwrap_or(u64::MAX);
                weight.patterns = weight.patterns.saturating_add(patterns);
                weigh(value, weight);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| weigh(item, weight)),
        _ => {}
    }
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
