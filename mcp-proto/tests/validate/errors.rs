//! What is said of a value that does not match.

use super::*;

/// C9.7
#[test]
fn an_error_says_where_and_what_and_not_the_value() {
    let schema = schema(json!({
        "type": "object",
        "properties": {"list": {"items": {"type": "object", "properties": {"a~/b": {"type": "number"}}}}},
        "required": ["list"],
        "additionalProperties": false,
    }));
    let (at, why) = mismatch(&schema, json!({"list": [{}, {"a~/b": "secret"}]}));
    assert_eq!((at.as_str(), why.as_str()), ("/list/1/a~0~1b", r#"value is not of type "number""#));
    let (at, why) = mismatch(&schema, json!({}));
    assert_eq!((at.as_str(), why.as_str()), ("", r#""list" is a required property"#));
    let (_, why) = mismatch(&schema, json!({"list": [], "more": 1}));
    assert!(why.contains("'more'"), "{why}");
    // Neither do references change what is said, nor is told how they are guarded.
    let schema = super::schema(json!({
        "$defs": {"a": {"properties": {"a": {"not": {"$ref": "#/$defs/a"}}}}},
        "anyOf": [{"$ref": "#/$defs/a"}],
    }));
    let (_, why) = mismatch(&schema, json!({"a": {}}));
    assert!(!why.contains("guard"), "{why}");
}

#[test]
fn an_error_is_short_whatever_it_is_about() {
    let long = "é".repeat(10_000);
    let (_, why) = mismatch(
        &schema(json!({"properties": {"a": true}, "additionalProperties": false})),
        json!({&long: 1}),
    );
    assert!(why.len() < 600 && why.ends_with('…'), "{}", why.len());
    let (at, _) = mismatch(&schema(json!({"additionalProperties": {"type": "string"}})), json!({&long: 1}));
    assert!(at.len() < 600);
    let Err(SchemaError::Reference { reference }) =
        compile(json!({"$ref": format!("#/{}", "a".repeat(10_000))}))
    else {
        panic!()
    };
    assert!(reference.len() < 600);
}
