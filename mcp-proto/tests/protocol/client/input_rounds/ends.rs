//! Events that end a request between rounds.

use super::*;

/// C5.1
#[test]
fn input_required_result_without_requests_or_state_is_invalid() {
    let mut s = modern();
    let cases = [
        json!({"resultType": "input_required"}),
        json!({"resultType": "input_required", "requestState": null}),
        json!({"resultType": "input_required", "requestState": 5}),
        json!({"resultType": "input_required", "requestState": {"a": 1}}),
        json!({"resultType": "input_required", "inputRequests": []}),
        json!({"resultType": "input_required", "inputRequests": "x"}),
        json!({"resultType": "input_required", "inputRequests": {"a": 1}}),
        json!({"resultType": "input_required", "inputRequests": {"a": {"params": {}}}}),
    ];
    for mode in [InputMode::Automatic, InputMode::Manual] {
        for result in &cases {
            let (request, id) = call(&mut s, RequestOptions::default().input(mode));
            s.answer(&id, result.clone());
            let by_hand = mode == InputMode::Manual && result["inputRequests"].is_object();
            match s.outcome(request) {
                Outcome::Invalid(InvalidAnswerError::Malformed(_)) => assert!(!by_hand, "{result}"),
                Outcome::InputRequired(_) => assert!(by_hand, "{result}"),
                other => panic!("{result}: {other:?}"),
            }
            s.expect_silence();
        }
    }
}

#[test]
fn repeated_key_makes_the_result_invalid() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    let twice = r#"{"a":{"method":"roots/list"},"\u0061":{"method":"roots/list"}}"#;
    s.send_text(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","inputRequests":{twice}}}}}"#
    ));
    assert!(matches!(s.outcome(request), Outcome::Invalid(InvalidAnswerError::Malformed(_))));
    assert!(input_requests(&mut s).is_empty());
}

#[test]
fn unknown_input_request_ends_the_request_without_asking_the_application() {
    let mut s = modern();
    for method in ["ping", "tools/call", "tasks/get", "", "elicitation/Create"] {
        let (request, id) = call(&mut s, RequestOptions::default());
        require(&mut s, &id, &json!({"r": roots(), "x": {"method": method, "params": {}}}));
        match s.outcome(request) {
            Outcome::Input(InputError::NotAnInput { key, method: named }) => {
                assert_eq!((&*key, &*named), ("x", method));
            }
            other => panic!("{other:?}"),
        }
        assert!(input_requests(&mut s).is_empty());
        s.expect_silence();
    }
}

/// C10.1
#[test]
fn input_request_without_its_capability_ends_the_request() {
    let mut config = config();
    config.capabilities = config.capabilities.with(ClientCapability::ElicitationForm);
    let mut s = ClientHarness::modern(config);
    let url = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a.b"}});
    for (asked_for, needed) in [(url, ClientCapability::ElicitationUrl), (roots(), ClientCapability::Roots)] {
        let (request, id) = call(&mut s, RequestOptions::default());
        require(&mut s, &id, &json!({"k": asked_for}));
        match s.outcome(request) {
            Outcome::Input(InputError::Undeclared { key, needed: missing, .. }) => {
                assert_eq!((&*key, missing), ("k", needed));
            }
            other => panic!("{other:?}"),
        }
        assert!(input_requests(&mut s).is_empty());
        s.expect_silence();
    }
}

/// C11.3
#[test]
fn sampling_with_undeclared_tools_ends_the_request() {
    let mut config = config();
    config.capabilities = config.capabilities.with(ClientCapability::Sampling);
    let mut s = ClientHarness::modern(config);
    for (field, value) in [
        ("tools", json!([{"name": "t", "inputSchema": {"type": "object"}}])),
        ("toolChoice", json!({"mode": "auto"})),
    ] {
        let mut params = json!({"messages": [], "maxTokens": 1});
        params[field] = value;
        let (request, id) = call(&mut s, RequestOptions::default());
        require(&mut s, &id, &json!({"k": {"method": "sampling/createMessage", "params": params}}));
        match s.outcome(request) {
            Outcome::Input(InputError::Undeclared { needed, .. }) => {
                assert_eq!(needed, ClientCapability::SamplingTools);
            }
            other => panic!("{other:?}"),
        }
        assert!(input_requests(&mut s).is_empty());
        s.expect_silence();
    }
}

