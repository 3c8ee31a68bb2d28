//! Why the answer to a request is no longer awaited, as its handler learns it.

use core::future::pending as never;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use crate::common::front_http::{HttpHarness, router as web_router};
use crate::common::polling::{boxed, pending, poll, ready};
use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Context, NoArguments, Router, ServerEvent};
use mcp_proto::peer::LostReason;
use mcp_proto::peer::server::{Cancellation, CloseReason};
use serde_json::json;

type Contexts = Arc<Mutex<Vec<Context>>>;

/// A router with one tool that passes its context to the test and never ends.
fn held() -> (Router, Contexts) {
    let contexts = Contexts::default();
    let taken = contexts.clone();
    let router = Router::new("held", "1").tool_with(tool("hold"), move |NoArguments {}, cx: Context| {
        taken.lock().unwrap().push(cx);
        never::<String>()
    });
    (router, contexts)
}

fn take(contexts: &Contexts) -> Context {
    contexts.lock().unwrap().pop().expect("the handler has not begun")
}

fn client(reason: impl Into<Option<&'static str>>) -> Cancellation {
    Cancellation::Client { reason: reason.into().map(str::to_owned) }
}

/// C7.7, S6.1
#[test]
fn handler_and_application_learn_the_reason_of_a_cancellation() {
    let (router, contexts) = held();
    let router = Arc::new(router);
    for mut s in [
        ServerHarness::modern_with(router.clone(), json!({})),
        ServerHarness::legacy_shared(router.clone(), "2025-11-25", json!({})),
    ] {
        let mut events = s.handle.events();
        let id = s.send("tools/call", json!({"name": "hold"}));
        let cx = take(&contexts);
        let mut cancelled = boxed(cx.cancelled());
        pending(poll(&mut cancelled));
        assert_eq!(cx.cancellation(), None);
        s.notify("notifications/cancelled", json!({"requestId": id, "reason": "the user pressed stop"}));
        assert_eq!(ready(poll(&mut cancelled)), client("the user pressed stop"));
        // A later call returns it too.
        assert_eq!(ready(poll(&mut boxed(cx.cancelled()))), client("the user pressed stop"));
        assert_eq!(cx.cancellation().unwrap().reason(), Some("the user pressed stop"));
        let events = events.drain();
        assert!(
            matches!(&events[..], [ServerEvent::RequestCancelled { request, reason: Some(reason) }]
                if *request == cx.id() && reason == "the user pressed stop"),
            "{events:?}"
        );
    }
}

/// C7.7
#[test]
fn reason_of_a_cancellation_is_escaped_and_bounded() {
    let (router, contexts) = held();
    let mut s = ServerHarness::modern(router);
    let id = s.send("tools/call", json!({"name": "hold"}));
    let reason = format!("\u{1b}]0;title\u{7}\n\u{202e}{}", "ü".repeat(100_000));
    s.notify("notifications/cancelled", json!({"requestId": id, "reason": reason}));
    let cancellation = take(&contexts).cancellation().unwrap();
    let shown = cancellation.reason().unwrap();
    assert!(shown.starts_with(r"\u{1b}]0;title\u{7}\n\u{202e}ü"), "{shown}");
    assert_eq!(shown.chars().filter(|char| *char == 'ü').count(), 1000 - 12);
    assert!(cancellation.to_string().starts_with("the client cancelled the request: "));
}

#[test]
fn request_without_a_reason_has_none() {
    let (router, contexts) = held();
    let mut s = ServerHarness::modern(router);
    let id = s.send("tools/call", json!({"name": "hold"}));
    s.notify("notifications/cancelled", json!({"requestId": id}));
    assert_eq!(take(&contexts).cancellation(), Some(client(None)));
}

#[test]
fn answered_request_is_not_cancelled() {
    let contexts = Contexts::default();
    let taken = contexts.clone();
    let router = Router::new("x", "1").tool_with(tool("quick"), move |NoArguments {}, cx: Context| {
        taken.lock().unwrap().push(cx);
        async { "done" }
    });
    let mut s = ServerHarness::modern(router);
    s.call("quick", json!({}));
    let cx = take(&contexts);
    assert_eq!(cx.cancellation(), Some(Cancellation::Answered));
    assert_eq!(ready(poll(&mut boxed(cx.cancelled()))), Cancellation::Answered);
}

#[test]
fn handler_learns_how_its_connection_ended() {
    let (router, contexts) = held();
    let router = Arc::new(router);
    let begin = || {
        let mut s = ServerHarness::modern_with(router.clone(), json!({}));
        s.send("tools/call", json!({"name": "hold"}));
        (s, take(&contexts))
    };
    let (mut s, cx) = begin();
    s.end();
    s.advance(Duration::from_secs(10));
    assert_eq!(cx.cancellation(), Some(Cancellation::Disconnected));

    let (mut s, cx) = begin();
    let handle = s.handle.clone();
    let mut closing = boxed(handle.close());
    pending(poll(&mut closing));
    s.advance(Duration::from_secs(10));
    assert_eq!(cx.cancellation(), Some(Cancellation::Closed(CloseReason::Done)));

    let (s, cx) = begin();
    drop(s);
    let dropped = CloseReason::Lost(LostReason::DriverDropped);
    assert_eq!(cx.cancellation(), Some(Cancellation::Closed(dropped)));
}

/// S6.1
#[test]
fn disconnect_cancels_a_modern_request_over_http_and_says_so() {
    let (router, held) = web_router();
    let mut web = HttpHarness::new(router);
    let mut caller = web.call("hold", json!({}));
    caller.poll_exchange();
    let cx = held.context();
    assert_eq!(cx.cancellation(), None);
    drop(caller);
    assert_eq!(cx.cancellation(), Some(Cancellation::Disconnected));
}

#[test]
fn session_passes_the_reason_of_its_client_to_the_handler() {
    let (router, held) = web_router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let call = json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "hold", "arguments": {}}});
    let caller = web.post(&session, &call);
    let cx = held.context();
    // A disconnect cancels nothing in a session.
    drop(caller);
    web.poll_driver();
    assert_eq!(cx.cancellation(), None);
    let params = json!({"requestId": "x", "reason": "enough"});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert_eq!(web.post(&session, &cancel).head().status, 202);
    assert_eq!(cx.cancellation(), Some(client("enough")));

    let _caller = web.post(&session, &call);
    let cx = held.context();
    web.delete(&session);
    assert_eq!(cx.cancellation(), Some(Cancellation::Closed(CloseReason::Done)));
}

#[test]
fn handler_of_a_task_learns_that_the_task_was_cancelled() {
    let contexts = Contexts::default();
    let taken = contexts.clone();
    let router = Router::new("held", "1").tasks(TaskConfig::default()).task_tool(
        tool("hold"),
        TaskChoice::Optional,
        move |NoArguments {}, cx: Context| {
            taken.lock().unwrap().push(cx);
            never::<String>()
        },
    );
    let mut s =
        ServerHarness::modern_with(router, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let created = s.result("tools/call", json!({"name": "hold"}));
    let cx = take(&contexts);
    assert_eq!(cx.cancellation(), None);
    s.result("tasks/cancel", json!({"taskId": created["taskId"]}));
    assert_eq!(ready(poll(&mut boxed(cx.cancelled()))), client(None));
}
