//! S1.13: limits of hostile schemas and values, the same on both sides.

use super::*;

/// Compiles with a limit of few steps, so that the tests do not take long.
fn compile(schema: Value) -> Result<Schema, SchemaError> {
    Schema::compile(&schema.into(), &Bounds { steps: 500_000, ..Bounds::default() })
}

fn bounded(schema: Value) -> Bound {
    match compile(schema) {
        Err(SchemaError::Bound(bound)) => bound,
        other => panic!("{other:?}"),
    }
}

fn deep(depth: usize) -> Value {
    (0..depth).fold(json!({}), |inner, _| json!({"not": inner}))
}

/// C1.27
#[test]
fn compiler_enforces_every_limit_of_a_schema() {
    assert!(compile(deep(60)).is_ok());
    assert_eq!(bounded(deep(64)), Bound::Depth);
    let nested = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let nested = Json::new(format!(r#"{{"enum": {nested}}}"#)).unwrap();
    let error = Schema::compile(&nested, &Bounds::default()).unwrap_err();
    assert_eq!(error, SchemaError::Bound(Bound::Depth));
    assert_eq!(bounded(json!({"description": "a".repeat(300_000)})), Bound::Bytes);
    assert_eq!(bounded(json!({"enum": (0..20_000).collect::<Vec<_>>()})), Bound::Values);
    let references: Vec<_> = (0..1001).map(|_| json!({"$ref": "#/$defs/a"})).collect();
    assert_eq!(bounded(json!({"$defs": {"a": true}, "allOf": references})), Bound::References);
    let patterns: Vec<_> = (0..65).map(|n| json!({"pattern": n.to_string()})).collect();
    assert_eq!(bounded(json!({"allOf": patterns})), Bound::Patterns);
    let patterns: Map<_, _> = (0..65).map(|n| (n.to_string(), json!(true))).collect();
    assert_eq!(bounded(json!({"patternProperties": patterns})), Bound::Patterns);
    let unevaluated =
        (0..5).fold(json!(true), |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false}));
    assert_eq!(bounded(unevaluated), Bound::Unevaluated);
}

/// C1.27
#[test]
fn patterns_take_linear_time() {
    for exploding in ["^(a+)+$", "^(a|a)*$", "(.*a){12}b", "^(([a-z])+.)+[A-Z]([a-z])+$"] {
        let schema = schema(json!({"pattern": exploding}));
        let value = "a".repeat(100_000);
        guarded(move || schema.check(&json!(value).into()).is_err());
    }
}

/// C1.27
#[test]
fn compiler_refuses_patterns_that_are_not_linear_or_too_large() {
    for pattern in [r"(?=a)b", r"(a)\1", "(", "a{1000000}", "((a{100}){100}){100}", r"[\p{L}]{1,1000}"] {
        let error = guarded(move || compile(json!({"properties": {"a": {"pattern": pattern}}})).unwrap_err());
        assert!(matches!(error, SchemaError::Invalid { .. }), "{pattern}: {error:?}");
    }
    let keyed = compile(json!({"patternProperties": {"(?=a)b": true}})).unwrap_err();
    assert!(matches!(keyed, SchemaError::Invalid { .. }), "{keyed:?}");
}

