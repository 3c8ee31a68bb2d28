//! Routers that change while they serve, over streams and HTTP.

mod properties;

use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::front_http::{HttpHarness, TestExchange};
use crate::common::messages::LEGACY;
use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Context, LiveRouter, NoArguments, Router, RouterError};
use mcp_proto::schema::{Json, Prompt, Resource, ResourceTemplate, ServerCapability, Tool};
use serde_json::{Value, json};

/// A router with one item of each kind.
fn one_of_each() -> Router {
    with_tool(Router::new("live", "1"), "first")
        .prompt(Prompt::new("first"), async |NoArguments {}, _| "prompt")
        .resource(Resource::new("a:first", "first"), async |_, _| "resource")
        .template(ResourceTemplate::new("t:{x}", "first"), async |NoArguments {}, _| "template")
}

/// Adds a tool that returns its own name.
fn with_tool<S: Send + Sync + 'static>(
    router: Router<mcp_proto::front::SendHandlers, S>,
    name: &str,
) -> Router<mcp_proto::front::SendHandlers, S> {
    let answer = name.to_owned();
    router.tool_with(tool(name), move |NoArguments {}, _| core::future::ready(answer.clone()))
}

fn names(result: &Value) -> Vec<&str> {
    result["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn filter() -> Value {
    json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true}})
}

/// A modern client on a stream that listens for all lists.
fn listening(live: &LiveRouter) -> ServerHarness {
    let mut server = ServerHarness::modern_with(live.clone(), json!({}));
    server.send("subscriptions/listen", filter());
    assert_eq!(server.line()["method"], "notifications/subscriptions/acknowledged");
    server
}

/// The methods of the notifications that have arrived.
fn notified(mut next: impl FnMut() -> Option<Value>) -> Vec<String> {
    core::iter::from_fn(|| Some(next()?["method"].as_str().unwrap().to_owned())).collect()
}

fn drain(exchange: &mut TestExchange) -> Vec<String> {
    notified(|| exchange.try_message())
}

/// S5.1, S5.8
#[test]
fn live_router_notifies_the_subscribers_of_a_resource_over_every_transport() {
    let live = one_of_each().declare(ServerCapability::ResourcesSubscribe).live();
    let mut legacy = ServerHarness::legacy_shared(live.clone(), LEGACY, json!({}));
    legacy.result("resources/subscribe", json!({"uri": "a:first"}));
    let mut web = HttpHarness::new(live.clone());
    let mut listener =
        web.ask("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": ["a:first"]}}));
    assert_eq!(listener.message()["method"], "notifications/subscriptions/acknowledged");

    live.resource_updated("a:first");
    live.resource_updated("a:second");
    let expected = ["notifications/resources/updated"];
    assert_eq!(notified(|| legacy.try_line()), expected);
    assert_eq!(drain(&mut listener), expected);
}

/// S5.7, S8.1
#[test]
fn update_reaches_every_connection_of_every_transport_once() {
    let live = one_of_each().live();
    let mut modern = listening(&live);
    let mut legacy = ServerHarness::legacy_shared(live.clone(), LEGACY, json!({}));
    let mut web = HttpHarness::new(live.clone());
    let mut listener = web.ask("subscriptions/listen", filter());
    assert_eq!(listener.message()["method"], "notifications/subscriptions/acknowledged");
    let session = web.open();
    let mut stream = web.get(&session, None);
    stream.expect_silence();

    live.update(|router| with_tool(with_tool(router, "second"), "third").remove_tool("first")).unwrap();
    let expected = ["notifications/tools/list_changed"];
    assert_eq!(notified(|| modern.try_line()), expected);
    assert_eq!(notified(|| legacy.try_line()), expected);
    assert_eq!(drain(&mut listener), expected);
    web.poll_driver();
    assert_eq!(drain(&mut stream), expected);
    for result in [
        modern.result("tools/list", json!({})),
        legacy.result("tools/list", json!({})),
        web.ask("tools/list", json!({})).message()["result"].clone(),
        web.post_request(&session, "tools/list", json!({})).message()["result"].clone(),
    ] {
        assert_eq!(names(&result), ["second", "third"]);
    }
    assert_eq!(modern.call("second", json!({}))["content"][0]["text"], "second");
    assert_eq!(modern.error("tools/call", json!({"name": "first"}))["code"], -32602);

    live.update(|router| router.remove_prompt("first").disable_resource("a:first")).unwrap();
    let mut changed = notified(|| modern.try_line());
    changed.sort_unstable();
    assert_eq!(changed, ["notifications/prompts/list_changed", "notifications/resources/list_changed"]);
    assert_eq!(drain(&mut listener).len(), 2);
    live.update(|router| router.disable_template("t:{x}")).unwrap();
    assert_eq!(notified(|| modern.try_line()), ["notifications/resources/list_changed"]);
    assert_eq!(modern.error("resources/read", json!({"uri": "t:x"}))["code"], -32602);
    live.update(|router| router.enable_template("t:{x}")).unwrap();
    assert_eq!(notified(|| modern.try_line()), ["notifications/resources/list_changed"]);
    modern.result("resources/read", json!({"uri": "t:x"}));
    live.update(|router| router.remove_template("t:{x}")).unwrap();
    assert_eq!(notified(|| modern.try_line()), ["notifications/resources/list_changed"]);
    assert_eq!(modern.error("resources/read", json!({"uri": "t:x"}))["code"], -32602);
}

