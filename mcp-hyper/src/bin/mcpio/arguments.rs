//! Converts typed arguments to JSON of the types in the tool's input schema.
//!
//! `@FILE` stands for the contents of a file, `-` for all arguments from standard input, `@@` for an `@`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io;

use mcp_proto::consent::SafeText;
use serde_json::{Map, Value, json};

/// The arguments of a tool, from `KEY=VALUE`, `KEY:=JSON` or one JSON object.
pub(crate) fn for_tool(typed: &[String], schema: &Value) -> Result<Map<String, Value>, String> {
    if let Some(object) = whole_object(typed)? {
        return Ok(object);
    }
    let mut arguments = Map::new();
    for pair in typed {
        let (key, value) = match split(pair)? {
            (key, ArgumentValue::Json(value)) => (key, value),
            (key, ArgumentValue::Text(text)) => {
                let property = property(schema, key)?;
                let value = convert(&text, &SchemaTypes::from_schema(property, schema, false))
                    .map_err(|why| format!("{key}: {why}"))?;
                (key, value)
            }
        };
        match (arguments.get_mut(key), value) {
            // A repeated key extends its list.
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (Some(_), _) => return Err(format!("{key} is given twice")),
            (None, value) => drop(arguments.insert(key.to_owned(), value)),
        }
    }
    Ok(arguments)
}

/// The arguments of a prompt: all of them are text.
pub(crate) fn for_prompt(typed: &[String]) -> Result<Map<String, Value>, String> {
    let arguments = for_tool(typed, &json!({ "additionalProperties": { "type": "string" } }))?;
    match arguments.iter().find(|(_, value)| !value.is_string()) {
        Some((key, _)) => Err(format!("{key}: prompt arguments must be text")),
        None => Ok(arguments),
    }
}

/// All arguments in one JSON object: typed, from a file or from standard input.
fn whole_object(typed: &[String]) -> Result<Option<Map<String, Value>>, String> {
    let [word] = typed else { return Ok(None) };
    let (text, source) = if word == "-" {
        let text = io::read_to_string(io::stdin()).map_err(|error| format!("standard input: {error}"))?;
        (Cow::Owned(text), "standard input")
    } else if word.starts_with('@') && !word.contains('=') {
        (expand(word)?, word.as_str())
    } else if word.trim_start().starts_with('{') {
        (Cow::Borrowed(word.as_str()), "this")
    } else {
        return Ok(None);
    };
    serde_json::from_str(&text).map(Some).map_err(|error| format!("{source} is not a JSON object: {error}"))
}

/// `@FILE` as the contents of the file, `@@TEXT` as `@TEXT`, and anything else as it is.
fn expand(text: &str) -> Result<Cow<'_, str>, String> {
    match text.strip_prefix('@') {
        Some(escaped) if escaped.starts_with('@') => Ok(Cow::Borrowed(escaped)),
        Some(file) => fs::read_to_string(file).map(Cow::Owned).map_err(|error| format!("{file}: {error}")),
        None => Ok(Cow::Borrowed(text)),
    }
}

enum ArgumentValue<'a> {
    Text(Cow<'a, str>),
    Json(Value),
}

fn split(pair: &str) -> Result<(&str, ArgumentValue<'_>), String> {
    let (key, text) = pair.split_once('=').ok_or_else(|| {
        format!("{pair:?} is not an argument: write KEY=VALUE, KEY:=JSON or one JSON object")
    })?;
    let name = key.strip_suffix(':').unwrap_or(key);
    let text = expand(text).map_err(|why| format!("{name}: {why}"))?;
    if name == key {
        return Ok((key, ArgumentValue::Text(text)));
    }
    let value = serde_json::from_str(&text).map_err(|error| format!("{name}: not valid JSON: {error}"))?;
    Ok((name, ArgumentValue::Json(value)))
}

/// The schema of a key; an error if the schema allows no such key.
fn property<'a>(schema: &'a Value, key: &str) -> Result<&'a Value, String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(property) = properties.and_then(|properties| properties.get(key)) {
        return Ok(property);
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => {
            let known = properties.into_iter().flat_map(Map::keys).map(String::as_str);
            Err(format!("unknown argument {key:?}{}", suggest(key, known)))
        }
        Some(additional) => Ok(additional),
        None => Ok(&Value::Null),
    }
}

