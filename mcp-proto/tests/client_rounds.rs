//! Requests that the server answers by asking for input first: gathered, and sent again with it.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

mod common;

use core::time::Duration;

use common::{Scripted, config};
use mcp_proto::peer::client::{ClientConfig, Closed, Event};
use mcp_proto::peer::{
    InboundId, InputFault, InputMode, InvalidAnswer, Lost, Outcome, RequestId, RequestOptions,
};
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapability, ElicitAction, ElicitResult, GetPrompt, GetPromptParams,
    InputResponse, ListRootsResult, ReadResource, ReadResourceParams, Root,
};
use serde_json::{Value, json};

/// A client that answers everything that can be asked for.
fn open_config() -> ClientConfig {
    let mut config = config();
    let all = [
        ClientCapability::Roots,
        ClientCapability::Sampling,
        ClientCapability::ElicitationForm,
        ClientCapability::ElicitationUrl,
    ];
    config.capabilities = all.into_iter().fold(config.capabilities, |declared, one| declared.with(one));
    config
}

fn modern() -> Scripted {
    Scripted::modern(open_config())
}

/// Calls a tool; its id on the wire.
fn call(s: &mut Scripted, options: RequestOptions) -> (RequestId, Value) {
    let params = CallToolParams::new("slow").with_arguments(json!({"b": 1, "a": [null, "x"]}));
    let request = s.client.request::<CallTool>(s.now, &params, options).unwrap();
    (request, s.expect("tools/call"))
}

fn form(message: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

fn roots() -> Value {
    json!({"method": "roots/list"})
}

/// The server answers by asking for `requests`.
fn require(s: &mut Scripted, id: &Value, requests: &Value) {
    s.answer(id, json!({"resultType": "input_required", "inputRequests": requests, "requestState": "S"}));
}

fn require_nothing(s: &mut Scripted, id: &Value) {
    s.answer(id, json!({"resultType": "input_required", "requestState": "S"}));
}

/// What the application is asked for since the last call.
fn asked(s: &mut Scripted) -> Vec<(InboundId, &'static str, Value)> {
    let (requests, others): (Vec<_>, Vec<_>) =
        s.take_events().into_iter().partition(|event| matches!(event, Event::Request { .. }));
    s.events = others;
    let asked = requests.into_iter().filter_map(|event| match event {
        Event::Request { id, method, params } => {
            let params = params.map_or(Value::Null, |params| params.decode().unwrap());
            Some((id, method.name, params))
        }
        _ => None,
    });
    asked.collect()
}

fn asked_once(s: &mut Scripted) -> InboundId {
    let asked = asked(s);
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked[0].0
}

/// What the application no longer needs to answer.
fn taken_back(s: &mut Scripted) -> Vec<InboundId> {
    let ids = s.take_events().into_iter().filter_map(|event| match event {
        Event::RequestCancelled { id, .. } => Some(id),
        other => {
            s.events.push(other);
            None
        }
    });
    ids.collect()
}

fn respond(s: &mut Scripted, id: InboundId, name: &str) {
    let answer = ElicitResult::accept([("name", name.into())]);
    s.client.respond(s.now, id, Ok(&answer));
}

fn done() -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]})
}

fn expect_done(s: &mut Scripted, request: RequestId) {
    assert_eq!(s.outcome(request).decode::<CallTool>().unwrap().text_content(), "done");
}

fn ended(s: &mut Scripted, request: RequestId) -> bool {
    let events = s.take_events();
    let found = events
        .iter()
        .any(|event| matches!(event, Event::Outcome { request: ended, .. } if *ended == request));
    s.events = events;
    found
}

// --- What goes out again ---

