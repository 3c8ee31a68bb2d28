//! Forms: their defaults, and which contents are valid.

use crate::common::front::ClientHarness;
use crate::common::messages::request;
use mcp_proto::front::ClientHandlers;
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    ElicitAction, ElicitParams, ElicitResult, ElicitSchema, ElicitValue, FieldError, Map, Revision,
};
use serde_json::{Value, json};

fn form(properties: Value, required: Value) -> ElicitSchema {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    serde_json::from_str(&schema.to_string()).unwrap()
}

fn content(value: Value) -> Map<ElicitValue> {
    let result = json!({"action": "accept", "content": value});
    serde_json::from_str::<ElicitResult>(&result.to_string()).unwrap().content.unwrap()
}

/// The error for one field with this schema and value.
fn problem(field: &Value, value: Value) -> Option<FieldError> {
    let checked = form(json!({"f": field}), json!([])).check(&content(json!({"f": value})));
    checked.err().map(|error| {
        assert_eq!(error.field, "f");
        error.error
    })
}

/// C10.5
#[test]
fn form_takes_the_default_of_every_kind_of_field() {
    let form = form(
        json!({
            "name": {"type": "string", "default": "John"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "verified": {"type": "boolean", "default": false},
            "status": {"type": "string", "enum": ["on", "off"], "default": "off"},
            "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"},
            "many": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "default": ["x", "y"]},
            "none": {"type": "string"},
            "odd": {"type": "object", "default": {}},
        }),
        json!([]),
    );
    let defaults = json!({
        "name": "John", "age": 30, "score": 95.5, "verified": false, "status": "off", "titled": "a", "many": ["x", "y"],
    });
    assert_eq!(serde_json::to_value(form.defaults()).unwrap(), defaults);
}

/// C10.5: the work grows linearly with what a server can make large.
#[test]
fn form_with_very_many_fields_is_filled_in_quickly() {
    let fields: serde_json::Map<_, _> =
        (0..20_000).map(|n| (n.to_string(), json!({"type": "boolean", "default": true}))).collect();
    let form = form(json!(fields), json!((0..20_000).map(|n| n.to_string()).collect::<Vec<_>>()));
    let defaults = form.defaults();
    assert_eq!(defaults.len(), 20_000);
    assert_eq!(form.check(&defaults), Ok(()));
}

/// C10.5: an invalid default of the server does not make the content invalid.
#[test]
fn form_ignores_an_invalid_default() {
    let form = form(
        json!({
            "short": {"type": "string", "minLength": 3, "default": "ab"},
            "status": {"type": "string", "enum": ["on"], "default": "off"},
            "half": {"type": "integer", "default": 0.5},
            "fine": {"type": "boolean", "default": true},
        }),
        json!([]),
    );
    assert_eq!(serde_json::to_value(form.defaults()).unwrap(), json!({"fine": true}));
}

/// C10.5
#[test]
fn defaults_fill_in_only_missing_fields() {
    let form = form(
        json!({"a": {"type": "string", "default": "A"}, "b": {"type": "string", "default": "B"}}),
        json!([]),
    );
    let mut filled = content(json!({"b": "mine", "c": 1}));
    form.fill_in(&mut filled);
    assert_eq!(serde_json::to_value(&filled).unwrap(), json!({"b": "mine", "c": 1, "a": "A"}));
}

/// C10.5, D6
#[test]
fn form_validates_numbers() {
    let number = json!({"type": "number", "minimum": 0, "maximum": 100});
    for fits in [json!(0), json!(95.5), json!(100), json!(1e1)] {
        assert_eq!(problem(&number, fits), None);
    }
    assert_eq!(problem(&number, json!(-0.5)), Some(FieldError::TooSmall));
    assert_eq!(problem(&number, json!(100.5)), Some(FieldError::TooLarge));
    assert_eq!(problem(&number, json!("5")), Some(FieldError::Type("a number")));
    let integer = json!({"type": "integer"});
    assert_eq!(problem(&integer, json!(5.0)), None);
    assert_eq!(problem(&integer, json!(u64::MAX)), None);
    assert_eq!(problem(&integer, json!(5.5)), Some(FieldError::Type("a whole number")));
    assert_eq!(problem(&integer, json!(true)), Some(FieldError::Type("a whole number")));
}

/// C10.5
#[test]
fn form_validates_texts() {
    let text = json!({"type": "string", "minLength": 2, "maxLength": 3});
    // Characters, not bytes.
    assert_eq!(problem(&text, json!("äöü")), None);
    assert_eq!(problem(&text, json!("ä")), Some(FieldError::TooShort));
    assert_eq!(problem(&text, json!("abcd")), Some(FieldError::TooLong));
    assert_eq!(problem(&text, json!(["ab"])), Some(FieldError::Type("a text")));
    for (format, fits, other) in [
        ("email", "ada@example.com", "ada"),
        ("uri", "https://example.com", "example"),
        ("date", "2026-07-28", "28.7.2026"),
        ("date-time", "2026-07-28T10:00:00Z", "2026-07-28"),
    ] {
        let text = json!({"type": "string", "format": format});
        assert_eq!(problem(&text, json!(fits)), None);
        let Some(FieldError::Format(wrong)) = problem(&text, json!(other)) else { panic!("{format}") };
        assert_eq!(wrong.as_str(), format);
    }
    assert_eq!(problem(&json!({"type": "string", "format": "hostname"}), json!("any")), None);
}

