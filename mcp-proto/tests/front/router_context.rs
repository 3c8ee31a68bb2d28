//! The context of a handler: the commands and getters of its request.

use core::future::pending as never;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::messages::{request, with_request_meta};
use crate::common::polling::{WakeCounter, boxed, pending, poll, poll_with, ready};
use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use mcp_proto::front::{Context, Error, HandlerError, NoArguments, Progress, Router, ServerEvent};
use mcp_proto::peer::server::{CloseReason, ListKind};
use mcp_proto::peer::{LostReason, RequestError};
use mcp_proto::schema::{
    ElicitAction, ElicitParams, ElicitSchema, Era, ListRoots, ListRootsParams, LoggingLevel, Map, Revision,
    RootsListChanged, ServerCapability,
};
use serde_json::{Value, json};

/// A router with one tool that passes its context to the test, and ends when the test releases it.
fn held() -> (Router, Arc<Mutex<Vec<Context>>>) {
    let contexts = Arc::new(Mutex::new(Vec::new()));
    let taken = contexts.clone();
    let router = Router::new("held", "1").declare(ServerCapability::Logging).tool_with(
        tool("hold"),
        move |NoArguments {}, cx: Context| {
            taken.lock().unwrap().push(cx);
            never::<String>()
        },
    );
    (router, contexts)
}

fn take(contexts: &Arc<Mutex<Vec<Context>>>) -> Context {
    contexts.lock().unwrap().pop().expect("the handler has not begun")
}

fn hold(s: &mut ServerHarness, meta: Value) -> i64 {
    s.send("tools/call", json!({"name": "hold", "_meta": meta}))
}

#[test]
fn handler_knows_the_client_and_the_revision() {
    let (router, contexts) = held();
    let mut s = ServerHarness::modern_with(router, json!({"sampling": {}}));
    hold(&mut s, json!({"progressToken": "p", "io.modelcontextprotocol/logLevel": "warning"}));
    let cx = take(&contexts);
    assert_eq!((cx.era(), cx.revision()), (Era::Modern, Revision::V2026_07_28));
    assert_eq!(cx.client().unwrap().name, "tester");
    assert!(cx.client_capabilities().sampling.is_some() && cx.client_capabilities().elicitation.is_none());
    assert!(cx.wants_progress());
    assert_eq!(cx.log_level(), Some(LoggingLevel::Warning));

    let (router, contexts) = held();
    let mut s = ServerHarness::legacy_with(router, "2025-03-26", json!({"roots": {}}));
    hold(&mut s, json!({}));
    let cx = take(&contexts);
    assert_eq!((cx.era(), cx.revision()), (Era::Legacy, Revision::V2025_03_26));
    assert!(cx.client_capabilities().roots.is_some() && !cx.wants_progress());
}

/// S6.2
#[test]
fn handler_reports_progress_under_the_token_and_before_the_result() {
    let router = Router::new("x", "1").tool_with(tool("work"), async |NoArguments {}, cx: Context| {
        cx.progress(1);
        cx.progress(Progress::new(2).total(2).message("nearly"));
        "done"
    });
    let mut s = ServerHarness::modern(router);
    s.send("tools/call", json!({"name": "work", "_meta": {"progressToken": "p"}}));
    let first = s.line();
    assert_eq!(first["method"], "notifications/progress");
    assert_eq!((&first["params"]["progressToken"], &first["params"]["progress"]), (&json!("p"), &json!(1)));
    let second = s.line();
    assert_eq!((&second["params"]["total"], &second["params"]["message"]), (&json!(2), &json!("nearly")));
    assert_eq!(s.line()["result"]["content"][0]["text"], "done");
    s.send("tools/call", json!({"name": "work"}));
    assert!(s.line()["result"].is_object(), "no progress without a token");
}

#[test]
fn handler_output_wakes_the_driver() {
    let (router, contexts) = held();
    let mut s = ServerHarness::modern(router);
    hold(&mut s, json!({"progressToken": 1}));
    s.wakes.take();
    take(&contexts).progress(1);
    assert_eq!(s.wakes.take(), 1);
    assert_eq!(s.line()["method"], "notifications/progress");
}

/// S8.18
#[test]
fn handler_logs_to_clients_that_set_a_level() {
    let (router, contexts) = held();
    let mut s = ServerHarness::modern(router);
    hold(&mut s, json!({"io.modelcontextprotocol/logLevel": "warning"}));
    let cx = take(&contexts);
    cx.log(LoggingLevel::Info, "too little");
    cx.log(LoggingLevel::Error, json!({"disk": "full"}));
    let line = s.line();
    assert_eq!(line["method"], "notifications/message");
    assert_eq!(
        (&line["params"]["level"], &line["params"]["data"]),
        (&json!("error"), &json!({"disk": "full"}))
    );
    s.expect_silence();
    hold(&mut s, json!({}));
    take(&contexts).log(LoggingLevel::Emergency, "nobody asked");
    s.expect_silence();
}

