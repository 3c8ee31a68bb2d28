//! Pages that the user must open first (2026-07-28).

use super::*;

/// A tool call whose page the user has agreed to visit, and that was sent again with the answer.
fn agreed(s: &mut ClientHarness) -> (RequestId, Value) {
    let (request, id) = call(s, RequestOptions::default());
    let page = json!({"mode": "url", "elicitationId": "e", "url": "https://a.b/e", "message": "Log in"});
    require(s, &id, &json!({"page": {"method": "elicitation/create", "params": page}}));
    let input = single_input_request(s);
    s.client.at(s.now).respond(input, Ok(&ElicitResult::new(ElicitAction::Accept)));
    let line = s.line();
    assert_eq!(line["params"]["inputResponses"]["page"], json!({"action": "accept"}));
    (request, line["id"].clone())
}

/// The server is not satisfied yet: the request pauses.
fn pauses(s: &mut ClientHarness, id: &Value) {
    require_nothing(s, id);
    let again = s.expect("tools/call");
    require_nothing(s, &again);
    s.expect_silence();
}

/// C10.8
#[test]
fn user_can_retry_a_modern_request_after_a_page() {
    let mut s = modern();
    let (request, id) = agreed(&mut s);
    pauses(&mut s, &id);
    s.client.at(s.now).retry(request);
    let id = s.expect("tools/call");
    s.client.at(s.now).retry(request);
    s.expect_silence();
    s.answer(&id, done());
    expect_done(&mut s, request);
    s.client.at(s.now).retry(request);
    s.expect_silence();
}

/// C10.8
#[test]
fn user_can_cancel_a_modern_request_after_a_page() {
    let mut s = modern();
    let (request, id) = agreed(&mut s);
    pauses(&mut s, &id);
    s.client.at(s.now).cancel(request, None);
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    s.advance(Duration::from_secs(100));
    s.expect_silence();
}