/// C5.9
#[test]
fn error_of_one_input_ends_the_request_and_cancels_the_others() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"a": roots(), "b": form("B?"), "c": roots()}));
    let asked = input_requests(&mut s);
    s.client.at(s.now).respond(asked[0].0, Ok(&ListRootsResult::new([])));
    s.client.at(s.now).respond(asked[1].0, Err(ErrorObject::new(code::USER_REJECTED, "no")));
    assert_eq!(cancelled_inputs(&mut s), [asked[2].0]);
    match s.outcome(request) {
        Outcome::Input(InputError::Failed { key, error }) => {
            assert_eq!((&*key, error.code), ("b", code::USER_REJECTED));
        }
        other => panic!("{other:?}"),
    }
    s.expect_silence();
    s.client.at(s.now).respond(asked[2].0, Ok(&ListRootsResult::new([])));
    s.expect_silence();
}

#[test]
fn too_many_input_requests_end_the_request() {
    let mut config = open_config();
    config.limits.requests_in = 3;
    let mut s = ClientHarness::modern(config);
    let (first, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"a": roots(), "b": roots()}));
    let (second, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"a": roots(), "b": roots()}));
    assert!(matches!(s.outcome(second), Outcome::Input(InputError::TooMany { count: 2 })));
    assert_eq!(input_requests(&mut s).len(), 2);
    assert!(!ended(&mut s, first));
}

#[test]
fn an_error_in_a_later_round_ends_the_request() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require_nothing(&mut s, &id);
    let id = s.expect("tools/call");
    s.answer_error(&id, -32602, None);
    assert!(matches!(s.outcome(request), Outcome::Error(ErrorObject { code: -32602, .. })));
    s.advance(Duration::from_secs(60));
    s.expect_silence();
}

#[test]
fn connection_lost_during_a_round_ends_the_request_and_cancels_its_inputs() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    let (pausing, other) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"a": roots(), "b": form("B?")}));
    require_nothing(&mut s, &other);
    let other = s.expect("tools/call");
    require_nothing(&mut s, &other);
    let asked = input_requests(&mut s);
    s.client.at(s.now).respond(asked[0].0, Ok(&ListRootsResult::new([])));
    s.end("killed");
    assert_eq!(cancelled_inputs(&mut s), [asked[1].0]);
    assert!(matches!(s.outcome(request), Outcome::Lost(LostReason::Disconnected(_))));
    assert!(matches!(s.outcome(pausing), Outcome::Lost(LostReason::Disconnected(_))));
    assert!(matches!(s.take_events().last(), Some(Event::Closed(CloseReason::Lost(_)))));
    respond(&mut s, asked[1].0, "late");
    s.expect_silence();
    assert_eq!(s.client.poll_timeout(), None);
}

#[test]
fn closing_client_lets_a_request_with_pending_input_finish() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"r": roots()}));
    let input = single_input_request(&mut s);
    s.client.at(s.now).close();
    s.client.at(s.now).respond(input, Ok(&ListRootsResult::new([])));
    let id = s.expect("tools/call");
    s.answer(&id, done());
    expect_done(&mut s, request);
    let (request, closing) = {
        let mut s = modern();
        let (request, id) = call(&mut s, RequestOptions::default());
        require(&mut s, &id, &json!({"r": roots()}));
        let input = single_input_request(&mut s);
        s.client.at(s.now).close();
        s.advance(Duration::from_secs(2));
        assert_eq!(cancelled_inputs(&mut s), [input]);
        (request, s)
    };
    let mut s = closing;
    assert!(matches!(s.outcome(request), Outcome::Lost(LostReason::Closed)));
    s.expect_silence();
}

/// C5.2
#[test]
fn manual_input_ends_the_request_and_its_retry_is_a_new_request() {
    let mut s = modern();
    let (request, first) = call(&mut s, RequestOptions::default().input(InputMode::Manual));
    require(&mut s, &first, &json!({"r": roots()}));
    let Outcome::InputRequired(raw) = s.outcome(request) else { panic!() };
    let needed: mcp_proto::schema::InputRequiredResult = raw.decode().unwrap();
    assert!(input_requests(&mut s).is_empty());
    let mut params = CallToolParams::new("slow");
    params.input_responses = Some([("r", ListRootsResult::new([]).into())].into_iter().collect());
    params.request_state = needed.request_state;
    s.client.at(s.now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
    let again = s.line();
    assert_ne!(again["id"], first);
    assert_eq!(again["params"]["requestState"], "S");
    assert_eq!(again["params"]["inputResponses"], json!({"r": {"roots": []}}));
}
