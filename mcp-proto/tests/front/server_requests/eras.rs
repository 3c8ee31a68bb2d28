//! One handler for both eras.

use super::*;

/// S4.1, S4.2, S4.3, S9.4: the result carries the input request to a modern client, which retries with the answer.
#[test]
fn handler_sends_an_input_request_in_its_result_to_a_modern_client() {
    let mut web = HttpHarness::new(router());
    let first = attempt(&mut web, "greet", None, None);
    let (keys, state) = required_input(&first);
    assert_eq!(keys, ["name"]);
    let request = &first["result"]["inputRequests"]["name"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], "Your name?");
    assert_eq!(text_of(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

/// S4.1: the same handler sends a request.
#[test]
fn same_handler_sends_a_request_to_a_legacy_client() {
    let mut s = ServerHarness::legacy_with(router(), "2025-06-18", everything());
    let id = s.send("tools/call", json!({"name": "greet"}));
    let question = s.line();
    assert_eq!(question["method"], "elicitation/create");
    s.send_message(&json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted("name", "Alice")}));
    let answer = s.line();
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(id), &json!("Hello, Alice!"))
    );
}

/// S4.1, C5.1, C1.6: the front's own client and server, in either era, over two buffers.
#[test]
fn handler_gets_answers_from_clients_of_either_era() {
    for mode in [EraPolicy::ModernOnly, EraPolicy::LegacyOnly] {
        let clock = Arc::new(TestClock::default());
        let machine = StreamServer::new(router().config());
        let (_, mut server) =
            adapter::server(machine, clock.clone(), Arc::new(CountingEntropy::default()), router());
        let handlers = ClientHandlers::new().elicitation(async |asked: ElicitParams, _| {
            let ElicitParams::Form(form) = asked else { return ElicitResult::decline() };
            let (field, _) = form.requested_schema.properties.iter().next().unwrap();
            let answer: ElicitResult = serde_json::from_value(accepted(field, field)).unwrap();
            answer
        });
        let mut config = crate::common::front::config();
        config.era_policy = mode;
        config.capabilities = handlers.capabilities().clone();
        let (client, mut driver) = adapter::client(StreamClient::new(config), clock, handlers);
        let mut call = client.call_tool("steps", json!({})).start().unwrap();
        let mut cx = TaskContext::from_waker(Waker::noop());
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let mut said = None;
        for _ in 0..100 {
            let _: Poll<()> = driver.poll(&mut cx, |machine, now| {
                if let Some(LinkAction::Open) = machine.poll_link() {
                    machine.handle_open(now);
                }
                machine.handle_input(now, core::mem::take(&mut down).into());
                let _ = machine.poll_transmit(&mut up);
                machine.handle_timeout(now);
                Poll::Pending
            });
            let _: Poll<()> = server.poll(&mut cx, |machine, now| {
                machine.handle_input(now, core::mem::take(&mut up).into());
                let _ = machine.poll_transmit(&mut down);
                Poll::Pending
            });
            if let Poll::Ready(result) = pin!(&mut call).poll(&mut cx) {
                said = Some(result.unwrap().text_content());
                break;
            }
        }
        assert_eq!(said.as_deref(), Some("first second third"), "{mode:?}");
    }
}

#[test]
fn handler_sends_several_requests_to_a_legacy_client_at_once() {
    let mut s = ServerHarness::legacy_with(router(), "2025-11-25", everything());
    s.send("tools/call", json!({"name": "three"}));
    for _ in 0..3 {
        let question = s.line();
        let result = match question["method"].as_str().unwrap() {
            "elicitation/create" => accepted("name", "Alice"),
            "sampling/createMessage" => {
                json!({"role": "assistant", "content": {"type": "text", "text": "tree"}, "model": "m"})
            }
            _ => json!({"roots": [{"uri": "file:///a"}]}),
        };
        s.send_message(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
    }
    assert_eq!(s.line()["result"]["content"][0]["text"], "Alice tree 1");
}

#[test]
fn modern_client_on_a_stream_answers_input_requests() {
    let mut s = ServerHarness::modern_with(router(), everything());
    let first = s.request("tools/call", json!({"name": "greet"}));
    let (_, state) = required_input(&first);
    let again = json!({"name": "greet", "requestState": state, "inputResponses": alice().unwrap()});
    assert_eq!(text_of(&s.request("tools/call", again)), "Hello, Alice!");
}

/// S4.1: prompts and resources may require input too.
#[test]
fn prompts_and_resources_can_require_input() {
    let router = Router::new("x", "1")
        .prompt(Prompt::new("p"), async |NoArguments {}, cx: Context| question(&cx, "name").await)
        .resource(Resource::new("r:1", "r"), async |_, cx: Context| question(&cx, "name").await);
    let mut web = HttpHarness::new(router);
    for (method, mut params) in
        [("prompts/get", json!({"name": "p"})), ("resources/read", json!({"uri": "r:1"}))]
    {
        let (_, state) = required_input(&web.ask_with(method, params.clone(), everything()).json());
        params["requestState"] = state;
        params["inputResponses"] = alice().unwrap();
        let answer = web.ask_with(method, params, everything()).json();
        assert!(answer["result"].to_string().contains("Alice"), "{answer}");
    }
}

/// S4.1: no other method may require input.
#[test]
fn other_methods_cannot_require_input() {
    let router = Router::new("x", "1").prompt(prompt("p", "a"), async |NoArguments {}, _| "");
    let router = router.completion(async |_: CompleteParams, cx: Context| {
        let error = cx.elicit("name", form("name")).await.unwrap_err();
        assert!(matches!(error, Error::NotSent(RequestError::Revision { .. })), "{error}");
        vec![error.to_string()]
    });
    let params = json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "b"}});
    let answer = HttpHarness::new(router).ask_with("completion/complete", params, everything()).json();
    assert_eq!(answer["result"]["completion"]["values"].as_array().unwrap().len(), 1, "{answer}");
}

/// S9.6
#[test]
fn handler_learns_that_the_user_declined_or_cancelled() {
    for action in ["decline", "cancel"] {
        let mut web = HttpHarness::new(router());
        let state = greet_state(&mut web);
        let answer = attempt(&mut web, "greet", Some(&state), Some(json!({"name": {"action": action}})));
        assert_eq!(text_of(&answer), format!("Hello, {action}!"));
    }
}