/// C5.2, C5.4
#[test]
fn a_request_goes_out_again_with_the_answers_under_a_new_id() {
    let mut s = modern();
    let params = CallToolParams::new("slow").with_arguments(json!({"b": 1, "a": [null, "x"]}));
    let request = s.client.request::<CallTool>(s.now, &params, RequestOptions::default()).unwrap();
    let first = s.line();
    require(&mut s, &first["id"], &json!({"who": form("Who?")}));
    let [(id, method, params)] = &asked(&mut s)[..] else { panic!() };
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
fn each_of_the_three_methods_goes_round() {
    let mut s = modern();
    let options = RequestOptions::default;
    s.client.request::<GetPrompt>(s.now, &GetPromptParams::new("p"), options()).unwrap();
    let id = s.expect("prompts/get");
    require_nothing(&mut s, &id);
    assert_eq!(s.line()["params"]["name"], "p");
    s.client.request::<ReadResource>(s.now, &ReadResourceParams::new("a:b"), options()).unwrap();
    let id = s.expect("resources/read");
    require_nothing(&mut s, &id);
    assert_eq!(s.line()["params"]["uri"], "a:b");
}

/// C5.2
#[test]
fn inputs_are_asked_for_together_and_answered_in_any_order() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    let sampling = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
    require(&mut s, &id, &json!({"a": form("A?"), "b": roots(), "s": sampling, "\u{e9}\"": form("E?")}));
    let asked = asked(&mut s);
    let methods: Vec<&str> = asked.iter().map(|(_, method, _)| *method).collect();
    assert_eq!(methods, ["elicitation/create", "roots/list", "sampling/createMessage", "elicitation/create"]);
    let message = mcp_proto::schema::CreateMessageResult::new(mcp_proto::schema::Role::Assistant, "hi", "m");
    s.client.respond(s.now, asked[2].0, Ok(&message));
    s.client.respond(s.now, asked[3].0, Ok(&ElicitResult::decline()));
    s.client.respond(s.now, asked[1].0, Ok(&ListRootsResult::new([Root::new("file:///x")])));
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
fn the_state_goes_back_byte_by_byte() {
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
        s.say_text(&text);
        let mut out = Vec::new();
        assert!(s.client.poll_transmit(&mut out));
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains(&format!(r#""requestState":{state}"#)), "{state} became {out}");
        assert!(!out.contains("inputResponses"), "nothing was asked for: {out}");
    }
}

/// C5.3
#[test]
fn no_state_goes_back_where_none_came() {
    let mut s = modern();
    let (_, id) = call(&mut s, RequestOptions::default());
    s.answer(
        &id,
        json!({"resultType": "input_required", "inputRequests": {"r": roots()}, "requestState": null}),
    );
    let id = asked_once(&mut s);
    s.client.respond(s.now, id, Ok(&ListRootsResult::new([])));
    let again = s.line();
    assert_eq!(again["params"].get("requestState"), None);
    assert_eq!(again["params"]["inputResponses"], json!({"r": {"roots": []}}));
}

/// C5.3, C5.5
#[test]
fn each_round_has_its_own_state_and_answers_alone() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"r": roots()}));
    let id = asked_once(&mut s);
    s.client.respond(s.now, id, Ok(&ListRootsResult::new([])));
    let second = s.line();
    s.answer(&second["id"], json!({"resultType": "input_required", "inputRequests": {"q": form("Q?")}}));
    let id = asked_once(&mut s);
    respond(&mut s, id, "Bob");
    let third = s.line();
    assert_eq!(third["params"].get("requestState"), None, "the state of the round before is over");
    assert_eq!(third["params"]["inputResponses"].as_object().unwrap().keys().collect::<Vec<_>>(), ["q"]);
    s.answer(&third["id"], done());
    expect_done(&mut s, request);
    // A later request knows nothing of it.
    s.client.request::<CallTool>(s.now, &CallToolParams::new("slow"), RequestOptions::default()).unwrap();
    let other = s.line();
    assert_eq!((other["params"].get("requestState"), other["params"].get("inputResponses")), (None, None));
}