#[test]
fn update_that_changes_no_list_notifies_nobody() {
    let live = one_of_each().live();
    let mut client = listening(&live);
    live.update(|router| router).unwrap();
    live.update(|router| router.disable_tool("first").enable_tool("first")).unwrap();
    // The same definition with another handler.
    live.update(|router| {
        router.remove_tool("first").tool_with(tool("first"), async |NoArguments {}, _| "changed")
    })
    .unwrap();
    client.expect_silence();
    assert_eq!(client.call("first", json!({}))["content"][0]["text"], "changed");
}

#[test]
fn failed_update_changes_nothing() {
    let live = one_of_each().live();
    let mut client = listening(&live);
    type Change = fn(Router) -> Router;
    let failures: [(Change, RouterError); 4] = [
        (
            |router| with_tool(with_tool(router, "second"), "second"),
            RouterError::Duplicate { kind: "tool", name: "second".into() },
        ),
        (
            |router| with_tool(router, "second").remove_prompt("second"),
            RouterError::NotRegistered { kind: "prompt", name: "second".into() },
        ),
        (
            |router| with_tool(router, "second").instructions("New"),
            RouterError::Fixed { what: "instructions" },
        ),
        (
            |router| with_tool(router, "second").declare(ServerCapability::Logging),
            RouterError::Undeclared { capability: "logging".into() },
        ),
    ];
    for (change, error) in failures {
        assert_eq!(live.update(change), Err(error));
        client.expect_silence();
        assert_eq!(names(&client.result("tools/list", json!({}))), ["first"]);
    }
    let schema = json!({"type": "object", "properties": {"a": {"type": "array", "x-mcp-header": "A"}}});
    let invalid =
        |router: Router| router.tool_with(Tool::new("marked", "", schema), async |NoArguments {}, _| "never");
    assert!(matches!(live.update(invalid), Err(RouterError::ParamHeader { .. })));
    live.update(|router| with_tool(router, "second")).unwrap();
    assert_eq!(notified(|| client.try_line()), ["notifications/tools/list_changed"]);
}

/// S8.2
#[test]
fn first_item_of_a_kind_needs_a_capability_that_was_declared_before() {
    let live = Router::new("empty", "1").live();
    let error = live.update(|router| with_tool(router, "first")).unwrap_err();
    assert_eq!(error, RouterError::Undeclared { capability: "tools".into() });
    assert!(error.to_string().contains("before `Router::live`"), "{error}");
    let page = |router: Router| router.page("ui://a/b.html", "page", async |_, _| "<!doctype html>");
    assert_eq!(live.update(page), Err(RouterError::Undeclared { capability: "resources".into() }));

    let live = Router::new("empty", "1").declare(ServerCapability::Tools).live();
    let mut client = ServerHarness::legacy(live.clone());
    assert_eq!(client.result("tools/list", json!({}))["tools"], json!([]));
    live.update(|router| with_tool(router, "first")).unwrap();
    assert_eq!(client.line()["method"], "notifications/tools/list_changed");
    assert_eq!(names(&client.result("tools/list", json!({}))), ["first"]);
}

