//! Pages that the user opens in a browser.

use super::*;

fn visiting(completions: &Arc<Mutex<Vec<Option<ElicitationCompletion>>>>) -> Router {
    let completions = completions.clone();
    Router::new("x", "1").tool_with(tool("visit"), move |NoArguments {}, cx: Context| {
        let completions = completions.clone();
        async move {
            let page = cx.elicit_url("page", "Please log in.", "https://mcp.example/login");
            completions.lock().unwrap().push(page.completion());
            Ok::<_, HandlerError>(page.await?.action.as_str().to_owned())
        }
    })
}

/// S9.1, S9.4: no id, no notification; the client reports the outcome by its retry.
#[test]
fn handler_sends_a_modern_client_to_a_page() {
    let completions = Arc::default();
    let mut web = HttpHarness::new(visiting(&completions));
    let first = attempt(&mut web, "visit", None, None);
    let (_, state) = required_input(&first);
    let params = &first["result"]["inputRequests"]["page"]["params"];
    assert_eq!((&params["mode"], &params["url"]), (&json!("url"), &json!("https://mcp.example/login")));
    assert!(params.get("elicitationId").is_none(), "{params}");
    let answer = attempt(&mut web, "visit", Some(&state), Some(json!({"page": {"action": "accept"}})));
    assert_eq!(text_of(&answer), "accept");
    assert!(completions.lock().unwrap().iter().all(Option::is_none));
}

/// S9.1
#[test]
fn handler_does_not_send_a_client_without_the_capability_to_a_page() {
    let mut web = HttpHarness::new(visiting(&Arc::default()));
    let params = json!({"name": "visit", "arguments": {}});
    let answer = web.ask_with("tools/call", params, json!({"elicitation": {}})).json();
    assert_eq!(
        answer["error"]["data"]["requiredCapabilities"],
        json!({"elicitation": {"url": {}}}),
        "{answer}"
    );
    let mut s = ServerHarness::legacy_with(
        visiting(&Arc::default()),
        "2025-11-25",
        json!({"elicitation": {"form": {}}}),
    );
    assert_eq!(s.call("visit", json!({}))["isError"], true);
}

/// S9.2
#[test]
fn handler_cannot_send_a_client_to_an_invalid_url_or_with_credentials() {
    let router = Router::new("x", "1").tool_raw(tool("visit"), async |call: CallToolParams, cx: Context| {
        let url: Value = call.arguments.unwrap().decode()?;
        let url = url["url"].as_str().unwrap();
        assert!(cx.require_url("Look.", url).1.is_none());
        let error = cx.elicit_url("page", "Look.", url).await.unwrap_err();
        assert!(matches!(error, Error::NotSent(RequestError::UnsafePage(_))), "{error}");
        Ok::<_, HandlerError>(error.to_string())
    });
    let router = Arc::new(router);
    for url in [
        "javascript:alert(1)",
        "login",
        "https://",
        "https://alice:secret@mcp.example/",
        "https://a b.example/",
    ] {
        let arguments = json!({"url": url});
        ServerHarness::modern_with(router.clone(), everything()).call("visit", arguments.clone());
        ServerHarness::legacy_shared(router.clone(), "2025-11-25", everything()).call("visit", arguments);
    }
}

/// S9.7: the client that received the page is notified, by the page's id.
#[test]
fn server_notifies_a_legacy_client_when_the_page_is_completed() {
    let completions = Arc::default();
    let router = Arc::new(visiting(&completions));
    let mut s = ServerHarness::legacy_shared(router.clone(), "2025-11-25", everything());
    let mut bystander = ServerHarness::legacy_shared(router, "2025-11-25", everything());
    s.send("tools/call", json!({"name": "visit"}));
    let question = s.line();
    assert_eq!(question["params"]["mode"], "url");
    let id = question["params"]["elicitationId"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 32);
    s.send_message(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}));
    assert_eq!(s.line()["result"]["content"][0]["text"], "accept");
    let completion = completions.lock().unwrap().pop().unwrap().expect("an id");
    assert_eq!(completion.id(), id);
    assert!(completion.notify());
    let told = s.line();
    assert_eq!(told["method"], "notifications/elicitation/complete");
    assert_eq!(told["params"], json!({"elicitationId": id}));
    bystander.expect_silence();
    drop(s);
    assert!(!completion.notify());
}

/// S9.7: the error names the page with its id; the client of the request is notified when the page is completed.
#[test]
fn handler_can_require_a_legacy_client_to_show_a_page_first() {
    let completions: Arc<Mutex<Vec<Option<ElicitationCompletion>>>> = Arc::default();
    let kept = completions.clone();
    let router = Router::new("x", "1").tool_with(tool("pay"), move |NoArguments {}, cx: Context| {
        let (error, completion) = cx.require_url("Please pay.", "https://mcp.example/pay");
        kept.lock().unwrap().push(completion);
        core::future::ready(Err::<(), _>(error))
    });
    let router = Arc::new(router);
    let mut s = ServerHarness::legacy_shared(router.clone(), "2025-11-25", everything());
    let error = s.error("tools/call", json!({"name": "pay"}));
    assert_eq!(error["code"], -32042, "{error}");
    let completion = completions.lock().unwrap().pop().unwrap().unwrap();
    let page = json!({
        "mode": "url", "message": "Please pay.", "url": "https://mcp.example/pay", "elicitationId": completion.id(),
    });
    assert_eq!(error["data"], json!({"elicitations": [page]}));
    assert!(completion.notify());
    assert_eq!(s.line()["params"]["elicitationId"], completion.id());
    for mut other in [
        ServerHarness::legacy_shared(router.clone(), "2025-11-25", json!({"elicitation": {}})),
        ServerHarness::legacy_shared(router.clone(), "2025-06-18", everything()),
    ] {
        assert_eq!(other.call("pay", json!({}))["isError"], true);
        assert!(completions.lock().unwrap().pop().unwrap().is_none());
    }
}

/// S9.8
#[test]
fn handler_sends_sampling_tools_only_to_clients_that_declare_them() {
    let router = Router::new("x", "1").tool_with(tool("think"), async |NoArguments {}, cx: Context| {
        let mut params = sampling("What time is it?");
        params.tools = Some([tool("clock")].into());
        Ok::<_, HandlerError>(cx.sample("time", params).await?.content.text_content())
    });
    let mut web = HttpHarness::new(router);
    let params = json!({"name": "think", "arguments": {}});
    let answer = web.ask_with("tools/call", params.clone(), json!({"sampling": {}})).json();
    assert_eq!(
        answer["error"]["data"]["requiredCapabilities"],
        json!({"sampling": {"tools": {}}}),
        "{answer}"
    );
    let answer = web.ask_with("tools/call", params, json!({"sampling": {"tools": {}}})).json();
    assert_eq!(required_input(&answer).0, ["time"]);
}
