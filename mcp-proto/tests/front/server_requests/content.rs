//! Content that handlers cannot request of a client, and clients that give no answer.

use mcp_proto::schema::IncludeContext;

use super::*;

/// A server whose tool makes one request, and reports the error to the test if it is not sent.
fn asking<F>(ask: impl Fn(Context) -> F + Send + Sync + 'static) -> (Arc<Router>, Arc<Mutex<Vec<String>>>)
where
    F: Future<Output = Result<String, Error>> + Send + 'static,
{
    let errors = Arc::new(Mutex::new(Vec::new()));
    let kept = errors.clone();
    let router = Router::new("x", "1").tool_with(tool("ask"), move |NoArguments {}, cx: Context| {
        let (asking, kept) = (ask(cx), kept.clone());
        async move {
            asking.await.unwrap_or_else(|error| {
                kept.lock().unwrap().push(error.to_string());
                "not asked".to_owned()
            })
        }
    });
    (Arc::new(router), errors)
}

/// Lets a client of each era call the tool; returns what the server sends first.
fn first_messages(router: &Arc<Router>, capabilities: &Value) -> [Value; 2] {
    let mut modern = ServerHarness::modern_with(router.clone(), capabilities.clone());
    let mut legacy = ServerHarness::legacy_shared(router.clone(), "2025-11-25", capabilities.clone());
    let answer = modern.request("tools/call", json!({"name": "ask"}));
    legacy.send("tools/call", json!({"name": "ask"}));
    [answer, legacy.line()]
}

fn all() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {}})
}

/// S9.1: the handler gets the error, in either era, and nothing is sent.
#[test]
fn handler_cannot_request_a_secret_by_a_form() {
    let (router, errors) =
        asking(async |cx| cx.elicit("login", form("password")).await.map(|_| "asked".to_owned()));
    for message in first_messages(&router, &all()) {
        assert_eq!(message["result"]["content"][0]["text"], "not asked", "{message}");
    }
    let errors = errors.lock().unwrap();
    assert_eq!(errors.len(), 2);
    assert!(
        errors.iter().all(|error| error.contains("\"password\"") && error.contains("elicit_url")),
        "{errors:?}"
    );
}

/// S9.10: the handler gets an error that names the field, in either era, and nothing is sent.
#[test]
fn handler_cannot_send_a_form_with_fields_that_clients_do_not_know() {
    let titled = json!([{"const": "x", "title": "X"}]);
    for (field, is_sent) in [
        (json!({"type": "string", "format": "email", "minLength": 3}), true),
        (json!({"type": "integer", "minimum": 0, "format": "uint32"}), true),
        (json!({"type": "boolean", "default": true, "x-order": 1}), true),
        (json!({"type": "string", "enum": ["x"], "enumNames": ["X"]}), true),
        (json!({"type": "string", "oneOf": titled}), true),
        (json!({"type": "array", "items": {"type": "string", "enum": ["x"]}, "maxItems": 1}), true),
        (json!({"type": "array", "items": {"anyOf": titled}}), true),
        (json!({"type": "object", "properties": {"street": {"type": "string"}}}), false),
        (json!({"type": "array", "items": {"type": "string"}}), false),
        (json!({"type": "array", "items": {"type": "object", "properties": {}}}), false),
        (json!({"type": "array", "items": {"type": "string", "enum": ["x"]}, "uniqueItems": true}), false),
        (json!({"type": "string", "pattern": "^[a-z]+$"}), false),
        (json!({"type": "string", "format": "time"}), false),
        (json!({"type": "number", "maximum": "much"}), false),
        (json!({"type": ["string", "null"]}), false),
        (json!({"$ref": "#/$defs/address"}), false),
    ] {
        let (router, errors) = asking(move |cx| {
            let schema = json!({"type": "object", "properties": {"place": field}});
            let schema: ElicitSchema = serde_json::from_str(&schema.to_string()).unwrap();
            async move {
                cx.elicit("form", ElicitParams::form("Where?", schema)).await.map(|_| "asked".to_owned())
            }
        });
        let [modern, legacy] = first_messages(&router, &all());
        assert_eq!(modern["result"]["resultType"] == "input_required", is_sent, "{modern}");
        assert_eq!(legacy["method"] == "elicitation/create", is_sent, "{legacy}");
        let errors = errors.lock().unwrap();
        assert_eq!(errors.len(), if is_sent { 0 } else { 2 });
        assert!(errors.iter().all(|error| error.contains("\"place\"")), "{errors:?}");
    }
}

