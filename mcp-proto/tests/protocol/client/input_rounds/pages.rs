//! Pages that the user must open first (2025-11-25).

use super::*;

fn page(id: &str) -> Value {
    json!({"mode": "url", "elicitationId": id, "url": format!("https://a.b/{id}"), "message": "Log in"})
}

fn legacy() -> ClientHarness {
    ClientHarness::legacy(open_config())
}

fn refuse(s: &mut ClientHarness, id: &Value, pages: &[Value]) {
    s.answer_error(id, code::URL_ELICITATION_REQUIRED, Some(json!({"elicitations": pages})));
}

fn agree(s: &mut ClientHarness, id: InboundId) {
    s.client.at(s.now).respond(id, Ok(&ElicitResult::new(ElicitAction::Accept)));
}

/// C10.9
#[test]
fn client_retries_after_a_page_when_the_server_reports_completion() {
    let mut s = legacy();
    let params = CallToolParams::new("slow").with_arguments(json!({"a": 1}));
    let request = s.client.at(s.now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
    let first = s.line();
    refuse(&mut s, &first["id"], &[page("p1"), page("p2")]);
    let asked = input_requests(&mut s);
    assert_eq!(asked.len(), 2);
    assert_eq!((asked[0].1, &asked[0].2["url"]), ("elicitation/create", &json!("https://a.b/p1")));
    assert_eq!(asked[1].2["elicitationId"], "p2");
    agree(&mut s, asked[0].0);
    // The server reports completion before the user answers for the second page.
    s.notify("notifications/elicitation/complete", json!({"elicitationId": "p1"}));
    agree(&mut s, asked[1].0);
    s.advance(Duration::from_secs(1));
    s.expect_silence();
    for ignored in ["p1", "unknown"] {
        s.notify("notifications/elicitation/complete", json!({"elicitationId": ignored}));
    }
    s.expect_silence();
    s.notify("notifications/elicitation/complete", json!({"elicitationId": "p2"}));
    let second = s.line();
    assert_ne!(second["id"], first["id"]);
    assert_eq!(second["params"], first["params"], "the retry equals the first request");
    s.answer(&second["id"], json!({"content": [{"type": "text", "text": "done"}]}));
    expect_done(&mut s, request);
}

/// C10.9
#[test]
fn client_retries_after_a_page_without_a_completion_notification() {
    let mut s = legacy();
    let (request, mut id) = call(&mut s, RequestOptions::default());
    refuse(&mut s, &id, &[page("p")]);
    let input = single_input_request(&mut s);
    s.advance(Duration::from_secs(40));
    agree(&mut s, input);
    for seconds in [2, 4, 8, 16, 32, 60, 60] {
        s.advance(Duration::from_millis(seconds * 1000 - 1));
        s.expect_silence();
        s.advance(Duration::from_millis(1));
        id = s.expect("tools/call");
        refuse(&mut s, &id, &[page("p")]);
        assert!(input_requests(&mut s).is_empty(), "the user is not asked twice");
    }
    s.notify("notifications/elicitation/complete", json!({"elicitationId": "p"}));
    id = s.expect("tools/call");
    s.answer(&id, json!({"content": [{"type": "text", "text": "done"}]}));
    expect_done(&mut s, request);
}

/// C10.9
#[test]
fn user_who_declines_ends_the_request_with_the_server_error() {
    let mut s = legacy();
    for answer in [ElicitResult::decline(), ElicitResult::cancel()] {
        let (request, id) = call(&mut s, RequestOptions::default());
        refuse(&mut s, &id, &[page("p")]);
        let input = single_input_request(&mut s);
        s.client.at(s.now).respond(input, Ok(&answer));
        let Outcome::Error(error) = s.outcome(request) else { panic!() };
        assert_eq!(error.code, code::URL_ELICITATION_REQUIRED);
        assert!(error.data.is_some());
        s.advance(Duration::from_secs(100));
        s.expect_silence();
    }
}

/// C10.9
#[test]
fn client_passes_on_the_error_without_pages_or_without_the_capability() {
    let is_error = |s: &mut ClientHarness, request| matches!(s.outcome(request), Outcome::Error(error) if error.code == code::URL_ELICITATION_REQUIRED);
    let mut s = legacy();
    let form = json!({"mode": "form", "elicitationId": "x", "message": "m", "requestedSchema": {}});
    for data in
        [None, Some(json!({})), Some(json!({"elicitations": []})), Some(json!({"elicitations": [form]}))]
    {
        let (request, id) = call(&mut s, RequestOptions::default());
        s.answer_error(&id, code::URL_ELICITATION_REQUIRED, data);
        assert!(is_error(&mut s, request));
    }
    let (request, id) = call(&mut s, RequestOptions::default().input(InputMode::Manual));
    refuse(&mut s, &id, &[page("p")]);
    assert!(is_error(&mut s, request));
    let older = ClientHarness::legacy_at(open_config(), "2025-06-18");
    for mut s in [ClientHarness::legacy(config()), older, modern()] {
        let (request, id) = call(&mut s, RequestOptions::default());
        refuse(&mut s, &id, &[page("p")]);
        assert!(is_error(&mut s, request));
        assert!(input_requests(&mut s).is_empty());
    }
}

/// C10.9
#[test]
fn cancelling_ends_the_wait_for_a_page() {
    let mut s = legacy();
    let (request, id) = call(&mut s, RequestOptions::default());
    refuse(&mut s, &id, &[page("p")]);
    let input = single_input_request(&mut s);
    agree(&mut s, input);
    s.client.at(s.now).cancel(request, None);
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    s.notify("notifications/elicitation/complete", json!({"elicitationId": "p"}));
    s.advance(Duration::from_secs(300));
    s.expect_silence();
}

/// C10.8, C10.9
#[test]
fn application_reports_that_the_page_is_done() {
    let mut s = legacy();
    let (request, id) = call(&mut s, RequestOptions::default());
    s.client.at(s.now).retry(request);
    refuse(&mut s, &id, &[page("p")]);
    let input = single_input_request(&mut s);
    s.client.at(s.now).retry(request);
    s.expect_silence();
    agree(&mut s, input);
    s.client.at(s.now).retry(request);
    let again = s.expect("tools/call");
    s.client.at(s.now).retry(request);
    s.expect_silence();
    s.answer(&again, json!({"content": [{"type": "text", "text": "done"}]}));
    expect_done(&mut s, request);
    s.client.at(s.now).retry(request);
    s.expect_silence();
}

/// Contract 8
#[test]
fn client_refuses_more_pages_than_it_takes() {
    let mut config = open_config();
    config.limits.requests_in = 2;
    let mut s = ClientHarness::legacy(config);
    let (request, id) = call(&mut s, RequestOptions::default());
    refuse(&mut s, &id, &["a", "b", "a", "c"].map(page));
    assert!(matches!(s.outcome(request), Outcome::Input(InputError::TooMany { count: 3 })));
    let (_, id) = call(&mut s, RequestOptions::default());
    refuse(&mut s, &id, &["a", "b", "a", "b"].map(page));
    assert_eq!(input_requests(&mut s).len(), 2, "each once");
}
