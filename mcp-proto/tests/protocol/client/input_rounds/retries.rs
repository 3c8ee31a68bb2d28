//! Retries: the request that the client sends again.

use super::*;

/// C5.2, C5.4
#[test]
fn client_retries_with_the_responses_under_a_new_id() {
    let mut s = modern();
    let params = CallToolParams::new("slow").with_arguments(json!({"b": 1, "a": [null, "x"]}));
    let request = s.client.at(s.now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
    let first = s.line();
    require(&mut s, &first["id"], &json!({"who": form("Who?")}));
    let [(id, method, params)] = &input_requests(&mut s)[..] else { panic!() };
    assert_eq!((*method, &params["message"]), ("elicitation/create", &json!("Who?")));
    assert_eq!(s.client.peer().on_behalf_of(*id), Some(request));
    s.expect_silence();
    respond(&mut s, *id, "Ada");
    let second = s.line();
    assert_ne!(second["id"], first["id"]);
    assert_eq!(second["method"], "tools/call");
    let mut expected = first["params"].clone();
    expected["inputResponses"] = json!({"who": {"action": "accept", "content": {"name": "Ada"}}});
    expected["requestState"] = json!("S");
    assert_eq!(second["params"], expected, "the original parameters, and nothing else changed");
    s.answer(&second["id"], done());
    expect_done(&mut s, request);
    s.expect_silence();
}

/// C5.1
#[test]
fn each_of_the_three_methods_supports_input_rounds() {
    let mut s = modern();
    let options = RequestOptions::default;
    s.client.at(s.now).request::<GetPrompt>(&GetPromptParams::new("p"), options()).unwrap();
    let id = s.expect("prompts/get");
    require_nothing(&mut s, &id);
    assert_eq!(s.line()["params"]["name"], "p");
    s.client.at(s.now).request::<ReadResource>(&ReadResourceParams::new("a:b"), options()).unwrap();
    let id = s.expect("resources/read");
    require_nothing(&mut s, &id);
    assert_eq!(s.line()["params"]["uri"], "a:b");
}

/// C5.2
#[test]
fn application_answers_the_inputs_of_a_round_in_any_order() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    let sampling = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
    require(&mut s, &id, &json!({"a": form("A?"), "b": roots(), "s": sampling, "\u{e9}\"": form("E?")}));
    let asked = input_requests(&mut s);
    let methods: Vec<&str> = asked.iter().map(|(_, method, _)| *method).collect();
    assert_eq!(methods, ["elicitation/create", "roots/list", "sampling/createMessage", "elicitation/create"]);
    let message = mcp_proto::schema::CreateMessageResult::new(mcp_proto::schema::Role::Assistant, "hi", "m");
    s.client.at(s.now).respond(asked[2].0, Ok(&message));
    s.client.at(s.now).respond(asked[3].0, Ok(&ElicitResult::decline()));
    s.client.at(s.now).respond(asked[1].0, Ok(&ListRootsResult::new([Root::new("file:///x")])));
    s.expect_silence();
    respond(&mut s, asked[0].0, "Ada");
    let again = s.line();
    let responses = &again["params"]["inputResponses"];
    assert_eq!(responses["a"]["content"]["name"], "Ada");
    assert_eq!(responses["b"]["roots"][0]["uri"], "file:///x");
    assert_eq!(responses["\u{e9}\""], json!({"action": "decline"}));
    assert_eq!(responses["s"]["content"]["text"], "hi");
    let typed: InputResponse = serde_json::from_str(&responses["s"].to_string()).unwrap();
    assert!(matches!(typed, InputResponse::CreateMessage(_)));
    s.answer(&again["id"], done());
    expect_done(&mut s, request);
}