#[test]
fn disabled_tool_is_unknown_until_it_is_enabled() {
    let live = with_tool(one_of_each(), "second").live();
    let mut client = listening(&live);
    live.update(|router| router.disable_tool("first")).unwrap();
    assert_eq!(client.line()["method"], "notifications/tools/list_changed");
    assert_eq!(names(&client.result("tools/list", json!({}))), ["second"]);
    let error = client.error("tools/call", json!({"name": "first"}));
    assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!("there is no tool \"first\"")));
    assert_eq!(
        live.update(|router| with_tool(router, "first")),
        Err(RouterError::Duplicate { kind: "tool", name: "first".into() })
    );
    live.update(|router| router.enable_tool("first")).unwrap();
    assert_eq!(client.line()["method"], "notifications/tools/list_changed");
    assert_eq!(names(&client.result("tools/list", json!({}))), ["first", "second"]);
    assert_eq!(client.call("first", json!({}))["content"][0]["text"], "first");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test needs threads")]
fn concurrent_updates_do_not_lose_one_another() {
    const THREADS: usize = 4;
    const TOOLS: usize = 50;
    let live = one_of_each().live();
    let mut client = ServerHarness::legacy(live.clone());
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let live = live.clone();
            thread::spawn(move || {
                for number in 0..TOOLS {
                    live.update(|router| with_tool(router, &format!("t{thread}.{number}"))).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    while client.try_line().is_some() {}
    assert_eq!(names(&client.result("tools/list", json!({}))).len(), 1 + THREADS * TOOLS);
}

#[test]
fn update_within_an_update_is_an_error() {
    let live = one_of_each().live();
    let inner = live.clone();
    live.update(|router| {
        assert_eq!(inner.update(|router| with_tool(router, "inner")), Err(RouterError::NestedUpdate));
        with_tool(router, "outer")
    })
    .unwrap();
    inner.update(|router| with_tool(router, "inner")).unwrap();
    let mut client = ServerHarness::modern(live);
    assert_eq!(names(&client.result("tools/list", json!({}))), ["first", "outer", "inner"]);
}

#[test]
fn panic_of_an_update_changes_nothing_and_blocks_no_other() {
    let live = one_of_each().live();
    let panicking = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        live.update(|router| {
            drop(router);
            panic!("in the update")
        })
    }));
    assert!(panicking.is_err());
    live.update(|router| with_tool(router, "second")).unwrap();
    let mut client = ServerHarness::modern(live);
    assert_eq!(names(&client.result("tools/list", json!({}))), ["first", "second"]);
}

#[test]
fn handler_updates_its_own_router() {
    type Slot = Mutex<Option<LiveRouter<mcp_proto::front::SendHandlers, Arc<Own>>>>;
    #[derive(Default)]
    struct Own(Slot);
    let own = Arc::new(Own::default());
    let router = Router::new("growing", "1").with_state(own.clone()).tool_with(
        tool("grow"),
        async |NoArguments {}, cx: Context<Arc<Own>>| {
            let live = cx.state().0.lock().unwrap().clone().unwrap();
            live.update(|router| with_tool(router, "grown").remove_tool("grow")).unwrap();
            "grown"
        },
    );
    let live = router.live();
    *own.0.lock().unwrap() = Some(live.clone());
    let mut stream = listening_to(&live);
    let mut web = HttpHarness::new(live.clone());
    let mut listener = web.ask("subscriptions/listen", filter());
    listener.message();
    stream.send("tools/call", json!({"name": "grow"}));
    assert_eq!(stream.line()["method"], "notifications/tools/list_changed");
    assert_eq!(stream.line()["result"]["content"][0]["text"], "grown");
    assert_eq!(stream.call("grown", json!({}))["content"][0]["text"], "grown");
    assert_eq!(drain(&mut listener), ["notifications/tools/list_changed"]);
    *own.0.lock().unwrap() = None;
}