/// C5.5
#[test]
fn requests_side_by_side_do_not_share_state_or_answers() {
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
    let asked = asked(&mut s);
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
fn a_retry_of_the_application_that_is_asked_again_gives_up_its_old_answers() {
    let mut s = modern();
    let mut params = CallToolParams::new("slow");
    params.input_responses = Some([("old", ElicitResult::decline().into())].into_iter().collect());
    params.request_state = Some("old".into());
    s.client.request::<CallTool>(s.now, &params, RequestOptions::default()).unwrap();
    let id = s.expect("tools/call");
    s.answer(&id, json!({"resultType": "input_required", "requestState": "new"}));
    let mut out = Vec::new();
    assert!(s.client.poll_transmit(&mut out));
    let out = String::from_utf8(out).unwrap();
    assert_eq!(out.matches("requestState").count(), 1, "{out}");
    assert!(out.contains(r#""requestState":"new""#) && !out.contains("inputResponses"), "{out}");
}

#[test]
fn a_request_made_before_the_server_was_known_goes_round_as_well() {
    let mut s = Scripted::open(open_config());
    let request = s
        .client
        .request::<CallTool>(s.now, &CallToolParams::new("early"), RequestOptions::default())
        .unwrap();
    let id = s.expect("server/discover");
    s.answer(&id, common::discover_result());
    let id = s.expect("tools/call");
    require_nothing(&mut s, &id);
    let again = s.line();
    assert_eq!((&again["params"]["name"], &again["params"]["requestState"]), (&json!("early"), &json!("S")));
    s.answer(&again["id"], done());
    expect_done(&mut s, request);
}

// --- Pauses and limits ---

/// C5.6, C5.7
#[test]
fn a_state_alone_goes_back_at_once_and_then_after_growing_pauses() {
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
    assert!(matches!(s.outcome(request), Outcome::Input(InputFault::Rounds { limit: 10 })));
    s.expect_silence();
}

/// C5.7
#[test]
fn a_server_that_asks_for_ever_is_given_up() {
    let mut config = open_config();
    config.limits.rounds = 2;
    let mut s = Scripted::modern(config);
    let (request, mut id) = call(&mut s, RequestOptions::default());
    for _ in 0..2 {
        require(&mut s, &id, &json!({"r": roots()}));
        let input = asked_once(&mut s);
        s.client.respond(s.now, input, Ok(&ListRootsResult::new([])));
        id = s.expect("tools/call");
    }
    require(&mut s, &id, &json!({"r": roots()}));
    assert!(matches!(s.outcome(request), Outcome::Input(InputFault::Rounds { limit: 2 })));
    assert!(asked(&mut s).is_empty());
}

/// C5.7
#[test]
fn what_is_asked_in_between_ends_the_growing_of_pauses() {
    let mut s = modern();
    let (_, mut id) = call(&mut s, RequestOptions::default());
    for _ in 0..2 {
        require_nothing(&mut s, &id);
        s.advance(Duration::from_millis(100));
        id = s.expect("tools/call");
    }
    require(&mut s, &id, &json!({"r": roots()}));
    let input = asked_once(&mut s);
    s.client.respond(s.now, input, Ok(&ListRootsResult::new([])));
    id = s.expect("tools/call");
    require_nothing(&mut s, &id);
    s.expect("tools/call");
}

#[test]
fn no_inputs_at_all_are_answered_by_none() {
    let mut s = modern();
    let (_, id) = call(&mut s, RequestOptions::default());
    s.answer(&id, json!({"resultType": "input_required", "inputRequests": {}}));
    assert_eq!(s.line()["params"]["inputResponses"], json!({}));
}

/// C7.1
#[test]
fn the_time_without_progress_stands_still_while_the_application_is_asked() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    s.advance(Duration::from_secs(20));
    require(&mut s, &id, &json!({"r": roots()}));
    let input = asked_once(&mut s);
    s.advance(Duration::from_secs(300));
    assert!(!ended(&mut s, request));
    s.client.respond(s.now, input, Ok(&ListRootsResult::new([])));
    let id = s.expect("tools/call");
    s.advance(Duration::from_secs(29));
    assert!(!ended(&mut s, request), "the wait begins anew");
    s.advance(Duration::from_secs(1));
    assert!(matches!(s.outcome(request), Outcome::TimedOut { maximum: false, .. }));
    let cancelled = s.line();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], id, "by the id of the last round");
}