/// S9.12: however often the model calls tools, in either era; a client of 2026-07-28 has limits of its own.
#[test]
fn handler_cannot_loop_over_calls_of_tools_without_end() {
    let tries = Arc::new(AtomicUsize::new(0));
    let made = tries.clone();
    let (router, errors) = asking(move |cx| {
        let made = made.clone();
        made.store(0, Ordering::SeqCst);
        async move {
            let result = json!({"type": "tool_result", "toolUseId": "1", "content": []});
            // A first question, whose answer continues nothing, is no part of the loop.
            cx.sample("first", sampling("hello")).await?;
            for round in 0.. {
                made.store(round, Ordering::SeqCst);
                cx.sample(format!("round {round}"), with_a_tool_call(result.clone())).await?;
            }
            Ok(String::new())
        }
    });
    let text = json!({"role": "assistant", "content": {"type": "text", "text": "again"}, "model": "m"});
    let limit = mcp_proto::Limits::default().input_rounds as usize;

    let mut legacy = ServerHarness::legacy_shared(router.clone(), "2025-11-25", all());
    legacy.send("tools/call", json!({"name": "ask"}));
    let answer = loop {
        let line = legacy.line();
        if line["method"] != "sampling/createMessage" {
            break line;
        }
        legacy.send_message(&json!({"jsonrpc": "2.0", "id": line["id"], "result": text}));
    };
    assert_eq!(answer["result"]["content"][0]["text"], "not asked", "{answer}");
    assert_eq!(tries.load(Ordering::SeqCst), limit);

    let mut modern = ServerHarness::modern_with(router, all());
    let mut params = json!({"name": "ask"});
    let answer = loop {
        let answer = modern.request("tools/call", params.clone());
        if answer["result"]["resultType"] != "input_required" {
            break answer;
        }
        let asked = answer["result"]["inputRequests"].as_object().unwrap();
        params["inputResponses"] = asked.keys().map(|key| (key.clone(), text.clone())).collect();
        params["requestState"] = answer["result"]["requestState"].clone();
    };
    assert_eq!(answer["result"]["content"][0]["text"], "not asked", "{answer}");
    assert_eq!(tries.load(Ordering::SeqCst), limit);
    assert!(errors.lock().unwrap().iter().all(|error| error.contains("Limits::input_rounds")));
}

/// S9.2: pages are encrypted, except on this machine.
#[test]
fn handler_cannot_send_a_client_to_an_unencrypted_page() {
    for (url, is_sent) in [
        ("http://mcp.example/login", false),
        ("https://mcp.example/login", true),
        ("http://localhost:8080/", true),
    ] {
        let (router, errors) = asking(move |cx| async move {
            cx.elicit_url("page", "Log in.", url).await.map(|_| "asked".to_owned())
        });
        let [modern, legacy] = first_messages(&router, &all());
        assert_eq!(modern["result"]["resultType"] == "input_required", is_sent, "{url}: {modern}");
        assert_eq!(legacy["method"] == "elicitation/create", is_sent, "{url}: {legacy}");
        assert_eq!(errors.lock().unwrap().is_empty(), is_sent);
    }
}

fn with_a_tool_call(results: Value) -> CreateMessageParams {
    let calls =
        json!({"role": "assistant", "content": {"type": "tool_use", "id": "1", "name": "add", "input": {}}});
    let answer = json!({"role": "user", "content": results});
    let params = json!({
        "messages": [calls, answer], "maxTokens": 10, "tools": [{"name": "add", "inputSchema": {"type": "object"}}],
    });
    serde_json::from_str(&params.to_string()).unwrap()
}

/// S9.8
#[test]
fn handler_cannot_send_tool_calls_without_their_results() {
    let result = json!({"type": "tool_result", "toolUseId": "1", "content": []});
    for (results, is_sent) in [
        (result.clone(), true),
        (json!({"type": "text", "text": "never mind"}), false),
        (json!({"type": "tool_result", "toolUseId": "2", "content": []}), false),
        (json!([result, {"type": "text", "text": "and"}]), false),
    ] {
        let (router, errors) = asking(move |cx| {
            let params = with_a_tool_call(results.clone());
            async move { cx.sample("next", params).await.map(|answer| answer.content.text_content()) }
        });
        let [modern, legacy] = first_messages(&router, &all());
        assert_eq!(modern["result"]["resultType"] == "input_required", is_sent, "{modern}");
        assert_eq!(legacy["method"] == "sampling/createMessage", is_sent, "{legacy}");
        assert_eq!(errors.lock().unwrap().len(), if is_sent { 0 } else { 2 });
    }
}

