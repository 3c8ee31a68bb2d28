//! Matching of `Content-Type` and `Accept`.

use mcp_proto::codec::media::{accepts, is_type};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

#[test]
fn media_type_ignores_case_and_parameters() {
    for content_type in [
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        " application/json ; charset=\"utf-8;\"",
        "application/json;",
    ] {
        assert!(is_type(content_type.as_bytes(), JSON), "{content_type}");
    }
}

#[test]
fn similar_media_types_do_not_match() {
    for content_type in [
        "",
        "application/json-rpc",
        "application/problem+json",
        "application",
        "json",
        "text/json",
        "application/json, text/html",
        "text/html; a=application/json",
        "application / json",
    ] {
        assert!(!is_type(content_type.as_bytes(), JSON), "{content_type}");
    }
}

fn accepts_json_and_events(accept: &[&str]) -> (bool, bool) {
    let values = || accept.iter().map(|value| value.as_bytes());
    (accepts(values(), JSON), accepts(values(), EVENTS))
}

/// C4.2
#[test]
fn accept_lists_media_types() {
    assert_eq!(accepts_json_and_events(&["application/json, text/event-stream"]), (true, true));
    assert_eq!(accepts_json_and_events(&["Application/JSON", "TEXT/Event-Stream"]), (true, true));
    assert_eq!(accepts_json_and_events(&["application/json"]), (true, false));
    assert_eq!(accepts_json_and_events(&["text/html,text/event-stream;q=0.1"]), (false, true));
    assert_eq!(accepts_json_and_events(&["text/html"]), (false, false));
}

#[test]
fn client_without_accept_accepts_every_type() {
    assert_eq!(accepts_json_and_events(&[]), (true, true));
    assert_eq!(accepts_json_and_events(&[" , ", ""]), (true, true));
}

#[test]
fn accept_may_have_wildcards() {
    assert_eq!(accepts_json_and_events(&["*/*"]), (true, true));
    assert_eq!(accepts_json_and_events(&["Text/*"]), (false, true));
    assert_eq!(accepts_json_and_events(&["application/*;q=0.1, image/png"]), (true, false));
    assert_eq!(accepts_json_and_events(&["*/json, */", "/*", "*"]), (false, false));
}

#[test]
fn weight_of_zero_refuses_a_type() {
    for zero in ["q=0", "Q=0", "q=0.", "q=0.000", " q=0 ", "charset=utf-8;q=0"] {
        assert_eq!(
            accepts_json_and_events(&[&format!("*/*, application/json;{zero}")]),
            (false, true),
            "{zero}"
        );
    }
    for some in ["q=0.001", "q=1", "q=", "q=abc", "q=00", "", "x=0", "q"] {
        assert_eq!(accepts_json_and_events(&[&format!("application/json;{some}")]), (true, false), "{some}");
    }
}

#[test]
fn most_specific_range_decides_at_any_position() {
    assert_eq!(accepts_json_and_events(&["text/event-stream;q=0, text/*, */*"]), (true, false));
    assert_eq!(accepts_json_and_events(&["*/*", "text/*", "text/event-stream;q=0"]), (true, false));
    assert_eq!(accepts_json_and_events(&["*/*;q=0, text/*;q=0, text/event-stream"]), (false, true));
    assert_eq!(accepts_json_and_events(&["text/*, */*;q=0"]), (false, true));
}

#[test]
fn one_accepting_range_of_several_equal_ones_is_enough() {
    assert_eq!(
        accepts_json_and_events(&["application/json;q=0, application/json;charset=utf-8"]),
        (true, false)
    );
    assert_eq!(
        accepts_json_and_events(&["application/json;charset=utf-8, application/json;q=0"]),
        (true, false)
    );
}

#[test]
fn parser_ignores_separators_in_quotes() {
    assert_eq!(accepts_json_and_events(&["text/html;a=\", application/json\""]), (false, false));
    assert_eq!(
        accepts_json_and_events(&["text/html;a=\"\\\", application/json\", text/event-stream"]),
        (false, true)
    );
    assert_eq!(accepts_json_and_events(&["application/json;a=\";q=0\""]), (true, false));
}