/// C7.4
#[test]
fn the_hard_maximum_runs_on_over_all_rounds() {
    let mut s = modern();
    let options = RequestOptions::default().maximum(Duration::from_secs(100));
    let (request, id) = call(&mut s, options);
    s.advance(Duration::from_secs(20));
    require(&mut s, &id, &json!({"r": roots()}));
    let input = asked_once(&mut s);
    s.advance(Duration::from_secs(20));
    s.client.respond(s.now, input, Ok(&ListRootsResult::new([])));
    let id = s.expect("tools/call");
    require(&mut s, &id, &json!({"r": roots()}));
    let input = asked_once(&mut s);
    s.advance(Duration::from_secs(59));
    assert!(!ended(&mut s, request));
    s.advance(Duration::from_secs(1));
    assert_eq!(taken_back(&mut s), [input]);
    match s.outcome(request) {
        Outcome::TimedOut { after, maximum: true } => assert_eq!(after, Duration::from_secs(100)),
        other => panic!("{other:?}"),
    }
    s.expect_silence();
    respond(&mut s, input, "late");
    s.expect_silence();
    assert_eq!(s.client.poll_timeout(), None);
}

#[test]
fn a_request_without_any_time_ends_as_soon_as_it_is_sent_again() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require_nothing(&mut s, &id);
    let id = s.expect("tools/call");
    require_nothing(&mut s, &id);
    s.client.cancel(s.now, request, None);
    s.advance(Duration::from_secs(1));
    s.expect_silence();
    let (request, id) = call(&mut s, RequestOptions::default().timeout(Duration::ZERO));
    require_nothing(&mut s, &id);
    s.expect("tools/call");
    s.advance(Duration::ZERO);
    assert!(matches!(s.outcome(request), Outcome::TimedOut { .. }));
}

// --- Cancelling ---

/// C7.6, C5.9
#[test]
fn a_request_is_cancelled_while_the_application_is_asked() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"a": roots(), "b": form("B?")}));
    let asked = asked(&mut s);
    s.client.respond(s.now, asked[0].0, Ok(&ListRootsResult::new([])));
    s.client.cancel(s.now, request, Some("changed my mind"));
    assert_eq!(taken_back(&mut s), [asked[1].0]);
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    s.expect_silence();
    respond(&mut s, asked[1].0, "late");
    s.expect_silence();
    assert!(s.take_events().is_empty());
}

/// C7.6
#[test]
fn a_request_is_cancelled_in_its_second_round_by_its_second_id() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require_nothing(&mut s, &id);
    let again = s.expect("tools/call");
    s.client.cancel(s.now, request, None);
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
fn a_request_is_cancelled_while_it_pauses() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require_nothing(&mut s, &id);
    let again = s.expect("tools/call");
    require_nothing(&mut s, &again);
    s.client.cancel(s.now, request, None);
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    s.advance(Duration::from_secs(60));
    s.expect_silence();
}

/// C7.5
#[test]
fn answers_and_progress_of_a_round_that_is_over_are_dropped() {
    let mut s = modern();
    let (request, first) = call(&mut s, RequestOptions::default());
    require(&mut s, &first, &json!({"r": roots()}));
    let input = asked_once(&mut s);
    s.answer(&first, done());
    s.notify("notifications/progress", json!({"progressToken": first, "progress": 1}));
    assert!(s.take_events().is_empty(), "the round is over");
    s.client.respond(s.now, input, Ok(&ListRootsResult::new([])));
    let second = s.expect("tools/call");
    s.answer(&first, json!({"content": []}));
    s.say_text(&format!(r#"{{"jsonrpc":"2.0","id":{first},"result":{{"content":["#));
    assert!(!ended(&mut s, request), "an answer to the first round is none to the second");
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

// --- What ends it ---

/// C5.1
#[test]
fn a_result_that_asks_for_nothing_is_invalid() {
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
                Outcome::Invalid(InvalidAnswer::Malformed(_)) => assert!(!by_hand, "{result}"),
                Outcome::InputRequired(_) => assert!(by_hand, "{result}"),
                other => panic!("{result}: {other:?}"),
            }
            s.expect_silence();
        }
    }
}

