//! Pauses and limits.

use super::*;

/// C5.6, C5.7
#[test]
fn client_returns_a_state_without_requests_at_once_and_then_with_backoff() {
    let mut s = modern();
    let options = RequestOptions::default().timeout(Duration::from_secs(1));
    let (request, mut id) = call(&mut s, options);
    for pause in [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000] {
        require_nothing(&mut s, &id);
        if pause > 0 {
            s.advance(Duration::from_millis(pause - 1));
            s.expect_silence();
            s.advance(Duration::from_millis(1));
        }
        id = s.expect("tools/call");
    }
    require_nothing(&mut s, &id);
    assert!(matches!(s.outcome(request), Outcome::Input(InputError::TooManyRounds { limit: 10 })));
    s.expect_silence();
}

/// C5.7
#[test]
fn client_gives_up_on_a_server_with_endless_rounds() {
    let mut config = open_config();
    config.limits.input_rounds = 2;
    let mut s = ClientHarness::modern(config);
    let (request, mut id) = call(&mut s, RequestOptions::default());
    for _ in 0..2 {
        require(&mut s, &id, &json!({"r": roots()}));
        let input = single_input_request(&mut s);
        s.client.at(s.now).respond(input, Ok(&ListRootsResult::new([])));
        id = s.expect("tools/call");
    }
    require(&mut s, &id, &json!({"r": roots()}));
    assert!(matches!(s.outcome(request), Outcome::Input(InputError::TooManyRounds { limit: 2 })));
    assert!(input_requests(&mut s).is_empty());
}

/// C5.7
#[test]
fn input_request_resets_the_backoff() {
    let mut s = modern();
    let (_, mut id) = call(&mut s, RequestOptions::default());
    for _ in 0..2 {
        require_nothing(&mut s, &id);
        s.advance(Duration::from_millis(100));
        id = s.expect("tools/call");
    }
    require(&mut s, &id, &json!({"r": roots()}));
    let input = single_input_request(&mut s);
    s.client.at(s.now).respond(input, Ok(&ListRootsResult::new([])));
    id = s.expect("tools/call");
    require_nothing(&mut s, &id);
    s.expect("tools/call");
}

#[test]
fn empty_input_requests_get_empty_responses() {
    let mut s = modern();
    let (_, id) = call(&mut s, RequestOptions::default());
    s.answer(&id, json!({"resultType": "input_required", "inputRequests": {}}));
    assert_eq!(s.line()["params"]["inputResponses"], json!({}));
}

/// C7.1
#[test]
fn timeout_is_suspended_while_the_application_gathers_input() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    s.advance(Duration::from_secs(20));
    require(&mut s, &id, &json!({"r": roots()}));
    let input = single_input_request(&mut s);
    s.advance(Duration::from_secs(300));
    assert!(!ended(&mut s, request));
    s.client.at(s.now).respond(input, Ok(&ListRootsResult::new([])));
    let id = s.expect("tools/call");
    s.advance(Duration::from_secs(29));
    assert!(!ended(&mut s, request), "the timeout starts again");
    s.advance(Duration::from_secs(1));
    assert!(matches!(s.outcome(request), Outcome::TimedOut { hard: false, .. }));
    let cancelled = s.line();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], id, "cancelled by the id of the last round");
}

/// C7.4
#[test]
fn hard_timeout_covers_all_rounds() {
    let mut s = modern();
    let options = RequestOptions::default().hard_timeout(Duration::from_secs(100));
    let (request, id) = call(&mut s, options);
    s.advance(Duration::from_secs(20));
    require(&mut s, &id, &json!({"r": roots()}));
    let input = single_input_request(&mut s);
    s.advance(Duration::from_secs(20));
    s.client.at(s.now).respond(input, Ok(&ListRootsResult::new([])));
    let id = s.expect("tools/call");
    require(&mut s, &id, &json!({"r": roots()}));
    let input = single_input_request(&mut s);
    s.advance(Duration::from_secs(59));
    assert!(!ended(&mut s, request));
    s.advance(Duration::from_secs(1));
    assert_eq!(cancelled_inputs(&mut s), [input]);
    match s.outcome(request) {
        Outcome::TimedOut { after, hard: true, .. } => assert_eq!(after, Duration::from_secs(100)),
        other => panic!("{other:?}"),
    }
    s.expect_silence();
    respond(&mut s, input, "late");
    s.expect_silence();
    assert_eq!(s.client.poll_timeout(), None);
}

#[test]
fn request_with_a_zero_timeout_ends_when_it_is_sent_again() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require_nothing(&mut s, &id);
    let id = s.expect("tools/call");
    require_nothing(&mut s, &id);
    s.client.at(s.now).cancel(request, None);
    s.advance(Duration::from_secs(1));
    s.expect_silence();
    let (request, id) = call(&mut s, RequestOptions::default().timeout(Duration::ZERO));
    require_nothing(&mut s, &id);
    s.expect("tools/call");
    s.advance(Duration::ZERO);
    assert!(matches!(s.outcome(request), Outcome::TimedOut { .. }));
}

/// Contract 8: input requests beyond the limit are counted and not parsed.
#[test]
fn client_refuses_more_input_requests_than_it_takes() {
    let mut config = open_config();
    config.limits.requests_in = 2;
    let mut s = ClientHarness::modern(config);
    let (request, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"a": roots(), "b": roots(), "c": 1, "d": 2}));
    assert!(matches!(s.outcome(request), Outcome::Input(InputError::TooMany { count: 4 })));
    assert!(input_requests(&mut s).is_empty());
    let (request, id) = call(&mut s, RequestOptions::default());
    let requests = r#"{"a":{"method":"roots/list"},"a":{"method":"roots/list"}}"#;
    let result = format!(r#"{{"resultType":"input_required","inputRequests":{requests}}}"#);
    s.send_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    let Outcome::Invalid(InvalidAnswerError::Malformed(what)) = s.outcome(request) else {
        panic!("it is malformed")
    };
    assert_eq!(what, "the input \"a\" is asked for twice");
}
