//! Legacy sessions whose clients are silent, and the memory of clients that wait.

use core::task::{Context as TaskContext, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use crate::common::front_http::{HttpHarness, router};
use crate::common::messages::MODERN;
use crate::common::tools::tool;
use mcp_proto::Bytes;
use mcp_proto::front::http::HttpExchange;
use mcp_proto::front::{Context, HandlerError, NoArguments, Router, SendHandlers};
use mcp_proto::schema::{ElicitParams, ElicitSchema, Map, ServerCapability};
use mcp_proto::transport::http::server::RequestHead;
use serde_json::{Value, json};

/// Longer than the time after which a silent session becomes idle.
const PAUSE: Duration = Duration::from_secs(10);

/// Lets the sessions become idle. Returns the number of bytes that this freed.
fn pause(web: &mut HttpHarness) -> i64 {
    -allocation_counter::measure(|| web.advance(PAUSE)).bytes_current
}

fn call(web: &mut HttpHarness, session: &str, tool: &str) -> Value {
    let mut caller = web.post_request(session, "tools/call", json!({"name": tool, "arguments": {}}));
    caller.message()["result"]["content"][0]["text"].clone()
}

fn list_changed(web: &HttpHarness) {
    web.server.list_changed(mcp_proto::peer::server::ListKind::Tools);
}

#[test]
fn session_remembers_its_client_while_it_is_idle() {
    let who = async |NoArguments {}, cx: Context| {
        let capabilities = serde_json::to_string(cx.client_capabilities()).unwrap();
        format!("{} {} {capabilities}", cx.client().unwrap().name, cx.revision())
    };
    let mut web = HttpHarness::new(Router::new("idle", "1").tool_with(tool("who"), who));
    let capabilities = json!({"elicitation": {"form": {}}, "sampling": {}});
    let session = web.open_with("2025-06-18", capabilities);
    let before = call(&mut web, &session, "who");
    for _ in 0..3 {
        assert!(pause(&mut web) > 1000);
        assert_eq!(call(&mut web, &session, "who"), before);
    }
    assert!(before.as_str().unwrap().starts_with("tester 2025-06-18 {"), "{before}");
    pause(&mut web);
    assert!(matches!(web.delete(&session).status, 200..=204));
    assert_eq!(web.post_request(&session, "ping", json!({})).head().status, 404);
}

#[test]
fn idle_session_keeps_its_subscriptions() {
    let router = Router::new("idle", "1").declare(ServerCapability::ResourcesSubscribe);
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let answer = web.post_request(&session, "resources/subscribe", json!({"uri": "note:///1"})).message();
    assert_eq!(answer["result"], json!({}));
    assert!(pause(&mut web) > 1000);
    assert_eq!(web.server.handle().subscribed_resources(), ["note:///1"]);
    web.server.resource_updated("note:///1");
    web.server.resource_updated("note:///2");
    web.poll_driver();
    let mut events = web.get(&session, None);
    assert_eq!(events.message()["params"]["uri"], "note:///1");
    assert_eq!(events.try_message(), None);
    drop(events);
    pause(&mut web);
    web.delete(&session);
    assert!(web.server.handle().subscribed_resources().is_empty());
}

#[test]
fn idle_session_does_not_reuse_event_ids() {
    let mut web = HttpHarness::new(router().0);
    let session = web.open();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut events = web.get(&session, None);
        list_changed(&web);
        web.poll_driver();
        assert_eq!(events.message()["method"], "notifications/tools/list_changed");
        ids.push(events.last_event().expect("an id"));
        drop(events);
        pause(&mut web);
    }
    ids.dedup();
    assert_eq!(ids.len(), 3, "{ids:?}");
}

#[test]
fn session_with_a_running_handler_is_not_idle() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    drop(web.post_request(&session, "tools/call", json!({"name": "hold", "arguments": {}})));
    web.advance(PAUSE);
    assert_eq!(held.dropped_count(), 0);
    assert!(!held.context().is_cancelled());
}

#[test]
fn session_whose_request_was_answered_becomes_idle() {
    let ask = async |NoArguments {}, cx: Context| {
        let answer =
            cx.elicit("name", ElicitParams::form("Your name?", ElicitSchema::new(Map::new()))).await?;
        Ok::<_, HandlerError>(format!("{:?}", answer.action))
    };
    let mut web = HttpHarness::new(Router::new("idle", "1").tool_with(tool("ask"), ask));
    let session = web.open_with("2025-06-18", json!({"elicitation": {}}));
    let mut caller = web.post_request(&session, "tools/call", json!({"name": "ask", "arguments": {}}));
    let asked = caller.message();
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
    assert_eq!(web.post(&session, &answer).head().status, 202);
    assert_eq!(caller.message()["result"]["content"][0]["text"], "Decline");
    assert!(caller.ended);
    drop(caller);
    // The client might fetch its events again for half a minute: they are some 1,800 of the bytes.
    let freed = [(); 4].map(|()| pause(&mut web));
    assert!(freed.into_iter().any(|bytes| bytes > 2500), "{freed:?}");
}

