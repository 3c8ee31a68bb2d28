//! References lead into the schema itself, never outside.

use super::*;

/// C1.25, C1.26: the crate is built without any code that could fetch.
#[test]
fn compiler_refuses_external_references_without_fetching_them() {
    for outside in [
        "https://example.com/schema.json",
        "http://127.0.0.1:1/schema.json#/a",
        "http://[::1]/",
        "file:///etc/passwd",
        "ftp://example.com/a",
        "other.json",
        "../up",
        "//example.com/x",
    ] {
        for keyword in ["$ref", "$dynamicRef"] {
            let error = compile(json!({"properties": {"a": {keyword: outside}}})).unwrap_err();
            assert!(matches!(error, SchemaError::Reference { .. }), "{outside}: {error:?}");
            assert!(error.to_string().contains("which is not part of it"));
        }
    }
    let based = json!({"$id": "https://example.com/root", "properties": {"a": {"$ref": "leaf"}}});
    assert_eq!(
        compile(based).unwrap_err(),
        SchemaError::Reference { reference: "https://example.com/leaf".into() }
    );
}

/// C1.26
#[test]
fn compiler_refuses_references_without_a_target() {
    for nothing in ["#/$defs/b", "#b", "#/$defs/a/9", "#/%zz"] {
        let schema = json!({"$defs": {"a": []}, "anyOf": [true, {"$ref": nothing}]});
        let schema = json!({"$defs": {"a": {}}, "anyOf": schema["anyOf"]});
        assert!(matches!(compile(schema), Err(SchemaError::Reference { .. })), "{nothing}");
    }
}

/// C1.23
#[test]
fn compiler_resolves_internal_references() {
    let schema = schema(json!({
        "$id": "https://example.com/root",
        "$defs": {
            "word": {"$anchor": "word", "type": "string"},
            "a/b%": {"type": "integer"},
            "bundled": {"$id": "bundled", "$defs": {"x": {"const": 7}}, "type": "boolean"},
        },
        "properties": {
            "pointer": {"$ref": "#/$defs/word"},
            "anchor": {"$ref": "#word"},
            "escaped": {"$ref": "#/$defs/a~1b%25"},
            "whole": {"$ref": "https://example.com/root#/$defs/word"},
            "bundled": {"$ref": "bundled"},
            "within": {"$ref": "bundled#/$defs/x"},
            "again": {"$ref": "#"},
            "beside": {"$ref": "#/$defs/word", "minLength": 2, "allOf": [{"maxLength": 3}]},
            "place": {"$ref": "#/properties/beside/allOf/0"},
        },
    }));
    let fits = json!({
        "pointer": "a", "anchor": "a", "escaped": 1, "whole": "a", "bundled": true, "within": 7,
        "again": {"pointer": "b"}, "beside": "abc", "place": "abc",
    });
    assert_eq!(schema.check(&fits.into()), Ok(()));
    for (name, value) in [
        ("pointer", json!(1)),
        ("anchor", json!(1)),
        ("escaped", json!("a")),
        ("whole", json!(1)),
        ("bundled", json!(1)),
        ("within", json!(8)),
        ("beside", json!("a")),
        ("beside", json!("abcd")),
        ("place", json!("abcd")),
    ] {
        assert_eq!(mismatch(&schema, json!({name: value})).0, format!("/{name}"));
    }
    assert_eq!(mismatch(&schema, json!({"again": {"again": {"escaped": ""}}})).0, "/again/again/escaped");
}

#[test]
fn property_may_have_the_name_of_a_keyword() {
    let schema = schema(json!({
        "properties": {"$ref": {"type": "string"}, "const": {"type": "number"}, "$schema": {"type": "string"}},
        "enum": [{"$ref": "https://example.com"}, {"const": 1}, {"const": "a"}, {"$schema": "x"}],
    }));
    assert_eq!(schema.check(&json!({"$ref": "https://example.com"}).into()), Ok(()));
    assert_eq!(schema.check(&json!({"$schema": "x"}).into()), Ok(()));
    assert_eq!(mismatch(&schema, json!({"const": "a"})).0, "/const");
}

/// A tool may take a schema as its argument.
#[test]
fn compiler_knows_the_meta_schemas() {
    for dialect in ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
    {
        let schema = schema(json!({"$schema": dialect, "properties": {"schema": {"$ref": dialect}}}));
        let deep = (0..20).fold(json!({"type": "string"}), |inner, _| json!({"properties": {"a": inner}}));
        assert_eq!(schema.check(&json!({"schema": deep}).into()), Ok(()));
        let (at, _) = mismatch(&schema, json!({"schema": {"properties": {"a": {"type": "text"}}}}));
        assert_eq!(at, "/schema/properties/a/type");
    }
}

#[test]
fn guard_does_not_change_evaluated_properties() {
    let schema = schema(json!({
        "$defs": {"a": {"properties": {"a": true}}},
        "$ref": "#/$defs/a",
        "dependentSchemas": {"a": {"properties": {"b": true}}},
        "unevaluatedProperties": false,
    }));
    assert_eq!(schema.check(&json!({"a": 1, "b": 2}).into()), Ok(()));
    assert_eq!(mismatch(&schema, json!({"b": 2})).0, "");
    assert_eq!(mismatch(&schema, json!({"a": 1, "c": 2})).0, "");
}

#[test]
fn dynamic_reference_finds_the_outermost_anchor() {
    let tree = json!({
        "$id": "https://example.com/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": false,
        "$defs": {"tree": {
            "$id": "tree",
            "$dynamicAnchor": "node",
            "properties": {"data": true, "children": {"items": {"$dynamicRef": "#node"}}},
        }},
    });
    let schema = schema(tree);
    assert_eq!(schema.check(&json!({"children": [{"data": 1}]}).into()), Ok(()));
    assert!(schema.check(&json!({"children": [{"daat": 1}]}).into()).is_err());
}