/// C1.27
#[test]
fn circular_references_end() {
    for circle in [
        json!({"$ref": "#"}),
        json!({"$dynamicRef": "#"}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        json!({"not": {"$ref": "#"}}),
        json!({"$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}, "anyOf": [{"$ref": "#/$defs/a"}]}),
        json!({"if": {"$ref": "#"}, "then": {"$ref": "#"}, "else": {"$ref": "#"}}),
        json!({"$ref": "#", "unevaluatedProperties": {"$ref": "#"}, "dependentSchemas": {"a": {"$ref": "#"}}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#"}),
        json!({
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": true, "$recursiveRef": "#", "unevaluatedItems": {"$recursiveRef": "#"},
        }),
    ] {
        guarded(move || {
            if let Ok(schema) = compile(circle) {
                for value in [json!({"a": {"a": [1, {}]}}), json!([[], [1]]), json!(1)] {
                    let _ = schema.check(&value.into());
                }
            }
        });
    }
}

/// A chain of definitions, each with two references to the next: a few lines whose work doubles at each level.
fn doubling(levels: usize, step: impl Fn(Value) -> Value) -> Value {
    let defs: Map<_, _> = (0..levels)
        .map(|level| (format!("s{level}"), step(json!({"$ref": format!("#/$defs/s{}", level + 1)}))))
        .chain([(format!("s{levels}"), json!({"type": "string"}))])
        .collect();
    json!({"$defs": defs, "$ref": "#/$defs/s0"})
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({"c": inner, "d": 1}))
}

/// C1.27
#[test]
fn validator_cuts_off_work_that_doubles_at_each_level() {
    type Step = fn(Value) -> Value;
    let steps: [Step; 9] = [
        |next| json!({"anyOf": [next, next]}),
        |next| json!({"oneOf": [next, next]}),
        |next| json!({"allOf": [{"not": next}, {"not": next}]}),
        |next| json!({"if": next, "then": next, "else": next}),
        |next| json!({"anyOf": [{"properties": {"c": next}, "required": ["x"]}, {"properties": {"c": next}}]}),
        |next| json!({"dependentSchemas": {"c": next, "d": next}, "unevaluatedProperties": false}),
        |next| json!({"anyOf": [{"not": next}, {"not": next}], "unevaluatedProperties": false}),
        |next| json!({"$dynamicRef": next["$ref"], "$ref": next["$ref"], "unevaluatedItems": false}),
        |next| json!({"contains": next, "items": {"anyOf": [next, next]}, "properties": {"c": next}}),
    ];
    let dialects = [
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema#",
    ];
    let mut cut = 0;
    for (dialect, step) in dialects.into_iter().flat_map(|dialect| steps.map(|step| (dialect, step))) {
        let mut hostile = doubling(60, step);
        hostile["$schema"] = json!(dialect);
        hostile["$defs"]["outer"] = json!({"allOf": [{"$ref": "#/$defs/s0"}]});
        hostile["$ref"] = json!("#/$defs/outer");
        cut += guarded(move || {
            let Ok(schema) = compile(hostile) else { return 3 };
            let arrays = (0..60).fold(json!(1), |inner, _| json!([inner, 1]));
            let values = [nested(60), arrays, json!(1)];
            values
                .map(|value| matches!(schema.check(&value.into()), Err(CheckError::Bound(_))))
                .iter()
                .filter(|&&cut| cut)
                .count()
        });
    }
    // The validator's cache makes the others cheap.
    assert!(cut > 40, "{cut}");
}

/// C1.27
#[test]
fn validator_cuts_off_alternatives_that_contain_themselves() {
    let hostile = json!({"anyOf": [
        {"properties": {"c": {"$ref": "#"}}, "required": ["x"]},
        {"properties": {"c": {"$ref": "#"}}, "required": ["y"]},
        {"properties": {"c": {"$ref": "#"}}, "required": ["z"]},
    ]});
    for dialect in ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-04/schema#"]
    {
        let mut hostile = hostile.clone();
        hostile["$schema"] = json!(dialect);
        let checked = guarded(move || compile(hostile).unwrap().check(&nested(100).into()));
        assert!(matches!(checked, Err(CheckError::Mismatch { .. })), "{checked:?}");
    }
}

/// C1.27
#[test]
fn long_chain_of_references_does_not_exhaust_the_stack() {
    for (unevaluated, length) in [(false, 990), (true, 240)] {
        for step in [|next: Value| next, |next: Value| json!({"allOf": [{"not": {"not": next}}]})] {
            let mut chain = doubling(length, step);
            if unevaluated {
                chain["unevaluatedProperties"] = json!(false);
            }
            let outcome = guarded(move || compile(chain).map(|schema| schema.check(&json!({"a": 1}).into())));
            let deep = |bound| bound == Bound::Depth;
            assert!(
                match &outcome {
                    Err(SchemaError::Bound(bound)) | Ok(Err(CheckError::Bound(bound))) => deep(*bound),
                    Ok(Err(CheckError::Mismatch { reason, .. })) => !reason.contains("guard"),
                    _ => false,
                },
                "{outcome:?}"
            );
        }
    }
}

/// C1.27
#[test]
fn chain_repeated_at_each_level_of_the_value_does_not_exhaust_the_stack() {
    let mut chain = doubling(300, |next| next);
    chain["$defs"]["s300"] = json!({"properties": {"c": {"$ref": "#/$defs/s0"}}});
    let checked = guarded(move || super::schema(chain).check(&nested(110).into()));
    assert_eq!(checked, Err(CheckError::Bound(Bound::Depth)));
}

/// C1.27
#[test]
fn validator_refuses_values_that_are_too_long() {
    let schema = schema(json!({"type": ["string", "array"]}));
    let long = json!("a".repeat(9 * 1024 * 1024));
    assert_eq!(schema.check(&long.into()), Err(CheckError::Bound(Bound::Bytes)));
    let deep = format!("{}1{}", "[".repeat(127), "]".repeat(127));
    assert_eq!(schema.check(&Json::new(deep).unwrap()), Ok(()));
}

/// C1.27: references into data would evade the limits.
#[test]
fn compiler_refuses_references_into_data() {
    for data in
        ["#/$defs/a/const", "#/$defs/a/enum/0", "#/$defs/a/default", "#/$defs/a/examples/0", "#/$defs"]
    {
        let schema = json!({
            "$defs": {"a": {"const": {}, "enum": [{}], "default": {}, "examples": [{}]}},
            "properties": {"a": {"$ref": data}},
        });
        let error = compile(schema).unwrap_err();
        assert_eq!(error, SchemaError::Reference { reference: data.into() });
    }
}

/// C1.27
#[test]
fn schema_cannot_disable_the_guard() {
    let schema = schema(json!({"mcp-proto:guard": "x"}));
    assert_eq!(schema.check(&json!(1).into()), Err(CheckError::Bound(Bound::Steps)));
}

/// C1.27
#[test]
fn identifiers_do_not_make_the_validator_panic() {
    for id in ["", "#", "#a", "http://a/b#c", "http://[", "::", "%", "urn:x", "a b", "http://a/#/x", "\u{0}"]
    {
        for keyword in ["$id", "id", "$anchor", "$dynamicAnchor"] {
            for dialect in [
                "https://json-schema.org/draft/2020-12/schema",
                "http://json-schema.org/draft-07/schema#",
                "http://json-schema.org/draft-04/schema#",
            ] {
                let root = json!({"$schema": dialect, keyword: id, "properties": {"a": {"$ref": "#"}}});
                let inner = json!({"$schema": dialect, "properties": {"a": {keyword: id, "$ref": "#"}}});
                for schema in [root, inner] {
                    if let Ok(schema) = compile(schema.clone()) {
                        assert_ne!(schema.check(&json!({"a": {}}).into()), Err(CheckError::Failed));
                    } else {
                        assert_ne!(compile(schema.clone()).err(), Some(SchemaError::Failed), "{schema}");
                    }
                }
            }
        }
    }
}

/// C1.27
#[test]
fn large_results_of_ordinary_tools_are_within_the_limits() {
    let schema = super::schema(json!({
        "$defs": {
            "user": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "pattern": "^[A-Z]"},
                    "mail": {"type": ["string", "null"]},
                    "friends": {"type": "array", "items": {"$ref": "#/$defs/user"}},
                    "kind": {"oneOf": [{"const": "a"}, {"const": "b"}, {"$ref": "#/$defs/kind"}]},
                },
                "required": ["name"],
                "additionalProperties": false,
            },
            "kind": {"enum": ["c", "d", "e"]},
        },
        "type": "array",
        "items": {"$ref": "#/$defs/user"},
    }));
    let friend = json!({"name": "Bob", "mail": null, "kind": "a"});
    let user =
        json!({"name": "Ada Lovelace", "mail": "ada@example.com", "kind": "d", "friends": [friend, friend]});
    let users = Value::Array(vec![user; 3000]);
    assert_eq!(schema.check(&Json::from(users)), Ok(()));
}

/// C1.27
#[test]
fn object_is_not_taken_for_the_json_in_its_text() {
    let number = Schema::compile(&json!({"type": "number"}).into(), &Bounds::default()).unwrap();
    let object = Json::new(r#"{"$serde_json::private::RawValue":"1"}"#).unwrap();
    assert!(matches!(number.check(&object), Err(CheckError::Mismatch { .. })));
}