/// The JSON types that a schema allows, as far as simple keywords show them.
#[derive(Debug)]
struct SchemaTypes<'a> {
    types: Vec<&'a str>,
    choices: Vec<&'a Value>,
    items: Option<&'a Value>,
    root: &'a Value,
    /// Whether this is an item of a list that was separated by commas.
    is_item: bool,
}

/// How many parts of a schema are read: a server can send far more than any value needs.
const MAX_PARTS: usize = 1024;

impl<'a> SchemaTypes<'a> {
    fn from_schema(schema: &'a Value, root: &'a Value, is_item: bool) -> Self {
        let mut wanted = Self { types: Vec::new(), choices: Vec::new(), items: None, root, is_item };
        // A schema may refer to itself, and to one part from many places: each part counts once.
        let mut seen: BTreeSet<*const Value> = BTreeSet::new();
        let mut waiting = vec![schema];
        while let Some(schema) = waiting.pop().filter(|_| seen.len() < MAX_PARTS) {
            if !seen.insert(schema) {
                continue;
            }
            wanted.add(schema);
            // The last is read first.
            for key in ["allOf", "oneOf", "anyOf"] {
                waiting.extend(schema.get(key).and_then(Value::as_array).into_iter().flatten().rev());
            }
            let pointer = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
            waiting.extend(pointer.and_then(|pointer| root.pointer(pointer)));
        }
        wanted
    }

    /// Adds what the schema itself says, without the schemas that it refers to.
    fn add(&mut self, schema: &'a Value) {
        match schema.get("type") {
            Some(Value::String(name)) => self.types.push(name),
            Some(Value::Array(names)) => self.types.extend(names.iter().filter_map(Value::as_str)),
            _ => {}
        }
        self.choices.extend(schema.get("enum").and_then(Value::as_array).into_iter().flatten());
        self.choices.extend(schema.get("const"));
        self.items = self.items.or(schema.get("items"));
    }

    fn allows(&self, name: &str) -> bool {
        self.types.contains(&name)
    }
}

/// Reads `text` as the most specific type that the schema allows.
fn convert(text: &str, wanted: &SchemaTypes<'_>) -> Result<Value, String> {
    // Quotes around a text are part of it.
    let json: Option<Value> = serde_json::from_str(text).ok().filter(|json: &Value| !json.is_string());
    if let Some(choice) = wanted.choices.iter().find(|choice| choice.as_str() == Some(text)) {
        return Ok((*choice).clone());
    }
    if let Some(json) = &json
        && wanted.choices.contains(&json)
    {
        return Ok(json.clone());
    }
    if wanted.types.is_empty() {
        // Without a type, text that parses as JSON is JSON.
        return Ok(json.unwrap_or_else(|| text.into()));
    }
    if let Some(json) = json {
        let name = match &json {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if wanted.allows("integer") && is_whole(number) => "integer",
            Value::Number(_) => "number",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            Value::String(_) => "string",
        };
        if wanted.allows(name) {
            return Ok(json);
        }
    }
    if wanted.allows("string") {
        return Ok(text.into());
    }
    if wanted.allows("array") && !wanted.is_item {
        return list(text, wanted);
    }
    Err(format!("{text:?} is not {}", either(wanted.types.iter().map(|name| described(name)))))
}