#[test]
fn a_key_that_is_asked_for_twice_makes_the_answer_invalid() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    let twice = r#"{"a":{"method":"roots/list"},"\u0061":{"method":"roots/list"}}"#;
    s.say_text(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","inputRequests":{twice}}}}}"#
    ));
    assert!(matches!(s.outcome(request), Outcome::Invalid(InvalidAnswer::Malformed(_))));
    assert!(asked(&mut s).is_empty());
}

#[test]
fn something_unknown_that_is_asked_for_ends_the_request_and_nothing_is_asked() {
    let mut s = modern();
    for method in ["ping", "tools/call", "tasks/get", "", "elicitation/Create"] {
        let (request, id) = call(&mut s, RequestOptions::default());
        require(&mut s, &id, &json!({"r": roots(), "x": {"method": method, "params": {}}}));
        match s.outcome(request) {
            Outcome::Input(InputFault::Method { key, method: named }) => {
                assert_eq!((&*key, &*named), ("x", method));
            }
            other => panic!("{other:?}"),
        }
        assert!(asked(&mut s).is_empty());
        s.expect_silence();
    }
}

#[test]
fn something_undeclared_that_is_asked_for_ends_the_request() {
    let mut config = config();
    config.capabilities = config.capabilities.with(ClientCapability::ElicitationForm);
    let mut s = Scripted::modern(config);
    let url = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a.b"}});
    for (asked_for, needed) in [(url, ClientCapability::ElicitationUrl), (roots(), ClientCapability::Roots)] {
        let (request, id) = call(&mut s, RequestOptions::default());
        require(&mut s, &id, &json!({"k": asked_for}));
        match s.outcome(request) {
            Outcome::Input(InputFault::Undeclared { key, needed: missing, .. }) => {
                assert_eq!((&*key, missing), ("k", needed));
            }
            other => panic!("{other:?}"),
        }
        assert!(asked(&mut s).is_empty());
        s.expect_silence();
    }
}

/// C5.9
#[test]
fn an_answer_that_is_an_error_ends_the_request_and_takes_the_others_back() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"a": roots(), "b": form("B?"), "c": roots()}));
    let asked = asked(&mut s);
    s.client.respond(s.now, asked[0].0, Ok(&ListRootsResult::new([])));
    s.client.respond(s.now, asked[1].0, Err(ErrorObject::new(code::USER_REJECTED, "no")));
    assert_eq!(taken_back(&mut s), [asked[2].0]);
    match s.outcome(request) {
        Outcome::Input(InputFault::Failed { key, error }) => {
            assert_eq!((&*key, error.code), ("b", code::USER_REJECTED));
        }
        other => panic!("{other:?}"),
    }
    s.expect_silence();
    s.client.respond(s.now, asked[2].0, Ok(&ListRootsResult::new([])));
    s.expect_silence();
}

#[test]
fn more_than_this_side_takes_ends_the_request() {
    let mut config = open_config();
    config.limits.requests_in = 3;
    let mut s = Scripted::modern(config);
    let (first, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"a": roots(), "b": roots()}));
    let (second, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"a": roots(), "b": roots()}));
    assert!(matches!(s.outcome(second), Outcome::Input(InputFault::TooMany { asked: 2 })));
    assert_eq!(asked(&mut s).len(), 2);
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
fn a_connection_lost_while_asking_ends_the_request_and_takes_everything_back() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    let (pausing, other) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"a": roots(), "b": form("B?")}));
    require_nothing(&mut s, &other);
    let other = s.expect("tools/call");
    require_nothing(&mut s, &other);
    let asked = asked(&mut s);
    s.client.respond(s.now, asked[0].0, Ok(&ListRootsResult::new([])));
    s.end("killed");
    assert_eq!(taken_back(&mut s), [asked[1].0]);
    assert!(matches!(s.outcome(request), Outcome::Lost(Lost::Disconnected(_))));
    assert!(matches!(s.outcome(pausing), Outcome::Lost(Lost::Disconnected(_))));
    assert!(matches!(s.take_events().last(), Some(Event::Closed(Closed::Lost(_)))));
    respond(&mut s, asked[1].0, "late");
    s.expect_silence();
    assert_eq!(s.client.poll_timeout(), None);
}

