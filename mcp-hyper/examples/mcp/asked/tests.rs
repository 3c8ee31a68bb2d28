use mcp_proto::schema::ElicitSchema;
use serde_json::{Value, json};

use super::*;

/// What comes of a form when this is typed, and what the person was shown.
fn filled(properties: &str, required: &[&str], typed: &str) -> (Value, String) {
    let schema = format!(r#"{{"type":"object","properties":{properties},"required":{required:?}}}"#);
    let schema: ElicitSchema = serde_json::from_str(&schema).unwrap();
    asked(&ElicitParams::form("Who are you?", schema), typed)
}

fn asked(params: &ElicitParams, typed: &str) -> (Value, String) {
    let mut shown = Vec::new();
    let result = elicit(&mut Person::new(typed.as_bytes(), &mut shown), "a server", params);
    let result = result.unwrap_or_else(|Gone| ElicitResult::cancel());
    let shown = anstream::adapter::strip_str(&String::from_utf8(shown).unwrap()).to_string();
    (serde_json::to_value(result).unwrap(), shown)
}

/// C10.4, C10.5
#[test]
fn defaults_are_taken_by_an_empty_line_and_everything_is_reviewed() {
    let properties = r#"{
        "name": { "type": "string", "default": "Ada" },
        "age": { "type": "integer", "minimum": 18 },
        "score": { "type": "number", "default": 95.5 },
        "member": { "type": "boolean", "default": true }
    }"#;
    let (result, shown) = filled(properties, &["name", "age"], "y\n\n\nseven\n17\n30\n\nno\ny\n");
    let content = json!({ "name": "Ada", "age": 30, "score": 95.5, "member": false });
    assert_eq!(result, json!({ "action": "accept", "content": content }));
    for part in ["a server asks", "Who are you?", "This is required", "a whole number from 18", "member: no"]
    {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
}

/// C10.5
#[test]
fn choices_are_made_by_number_title_or_value() {
    let properties = r#"{
        "plain": { "type": "string", "enum": ["red", "green"] },
        "titled": { "type": "string", "oneOf": [{ "const": "r", "title": "Red" }, { "const": "g", "title": "Green" }] },
        "named": { "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"] },
        "many": { "type": "array", "items": { "type": "string", "enum": ["a", "b", "c"] }, "maxItems": 2 }
    }"#;
    let (result, shown) = filled(properties, &[], "y\n2\ngreen\nblue\nRed\na,b,c\nc, a, c\n\n");
    let content = json!({ "plain": "green", "titled": "g", "named": "r", "many": ["c", "a"] });
    assert_eq!(result["content"], content);
    assert!(shown.contains("\"blue\" is none of them"), "{shown}");
    for part in ["at most 2 of these", "named: Red", "titled: Green"] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
}

/// C10.4
#[test]
fn a_person_can_decline_or_go_away_at_any_time_and_change_what_they_typed() {
    let properties = r#"{ "name": { "type": "string" } }"#;
    for (typed, action) in [
        ("n\n", "decline"),
        ("c\n", "cancel"),
        ("", "cancel"),
        ("y\n", "cancel"),
        ("y\nAda\n", "cancel"),
        ("y\nAda\nn\n", "decline"),
        ("perhaps\nn\n", "decline"),
    ] {
        let (result, _) = filled(properties, &[], typed);
        assert_eq!(result, json!({ "action": action }), "{typed:?}");
    }
    let (result, _) = filled(properties, &[], "y\nAda\ne\nGrace\ny\n");
    assert_eq!(result["content"], json!({ "name": "Grace" }));
}

/// C10.6, C10.7
#[test]
fn a_page_is_shown_whole_with_its_host_apart() {
    let url = "https://good.example@xn--pypal-4ve.example/login?next=%2F";
    let (result, shown) = asked(&ElicitParams::url("Please log in", url), "\ny\n");
    assert_eq!(result, json!({ "action": "accept" }));
    assert!(
        shown.contains(url) && shown.contains("is at xn--pypal-4ve.example.") && shown.contains("Punycode")
    );
    let (result, shown) = asked(&ElicitParams::url("Please log in", "https://example.com/"), "n\n");
    assert_eq!(result, json!({ "action": "decline" }));
    assert!(!shown.contains("Punycode"));
}

#[test]
fn what_a_server_sends_does_not_steer_the_terminal() {
    let params = ElicitParams::url("\x1b[2Jhello", "https://example.com/\x1b[31m");
    let mut shown = Vec::new();
    let _ = elicit(&mut Person::new(&b"n\n"[..], &mut shown), "a server", &params);
    let shown = String::from_utf8(shown).unwrap();
    assert!(!shown.contains("\x1b[2J") && !shown.contains("\x1b[31m"));
}
