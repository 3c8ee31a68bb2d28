//! The supported dialects and their detection by `$schema`.

use super::*;

/// C1.23, S1.13
#[test]
fn schema_without_dialect_is_2020_12() {
    let schema = schema(json!({"prefixItems": [{"type": "string"}], "items": false}));
    assert_eq!(schema.dialect(), Dialect::Draft2020_12);
    assert_eq!(schema.check(&json!(["a"]).into()), Ok(()));
    assert_eq!(mismatch(&schema, json!(["a", 1])).0, "/1");
    assert_eq!(mismatch(&schema, json!([1])).0, "/0");
}

/// C1.23, C1.24
#[test]
fn schema_follows_the_dialect_that_it_names() {
    // In 2019-09 and before, `items` may be a list of schemas.
    let tuple = |dialect: &str| json!({"$schema": dialect, "items": [{"type": "string"}]});
    let documented = [
        ("http://json-schema.org/draft-04/schema#", Dialect::Draft4),
        ("http://json-schema.org/draft-06/schema#", Dialect::Draft6),
        ("http://json-schema.org/draft-07/schema#", Dialect::Draft7),
        ("http://json-schema.org/draft-07/schema", Dialect::Draft7),
        ("https://json-schema.org/draft/2019-09/schema", Dialect::Draft2019_09),
    ];
    for (uri, dialect) in documented {
        let schema = schema(tuple(uri));
        assert_eq!(schema.dialect(), dialect);
        assert_eq!(mismatch(&schema, json!([1])).0, "/0", "{uri}");
    }
    let newest = "https://json-schema.org/draft/2020-12/schema";
    assert!(
        matches!(compile(tuple(newest)), Err(SchemaError::Invalid { pointer, .. }) if pointer == "/items")
    );
}

/// C1.24
#[test]
fn documentation_lists_the_supported_dialects() {
    let page = include_str!("../../../src/validate/mod.rs");
    let (_, list) = page.split_once("//! # Dialects").expect("the section of the dialects");
    let list = list.split("//! # ").next().unwrap_or_default();
    for dialect in ["2020-12, which is the default", "2019-09", "draft-07", "draft-06", "draft-04"] {
        assert!(list.contains(dialect), "{dialect}");
    }
}

/// C1.23
#[test]
fn compiler_refuses_unknown_dialects() {
    for uri in ["https://example.com/my-dialect", "http://json-schema.org/draft-03/schema#", "", "::"] {
        let error = compile(json!({"$schema": uri})).unwrap_err();
        assert_eq!(error, SchemaError::Dialect { uri: uri.into() });
        assert_eq!(error.to_string(), format!("the dialect {uri:?} of JSON Schema is not supported"));
    }
    let nested = json!({"$defs": {"a": {"$id": "urn:a", "$schema": "urn:mine"}}});
    assert_eq!(compile(nested).unwrap_err(), SchemaError::Dialect { uri: "urn:mine".into() });
}

/// C1.23
#[test]
fn compiler_refuses_schemas_invalid_in_their_dialect() {
    for (invalid, expected) in [
        (json!({"type": "text"}), "/type"),
        (json!({"properties": []}), "/properties"),
        (json!({"minLength": -1}), "/minLength"),
        (json!({"properties": {"a": {"required": "b"}}}), "/properties/a/required"),
        (json!({"properties": {"a": 1}}), "/properties/a"),
        (json!("text"), ""),
        (json!(null), ""),
    ] {
        let Err(SchemaError::Invalid { pointer, .. }) = compile(invalid.clone()) else { panic!("{invalid}") };
        assert_eq!(pointer, expected, "{invalid}");
    }
}

#[test]
fn old_dialects_ignore_keywords_beside_a_reference() {
    let mut old = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/a",
        "type": "array",
        "definitions": {"a": {"type": "string"}},
    });
    assert_eq!(schema(old.clone()).check(&json!("text").into()), Ok(()));
    old["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    assert_eq!(mismatch(&schema(old), json!("text")).0, "");
}

/// D6
#[test]
fn schema_distinguishes_numbers_from_integers() {
    let schema = schema(json!({"properties": {"n": {"type": "number"}, "i": {"type": "integer"}}}));
    assert_eq!(schema.check(&json!({"n": 95.5, "i": 5}).into()), Ok(()));
    assert_eq!(schema.check(&Json::new(r#"{"i": 5.0}"#).unwrap()), Ok(()));
    assert_eq!(mismatch(&schema, json!({"i": 95.5})).0, "/i");
}
