//! The check of a router: hidden items, capabilities without handlers, and servers of invalid routers.

use core::task::{Context as TaskContext, Poll, Waker};
use std::sync::Arc;

use crate::common::messages::{MODERN, parse_lines, request};
use crate::common::polling::{CountingEntropy, TestClock};
use crate::common::tools::tool;
use mcp_proto::Bytes;
use mcp_proto::adapter;
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{HandlerError, NoArguments, Router, RouterError, ServedRouter};
use mcp_proto::schema::tasks::{CancelTask, GetTask, UpdateTask};
use mcp_proto::schema::{
    CallTool, Complete, GetPrompt, ListPrompts, ListResourceTemplates, ListResources, ListTools, Method,
    Prompt, ReadResource, Resource, ResourceTemplate, ServerCapability,
};
use mcp_proto::transport::StreamServer;
use serde_json::{Value, json};

/// Adds a handler of a method that always fails.
macro_rules! failing {
    ($router:expr, $method:ty) => {
        $router.handler::<$method, _, _>(async |_, _| Err(HandlerError::new("never")))
    };
}

fn empty() -> Router {
    Router::new("checked", "1")
}

fn shadowed(kind: &'static str, name: &str, method: &'static str) -> Result<(), RouterError> {
    Err(RouterError::Shadowed { kind, name: name.into(), method })
}

#[test]
fn router_reports_items_that_a_handler_hides() {
    let tools = || empty().tool_with(tool("t"), async |NoArguments {}, _| "");
    assert_eq!(failing!(tools(), ListTools).check(), shadowed("tool", "t", ListTools::NAME));
    assert_eq!(failing!(tools(), CallTool).check(), shadowed("tool", "t", CallTool::NAME));
    assert_eq!(tools().custom("tools/list", async |_, _| Err(HandlerError::new(""))).check(), {
        shadowed("tool", "t", ListTools::NAME)
    });
    let prompts = || empty().prompt(Prompt::new("p"), async |NoArguments {}, _| "");
    assert_eq!(failing!(prompts(), ListPrompts).check(), shadowed("prompt", "p", ListPrompts::NAME));
    assert_eq!(failing!(prompts(), GetPrompt).check(), shadowed("prompt", "p", GetPrompt::NAME));
    let resources = || empty().resource(Resource::new("a:r", "r"), async |_, _| "");
    assert_eq!(
        failing!(resources(), ListResources).check(),
        shadowed("resource", "a:r", ListResources::NAME)
    );
    assert_eq!(failing!(resources(), ReadResource).check(), shadowed("resource", "a:r", ReadResource::NAME));
    let templates = || empty().template(ResourceTemplate::new("t:{x}", "t"), async |NoArguments {}, _| "");
    let listed = shadowed("resource template", "t:{x}", ListResourceTemplates::NAME);
    assert_eq!(failing!(templates(), ListResourceTemplates).check(), listed);
    let read = shadowed("resource template", "t:{x}", ReadResource::NAME);
    assert_eq!(failing!(templates(), ReadResource).check(), read);
    let tasks = empty().tasks(TaskConfig::default());
    let tasks = tasks.task_tool(tool("t"), TaskChoice::Optional, async |NoArguments {}, _| "");
    assert_eq!(failing!(tasks, GetTask).check(), shadowed("task tool", "t", GetTask::NAME));
}

/// S11.12: a page is at a `ui:` URI; a resource of its media type at another URI is none.
#[test]
fn router_refuses_a_tool_whose_page_has_another_scheme() {
    for uri in ["https://clock.example/page.html", "ui:clock/page"] {
        let router = empty()
            .page(uri, "clock", async |_, _| "<p>")
            .tool_with(tool("clock").with_page(uri), async |NoArguments {}, _| "nine");
        assert_eq!(router.check(), Err(RouterError::Page { tool: "clock".into(), uri: uri.into() }), "{uri}");
    }
}

