//! JSON Schemas, well-meant and hostile.
#![cfg(feature = "schema-validate")]

use core::time::Duration;
use std::sync::mpsc;

use mcp_proto::schema::{CallToolResult, Json, Tool};
use mcp_proto::validate::{
    Bound, Bounds, CheckError, Dialect, OutputFault, OutputSchemas, Schema, SchemaError,
};
use serde_json::{Map, Value, json};

fn compile(schema: Value) -> Result<Schema, SchemaError> {
    Schema::compile(&schema.into(), &Bounds::default())
}

#[track_caller]
fn schema(schema: Value) -> Schema {
    compile(schema).unwrap()
}

#[track_caller]
fn mismatch(schema: &Schema, value: Value) -> (String, String) {
    match schema.check(&value.into()) {
        Err(CheckError::Mismatch { at, why }) => (at, why),
        other => panic!("{other:?}"),
    }
}

/// Runs what must neither use the stack up nor go on for ever, on a thread with the stack of a worker.
#[track_caller]
fn guarded<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    thread.spawn(move || done.send(act())).unwrap();
    // Counted steps bound it; this is for when they do not.
    result.recv_timeout(Duration::from_secs(60)).expect("it ends")
}

mod dialects {
    use super::*;

    /// C1.23
    #[test]
    fn a_schema_that_names_no_dialect_is_2020_12() {
        let schema = schema(json!({"prefixItems": [{"type": "string"}], "items": false}));
        assert_eq!(schema.dialect(), Dialect::Draft2020_12);
        assert_eq!(schema.check(&json!(["a"]).into()), Ok(()));
        assert_eq!(mismatch(&schema, json!(["a", 1])).0, "/1");
        assert_eq!(mismatch(&schema, json!([1])).0, "/0");
    }

    /// C1.23, C1.24
    #[test]
    fn a_schema_is_held_to_the_dialect_that_it_names() {
        // In 2019-09 and before, a list of schemas stands in `items`.
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
        assert!(matches!(compile(tuple(newest)), Err(SchemaError::Invalid { at, .. }) if at == "/items"));
    }