fn listening_to<S: 'static>(live: &LiveRouter<mcp_proto::front::SendHandlers, S>) -> ServerHarness {
    let mut server = ServerHarness::modern_with(live.clone(), json!({}));
    server.send("subscriptions/listen", filter());
    server.line();
    server
}

#[test]
fn running_handlers_and_tasks_outlive_their_tool() {
    let gate = crate::common::front_http::ParkedHandlers::default();
    let (holding, working) = (gate.clone(), gate.clone());
    let live = Router::new("live", "1")
        .tasks(TaskConfig::default())
        .tool_with(tool("hold"), move |NoArguments {}, cx: Context| holding.park(cx))
        .task_tool(tool("work"), TaskChoice::Required, move |NoArguments {}, cx: Context| working.park(cx))
        .live();
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client = ServerHarness::modern_with(live.clone(), capabilities);
    let held = client.send("tools/call", json!({"name": "hold"}));
    let task = client.result("tools/call", json!({"name": "work"}))["taskId"].clone();
    assert_eq!(gate.started(), 2);
    live.update(|router| router.remove_tool("hold").remove_tool("work")).unwrap();
    gate.release("done");
    let answer = client.line();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(held), &json!("done")));
    let ended = client.result("tasks/get", json!({"taskId": task}));
    assert_eq!(ended["result"]["content"][0]["text"], "done", "{ended}");
    assert_eq!(client.error("tools/call", json!({"name": "work"}))["code"], -32602);
}

/// S3.8
#[test]
fn server_checks_the_headers_of_the_present_tool() {
    let live = one_of_each().live();
    let mut web = HttpHarness::new(live.clone());
    let answer = |web: &mut HttpHarness| {
        let mut exchange = web.call("first", json!({"region": "north"}));
        (exchange.head().status, exchange.json()["error"]["code"].clone())
    };
    assert_eq!(answer(&mut web), (200, Value::Null));
    let schema =
        json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    live.update(|router| {
        let marked = Tool::new("first", "", schema);
        router.remove_tool("first").tool_with(marked, async |_: Json, _| "marked")
    })
    .unwrap();
    assert_eq!(answer(&mut web), (400, json!(-32020)));
    live.update(|router| with_tool(router.remove_tool("first"), "first")).unwrap();
    assert_eq!(answer(&mut web), (200, Value::Null));
}

#[cfg(feature = "schema-validate")]
#[test]
fn server_checks_arguments_against_the_present_schema() {
    let live = one_of_each().live();
    let mut client = ServerHarness::modern(live.clone());
    assert_ne!(client.call("first", json!({}))["isError"], true);
    let schema = json!({"type": "object", "required": ["a"]});
    live.update(|router| {
        router.remove_tool("first").tool_with(Tool::new("first", "", schema), async |_: Json, _| "checked")
    })
    .unwrap();
    assert_eq!(client.call("first", json!({}))["isError"], true);
    assert_ne!(client.call("first", json!({"a": 1}))["isError"], true);
}

/// S8.16
#[test]
fn cursor_survives_the_removal_of_its_item() {
    let live =
        (0..6).fold(Router::new("pages", "1").page_size(2), |router, n| with_tool(router, &format!("t{n}")));
    let live = live.live();
    let mut client = ServerHarness::modern(live.clone());
    let first = client.result("tools/list", json!({}));
    assert_eq!((names(&first), &first["nextCursor"]), (vec!["t0", "t1"], &json!("t1")));
    live.update(|router| router.remove_tool("t1").disable_tool("t2")).unwrap();
    let second = client.result("tools/list", json!({"cursor": "t1"}));
    assert_eq!(names(&second), ["t3", "t4"]);
    // A tool that is registered again takes its old place.
    live.update(|router| with_tool(router, "t1")).unwrap();
    assert_eq!(names(&client.result("tools/list", json!({"cursor": "t0"}))), ["t1", "t3"]);
    // Removed long ago.
    live.update(|router| router.remove_tool("t1")).unwrap();
    for n in 6..262 {
        live.update(|router| with_tool(router, &format!("t{n}")).remove_tool(&format!("t{n}"))).unwrap();
    }
    assert_eq!(client.error("tools/list", json!({"cursor": "t1"}))["code"], -32602);
}