/// C10.5
#[test]
fn form_validates_choices() {
    let one = json!({"type": "string", "enum": ["on", "off"]});
    let titled = json!({"type": "string", "oneOf": [{"const": "on", "title": "On"}]});
    for field in [one, titled] {
        assert_eq!(problem(&field, json!("on")), None);
        assert_eq!(problem(&field, json!("On")), Some(FieldError::Choice));
        assert_eq!(problem(&field, json!(["on"])), Some(FieldError::Type("a text")));
    }
    let options =
        json!([{"const": "a", "title": "A"}, {"const": "b", "title": "B"}, {"const": "c", "title": "C"}]);
    for items in [json!({"type": "string", "enum": ["a", "b", "c"]}), json!({"anyOf": options})] {
        let many = json!({"type": "array", "items": items, "minItems": 1, "maxItems": 2});
        assert_eq!(problem(&many, json!(["c", "a"])), None);
        assert_eq!(problem(&many, json!([])), Some(FieldError::TooFew));
        assert_eq!(problem(&many, json!(["a", "b", "c"])), Some(FieldError::TooMany));
        assert_eq!(problem(&many, json!(["d"])), Some(FieldError::Choice));
        assert_eq!(problem(&many, json!("a")), Some(FieldError::Type("a list of texts")));
    }
    assert_eq!(problem(&json!({"type": "boolean"}), json!(true)), None);
    assert_eq!(problem(&json!({"type": "boolean"}), json!("true")), Some(FieldError::Type("yes or no")));
}

/// C10.5
#[test]
fn form_requires_its_required_fields() {
    let form = form(json!({"a": {"type": "string"}, "b": {"type": "string"}}), json!(["b"]));
    assert!(form.check(&content(json!({"b": ""}))).is_ok());
    let error = form.check(&content(json!({"a": "x"}))).unwrap_err();
    assert_eq!(error.to_string(), r#"the field "b" is missing"#);
    // A form that has no such field cannot be filled in.
    let error = self::form(json!({}), json!(["c"])).check(&Map::new()).unwrap_err();
    assert_eq!(error.error, FieldError::Missing);
}

/// C10.4, C10.5: the user may decline any form.
#[test]
fn form_validates_only_accepted_content() {
    let params = ElicitParams::form("Your name?", form(json!({"name": {"type": "string"}}), json!(["name"])));
    for answer in [ElicitResult::decline(), ElicitResult::cancel()] {
        assert!(params.validate_answer(answer, Revision::V2026_07_28).is_ok());
    }
    let empty = ElicitResult::new(ElicitAction::Accept);
    assert_eq!(params.validate_answer(empty.clone(), Revision::V2026_07_28).unwrap_err().field, "name");
    let page = ElicitParams::url("Sign in", "https://example.com");
    assert!(page.validate_answer(empty, Revision::V2026_07_28).is_ok());
}

/// C10.5: a client that knows single choices only is sent one, and answers with one.
#[test]
fn single_choice_of_an_old_client_becomes_a_list_of_one() {
    let many = json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}});
    let params = ElicitParams::form("Which?", form(json!({"many": many}), json!([])));
    let answer = ElicitResult::accept(content(json!({"many": "b"})));
    let taken = params.validate_answer(answer.clone(), Revision::V2025_06_18).unwrap();
    assert_eq!(taken.content.unwrap().get("many"), Some(&ElicitValue::Strings(vec!["b".into()])));
    assert!(params.validate_answer(answer, Revision::V2025_11_25).is_err());
    let other = ElicitResult::accept(content(json!({"many": "c"})));
    assert_eq!(params.validate_answer(other, Revision::V2025_06_18).unwrap_err().error, FieldError::Choice);
}

fn asked(answer: impl Fn(&ElicitSchema) -> ElicitResult + Send + Sync + 'static) -> Value {
    let answer = std::sync::Arc::new(answer);
    let handlers = ClientHandlers::new().elicitation(move |params, _| {
        let answer = answer.clone();
        async move {
            match &params {
                ElicitParams::Form(form) => answer(&form.requested_schema),
                _ => ElicitResult::decline(),
            }
        }
    });
    let mut s = ClientHarness::legacy_with(handlers);
    let age = json!({"type": "integer", "minimum": 18, "default": 30});
    let schema = json!({"type": "object", "properties": {"age": age}, "required": ["age"]});
    s.receive(&[request(
        &json!(1),
        "elicitation/create",
        json!({"message": "?", "requestedSchema": schema}),
    )]);
    s.line()
}

/// C10.5
#[test]
fn client_does_not_send_content_that_violates_the_form() {
    let line = asked(|form| ElicitResult::accept(form.defaults()));
    assert_eq!(line["result"], json!({"action": "accept", "content": {"age": 30}}));
    assert_eq!(asked(|_| ElicitResult::decline())["result"]["action"], "decline");
    let line = asked(|_| ElicitResult::accept(content(json!({"age": 17}))));
    assert_eq!(line["error"]["code"], code::INTERNAL_ERROR);
    assert_eq!(
        line["error"]["message"],
        r#"the form was not filled in correctly: the field "age" is too small"#
    );
    assert!(asked(|_| ElicitResult::new(ElicitAction::Accept))["error"].is_object());
}
