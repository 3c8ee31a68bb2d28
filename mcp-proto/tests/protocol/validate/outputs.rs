//! Checks of tool results against the tools' output schemas.

use super::*;

fn tool(name: &str, output: Option<Value>) -> Tool {
    let tool = Tool::new(name, "", json!({"type": "object"}));
    match output {
        Some(output) => tool.with_output_schema(output),
        None => tool,
    }
}

fn structured(value: Value) -> CallToolResult {
    CallToolResult::from_structured(&value).unwrap()
}

/// C9.7
#[test]
fn client_checks_results_against_the_schema_listed_last() {
    let mut schemas = OutputSchemas::default();
    let result = structured(json!({"a": 1}));
    assert_eq!(schemas.check("t", &result), Ok(()));
    schemas.learn(&[tool("t", Some(json!({"required": ["a"]})))]);
    assert_eq!(schemas.check("t", &result), Ok(()));
    schemas.learn(&[tool("t", Some(json!({"required": ["b"]})))]);
    assert!(matches!(schemas.check("t", &result), Err(OutputError::Value(CheckError::Mismatch { .. }))));
    // Another page.
    schemas.learn(&[tool("u", None)]);
    assert!(schemas.check("t", &result).is_err());
    schemas.learn(&[tool("t", None)]);
    assert_eq!(schemas.check("t", &result), Ok(()));
}

/// C9.7
#[test]
fn structured_content_may_be_any_json_value() {
    let mut schemas = OutputSchemas::default();
    for (schema, fits, other) in [
        (json!({"type": "array"}), json!([1]), json!({})),
        (json!({"type": "null"}), json!(null), json!(0)),
        (json!({"type": "number"}), json!(95.5), json!("95.5")),
        (json!(true), json!(1), json!(null)),
    ] {
        schemas.learn(&[tool("t", Some(schema.clone()))]);
        assert_eq!(schemas.check("t", &structured(fits)), Ok(()));
        assert_eq!(schemas.check("t", &structured(other)).is_ok(), schema == true);
    }
}

/// C9.7
#[test]
fn only_successful_results_need_structured_content() {
    let mut schemas = OutputSchemas::default();
    schemas
        .learn(&[tool("t", Some(json!({"type": "object"}))), tool("odd", Some(json!({"$schema": "urn:x"})))]);
    assert_eq!(schemas.check("t", &CallToolResult::error("no")), Ok(()));
    assert_eq!(schemas.check("t", &CallToolResult::text("yes")), Err(OutputError::Missing));
    assert_eq!(schemas.check("odd", &CallToolResult::error("no")), Ok(()));
    let unusable = OutputError::Schema(SchemaError::Dialect { uri: "urn:x".into() });
    assert_eq!(schemas.check("odd", &structured(json!({}))), Err(unusable.clone()));
    assert_eq!(
        unusable.to_string(),
        r#"the structured result cannot be checked: the dialect "urn:x" of JSON Schema is not supported"#
    );
}

/// C1.27
#[test]
fn output_schemas_forget_the_oldest_beyond_their_limits() {
    let mut schemas = OutputSchemas::default();
    let large =
        |n: usize| tool(&format!("t{n}"), Some(json!({"description": "a".repeat(200_000), "const": n})));
    schemas.learn(&(0..40).map(large).collect::<Vec<_>>());
    let wrong = structured(json!(-1));
    assert_eq!(schemas.check("t0", &wrong), Ok(()), "forgotten");
    assert!(schemas.check("t39", &wrong).is_err());
    let small = |n: usize| tool(&format!("s{n}"), Some(json!({"const": n})));
    schemas.learn(&(0..5000).map(small).collect::<Vec<_>>());
    assert_eq!(schemas.check("t39", &wrong), Ok(()));
    assert_eq!(schemas.check("s0", &wrong), Ok(()));
    // More schemas than the cache of compiled ones holds.
    for n in (4900..5000).chain(4900..5000) {
        assert!(schemas.check(&format!("s{n}"), &wrong).is_err());
        assert_eq!(schemas.check(&format!("s{n}"), &structured(json!(n))), Ok(()));
    }
}
