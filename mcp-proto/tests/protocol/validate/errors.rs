//! Errors for values that do not match.

use super::*;

/// C9.7
#[test]
fn mismatch_has_a_pointer_and_a_reason_without_the_value() {
    let schema = schema(json!({
        "type": "object",
        "properties": {"list": {"items": {"type": "object", "properties": {"a~/b": {"type": "number"}}}}},
        "required": ["list"],
        "additionalProperties": false,
    }));
    let (pointer, reason) = mismatch(&schema, json!({"list": [{}, {"a~/b": "secret"}]}));
    assert_eq!((pointer.as_str(), reason.as_str()), ("/list/1/a~0~1b", r#"value is not of type "number""#));
    let (pointer, reason) = mismatch(&schema, json!({}));
    assert_eq!((pointer.as_str(), reason.as_str()), ("", r#""list" is a required property"#));
    let (_, reason) = mismatch(&schema, json!({"list": [], "more": 1}));
    assert!(reason.contains("'more'"), "{reason}");
    // References do not change the reason, and it does not mention their guards.
    let schema = super::schema(json!({
        "$defs": {"a": {"properties": {"a": {"not": {"$ref": "#/$defs/a"}}}}},
        "anyOf": [{"$ref": "#/$defs/a"}],
    }));
    let (_, reason) = mismatch(&schema, json!({"a": {}}));
    assert!(!reason.contains("guard"), "{reason}");
}

#[test]
fn errors_are_short() {
    let long = "é".repeat(10_000);
    let (_, reason) = mismatch(
        &schema(json!({"properties": {"a": true}, "additionalProperties": false})),
        json!({&long: 1}),
    );
    assert!(reason.len() < 600 && reason.ends_with('…'), "{}", reason.len());
    let (pointer, _) =
        mismatch(&schema(json!({"additionalProperties": {"type": "string"}})), json!({&long: 1}));
    assert!(pointer.len() < 600);
    let Err(SchemaError::Reference { reference }) =
        compile(json!({"$ref": format!("#/{}", "a".repeat(10_000))}))
    else {
        panic!()
    };
    assert!(reference.len() < 600);
}