    /// C1.23
    #[test]
    fn an_unknown_dialect_is_refused_by_name() {
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
    fn a_schema_must_be_valid_in_its_dialect() {
        for (invalid, place) in [
            (json!({"type": "text"}), "/type"),
            (json!({"properties": []}), "/properties"),
            (json!({"minLength": -1}), "/minLength"),
            (json!({"properties": {"a": {"required": "b"}}}), "/properties/a/required"),
            (json!({"properties": {"a": 1}}), "/properties/a"),
            (json!("text"), ""),
            (json!(null), ""),
        ] {
            let Err(SchemaError::Invalid { at, .. }) = compile(invalid.clone()) else { panic!("{invalid}") };
            assert_eq!(at, place, "{invalid}");
        }
    }

    #[test]
    fn beside_a_reference_nothing_counts_in_old_dialects() {
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
    fn a_number_need_not_be_whole() {
        let schema = schema(json!({"properties": {"n": {"type": "number"}, "i": {"type": "integer"}}}));
        assert_eq!(schema.check(&json!({"n": 95.5, "i": 5}).into()), Ok(()));
        assert_eq!(schema.check(&Json::new(r#"{"i": 5.0}"#).unwrap()), Ok(()));
        assert_eq!(mismatch(&schema, json!({"i": 95.5})).0, "/i");
    }
}

mod errors {
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
        let (at, _) =
            mismatch(&schema(json!({"additionalProperties": {"type": "string"}})), json!({&long: 1}));
        assert!(at.len() < 600);
        let Err(SchemaError::Reference { reference }) =
            compile(json!({"$ref": format!("#/{}", "a".repeat(10_000))}))
        else {
            panic!()
        };
        assert!(reference.len() < 600);
    }
}

mod references {
    use super::*;

    /// C1.25, C1.26: without a network the only difference would be how long it takes to fail; here there is no code
    /// that could fetch.
    #[test]
    fn what_lies_outside_is_never_fetched_and_makes_the_schema_unusable() {
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
    fn a_reference_to_nothing_makes_the_schema_unusable() {
        for nothing in ["#/$defs/b", "#b", "#/$defs/a/9", "#/%zz"] {
            let schema = json!({"$defs": {"a": []}, "anyOf": [true, {"$ref": nothing}]});
            let schema = json!({"$defs": {"a": {}}, "anyOf": schema["anyOf"]});
            assert!(matches!(compile(schema), Err(SchemaError::Reference { .. })), "{nothing}");
        }
    }

    /// C1.23
    #[test]
    fn what_lies_inside_is_found() {
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
    fn a_property_may_be_called_like_a_keyword() {
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
    fn the_meta_schemas_are_known() {
        for dialect in
            ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
        {
            let schema = schema(json!({"$schema": dialect, "properties": {"schema": {"$ref": dialect}}}));
            let deep =
                (0..20).fold(json!({"type": "string"}), |inner, _| json!({"properties": {"a": inner}}));
            assert_eq!(schema.check(&json!({"schema": deep}).into()), Ok(()));
            let (at, _) = mismatch(&schema, json!({"schema": {"properties": {"a": {"type": "text"}}}}));
            assert_eq!(at, "/schema/properties/a/type");
        }
    }

    #[test]
    fn what_an_evaluated_property_is_does_not_change_by_the_guard() {
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
    fn a_dynamic_reference_finds_the_outermost_anchor() {
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
}

/// S1.13: the same holds on both sides.
mod hostile {
    use super::*;

    /// With few steps, so that the tests do not take long.
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
    fn a_schema_is_bounded_in_every_way() {
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
    fn a_pattern_takes_linear_time() {
        for exploding in ["^(a+)+$", "^(a|a)*$", "(.*a){12}b", "^(([a-z])+.)+[A-Z]([a-z])+$"] {
            let schema = schema(json!({"pattern": exploding}));
            let value = "a".repeat(100_000);
            guarded(move || schema.check(&json!(value).into()).is_err());
        }
    }

    /// C1.27
    #[test]
    fn a_pattern_that_is_not_linear_or_too_large_is_refused() {
        for pattern in [r"(?=a)b", r"(a)\1", "(", "a{1000000}", "((a{100}){100}){100}", r"[\p{L}]{1,1000}"] {
            let error =
                guarded(move || compile(json!({"properties": {"a": {"pattern": pattern}}})).unwrap_err());
            assert!(matches!(error, SchemaError::Invalid { .. }), "{pattern}: {error:?}");
        }
        let keyed = compile(json!({"patternProperties": {"(?=a)b": true}})).unwrap_err();
        assert!(matches!(keyed, SchemaError::Invalid { .. }), "{keyed:?}");
    }

    /// C1.27
    #[test]
    fn references_in_a_circle_come_to_an_end() {
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

    /// Two references to the next one at each step: a few lines that take longer than anyone lives.
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
    fn work_that_doubles_at_each_step_is_cut_off() {
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
        // The others are within what the validator remembers.
        assert!(cut > 40, "{cut}");
    }

    /// C1.27
    #[test]
    fn alternatives_that_contain_themselves_are_cut_off() {
        let hostile = json!({"anyOf": [
            {"properties": {"c": {"$ref": "#"}}, "required": ["x"]},
            {"properties": {"c": {"$ref": "#"}}, "required": ["y"]},
            {"properties": {"c": {"$ref": "#"}}, "required": ["z"]},
        ]});
        for dialect in
            ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-04/schema#"]
        {
            let mut hostile = hostile.clone();
            hostile["$schema"] = json!(dialect);
            let checked = guarded(move || compile(hostile).unwrap().check(&nested(100).into()));
            assert!(matches!(checked, Err(CheckError::Mismatch { .. })), "{checked:?}");
        }
    }

    /// C1.27
    #[test]
    fn a_long_chain_of_references_does_not_use_the_stack_up() {
        for (unevaluated, length) in [(false, 990), (true, 240)] {
            for step in [|next: Value| next, |next: Value| json!({"allOf": [{"not": {"not": next}}]})] {
                let mut chain = doubling(length, step);
                if unevaluated {
                    chain["unevaluatedProperties"] = json!(false);
                }
                let outcome =
                    guarded(move || compile(chain).map(|schema| schema.check(&json!({"a": 1}).into())));
                let deep = |bound| bound == Bound::Depth;
                assert!(
                    match &outcome {
                        Err(SchemaError::Bound(bound)) | Ok(Err(CheckError::Bound(bound))) => deep(*bound),
                        Ok(Err(CheckError::Mismatch { why, .. })) => !why.contains("guard"),
                        _ => false,
                    },
                    "{outcome:?}"
                );
            }
        }
    }

    /// C1.27
    #[test]
    fn a_chain_that_each_level_of_the_value_goes_through_does_not_use_the_stack_up() {
        let mut chain = doubling(300, |next| next);
        chain["$defs"]["s300"] = json!({"properties": {"c": {"$ref": "#/$defs/s0"}}});
        let checked = guarded(move || super::schema(chain).check(&nested(110).into()));
        assert_eq!(checked, Err(CheckError::Bound(Bound::Depth)));
    }

    /// C1.27
    #[test]
    fn a_value_is_bounded() {
        let schema = schema(json!({"type": ["string", "array"]}));
        let long = json!("a".repeat(9 * 1024 * 1024));
        assert_eq!(schema.check(&long.into()), Err(CheckError::Bound(Bound::Bytes)));
        let deep = format!("{}1{}", "[".repeat(127), "]".repeat(127));
        assert_eq!(schema.check(&Json::new(deep).unwrap()), Ok(()));
    }

    /// C1.27: references into what is no schema would go round the bounds.
    #[test]
    fn data_is_no_schema() {
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
    fn the_guard_can_not_be_used_against_itself() {
        let schema = schema(json!({"mcp-proto:guard": "x"}));
        assert_eq!(schema.check(&json!(1).into()), Err(CheckError::Bound(Bound::Steps)));
    }

    /// C1.27
    #[test]
    fn no_identifier_makes_the_validator_fail() {
        for id in
            ["", "#", "#a", "http://a/b#c", "http://[", "::", "%", "urn:x", "a b", "http://a/#/x", "\u{0}"]
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
    fn large_results_of_ordinary_tools_are_well_within_the_bounds() {
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
        let user = json!({"name": "Ada Lovelace", "mail": "ada@example.com", "kind": "d", "friends": [friend, friend]});
        let users = Value::Array(vec![user; 3000]);
        assert_eq!(schema.check(&Json::from(users)), Ok(()));
    }
}

mod outputs {
    use super::*;

    fn tool(name: &str, output: Option<Value>) -> Tool {
        let tool = Tool::new(name, "", json!({"type": "object"}));
        match output {
            Some(output) => tool.with_output_schema(output),
            None => tool,
        }
    }

    fn structured(value: Value) -> CallToolResult {
        CallToolResult::structured(&value).unwrap()
    }

    /// C9.7
    #[test]
    fn a_result_is_checked_against_the_schema_listed_last() {
        let mut schemas = OutputSchemas::default();
        let result = structured(json!({"a": 1}));
        assert_eq!(schemas.check("t", &result), Ok(()));
        schemas.learn(&[tool("t", Some(json!({"required": ["a"]})))]);
        assert_eq!(schemas.check("t", &result), Ok(()));
        schemas.learn(&[tool("t", Some(json!({"required": ["b"]})))]);
        assert!(matches!(schemas.check("t", &result), Err(OutputFault::Value(CheckError::Mismatch { .. }))));
        // Another page.
        schemas.learn(&[tool("u", None)]);
        assert!(schemas.check("t", &result).is_err());
        schemas.learn(&[tool("t", None)]);
        assert_eq!(schemas.check("t", &result), Ok(()));
    }

    /// C9.7
    #[test]
    fn any_json_value_may_be_structured() {
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
    fn a_failure_needs_no_structure_and_a_result_does() {
        let mut schemas = OutputSchemas::default();
        schemas.learn(&[
            tool("t", Some(json!({"type": "object"}))),
            tool("odd", Some(json!({"$schema": "urn:x"}))),
        ]);
        assert_eq!(schemas.check("t", &CallToolResult::error("no")), Ok(()));
        assert_eq!(schemas.check("t", &CallToolResult::text("yes")), Err(OutputFault::Missing));
        assert_eq!(schemas.check("odd", &CallToolResult::error("no")), Ok(()));
        let unusable = OutputFault::Schema(SchemaError::Dialect { uri: "urn:x".into() });
        assert_eq!(schemas.check("odd", &structured(json!({}))), Err(unusable.clone()));
        assert_eq!(
            unusable.to_string(),
            r#"the structured result can not be checked: the dialect "urn:x" of JSON Schema is not supported"#
        );
    }

    /// C1.27
    #[test]
    fn what_is_remembered_is_bounded() {
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
        // More than are kept compiled.
        for n in (4900..5000).chain(4900..5000) {
            assert!(schemas.check(&format!("s{n}"), &wrong).is_err());
            assert_eq!(schemas.check(&format!("s{n}"), &structured(json!(n))), Ok(()));
        }
    }
}
