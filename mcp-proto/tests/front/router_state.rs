//! The state of a router: handlers of every kind share it, in either mode.

use core::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::front_http::HttpHarness;
use crate::common::router::ServerHarness;
use crate::common::tools::{prompt, tool};
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Context, NoArguments, Router};
use mcp_proto::schema::{
    Complete, CompleteParams, CompleteResult, Completion, EmptyResult, Resource, ResourceTemplate,
};
use serde_json::json;

#[derive(Default)]
struct Counter(AtomicU64);

impl Counter {
    fn next(&self) -> String {
        (self.0.fetch_add(1, Ordering::Relaxed) + 1).to_string()
    }
}

#[test]
fn handlers_of_every_kind_share_the_state() {
    let router = Router::new("counter", "1")
        .tasks(TaskConfig::default())
        .with_state(Counter::default())
        .tool_with(tool("tool"), async |NoArguments {}, cx: Context<Counter>| cx.state().next())
        .tool_raw(tool("raw"), async |_, cx| cx.state().next())
        .task_tool(tool("task"), TaskChoice::Optional, async |NoArguments {}, cx| cx.state().next())
        .prompt(prompt("prompt", "a"), async |NoArguments {}, cx| cx.state().next())
        .resource(Resource::new("a:b", "resource"), async |_, cx| cx.state().next())
        .template(ResourceTemplate::new("t:{x}", "template"), async |_: NoArguments, cx| cx.state().next())
        .handler::<Complete, _, _>(async |_: CompleteParams, cx| {
            CompleteResult::new(Completion::new([cx.state().next()]))
        })
        .custom("com.example/next", async |_, cx| {
            let mut result = EmptyResult::new();
            result.extra.insert("next", cx.state().next().as_str());
            result
        });
    let mut server = ServerHarness::modern(router);
    assert_eq!(server.call("tool", json!({}))["content"][0]["text"], "1");
    assert_eq!(server.call("raw", json!({}))["content"][0]["text"], "2");
    assert_eq!(server.call("task", json!({}))["content"][0]["text"], "3");
    let got = server.result("prompts/get", json!({"name": "prompt"}));
    assert_eq!(got["messages"][0]["content"]["text"], "4");
    assert_eq!(server.result("resources/read", json!({"uri": "a:b"}))["contents"][0]["text"], "5");
    assert_eq!(server.result("resources/read", json!({"uri": "t:x"}))["contents"][0]["text"], "6");
    let params =
        json!({"ref": {"type": "ref/prompt", "name": "prompt"}, "argument": {"name": "a", "value": ""}});
    assert_eq!(server.result("completion/complete", params)["completion"]["values"], json!(["7"]));
    assert_eq!(server.result("com.example/next", json!({}))["next"], "8");
}

#[test]
fn connections_and_transports_share_the_state() {
    let counter = Arc::new(Counter::default());
    let router = Router::new("counter", "1")
        .with_state(counter.clone())
        .tool_with(tool("next"), async |NoArguments {}, cx: Context<Arc<Counter>>| cx.shared_state().next());
    let mut stream = ServerHarness::modern_with(router.clone(), json!({}));
    let mut legacy =
        ServerHarness::legacy_shared(Arc::new(router.clone()), crate::common::messages::LEGACY, json!({}));
    let mut web = HttpHarness::new(router);
    assert_eq!(stream.call("next", json!({}))["content"][0]["text"], "1");
    assert_eq!(legacy.call("next", json!({}))["content"][0]["text"], "2");
    let answer = web.call("next", json!({})).message();
    assert_eq!(answer["result"]["content"][0]["text"], "3", "{answer}");
    assert_eq!(counter.next(), "4");
}

#[test]
fn handlers_keep_the_state_that_they_were_registered_with() {
    let router = Router::new("layers", "1")
        .tool_with(tool("none"), async |NoArguments {}, cx: Context| {
            let () = cx.state();
            "none"
        })
        .with_state(7_u64)
        .tool_with(tool("number"), async |NoArguments {}, cx: Context<u64>| cx.state().to_string())
        .with_state("text")
        .tool_with(tool("text"), async |NoArguments {}, cx: Context<&'static str>| *cx.state());
    let mut server = ServerHarness::legacy(router);
    for (tool, expected) in [("none", "none"), ("number", "7"), ("text", "text")] {
        assert_eq!(server.call(tool, json!({}))["content"][0]["text"], expected);
    }
}

#[test]
fn local_handlers_share_state_that_stays_on_its_thread() {
    let count = Rc::new(Cell::new(0));
    let router = Router::local("counter", "1").with_state(count.clone()).tool_with(
        tool("next"),
        async |NoArguments {}, cx: Context<Rc<Cell<u32>>>| {
            cx.progress(1);
            cx.state().set(cx.state().get() + 1);
            cx.state().get().to_string()
        },
    );
    let mut server = ServerHarness::legacy(router);
    server.call("next", json!({}));
    assert_eq!(server.call("next", json!({}))["content"][0]["text"], "2");
    assert_eq!(count.get(), 2);
}

/// Part of a library that knows nothing of the state.
fn report(cx: &Context) {
    cx.progress(1);
}

#[test]
fn context_without_state_belongs_to_the_same_request() {
    let router = Router::new("reports", "1").with_state(Counter::default()).tool_with(
        tool("report"),
        async |NoArguments {}, cx: Context<Counter>| {
            report(&cx.without_state());
            "done"
        },
    );
    let mut server = ServerHarness::legacy(router);
    server.send("tools/call", json!({"name": "report", "_meta": {"progressToken": "p"}}));
    assert_eq!(server.line()["params"]["progressToken"], "p");
    assert_eq!(server.line()["result"]["content"][0]["text"], "done");
}