#[test]
fn closing_lets_a_request_that_is_being_answered_finish() {
    let mut s = modern();
    let (request, id) = call(&mut s, RequestOptions::default());
    require(&mut s, &id, &json!({"r": roots()}));
    let input = asked_once(&mut s);
    s.client.close(s.now);
    s.client.respond(s.now, input, Ok(&ListRootsResult::new([])));
    let id = s.expect("tools/call");
    s.answer(&id, done());
    expect_done(&mut s, request);
    let (request, closing) = {
        let mut s = modern();
        let (request, id) = call(&mut s, RequestOptions::default());
        require(&mut s, &id, &json!({"r": roots()}));
        let input = asked_once(&mut s);
        s.client.close(s.now);
        s.advance(Duration::from_secs(2));
        assert_eq!(taken_back(&mut s), [input]);
        (request, s)
    };
    let mut s = closing;
    assert!(matches!(s.outcome(request), Outcome::Lost(Lost::Closed)));
    s.expect_silence();
}

/// C5.2
#[test]
fn by_hand_the_request_ends_and_the_retry_is_a_new_one() {
    let mut s = modern();
    let (request, first) = call(&mut s, RequestOptions::default().input(InputMode::Manual));
    require(&mut s, &first, &json!({"r": roots()}));
    let Outcome::InputRequired(raw) = s.outcome(request) else { panic!() };
    let needed: mcp_proto::schema::InputRequiredResult = raw.decode().unwrap();
    assert!(asked(&mut s).is_empty());
    let mut params = CallToolParams::new("slow");
    params.input_responses = Some([("r", ListRootsResult::new([]).into())].into_iter().collect());
    params.request_state = needed.request_state;
    s.client.request::<CallTool>(s.now, &params, RequestOptions::default()).unwrap();
    let again = s.line();
    assert_ne!(again["id"], first);
    assert_eq!(again["params"]["requestState"], "S");
    assert_eq!(again["params"]["inputResponses"], json!({"r": {"roots": []}}));
}

// --- Pages to visit first: 2025-11-25 ---

fn page(id: &str) -> Value {
    json!({"mode": "url", "elicitationId": id, "url": format!("https://a.b/{id}"), "message": "Log in"})
}

fn legacy() -> Scripted {
    Scripted::legacy(open_config())
}

fn refuse(s: &mut Scripted, id: &Value, pages: &[Value]) {
    s.answer_error(id, code::URL_ELICITATION_REQUIRED, Some(json!({"elicitations": pages})));
}

fn agree(s: &mut Scripted, id: InboundId) {
    s.client.respond(s.now, id, Ok(&ElicitResult::new(ElicitAction::Accept)));
}

/// C10.9
#[test]
fn a_page_is_visited_and_the_request_goes_out_again_when_the_server_says_so() {
    let mut s = legacy();
    let params = CallToolParams::new("slow").with_arguments(json!({"a": 1}));
    let request = s.client.request::<CallTool>(s.now, &params, RequestOptions::default()).unwrap();
    let first = s.line();
    refuse(&mut s, &first["id"], &[page("p1"), page("p2")]);
    let asked = asked(&mut s);
    assert_eq!(asked.len(), 2);
    assert_eq!((asked[0].1, &asked[0].2["url"]), ("elicitation/create", &json!("https://a.b/p1")));
    assert_eq!(asked[1].2["elicitationId"], "p2");
    agree(&mut s, asked[0].0);
    // Faster than the person's answer to the second.
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
    assert_eq!(second["params"], first["params"], "the same, word by word");
    s.answer(&second["id"], json!({"content": [{"type": "text", "text": "done"}]}));
    expect_done(&mut s, request);
}

