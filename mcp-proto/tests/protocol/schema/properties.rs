//! Reading any JSON neither panics nor loses data.

use mcp_proto::schema::{
    At, CallToolParams, CallToolResult, CompleteParams, CreateMessageParams, DiscoverResult, ElicitParams,
    GetPromptResult, InputRequiredResult, ListResourcesResult, ListToolsResult, ReadResourceResult, Revision,
    WriteAt, tasks,
};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Field names of the protocol, so that generated objects are nearly valid.
const NAMES: &[&str] = &[
    "name",
    "type",
    "text",
    "content",
    "tools",
    "inputSchema",
    "title",
    "annotations",
    "icons",
    "src",
    "uri",
    "resources",
    "contents",
    "blob",
    "mimeType",
    "data",
    "role",
    "messages",
    "maxTokens",
    "mode",
    "message",
    "url",
    "requestedSchema",
    "properties",
    "enum",
    "oneOf",
    "items",
    "method",
    "params",
    "inputRequests",
    "ref",
    "argument",
    "value",
    "arguments",
    "structuredContent",
    "_meta",
    "resultType",
    "ttlMs",
    "cacheScope",
    "extra",
    "capabilities",
    "supportedVersions",
    "taskId",
    "status",
    "createdAt",
    "lastUpdatedAt",
    "resource",
];

