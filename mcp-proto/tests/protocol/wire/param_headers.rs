//! Tool parameters that are mirrored in headers: `x-mcp-header`.

use mcp_proto::codec::header::HeaderValueError;
use mcp_proto::rpc::Raw;
use mcp_proto::transport::http::param_headers::{
    HeaderArgumentError, HeaderMismatchError, ParamHeaderError, ParamHeaders,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(schema: &Value) -> Result<Option<ParamHeaders>, ParamHeaderError> {
    ParamHeaders::from_schema(&schema.to_string())
}

fn headers(schema: &Value) -> ParamHeaders {
    read(schema).expect("a valid schema").expect("a marked parameter")
}

/// A schema with one parameter.
fn one(parameter: Value) -> Value {
    json!({"type": "object", "properties": {"a": parameter}})
}

fn raw(json: &str) -> Raw {
    Raw::new(json).expect("valid JSON")
}

fn values(schema: &Value, arguments: &str) -> Result<Vec<(String, String)>, HeaderArgumentError> {
    headers(schema).values(Some(&raw(arguments)))
}

fn check(schema: &Value, arguments: &str, sent: &[(&str, &str)]) -> Result<(), HeaderMismatchError> {
    headers(schema).check(Some(&raw(arguments)), sent)
}

fn pairs(sent: &[(&str, &str)]) -> Vec<(String, String)> {
    sent.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// C4.11: the name is a token of HTTP.
#[test]
fn parser_rejects_a_mark_that_is_not_a_header_name() {
    for name in ["Region", "x", "A-b_c.d", "!#$%&'*+-.^_`|~09azAZ"] {
        assert!(read(&one(json!({"type": "string", "x-mcp-header": name}))).is_ok(), "{name:?}");
    }
    for name in
        ["", " ", "My Region", "Région", "Region:Primary", "a\r\nb", "a\tb", "\u{7f}", "a/b", "(a)", "a\0"]
    {
        let error = read(&one(json!({"type": "string", "x-mcp-header": name}))).unwrap_err();
        assert!(
            matches!(&error, ParamHeaderError::Name { at, .. } if at == "properties.a"),
            "{name:?}: {error}"
        );
    }
    for mark in [json!(null), json!(1), json!(true), json!(["Region"]), json!({"name": "Region"})] {
        let error = read(&one(json!({"type": "string", "x-mcp-header": mark}))).unwrap_err();
        assert!(matches!(error, ParamHeaderError::NotText { .. }), "{mark}: {error}");
    }
}

/// C4.11: unique, whatever the case.
#[test]
fn parser_rejects_marks_that_differ_only_by_case() {
    let two = |first, second| {
        json!({"properties": {
            "a": {"type": "string", "x-mcp-header": first},
            "b": {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": second}}},
        }})
    };
    assert!(read(&two("Region", "Regions")).is_ok());
    let error = read(&two("MyField", "myfield")).unwrap_err();
    assert!(
        matches!(&error, ParamHeaderError::Duplicate { at, .. } if at == "properties.b.properties.c"),
        "{error}"
    );
}

/// C4.11: string, integer, boolean; `number` is refused.
#[test]
fn parser_rejects_a_mark_at_a_type_that_is_not_simple() {
    let with = |declared: Value| read(&one(json!({"x-mcp-header": "A", "type": declared})));
    for declared in [json!("string"), json!("integer"), json!("boolean"), json!(["string", "null"])] {
        assert!(with(declared.clone()).is_ok(), "{declared}");
    }
    for declared in [
        json!("number"),
        json!("object"),
        json!("array"),
        json!("null"),
        json!(["null"]),
        json!([]),
        json!(["string", "number"]),
        json!(["string", 1]),
        json!(1),
        json!(null),
    ] {
        assert!(matches!(with(declared.clone()), Err(ParamHeaderError::Type { .. })), "{declared}");
    }
    for parameter in [json!({"x-mcp-header": "A"}), json!({"x-mcp-header": "A", "enum": ["a", "b"]})] {
        assert!(matches!(read(&one(parameter)), Err(ParamHeaderError::Type { .. })));
    }
    assert!(read(&one(json!({"x-mcp-header": "A", "type": "string"}))).is_ok(), "before its type");
}

/// C4.11: a mark must be reachable through `properties` only.
#[test]
fn parser_rejects_unreachable_marks() {
    let marked = json!({"type": "string", "x-mcp-header": "A"});
    let within = json!({"properties": {"b": marked}});
    let mut schemas = vec![json!({"type": "string", "x-mcp-header": "A"})];
    for keyword in [
        "items",
        "additionalItems",
        "unevaluatedItems",
        "contains",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "contentSchema",
        "not",
        "if",
        "then",
        "else",
    ] {
        schemas.extend([json!({keyword: marked}), json!({keyword: within}), one(json!({keyword: marked}))]);
    }
    for keyword in ["allOf", "anyOf", "oneOf", "prefixItems", "items"] {
        schemas.extend([
            json!({keyword: [true, marked]}),
            json!({keyword: [within]}),
            one(json!({keyword: [within]})),
        ]);
    }
    for keyword in ["patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"] {
        schemas.extend([json!({keyword: {"x": marked}}), json!({keyword: {"x": within}})]);
    }
    schemas.push(json!({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": marked}}));
    for schema in schemas {
        let error = read(&schema).expect_err(&schema.to_string());
        assert!(matches!(error, ParamHeaderError::Unreachable { .. }), "{schema}: {error}");
    }
}

#[test]
fn parser_ignores_marks_that_are_not_keywords() {
    for schema in [
        json!({"properties": {"x-mcp-header": {"type": "string"}}}),
        json!({"properties": {"a": {"type": "object", "default": {"x-mcp-header": "A"}}}}),
        json!({"examples": [{"x-mcp-header": "A"}], "const": {"x-mcp-header": 1}, "enum": [{"x-mcp-header": 1}]}),
        json!({"description": "x-mcp-header"}),
        json!({"required": ["x-mcp-header"]}),
        json!({"type": "object"}),
        json!(true),
    ] {
        assert_eq!(read(&schema).unwrap(), None, "{schema}");
    }
    let schema = json!({"properties": {"properties": {"type": "object", "properties": {
        "x-mcp-header": {"type": "string", "x-mcp-header": "X"}}}}});
    let sent = values(&schema, r#"{"properties":{"x-mcp-header":"v"}}"#).unwrap();
    assert_eq!(sent, pairs(&[("mcp-param-x", "v")]));
}

#[test]
fn parser_reads_escaped_marks() {
    let schema = r#"{"properties":{"\u0061":{"type":"string","\u0078-mcp-header":"\u0041"}}}"#;
    let headers = ParamHeaders::from_schema(schema).unwrap().unwrap();
    assert_eq!(headers.values(Some(&raw(r#"{"a":"v"}"#))).unwrap(), pairs(&[("mcp-param-a", "v")]));
}

#[test]
fn parser_rejects_invalid_json_that_may_have_marks() {
    for schema in [r#"{"x-mcp-header"#, r#"{"properties":{"a":{"x-mcp-header":}}}"#, r#"{} "x-mcp-header""#] {
        assert!(matches!(ParamHeaders::from_schema(schema), Err(ParamHeaderError::Schema(_))), "{schema}");
    }
    let deep = format!("{}\"x-mcp-header\"{}", r#"{"not":"#.repeat(100_000), "}".repeat(100_000));
    assert!(matches!(ParamHeaders::from_schema(&deep), Err(ParamHeaderError::Schema(_))));
}

#[test]
fn parser_uses_the_last_of_duplicate_members() {
    let schema = r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"a":{"type":"string"},
        "b":{"type":"number","type":"string","x-mcp-header":"B"}}}"#;
    let headers = ParamHeaders::from_schema(schema).unwrap().unwrap();
    assert_eq!(headers.values(Some(&raw(r#"{"a":"1","b":"2"}"#))).unwrap(), pairs(&[("mcp-param-b", "2")]));
    let schema = r#"{"properties":{"a":{"type":"string","x-mcp-header":"A","x-mcp-header":"A"}}}"#;
    assert!(matches!(ParamHeaders::from_schema(schema), Err(ParamHeaderError::Duplicate { .. })));
}

#[test]
fn parser_limits_the_headers_of_a_tool() {
    let many = |count: usize| {
        let marked = |n| (format!("p{n}"), json!({"type": "string", "x-mcp-header": format!("H{n}")}));
        json!({"properties": (0..count).map(marked).collect::<serde_json::Map<_, _>>()})
    };
    assert!(read(&many(ParamHeaders::MAX_HEADERS)).is_ok());
    assert_eq!(read(&many(ParamHeaders::MAX_HEADERS + 1)), Err(ParamHeaderError::TooMany));
}

#[test]
fn error_is_short_for_long_names() {
    let schema = json!({"properties": {"é".repeat(10_000): {"x-mcp-header": "A"}}});
    let message = read(&schema).unwrap_err().to_string();
    assert!(message.chars().count() < 400, "{message}");
}

/// C4.9, C4.10.
#[test]
fn headers_mirror_arguments_by_their_types() {
    let schema = json!({"properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "limit": {"type": "integer", "x-mcp-header": "Limit"},
        "dry": {"type": "boolean", "x-mcp-header": "DRY"},
        "deep": {"type": "object", "properties": {"er": {"type": "string", "x-mcp-header": "Deep"}}},
        "query": {"type": "string"},
    }});
    let arguments =
        r#"{"deep":{"er":"x","region":"no"},"dry":false,"limit":-7,"query":"q","region":"us-west1"}"#;
    let mut sent = values(&schema, arguments).unwrap();
    sent.sort();
    let expected = [
        ("mcp-param-deep", "x"),
        ("mcp-param-dry", "false"),
        ("mcp-param-limit", "-7"),
        ("mcp-param-region", "us-west1"),
    ];
    assert_eq!(sent, pairs(&expected));
    let none = r#"{"deep":{"er":null},"dry":null,"region":null,"er":"x","Region":"x"}"#;
    assert_eq!(values(&schema, none).unwrap(), []);
    assert_eq!(headers(&schema).values(None).unwrap(), []);
    for odd in
        ["{}", "null", "[]", "1", r#""text""#, r#"{"deep":[]}"#, r#"{"deep":"text"}"#, r#"{"deep":1.5}"#]
    {
        assert_eq!(values(&schema, odd).unwrap(), [], "{odd}");
    }
}

/// C4.8: the examples of the specification.
#[test]
fn headers_encode_text_that_a_header_cannot_carry() {
    let schema = one(json!({"type": "string", "x-mcp-header": "Val"}));
    for (argument, expected) in [
        (r#"{"a":"us-west1"}"#, "us-west1"),
        (r#"{"a":"Hello, 世界"}"#, "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (r#"{"a":" padded "}"#, "=?base64?IHBhZGRlZCA=?="),
        (r#"{"a":"line1\nline2"}"#, "=?base64?bGluZTEKbGluZTI=?="),
        (r#"{"a":"=?base64?literal?="}"#, "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        (r#"{"a":""}"#, ""),
    ] {
        assert_eq!(values(&schema, argument).unwrap(), pairs(&[("mcp-param-val", expected)]));
        check(&schema, argument, &[("Mcp-Param-Val", expected)]).unwrap();
    }
}

/// R6, C4.10, C4.11: integers, of at most 53 bits.
#[test]
fn headers_mirror_only_integers_of_53_bits() {
    let schema = one(json!({"type": "integer", "x-mcp-header": "A"}));
    let with = |number: &str| values(&schema, &format!(r#"{{"a":{number}}}"#));
    for (number, expected) in [
        ("0", "0"),
        ("-0", "0"),
        ("42.0", "42"),
        ("1e3", "1000"),
        ("9007199254740991", "9007199254740991"),
        ("-9007199254740991", "-9007199254740991"),
        ("9007199254740991.0", "9007199254740991"),
    ] {
        assert_eq!(with(number).unwrap(), pairs(&[("mcp-param-a", expected)]), "{number}");
    }
    for number in [
        "9007199254740992",
        "-9007199254740992",
        "18446744073709551615",
        "1e300",
        "-1e300",
        "9007199254740992.0",
    ] {
        assert!(matches!(with(number), Err(HeaderArgumentError::Range { at }) if at == "a"), "{number}");
    }
    for other in ["1.5", "-0.1", "1e-300", "{}", "[]", r#"{"a":1}"#, "[1]"] {
        assert!(matches!(with(other), Err(HeaderArgumentError::Kind { .. })), "{other}");
    }
}

#[test]
fn both_sides_refuse_duplicate_arguments() {
    let schema = json!({"properties": {
        "a": {"type": "string", "x-mcp-header": "A"},
        "b": {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": "C"}}},
    }});
    for (arguments, at) in [
        (r#"{"a":"1","a":"2"}"#, "a"),
        (r#"{"a":null,"\u0061":"2"}"#, "a"),
        (r#"{"b":{"c":"1"},"b":{}}"#, "b"),
        (r#"{"b":{"c":"1","c":"1"}}"#, "b.c"),
    ] {
        assert_eq!(values(&schema, arguments), Err(HeaderArgumentError::Duplicate { at: at.into() }));
        let refused = check(&schema, arguments, &[("mcp-param-a", "1")]);
        assert!(matches!(refused, Err(HeaderMismatchError::Argument(HeaderArgumentError::Duplicate { .. }))));
    }
    assert!(values(&schema, r#"{"d":1,"d":2}"#).is_ok(), "no header mirrors it");
}

#[test]
fn both_sides_refuse_arguments_that_are_not_json() {
    let schema = one(json!({"type": "string", "x-mcp-header": "A"}));
    let message = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":"x","b":tru}}"#;
    let frame =
        mcp_proto::rpc::read(&mcp_proto::Bytes::from_static(message), 10).expect("structurally sound");
    let mcp_proto::rpc::Frame::Single(mcp_proto::rpc::Message::Request(request)) = frame else { panic!() };
    let arguments = request.params.as_ref();
    assert!(matches!(headers(&schema).values(arguments), Err(HeaderArgumentError::Json(_))));
    assert!(headers(&schema).check(arguments, &[("mcp-param-a", "x")]).is_err());
}

/// S3.8.
#[test]
fn server_reports_each_kind_of_header_mismatch() {
    let schema = one(json!({"type": "string", "x-mcp-header": "Region"}));
    let header = || String::from("mcp-param-region");
    let there = r#"{"a":"x"}"#;
    check(&schema, there, &[("MCP-PARAM-REGION", "x"), ("Mcp-Param-Other", "y")]).unwrap();
    check(&schema, there, &[("mcp-param-region", " \tx ")]).unwrap();
    check(&schema, "{}", &[]).unwrap();
    check(&schema, r#"{"a":null}"#, &[]).unwrap();
    assert_eq!(check(&schema, there, &[]), Err(HeaderMismatchError::Missing { header: header() }));
    for absent in ["{}", r#"{"a":null}"#, "[]"] {
        let refused = check(&schema, absent, &[("mcp-param-region", "x")]);
        assert_eq!(refused, Err(HeaderMismatchError::Unexpected { header: header() }));
    }
    assert_eq!(
        headers(&schema).check(None, &[("mcp-param-region", "")]),
        Err(HeaderMismatchError::Unexpected { header: header() })
    );
    for other in ["X", "xx", "", "\"x\"", "=?base64?eA=?=", "=?base64?eQ==?="] {
        assert!(check(&schema, there, &[("mcp-param-region", other)]).is_err(), "{other}");
    }
    assert_eq!(
        check(&schema, there, &[("mcp-param-region", "x"), ("Mcp-Param-Region", "x")]),
        Err(HeaderMismatchError::Repeated { header: header() })
    );
}

/// S3.9.
#[test]
fn server_decodes_a_header_before_it_compares_it() {
    let schema = one(json!({"type": "string", "x-mcp-header": "A"}));
    check(&schema, r#"{"a":"x"}"#, &[("mcp-param-a", "=?base64?eA==?=")]).unwrap();
    for (value, error) in [
        ("x\u{1}", HeaderValueError::Character(1)),
        ("é", HeaderValueError::Character(0)),
        ("=?base64?%%%?=", HeaderValueError::Base64),
        ("=?base64?gA==?=", HeaderValueError::NotUtf8),
    ] {
        let refused = check(&schema, r#"{"a":"x"}"#, &[("mcp-param-a", value)]);
        assert_eq!(refused, Err(HeaderMismatchError::Undecodable { header: "mcp-param-a".into(), error }));
    }
    let marker = check(&schema, r#"{"a":"x"}"#, &[("mcp-param-a", "=?BASE64?eA==?=")]);
    assert!(matches!(marker, Err(HeaderMismatchError::Different { .. })), "the markers are case-sensitive");
}

/// S3.9.
#[test]
fn server_compares_only_integers_as_numbers() {
    let schema = one(json!({"type": "integer", "x-mcp-header": "A"}));
    let equal = |argument: &str, header: &str| {
        check(&schema, &format!(r#"{{"a":{argument}}}"#), &[("mcp-param-a", header)]).is_ok()
    };
    for (argument, header) in [
        ("42", "42"),
        ("42", "42.0"),
        ("42.0", "42"),
        ("42", "4.2e1"),
        ("-7", "-7.00"),
        ("0", "-0"),
        ("7", "=?base64?Nw==?="),
    ] {
        assert!(equal(argument, header), "{argument} {header}");
    }
    for (argument, header) in [
        ("42", "43"),
        ("42", "42.5"),
        ("42", "042"),
        ("42", "+42"),
        ("42", "0x2a"),
        ("42", ""),
        ("42", "42 43"),
        ("42", "\"42\""),
        ("1", "true"),
        ("true", "1"),
        ("true", "True"),
        ("true", "false"),
        (r#""42""#, "42.0"),
        ("9007199254740991", "9007199254740992"),
    ] {
        assert!(!equal(argument, header), "{argument} {header}");
    }
}

/// Parameters: their names, whether they are marked, and their arguments.
fn any_parameters() -> impl Strategy<Value = Vec<(String, bool, Value)>> {
    let most = (1_i64 << 53) - 1;
    let argument = prop_oneof![
        any::<String>().prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
        Just(json!("=?base64?eA==?=")),
        (-most..=most).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    prop::collection::vec((any::<String>(), any::<bool>(), argument), 0..12)
}

proptest! {
    /// C4.8–C4.10, S3.9: the server accepts the client's headers, and no others.
    #[test]
    fn server_accepts_the_clients_headers_for_any_arguments(parameters in any_parameters(), nested: bool) {
        let mut properties = serde_json::Map::new();
        let mut arguments = serde_json::Map::new();
        for (index, (name, marked, argument)) in parameters.into_iter().enumerate() {
            let declared = match &argument {
                Value::Number(_) => "integer",
                Value::Bool(_) => "boolean",
                _ => "string",
            };
            let mut schema = json!({"type": declared});
            if marked {
                schema["x-mcp-header"] = json!(format!("H{index}"));
            }
            properties.insert(name.clone(), schema);
            arguments.insert(name, argument);
        }
        let marked: Vec<&String> =
            properties.iter().filter(|(_, schema)| schema.get("x-mcp-header").is_some()).map(|(name, _)| name).collect();
        let present = marked.iter().filter(|name| !arguments[**name].is_null()).count();
        let is_marked = !marked.is_empty();
        let (mut schema, mut arguments) = (json!({"properties": properties}), Value::Object(arguments));
        if nested {
            schema = one(schema);
            arguments = json!({"a": arguments});
        }
        let arguments = raw(&arguments.to_string());
        let Some(headers) = read(&schema).unwrap() else {
            prop_assert!(!is_marked);
            return Ok(());
        };
        let sent = headers.values(Some(&arguments)).unwrap();
        prop_assert_eq!(sent.len(), present);
        for (_, value) in &sent {
            prop_assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~')));
            prop_assert_eq!(value.trim(), value);
        }
        prop_assert_eq!(headers.check(Some(&arguments), &sent[..]), Ok(()));
        for index in 0..sent.len() {
            let mut fewer = sent.clone();
            fewer.remove(index);
            prop_assert!(headers.check(Some(&arguments), &fewer[..]).is_err());
            let mut other = sent.clone();
            other[index].1.push('0');
            prop_assert!(headers.check(Some(&arguments), &other[..]).is_err());
        }
    }

    /// No text from a server or a client causes a panic, and the server accepts all headers that the client can send.
    #[test]
    fn parser_accepts_or_refuses_any_text(
        schema in r#"(\{|\}|\[|\]|,|:|"x-mcp-header"|"A"|"properties"|"type"|"string"|"items"|\\u){0,24}"#,
        arguments in r#"(\{|\}|\[|\]|,|:|"a"|"A"|1|1.5|null){0,12}"#,
    ) {
        let schema = format!(r#"{{"properties":{{"a":{{"type":"string","x-mcp-header":"H"}},"b":{schema}}}}}"#);
        if let (Ok(Some(headers)), Ok(arguments)) = (ParamHeaders::from_schema(&schema), Raw::new(arguments))
            && let Ok(sent) = headers.values(Some(&arguments))
        {
            prop_assert_eq!(headers.check(Some(&arguments), &sent[..]), Ok(()));
        }
    }
}