/// C10.9
#[test]
fn where_the_server_says_nothing_the_request_goes_out_again_after_a_while() {
    let mut s = legacy();
    let (request, mut id) = call(&mut s, RequestOptions::default());
    refuse(&mut s, &id, &[page("p")]);
    let input = asked_once(&mut s);
    s.advance(Duration::from_secs(40));
    agree(&mut s, input);
    for seconds in [2, 4, 8, 16, 32, 60, 60] {
        s.advance(Duration::from_millis(seconds * 1000 - 1));
        s.expect_silence();
        s.advance(Duration::from_millis(1));
        id = s.expect("tools/call");
        refuse(&mut s, &id, &[page("p")]);
        assert!(asked(&mut s).is_empty(), "the person is not asked twice");
    }
    s.notify("notifications/elicitation/complete", json!({"elicitationId": "p"}));
    id = s.expect("tools/call");
    s.answer(&id, json!({"content": [{"type": "text", "text": "done"}]}));
    expect_done(&mut s, request);
}

/// C10.9
#[test]
fn a_person_who_declines_ends_the_request_with_the_servers_error() {
    let mut s = legacy();
    for answer in [ElicitResult::decline(), ElicitResult::cancel()] {
        let (request, id) = call(&mut s, RequestOptions::default());
        refuse(&mut s, &id, &[page("p")]);
        let input = asked_once(&mut s);
        s.client.respond(s.now, input, Ok(&answer));
        let Outcome::Error(error) = s.outcome(request) else { panic!() };
        assert_eq!(error.code, code::URL_ELICITATION_REQUIRED);
        assert!(error.data.is_some());
        s.advance(Duration::from_secs(100));
        s.expect_silence();
    }
}

/// C10.9
#[test]
fn an_error_without_pages_or_without_the_capability_is_an_error_like_any_other() {
    let is_error = |s: &mut Scripted, request| matches!(s.outcome(request), Outcome::Error(error) if error.code == code::URL_ELICITATION_REQUIRED);
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
    let older = Scripted::legacy_at(open_config(), "2025-06-18");
    for mut s in [Scripted::legacy(config()), older, modern()] {
        let (request, id) = call(&mut s, RequestOptions::default());
        refuse(&mut s, &id, &[page("p")]);
        assert!(is_error(&mut s, request));
        assert!(asked(&mut s).is_empty());
    }
}

/// C10.9
#[test]
fn cancelling_ends_the_wait_for_a_page() {
    let mut s = legacy();
    let (request, id) = call(&mut s, RequestOptions::default());
    refuse(&mut s, &id, &[page("p")]);
    let input = asked_once(&mut s);
    agree(&mut s, input);
    s.client.cancel(s.now, request, None);
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    s.notify("notifications/elicitation/complete", json!({"elicitationId": "p"}));
    s.advance(Duration::from_secs(300));
    s.expect_silence();
}

/// C10.8, C10.9
#[test]
fn the_person_says_that_the_page_is_done() {
    let mut s = legacy();
    let (request, id) = call(&mut s, RequestOptions::default());
    s.client.retry(s.now, request);
    refuse(&mut s, &id, &[page("p")]);
    let input = asked_once(&mut s);
    s.client.retry(s.now, request);
    s.expect_silence();
    agree(&mut s, input);
    s.client.retry(s.now, request);
    let again = s.expect("tools/call");
    s.client.retry(s.now, request);
    s.expect_silence();
    s.answer(&again, json!({"content": [{"type": "text", "text": "done"}]}));
    expect_done(&mut s, request);
    s.client.retry(s.now, request);
    s.expect_silence();
}