/// S3.22
#[test]
fn session_with_stored_events_is_not_idle() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let params = json!({"name": "hold", "arguments": {}, "_meta": {"progressToken": 1}});
    let mut caller = web.post_request(&session, "tools/call", params);
    held.context().progress(1);
    assert_eq!(caller.message()["params"]["progress"], 1);
    let last = caller.last_event().expect("an event id");
    drop(caller);
    held.release("done");
    web.poll_driver();
    pause(&mut web);
    let mut again = web.get(&session, Some(&last));
    assert_eq!(again.message()["result"]["content"][0]["text"], "done");
}

#[test]
fn session_whose_handler_keeps_its_context_is_not_idle() {
    let kept = Arc::new(Mutex::new(None));
    let keep = {
        let kept = kept.clone();
        move |NoArguments {}, cx: Context| {
            *kept.lock().unwrap() = Some(cx);
            async { "kept" }
        }
    };
    let router = Router::new("idle", "1").tool_with(tool("keep"), keep).declare(ServerCapability::Logging);
    let mut web = HttpHarness::new(router);
    let session = web.open();
    web.post_request(&session, "logging/setLevel", json!({"level": "info"}));
    assert_eq!(call(&mut web, &session, "keep"), "kept");
    pause(&mut web);
    // The context still has the session's connection.
    let context = kept.lock().unwrap().take().expect("a context");
    assert_eq!(context.client().expect("a name").name, "tester");
    drop(context);
    assert_eq!(call(&mut web, &session, "keep"), "kept");
    kept.lock().unwrap().take();
    assert!(pause(&mut web) > 1000);
}

#[test]
fn dropped_driver_ends_idle_sessions() {
    let mut web = HttpHarness::new(router().0);
    let session = web.open();
    pause(&mut web);
    web.driver = None;
    assert_eq!(web.post_request(&session, "ping", json!({})).head().status, 404);
}

/// The bytes that a client takes on the heap, on average.
fn bytes_each<T>(mut open: impl FnMut() -> T) -> usize {
    const CLIENTS: usize = 200;
    let mut clients = Vec::with_capacity(2 * CLIENTS);
    // The tables grow in steps.
    clients.extend((0..CLIENTS).map(|_| open()));
    let taken = allocation_counter::measure(|| clients.extend((0..CLIENTS).map(|_| open())));
    usize::try_from(taken.bytes_current).unwrap() / CLIENTS + size_of::<T>()
}

/// A request of 2026-07-28 that is read as far as possible now.
fn exchange(web: &HttpHarness, method: &str, name: &str, mut params: Value) -> HttpExchange<SendHandlers> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", MODERN),
        ("mcp-method", method),
        (if name.is_empty() { "user-agent" } else { "mcp-name" }, name),
    ];
    let head = RequestHead { method: "POST", path: "/mcp", fields: &headers, client: None };
    let mut exchange = web.server.exchange(&head, None);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    exchange.handle_body(Bytes::from(body.to_string()));
    exchange.handle_body_end();
    let mut cx = TaskContext::from_waker(Waker::noop());
    if exchange.poll_head(&mut cx).is_ready() {
        while exchange.poll_body(&mut cx).is_ready() {}
    }
    exchange
}

#[test]
fn waiting_clients_take_little_memory() {
    let router = Router::new("memory", "1")
        .declare(ServerCapability::ResourcesSubscribe)
        .tool_with(tool("wait"), async |NoArguments {}, _| core::future::pending::<String>().await);
    let mut web = HttpHarness::new(router);
    let arguments = json!({"name": "wait", "arguments": {}});
    let waiting = bytes_each(|| exchange(&web, "tools/call", "wait", arguments.clone()));
    let filter = json!({"notifications": {"resourceSubscriptions": ["note:///1"]}});
    let listening = bytes_each(|| exchange(&web, "subscriptions/listen", "", filter.clone()));
    (0..200).for_each(|_| drop(web.open()));
    web.advance(PAUSE);
    let idle = allocation_counter::measure(|| {
        (0..200).for_each(|_| drop(web.open()));
        web.advance(PAUSE);
    });
    let idle = usize::try_from(idle.bytes_current).unwrap() / 200;
    println!("idle session {idle}, tools/call {waiting}, subscriptions/listen {listening}");
    assert!(idle <= 1024 && waiting <= 2350 && listening <= 2100, "{idle} {waiting} {listening}");
}