/// Values of the protocol, so that generated fields are nearly valid.
const WORDS: &[&str] = &[
    "text",
    "image",
    "audio",
    "resource",
    "resource_link",
    "tool_use",
    "tool_result",
    "user",
    "assistant",
    "form",
    "url",
    "string",
    "object",
    "array",
    "elicitation/create",
    "sampling/createMessage",
    "roots/list",
    "ref/prompt",
    "working",
    "complete",
    "input_required",
    "private",
    "é\n\"",
    "",
];

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => (-8000..8000).prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
        4 => prop::sample::select(WORDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        let fields = prop::collection::vec((prop::sample::select(NAMES), inner.clone()), 0..8);
        prop_oneof![
            1 => prop::collection::vec(inner, 0..5).prop_map(Value::from),
            3 => fields.prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

/// Whether `after` has all data of `before`.
///
/// `null` and the empty object carry no data; a list may have been `null`, and an integer may have had a fraction of
/// zero.
fn is_kept(before: &Value, after: &Value) -> bool {
    match (before, after) {
        // Other members than the method and its parameters are not kept, as in any JSON-RPC envelope.
        (Value::Object(before), Value::Object(after)) if is_request(before) => {
            before["method"] == after["method"]
                && before
                    .get("params")
                    .is_none_or(|params| is_nothing(params) || is_kept(params, &after["params"]))
        }
        (Value::Object(before), Value::Object(after)) => before.iter().all(|(name, value)| {
            let after = after.get(name);
            after.map_or(is_nothing(value), |after| is_nothing(value) || is_kept(value, after))
        }),
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len()
                && before.iter().zip(after).all(|(before, after)| is_kept(before, after))
        }
        (Value::Number(before), Value::Number(after)) => before.as_f64() == after.as_f64(),
        _ => before == after,
    }
}

fn is_request(value: &Map<String, Value>) -> bool {
    let methods = ["elicitation/create", "sampling/createMessage", "roots/list"];
    value.get("method").and_then(Value::as_str).is_some_and(|method| methods.contains(&method))
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

fn check<T: Serialize + DeserializeOwned + WriteAt + PartialEq + std::fmt::Debug>(value: &Value) {
    let Ok(read) = serde_json::from_str::<T>(&value.to_string()) else { return };
    let text = serde_json::to_string(&read).unwrap();
    let after = serde_json::from_str(&text).unwrap();
    assert!(is_kept(value, &after), "{value} became {after}");
    // Writing fixes the order of fields; a second round trip changes nothing.
    let again: T = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    for revision in Revision::ALL {
        let text = serde_json::to_string(&At(&read, *revision)).unwrap();
        serde_json::from_str::<T>(&text).unwrap();
    }
}

/// Collects the JSON pointers to every value within `value`.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                places(value, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Replaces one value within `value` by `odd`.
fn replaced(mut value: Value, at: &prop::sample::Index, odd: Value) -> Value {
    let mut found = Vec::new();
    places(&value, "", &mut found);
    let place: &String = at.get(&found);
    *value.pointer_mut(place).unwrap() = odd;
    value
}

fn page() -> Value {
    serde_json::json!({
        "tools": [
            {"name": "a", "inputSchema": {"type": "object"}, "icons": [{"src": "a:b"}], "_meta": {"k": 1}},
            {"name": "b", "inputSchema": {}, "annotations": {"title": "B", "readOnlyHint": true}}
        ],
        "nextCursor": "c", "ttlMs": 5, "cacheScope": "private", "resultType": "complete"
    })
}

fn tool_result() -> Value {
    serde_json::json!({
        "content": [
            {"type": "text", "text": "a", "annotations": {"audience": ["user"], "priority": 1}},
            {"type": "resource", "resource": {"uri": "a:b", "text": "t", "_meta": {"k": 1}}},
            {"data": "AA==", "mimeType": "audio/wav", "type": "audio"},
            {"type": "resource_link", "uri": "a:b", "name": "n", "size": 3}
        ],
        "structuredContent": {"a": [1]}, "isError": false
    })
}

fn input_required() -> Value {
    serde_json::json!({
        "resultType": "input_required", "requestState": "s",
        "inputRequests": {
            "form": {"method": "elicitation/create", "params": {
                "message": "m", "mode": "form",
                "requestedSchema": {"type": "object", "required": ["a"], "properties": {
                    "a": {"type": "string", "enum": ["x"]}, "b": {"type": "array", "items": {"anyOf": []}}
                }}
            }},
            "model": {"method": "sampling/createMessage", "params": {
                "messages": [{"role": "user", "content": [{"type": "tool_use", "id": "1", "name": "n", "input": {}}]}],
                "maxTokens": 5, "modelPreferences": {"hints": [{"name": "m"}]}
            }},
            "roots": {"method": "roots/list"}
        }
    })
}

proptest! {
    #[test]
    fn message_with_one_replaced_value_survives_a_round_trip(at in any::<prop::sample::Index>(), odd in json()) {
        check::<ListToolsResult>(&replaced(page(), &at, odd.clone()));
        check::<CallToolResult>(&replaced(tool_result(), &at, odd.clone()));
        check::<InputRequiredResult>(&replaced(input_required(), &at, odd));
    }

    #[test]
    fn one_invalid_block_does_not_affect_the_others(at in any::<prop::sample::Index>(), odd in json()) {
        let mut value = tool_result();
        let block = value["content"][1].take();
        value["content"][1] = replaced(block, &at, odd);
        let result: CallToolResult = serde_json::from_str(&value.to_string()).unwrap();
        prop_assert_eq!(result.content[0].as_text(), Some("a"));
        prop_assert_eq!(result.content.len(), 4);
    }

    #[test]
    fn every_readable_message_survives_a_round_trip(value in json()) {
        check::<CallToolParams>(&value);
        check::<CallToolResult>(&value);
        check::<CompleteParams>(&value);
        check::<CreateMessageParams>(&value);
        check::<DiscoverResult>(&value);
        check::<ElicitParams>(&value);
        check::<GetPromptResult>(&value);
        check::<InputRequiredResult>(&value);
        check::<ListResourcesResult>(&value);
        check::<ListToolsResult>(&value);
        check::<ReadResourceResult>(&value);
        check::<tasks::GetTaskResult>(&value);
    }

    #[test]
    fn content_of_any_json_is_read(value in prop::collection::vec(json(), 0..6)) {
        let text = serde_json::json!({"content": value}).to_string();
        let result: CallToolResult = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(result.content.len(), value.len());
        check::<CallToolResult>(&serde_json::json!({"content": value}));
    }

    #[test]
    fn truncated_text_is_an_error(value in json(), at in any::<prop::sample::Index>()) {
        let text = serde_json::json!({"content": [value]}).to_string();
        let cut: String = text.chars().take(at.index(text.chars().count())).collect();
        prop_assert!(serde_json::from_str::<CallToolResult>(&cut).is_err());
    }
}
