//! What a body is, and which a client takes.

use mcp_proto::codec::media::{accepts, is_type};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

#[test]
fn a_type_is_compared_without_case_and_parameters() {
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
fn another_type_is_another_type() {
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

fn both(accept: &[&str]) -> (bool, bool) {
    let values = || accept.iter().map(|value| value.as_bytes());
    (accepts(values(), JSON), accepts(values(), EVENTS))
}

/// C4.2
#[test]
fn a_client_names_what_it_takes() {
    assert_eq!(both(&["application/json, text/event-stream"]), (true, true));
    assert_eq!(both(&["Application/JSON", "TEXT/Event-Stream"]), (true, true));
    assert_eq!(both(&["application/json"]), (true, false));
    assert_eq!(both(&["text/html,text/event-stream;q=0.1"]), (false, true));
    assert_eq!(both(&["text/html"]), (false, false));
}

#[test]
fn a_client_that_names_nothing_takes_everything() {
    assert_eq!(both(&[]), (true, true));
    assert_eq!(both(&[" , ", ""]), (true, true));
}

#[test]
fn a_range_may_be_wide() {
    assert_eq!(both(&["*/*"]), (true, true));
    assert_eq!(both(&["Text/*"]), (false, true));
    assert_eq!(both(&["application/*;q=0.1, image/png"]), (true, false));
    assert_eq!(both(&["*/json, */", "/*", "*"]), (false, false));
}

#[test]
fn a_weight_of_nothing_refuses() {
    for zero in ["q=0", "Q=0", "q=0.", "q=0.000", " q=0 ", "charset=utf-8;q=0"] {
        assert_eq!(both(&[&format!("*/*, application/json;{zero}")]), (false, true), "{zero}");
    }
    for some in ["q=0.001", "q=1", "q=", "q=abc", "q=00", "", "x=0", "q"] {
        assert_eq!(both(&[&format!("application/json;{some}")]), (true, false), "{some}");
    }
}

#[test]
fn the_closest_range_decides_wherever_it_stands() {
    assert_eq!(both(&["text/event-stream;q=0, text/*, */*"]), (true, false));
    assert_eq!(both(&["*/*", "text/*", "text/event-stream;q=0"]), (true, false));
    assert_eq!(both(&["*/*;q=0, text/*;q=0, text/event-stream"]), (false, true));
    assert_eq!(both(&["text/*, */*;q=0"]), (false, true));
}

#[test]
fn one_of_several_such_ranges_is_enough() {
    assert_eq!(both(&["application/json;q=0, application/json;charset=utf-8"]), (true, false));
    assert_eq!(both(&["application/json;charset=utf-8, application/json;q=0"]), (true, false));
}

#[test]
fn separators_in_quotes_separate_nothing() {
    assert_eq!(both(&["text/html;a=\", application/json\""]), (false, false));
    assert_eq!(both(&["text/html;a=\"\\\", application/json\", text/event-stream"]), (false, true));
    assert_eq!(both(&["application/json;a=\";q=0\""]), (true, false));
}