/// S2.3, S6.1
#[test]
fn cancellation_drops_the_handler_and_the_server_sends_nothing_more() {
    struct OnDrop(Arc<AtomicBool>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let contexts = Arc::new(Mutex::new(Vec::new()));
    let (flag, taken) = (dropped.clone(), contexts.clone());
    let router = Router::new("x", "1").tool_with(tool("hold"), move |NoArguments {}, cx: Context| {
        taken.lock().unwrap().push(cx);
        let guard = OnDrop(flag.clone());
        async move {
            let _guard = guard;
            never::<String>().await
        }
    });
    let mut s = ServerHarness::modern(router);
    let id = hold(&mut s, json!({"progressToken": 1}));
    let cx = take(&contexts);
    let (wakes, waker) = WakeCounter::new();
    let elsewhere = cx.clone();
    let mut cancelled = boxed(elsewhere.cancelled());
    pending(poll_with(&mut cancelled, &waker));
    assert!(!cx.is_cancelled() && !dropped.load(Ordering::SeqCst));
    s.notify("notifications/cancelled", json!({"requestId": id}));
    assert!(dropped.load(Ordering::SeqCst) && cx.is_cancelled());
    assert_eq!(wakes.take(), 1);
    ready(poll(&mut cancelled));
    cx.progress(1);
    cx.log(LoggingLevel::Error, "too late");
    s.expect_silence();
}

/// S6.1
#[test]
fn server_does_not_answer_a_request_cancelled_before_its_handler_started() {
    let (router, contexts) = held();
    let mut s = ServerHarness::legacy(router);
    let text = format!(
        "{}\n{}\n",
        json!({"jsonrpc": "2.0", "id": 50, "method": "tools/call", "params": {"name": "hold"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 50}}),
    );
    s.driver.lock(|machine, now| machine.handle_input(now, text.into()));
    s.turn();
    s.expect_silence();
    assert!(contexts.lock().unwrap().iter().all(Context::is_cancelled));
}

#[test]
fn handlers_run_concurrently() {
    let (router, contexts) = held();
    let router = router.tool_with(tool("quick"), async |NoArguments {}, _| "quick");
    let mut s = ServerHarness::modern(router);
    hold(&mut s, json!({}));
    assert_eq!(s.call("quick", json!({}))["content"][0]["text"], "quick");
    assert!(!take(&contexts).is_cancelled());
}

// --- Requests to the client ---

fn asking() -> Router {
    Router::new("ask", "1").tool_with(tool("greet"), async |NoArguments {}, cx: Context| {
        let answer =
            cx.elicit("name", ElicitParams::form("Your name?", ElicitSchema::new(Map::new()))).await?;
        Ok::<_, HandlerError>(match answer.action {
            ElicitAction::Accept => "Hello",
            _ => "Never mind",
        })
    })
}

#[test]
fn handler_sends_a_request_to_a_legacy_client() {
    let mut s = ServerHarness::legacy_with(asking(), "2025-11-25", json!({"elicitation": {}}));
    let id = s.send("tools/call", json!({"name": "greet"}));
    let asked = s.line();
    assert_eq!(asked["method"], "elicitation/create");
    assert_eq!(asked["params"]["message"], "Your name?");
    s.send_message(
        &json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {}}}),
    );
    let answer = s.line();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(id), &json!("Hello")));
}

