//! Cancelling between rounds.

use super::*;

/// C7.6, C5.9
#[test]
fn client_cancels_a_request_while_the_application_gathers_input() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"a": roots(), "b": form("B?")}));
    let asked = input_requests(&mut s);
    s.client.at(s.now).respond(asked[0].0, Ok(&ListRootsResult::new([])));
    s.client.at(s.now).cancel(request, Some("changed my mind"));
    assert_eq!(cancelled_inputs(&mut s), [asked[1].0]);
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    s.expect_silence();
    respond(&mut s, asked[1].0, "late");
    s.expect_silence();
    assert!(s.take_events().is_empty());
}

/// C7.6
#[test]
fn client_cancels_a_request_in_its_second_round_by_its_second_id() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require_nothing(&mut s, &id);
    let again = s.expect("tools/call");
    s.client.at(s.now).cancel(request, None);
    let cancelled = s.line();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &again)
    );
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    s.answer(&again, done());
    assert!(s.take_events().is_empty());
}

#[test]
fn client_cancels_a_request_during_its_pause() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require_nothing(&mut s, &id);
    let again = s.expect("tools/call");
    require_nothing(&mut s, &again);
    s.client.at(s.now).cancel(request, None);
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    s.advance(Duration::from_secs(60));
    s.expect_silence();
}

/// C7.5
#[test]
fn client_drops_responses_and_progress_of_an_ended_round() {
    let mut s = modern();
    let (request, first) = call(&mut s, RequestOptions::default());
    require(&mut s, &first, &json!({"r": roots()}));
    let input = single_input_request(&mut s);
    s.answer(&first, done());
    s.notify("notifications/progress", json!({"progressToken": first, "progress": 1}));
    assert!(s.take_events().is_empty(), "the round has ended");
    s.client.at(s.now).respond(input, Ok(&ListRootsResult::new([])));
    let second = s.expect("tools/call");
    s.answer(&first, json!({"content": []}));
    s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":{first},"result":{{"content":["#));
    assert!(!ended(&mut s, request), "a response to the first round does not answer the second");
    s.answer(&second, done());
    expect_done(&mut s, request);
}

/// C7.3, C7.8
#[test]
fn progress_of_a_later_round_reaches_its_request() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require_nothing(&mut s, &id);
    let again = s.line();
    let token = again["params"]["_meta"]["progressToken"].clone();
    s.advance(Duration::from_secs(20));
    s.notify("notifications/progress", json!({"progressToken": token, "progress": 1}));
    s.advance(Duration::from_secs(20));
    let progressed = |event: &Event| matches!(event, Event::Progress { request: of, .. } if *of == request);
    assert!(s.take_events().iter().any(progressed));
    s.answer(&again["id"], done());
    expect_done(&mut s, request);
}