/// C5.3
#[test]
fn client_returns_the_state_byte_by_byte() {
    let mut s = modern();
    let states = [
        r#""""#,
        r#""{\"a\":1}""#,
        r#""\u0041\/\n\u007f""#,
        r#""\ud800 alone""#,
        r#""\ud83d\ude00 😀 é""#,
        r#""null""#,
        "\" a\u{2028}b \u{feff}\"",
    ];
    for state in states {
        let (_, id) = call(&mut s, RequestOptions::default());
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","requestState": {state} }}}}"#
        );
        s.send_text(&text);
        let mut out = Vec::new();
        assert!(s.client.poll_transmit(&mut out));
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains(&format!(r#""requestState":{state}"#)), "{state} became {out}");
        assert!(!out.contains("inputResponses"), "the server required nothing: {out}");
    }
}

/// C5.3
#[test]
fn client_returns_no_state_if_it_received_none() {
    let mut s = modern();
    let (_, id) = call(&mut s, RequestOptions::default());
    s.answer(
        &id,
        json!({"resultType": "input_required", "inputRequests": {"r": roots()}, "requestState": null}),
    );
    let id = single_input_request(&mut s);
    s.client.at(s.now).respond(id, Ok(&ListRootsResult::new([])));
    let again = s.line();
    assert_eq!(again["params"].get("requestState"), None);
    assert_eq!(again["params"]["inputResponses"], json!({"r": {"roots": []}}));
}

/// C5.3, C5.5
#[test]
fn retry_carries_only_the_state_and_responses_of_its_round() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"r": roots()}));
    let id = single_input_request(&mut s);
    s.client.at(s.now).respond(id, Ok(&ListRootsResult::new([])));
    let second = s.line();
    s.answer(&second["id"], json!({"resultType": "input_required", "inputRequests": {"q": form("Q?")}}));
    let id = single_input_request(&mut s);
    respond(&mut s, id, "Bob");
    let third = s.line();
    assert_eq!(third["params"].get("requestState"), None, "the state of the previous round is dropped");
    assert_eq!(third["params"]["inputResponses"].as_object().unwrap().keys().collect::<Vec<_>>(), ["q"]);
    s.answer(&third["id"], done());
    expect_done(&mut s, request);
    // A later request has no state.
    s.client.at(s.now).request::<CallTool>(&CallToolParams::new("slow"), RequestOptions::default()).unwrap();
    let other = s.line();
    assert_eq!((other["params"].get("requestState"), other["params"].get("inputResponses")), (None, None));
}

/// C5.5
#[test]
fn concurrent_requests_do_not_share_state_or_responses() {
    let mut s = modern();
    let (first, a) = call(&mut s, RequestOptions::default());
    let (second, b) = call(&mut s, RequestOptions::default());
    for (id, state) in [(&a, "A"), (&b, "B")] {
        let requests = json!({"who": form(state)});
        s.answer(
            id,
            json!({"resultType": "input_required", "inputRequests": requests, "requestState": state}),
        );
    }
    let asked = input_requests(&mut s);
    respond(&mut s, asked[1].0, "for B");
    let again_b = s.line();
    respond(&mut s, asked[0].0, "for A");
    let again_a = s.line();
    for (line, state) in [(&again_a, "A"), (&again_b, "B")] {
        assert_eq!(line["params"]["requestState"], state);
        assert_eq!(line["params"]["inputResponses"]["who"]["content"]["name"], format!("for {state}"));
    }
    s.answer(&again_a["id"], json!({"content": []}));
    s.answer(&again_b["id"], done());
    expect_done(&mut s, second);
    assert!(s.outcome(first).decode::<CallTool>().unwrap().content.is_empty());
}

#[test]
fn manual_retry_drops_its_old_responses_in_the_next_round() {
    let mut s = modern();
    let mut params = CallToolParams::new("slow");
    params.input_responses = Some([("old", ElicitResult::decline().into())].into_iter().collect());
    params.request_state = Some("old".into());
    s.client.at(s.now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
    let id = s.expect("tools/call");
    s.answer(&id, json!({"resultType": "input_required", "requestState": "new"}));
    let mut out = Vec::new();
    assert!(s.client.poll_transmit(&mut out));
    let out = String::from_utf8(out).unwrap();
    assert_eq!(out.matches("requestState").count(), 1, "{out}");
    assert!(out.contains(r#""requestState":"new""#) && !out.contains("inputResponses"), "{out}");
}

#[test]
fn request_made_before_the_handshake_supports_input_rounds() {
    let mut s = ClientHarness::open(open_config());
    let request = s
        .client
        .at(s.now)
        .request::<CallTool>(&CallToolParams::new("early"), RequestOptions::default())
        .unwrap();
    let id = s.expect("server/discover");
    s.answer(&id, crate::common::messages::discover_result());
    let id = s.expect("tools/call");
    require_nothing(&mut s, &id);
    let again = s.line();
    assert_eq!((&again["params"]["name"], &again["params"]["requestState"]), (&json!("early"), &json!("S")));
    s.answer(&again["id"], done());
    expect_done(&mut s, request);
}