#[test]
fn router_accepts_handlers_that_hide_nothing() {
    let by_hand = failing!(failing!(empty(), ListTools), CallTool);
    assert_eq!(by_hand.check(), Ok(()));
    // A list of resources beside templates, and tools beside a list of prompts.
    let mixed = failing!(failing!(empty(), ListResources), ListPrompts)
        .tool_with(tool("t"), async |NoArguments {}, _| "")
        .template(ResourceTemplate::new("t:{x}", "t"), async |NoArguments {}, _| "");
    assert_eq!(mixed.check(), Ok(()));
    // A disabled tool is not offered.
    let disabled = empty().tool_with(tool("t"), async |NoArguments {}, _| "").disable_tool("t");
    assert_eq!(failing!(disabled, ListTools).check(), Ok(()));
}

#[test]
fn router_reports_a_capability_that_nothing_answers() {
    for (capability, method) in [
        (ServerCapability::Completions, Complete::NAME),
        (ServerCapability::Tasks, "tasks/get"),
        (ServerCapability::TasksList, "tasks/get"),
        (ServerCapability::TasksCancel, "tasks/get"),
        (ServerCapability::TasksExtension, GetTask::NAME),
    ] {
        let error = empty().declare(capability).check().unwrap_err();
        assert!(
            matches!(error, RouterError::Unanswered { method: missing, .. } if missing == method),
            "{error:?}"
        );
        assert!(error.to_string().contains("call `Router::"), "{error}");
        let with_tasks = empty().tasks(TaskConfig::default()).completion(async |_, _| Vec::<String>::new());
        assert_eq!(with_tasks.declare(capability).check(), Ok(()));
    }
    let extension = empty().extension("io.modelcontextprotocol/tasks", json!({}));
    let unanswered =
        RouterError::Unanswered { capability: ServerCapability::TasksExtension, method: GetTask::NAME };
    assert_eq!(extension.check(), Err(unanswered));
    let by_hand = failing!(failing!(failing!(extension, GetTask), UpdateTask), CancelTask);
    assert_eq!(by_hand.check(), Ok(()));
    // The router answers lists without items, and the server the rest.
    for capability in [
        ServerCapability::Tools,
        ServerCapability::ToolsListChanged,
        ServerCapability::Resources,
        ServerCapability::ResourcesListChanged,
        ServerCapability::ResourcesSubscribe,
        ServerCapability::Prompts,
        ServerCapability::PromptsListChanged,
        ServerCapability::Logging,
    ] {
        assert_eq!(empty().declare(capability).check(), Ok(()));
    }
    assert_eq!(empty().extension("com.example/charts", json!({})).check(), Ok(()));
}

#[test]
fn unknown_item_to_change_is_an_error() {
    for (router, kind) in [
        (empty().remove_tool("x"), "tool"),
        (empty().disable_tool("x"), "tool"),
        (empty().enable_prompt("x"), "prompt"),
        (empty().remove_resource("x"), "resource"),
        (empty().disable_template("x"), "resource template"),
    ] {
        assert_eq!(router.check(), Err(RouterError::NotRegistered { kind, name: "x".into() }));
    }
}

/// The answer of a server whose adapter did not check its router.
fn unchecked(router: impl Into<ServedRouter>) -> Value {
    let router = router.into();
    let machine = StreamServer::new(router.router().config());
    let (_, mut driver) = adapter::server(
        machine,
        Arc::new(TestClock::default()),
        Arc::new(CountingEntropy::default()),
        router,
    );
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = request(&json!(1), "tools/list", json!({"_meta": meta}));
    driver.lock(|machine, now| machine.handle_input(now, Bytes::from(format!("{message}\n"))));
    let mut out = Vec::new();
    let mut cx = TaskContext::from_waker(Waker::noop());
    while driver
        .poll(
            &mut cx,
            |machine, _| if machine.poll_transmit(&mut out) { Poll::Ready(()) } else { Poll::Pending },
        )
        .is_ready()
    {}
    parse_lines(&out).next().expect("an answer")
}

#[test]
fn invalid_router_answers_no_request() {
    let tools = || empty().tool_with(tool("t"), async |NoArguments {}, _| "");
    assert_eq!(unchecked(tools())["result"]["tools"][0]["name"], "t");
    let invalid = || failing!(tools(), ListTools);
    for answer in [unchecked(invalid()), unchecked(Arc::new(invalid())), unchecked(invalid().live())] {
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("hides the tool"), "{answer}");
    }
}