fn is_whole(number: &serde_json::Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// A list separated by commas.
fn list(text: &str, wanted: &SchemaTypes<'_>) -> Result<Value, String> {
    let item = SchemaTypes::from_schema(wanted.items.unwrap_or(&Value::Null), wanted.root, true);
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts.map(|part| convert(part.trim(), &item)).collect::<Result<Vec<_>, _>>().map(Value::from)
}

fn described(name: &str) -> &str {
    match name {
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "object" => "an object (write KEY:='{…}')",
        "array" => "a list (write KEY:='[…]')",
        other => other,
    }
}

/// Least similarity of two names to suggest one for the other.
const ALIKE: f64 = 0.75;

/// How many names an error lists.
const SHOWN: usize = 8;

/// Suggests names similar to `wrong`, or else lists the known ones.
pub(crate) fn suggest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> String {
    // Names come from a peer: none may begin a line of its own.
    let known: Vec<String> = known.map(|name| SafeText::line(name).to_string()).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let likeness = |name: &str| strsim::jaro_winkler(&wrong.to_lowercase(), &name.to_lowercase());
    let mut alike: Vec<(f64, &str)> = known.iter().map(|name| (likeness(name), *name)).collect();
    alike.retain(|(likeness, name)| *likeness >= ALIKE || name.contains(wrong));
    alike.sort_by(|one, other| other.0.total_cmp(&one.0));
    alike.truncate(3);
    match (alike.is_empty(), known.as_slice()) {
        (false, _) => format!("; did you mean {}?", either(alike.into_iter().map(|(_, name)| name))),
        (true, []) => "; the list of names is empty".to_owned(),
        (true, known) if known.len() <= SHOWN => format!("; known names are {}", known.join(", ")),
        (true, [..]) => {
            let shown: Vec<&str> = known.iter().copied().take(SHOWN).collect();
            format!("; known names are {} and {} more", shown.join(", "), known.len() - SHOWN)
        }
    }
}

/// `a, b or c`.
fn either<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [some @ .., last] => format!("{} or {last}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn tool(words: &[&str], schema: Value) -> Result<Value, String> {
        for_tool(&typed(words), &schema).map(Value::Object)
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "count": {"type": "integer"},
                "ratio": {"type": "number"},
                "deep": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "sizes": {"type": "array", "items": {"$ref": "#/$defs/size"}},
                "filter": {"type": "object"},
                "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "level": {"enum": ["low", "high", 3]},
                "any": {}
            },
            "additionalProperties": false,
            "$defs": {"size": {"type": "integer"}}
        })
    }

    #[test]
    fn values_take_the_types_of_the_schema() {
        let words = ["text=5", "count=5", "ratio=5", "deep=true", "limit=null", "level=high", "any=[1]"];
        let expected = json!({
            "text": "5", "count": 5, "ratio": 5, "deep": true, "limit": null, "level": "high", "any": [1]
        });
        assert_eq!(tool(&words, schema()), Ok(expected));
    }

    #[test]
    fn lists_accept_commas_repetition_and_json() {
        let expected = json!({"tags": ["a", "b", "c"], "sizes": [1, 2]});
        assert_eq!(tool(&["tags=a,b", "tags=c", "sizes=1,2"], schema()), Ok(expected));
        assert_eq!(tool(&[r#"tags=["a,b"]"#], schema()), Ok(json!({"tags": ["a,b"]})));
        assert_eq!(tool(&["tags="], schema()), Ok(json!({"tags": []})));
    }

    #[test]
    fn conversion_rejects_a_value_of_the_wrong_type() {
        for (word, why) in [
            ("count=five", "count: \"five\" is not a whole number"),
            ("count=5.5", "count: \"5.5\" is not a whole number"),
            ("deep=yes", "deep: \"yes\" is not true or false"),
            ("sizes=1,x", "sizes: \"x\" is not a whole number"),
            ("limit=x", "limit: \"x\" is not a whole number or null"),
        ] {
            assert_eq!(tool(&[word], schema()), Err(why.to_owned()));
        }
    }

    #[test]
    fn error_for_an_unknown_key_suggests_similar_keys() {
        let error = tool(&["cuont=1"], schema()).unwrap_err();
        assert!(error.contains("count"), "{error}");
        assert_eq!(tool(&["x=1", "y=z"], json!({"type": "object"})), Ok(json!({"x": 1, "y": "z"})));
    }

    #[test]
    fn json_values_stay_unchanged() {
        assert_eq!(
            tool(&["text:=5", "filter:={\"a\":1}"], schema()),
            Ok(json!({"text": 5, "filter": {"a": 1}}))
        );
        assert_eq!(tool(&["{\"count\":\"5\"}"], schema()), Ok(json!({"count": "5"})));
        assert!(tool(&["text:=five"], schema()).unwrap_err().contains("not valid JSON"));
        assert!(tool(&["{"], schema()).is_err());
    }

    #[test]
    fn values_and_whole_objects_can_come_from_files() {
        let folder = std::env::temp_dir().join(format!("mcp-arguments-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (text, json) = (folder.join("text"), folder.join("json"));
        fs::write(&text, "5\n").unwrap();
        fs::write(&json, "{\"a\":1}").unwrap();
        let (text, json) = (text.to_str().unwrap(), json.to_str().unwrap());
        let words = [&format!("text=@{text}"), &format!("count=@{text}"), &format!("filter:=@{json}")];
        let expected = json!({"text": "5\n", "count": 5, "filter": {"a": 1}});
        assert_eq!(tool(&words.map(String::as_str), schema()), Ok(expected));
        assert_eq!(tool(&[&format!("@{json}")], json!({})), Ok(json!({"a": 1})));
        assert_eq!(tool(&["text=@@ada"], schema()), Ok(json!({"text": "@ada"})));
        for word in [format!("text=@{text}.none"), format!("@{text}"), format!("@{text}.none")] {
            assert!(tool(&[&word], schema()).unwrap_err().contains(text), "{word}");
        }
        assert_eq!(for_prompt(&typed(&[&format!("a=@{text}")])).unwrap()["a"], "5\n");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn values_may_contain_equals_signs_and_keys_may_not_repeat() {
        assert_eq!(tool(&["text=a=b:=c"], schema()), Ok(json!({"text": "a=b:=c"})));
        assert_eq!(tool(&["text=a", "text=b"], schema()), Err("text is given twice".to_owned()));
        assert!(tool(&["text"], schema()).unwrap_err().contains("KEY=VALUE"));
    }

    #[test]
    fn conversion_ends_for_a_schema_that_refers_to_itself() {
        let schema = json!({"properties": {"a": {"$ref": "#/properties/a"}}});
        assert_eq!(tool(&["a=1"], schema), Ok(json!({"a": 1})));
    }

    #[test]
    fn conversion_reads_each_part_of_a_schema_once() {
        let many = |reference: &str| vec![json!({"$ref": reference}); 100];
        let schema = json!({
            "properties": {"a": {"anyOf": many("#/$defs/b")}},
            "$defs": {
                "b": {"oneOf": many("#/$defs/c")},
                "c": {"allOf": many("#/$defs/b"), "type": "integer", "anyOf": many("#/properties/a")}
            }
        });
        assert_eq!(tool(&["a=1"], schema), Ok(json!({"a": 1})));
        let wide = json!({"properties": {"a": {"anyOf": vec![json!({"enum": ["x"]}); 100_000]}}});
        assert_eq!(tool(&["a=x"], wide), Ok(json!({"a": "x"})));
    }

    #[test]
    fn items_of_a_list_that_are_lists_must_be_json() {
        let schema = json!({"properties": {"a": {"type": "array", "items": {"$ref": "#/properties/a"}}}});
        let error = tool(&["a=x"], schema.clone()).unwrap_err();
        assert_eq!(error, "a: \"x\" is not a list (write KEY:='[…]')");
        assert_eq!(tool(&["a=[[]]"], schema), Ok(json!({"a": [[]]})));
    }

    #[test]
    fn arguments_of_prompts_are_text() {
        assert_eq!(for_prompt(&typed(&["name=5"])).map(Value::Object), Ok(json!({"name": "5"})));
        assert!(for_prompt(&typed(&["name:=5"])).is_err());
        assert!(for_prompt(&typed(&["{\"name\":5}"])).is_err());
    }

    #[test]
    fn suggestion_names_the_most_similar() {
        let known = ["echo", "add", "count", "get-sum"];
        assert_eq!(suggest("ehco", known.into_iter()), "; did you mean echo?");
        assert_eq!(suggest("sum", known.into_iter()), "; did you mean get-sum?");
    }

    #[test]
    fn suggestion_lists_a_bounded_number_of_known_names() {
        assert_eq!(suggest("zzz", ["echo", "add"].into_iter()), "; known names are echo, add");
        assert_eq!(suggest("zzz", [].into_iter()), "; the list of names is empty");
        let many: Vec<String> = (0..20).map(|number| format!("tool{number}")).collect();
        assert!(suggest("zzz", many.iter().map(String::as_str)).ends_with("and 12 more"));
    }

    #[test]
    fn suggested_names_stay_on_one_line() {
        let text = suggest("echo", ["ech\nmcp: run\x1b[2J"].into_iter());
        assert_eq!(text, "; known names are ech\\nmcp: run\\u{1b}[2J");
    }

    #[test]
    fn names_are_joined_as_in_a_sentence() {
        assert_eq!(either(["a", "b", "c"].into_iter()), "a, b or c");
        assert_eq!(either(["a"].into_iter()), "a");
    }
}