/// S8.20: only a client that declares `sampling.context` is asked for the context of servers.
#[test]
fn handler_requests_the_context_of_servers_only_from_clients_that_declare_it() {
    let (router, _) = asking(async |cx| {
        let mut params = sampling("Summarize.");
        params.include_context = Some(IncludeContext::ThisServer);
        cx.sample("summary", params).await.map(|answer| answer.content.text_content())
    });
    let [modern, legacy] = first_messages(&router, &json!({"sampling": {}}));
    assert_eq!(
        modern["error"]["data"]["requiredCapabilities"],
        json!({"sampling": {"context": {}}}),
        "{modern}"
    );
    assert_eq!(legacy["result"]["content"][0]["text"], "not asked", "{legacy}");
    let [modern, legacy] = first_messages(&router, &all());
    assert_eq!(modern["result"]["inputRequests"]["summary"]["params"]["includeContext"], "thisServer");
    assert_eq!(legacy["params"]["includeContext"], "thisServer");
}

/// S9.6: a client that answers with an error is one more outcome for the handler.
#[test]
fn handler_learns_that_the_client_failed_to_ask_the_user() {
    let mut s = ServerHarness::legacy_with(router(), "2025-11-25", everything());
    let id = s.send("tools/call", json!({"name": "greet"}));
    let question = s.line();
    let error = json!({"code": -32603, "message": "the screen is locked"});
    s.send_message(&json!({"jsonrpc": "2.0", "id": question["id"], "error": error}));
    let answer = s.line();
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(id), &json!(true)));
    assert!(
        answer["result"]["content"][0]["text"].as_str().unwrap().contains("the screen is locked"),
        "{answer}"
    );
    s.expect_silence();
}

/// S9.6: an answer that does not fit the form never reaches the handler.
#[test]
fn handler_of_a_legacy_client_receives_no_invalid_form() {
    let mut s = ServerHarness::legacy_with(router(), "2025-11-25", everything());
    for content in [json!({"name": 7}), json!({"name": ["Alice"]})] {
        s.send("tools/call", json!({"name": "greet"}));
        let question = s.line();
        let answer = json!({"action": "accept", "content": content});
        s.send_message(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
        assert_eq!(s.line()["result"]["isError"], true);
    }
}

/// S4.7: a modern client need not come back. Nothing is held for it, on the connection or over HTTP.
#[test]
fn server_holds_nothing_for_a_client_that_does_not_answer() {
    let (dropped, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (drops, starts) = (dropped.clone(), begun.clone());
    let router = Router::new("x", "1").tool_with(tool("ask"), move |NoArguments {}, cx: Context| {
        struct OnDrop(Arc<AtomicUsize>);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        starts.fetch_add(1, Ordering::SeqCst);
        let guard = OnDrop(drops.clone());
        async move {
            let said = question(&cx, "name").await;
            drop(guard);
            said
        }
    });
    let router = Arc::new(router);
    let mut s = ServerHarness::modern_with(router.clone(), everything());
    for number in 1..=100 {
        required_input(&s.request("tools/call", json!({"name": "ask", "arguments": {}})));
        assert_eq!((begun.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst)), (number, number));
    }
    s.driver.lock(|machine, _| {
        assert_eq!((machine.peer().unanswered(), machine.peer().in_flight()), (0, 0));
        assert_eq!(machine.poll_timeout(), None);
    });
    s.advance(Duration::from_secs(24 * 3600));
    s.expect_silence();
    // The connection serves on, and the server can end at once.
    assert_eq!(s.result("tools/list", json!({}))["tools"].as_array().unwrap().len(), 1);
    s.end();
    assert!(s.driver.closed().is_some());
}

/// S4.7: nor need a legacy client answer. The call ends with its cancellation, and with the connection.
#[test]
fn legacy_client_may_leave_a_request_unanswered() {
    let mut s = ServerHarness::legacy_with(router(), "2025-11-25", everything());
    let first = s.send("tools/call", json!({"name": "greet"}));
    let question = s.line();
    assert_eq!(question["method"], "elicitation/create");
    // Other calls do not wait for it.
    s.send("tools/call", json!({"name": "greet"}));
    assert_eq!(s.line()["method"], "elicitation/create");
    s.notify("notifications/cancelled", json!({"requestId": first}));
    let withdrawn = s.line();
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&json!("notifications/cancelled"), &question["id"])
    );
    s.driver.lock(|machine, _| assert_eq!(machine.peer().in_flight(), 1));
    s.end();
    s.advance(Duration::from_secs(60));
    s.driver.lock(|machine, _| assert_eq!(machine.peer().in_flight(), 0));
    assert!(s.driver.closed().is_some());
}