#[test]
fn handler_gets_an_error_for_a_client_without_the_capability() {
    let result = ServerHarness::legacy(asking()).call("greet", json!({}));
    assert_eq!(result["isError"], true, "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("not sent"), "{result}");
}

#[test]
fn request_of_a_handler_is_cancelled_with_the_request_it_was_for() {
    let mut s = ServerHarness::legacy_with(asking(), "2025-11-25", json!({"elicitation": {}}));
    let id = s.send("tools/call", json!({"name": "greet"}));
    let asked = s.line();
    s.notify("notifications/cancelled", json!({"requestId": id}));
    let line = s.line();
    assert_eq!(
        (&line["method"], &line["params"]["requestId"]),
        (&json!("notifications/cancelled"), &asked["id"])
    );
    s.expect_silence();
}

// --- The connection ---

#[test]
fn application_reports_changes_through_the_handle() {
    let router = Router::new("x", "1")
        .declare(ServerCapability::ToolsListChanged)
        .declare(ServerCapability::ResourcesSubscribe);
    let mut s = ServerHarness::legacy(router);
    s.handle.list_changed(ListKind::Tools);
    assert_eq!(s.line()["method"], "notifications/tools/list_changed");
    s.handle.resource_updated("note:///1");
    s.expect_silence();
    let mut events = s.handle.events();
    s.result("resources/subscribe", json!({"uri": "note:///1"}));
    assert!(matches!(&events.drain()[..], [ServerEvent::Subscribed { uri }] if uri == "note:///1"));
    s.handle.resource_updated("note:///1");
    assert_eq!(s.line()["params"]["uri"], "note:///1");
}

#[test]
fn notifications_of_the_client_are_events() {
    let mut s = ServerHarness::legacy_with(
        Router::new("x", "1"),
        "2025-11-25",
        json!({"roots": {"listChanged": true}}),
    );
    let mut events = s.handle.events();
    s.notify("notifications/roots/list_changed", json!({}));
    let Some(ServerEvent::Notification(changed)) = ready(poll(&mut boxed(events.next()))) else { panic!() };
    assert!(changed.is::<RootsListChanged>());
}

#[test]
fn dropping_the_driver_ends_handlers_and_everything_else() {
    let (router, contexts) = held();
    let mut s = ServerHarness::legacy_with(router, "2025-11-25", json!({"roots": {}}));
    hold(&mut s, json!({}));
    let cx = take(&contexts);
    let mut roots = cx.roots("roots");
    pending(poll(&mut roots));
    assert_eq!(s.line()["method"], "roots/list");
    let handle = s.handle.clone();
    drop(s);
    assert!(cx.is_cancelled());
    assert!(matches!(ready(poll(&mut roots)), Err(Error::Lost(LostReason::DriverDropped))));
    assert!(matches!(ready(poll(&mut cx.roots("more"))), Err(Error::Lost(LostReason::DriverDropped))));
    assert_eq!(ready(poll(&mut boxed(handle.closed()))), CloseReason::Lost(LostReason::DriverDropped));
    assert!(matches!(handle.events().drain()[..], [ServerEvent::Closed(_)]));
}

#[test]
fn client_ends_the_connection_by_closing_its_output() {
    let (router, contexts) = held();
    let mut s = ServerHarness::modern(router);
    hold(&mut s, json!({}));
    let handle = s.handle.clone();
    let mut closed = boxed(handle.closed());
    pending(poll(&mut closed));
    s.end();
    s.advance(core::time::Duration::from_secs(10));
    assert_eq!(ready(poll(&mut closed)), CloseReason::Done);
    assert!(take(&contexts).is_cancelled());
}

#[test]
fn server_continues_after_its_handle_was_dropped() {
    let router = Router::new("x", "1").tool_with(tool("quick"), async |NoArguments {}, _| "quick");
    let mut s = ServerHarness::modern(router);
    drop(s.handle.clone());
    assert_eq!(s.call("quick", json!({}))["content"][0]["text"], "quick");
}

/// S1.9, S2.2
#[test]
fn server_refuses_to_send_a_request_that_the_revision_lacks() {
    let (router, contexts) = held();
    let mut s = ServerHarness::modern(router);
    hold(&mut s, json!({}));
    let refused = ready(poll(&mut take(&contexts).request::<ListRoots>(ListRootsParams::new()))).unwrap_err();
    assert!(matches!(refused, Error::NotSent(RequestError::Revision { .. })), "{refused}");
}

/// S1.9, S2.2: a session of the same connection does not let a modern request make the server send one.
#[test]
fn server_sends_no_request_for_a_modern_request_beside_a_session() {
    let (router, contexts) = held();
    let mut s = ServerHarness::legacy_with(router, "2025-11-25", json!({"roots": {}}));
    s.send_message(&request(&json!("m"), "tools/call", with_request_meta(json!({"name": "hold"}))));
    let of_modern = take(&contexts);
    let refused = ready(poll(&mut of_modern.request::<ListRoots>(ListRootsParams::new()))).unwrap_err();
    assert!(matches!(refused, Error::NotSent(RequestError::Revision { .. })), "{refused}");
    s.expect_silence();

    hold(&mut s, json!({}));
    let of_session = take(&contexts);
    let mut asked = of_session.request::<ListRoots>(ListRootsParams::new());
    pending(poll(&mut asked));
    assert_eq!(s.line()["method"], "roots/list", "a request of the session may");
}
