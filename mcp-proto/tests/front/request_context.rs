//! A request beside its parameters: `_meta` and the adapter's attachments.

use core::future::pending as never;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::front_http::{HttpHarness, TestExchange};
use crate::common::messages::{LEGACY, MODERN};
use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use mcp_proto::Bytes;
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Attachments, Context, NoArguments, Router};
use mcp_proto::rpc::Id;
use mcp_proto::schema::{TraceContext, meta};
use mcp_proto::transport::http::server::RequestHead;
use serde_json::{Value, json};

type Contexts = Arc<Mutex<Vec<Context>>>;

/// A router with a tool and a task that pass their contexts to the test and never end.
fn held() -> (Router, Contexts) {
    let contexts = Contexts::default();
    let (one, other) = (contexts.clone(), contexts.clone());
    let router = Router::new("held", "1")
        .tasks(TaskConfig::default())
        .tool_with(tool("hold"), move |NoArguments {}, cx: Context| {
            one.lock().unwrap().push(cx);
            never::<String>()
        })
        .task_tool(tool("task"), TaskChoice::Optional, move |NoArguments {}, cx: Context| {
            other.lock().unwrap().push(cx);
            never::<String>()
        });
    (router, contexts)
}

fn take(contexts: &Contexts) -> Context {
    contexts.lock().unwrap().pop().expect("the handler has not begun")
}

// --- Metadata ---

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

fn own_meta() -> Value {
    json!({"progressToken": "p", "traceparent": TRACE, "com.example/shard": 7, "io.modelcontextprotocol/logLevel": "info"})
}

#[track_caller]
fn check(cx: &Context) {
    let meta = cx.meta();
    assert_eq!(meta.progress_token(), Some(Id::from("p")));
    assert_eq!(meta.trace_context().unwrap().trace_id(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(meta.get("com.example/shard").unwrap().as_str(), "7");
}

/// C1.21, C1.18
#[test]
fn handler_reads_the_metadata_of_its_request() {
    let (router, contexts) = held();
    let router = Arc::new(router);
    let mut s = ServerHarness::modern_with(router.clone(), json!({}));
    s.send("tools/call", json!({"name": "hold", "_meta": own_meta()}));
    let cx = take(&contexts);
    check(&cx);
    assert_eq!(cx.meta().protocol_version().as_deref(), Some(MODERN));
    assert_eq!(cx.meta().client_info().unwrap().name, "tester");

    let mut s = ServerHarness::legacy_shared(router, LEGACY, json!({}));
    s.send("tools/call", json!({"name": "hold", "_meta": own_meta()}));
    let cx = take(&contexts);
    check(&cx);
    assert!(cx.meta().get(meta::PROTOCOL_VERSION).is_none());
    s.send("tools/call", json!({"name": "hold"}));
    assert!(take(&contexts).meta().is_empty());
    s.send("tools/call", json!({"name": "hold", "_meta": {"progressToken": {}, "traceparent": 3}}));
    let cx = take(&contexts);
    assert_eq!((cx.meta().progress_token(), cx.meta().trace_context()), (None, None));
    assert_eq!(cx.meta().len(), 2);
}

/// C1.21
#[test]
fn handler_passes_the_trace_context_on_with_its_own_calls() {
    let context = TraceContext::new(TRACE).unwrap().with_state("a=1").unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let router = Router::new("x", "1").tool_with(tool("trace"), move |NoArguments {}, cx: Context| {
        sink.lock().unwrap().push(cx.trace_context());
        async { "" }
    });
    let sent = context.clone();
    mcp_proto::testing::pair(router).run(async |client| {
        let call = || client.call_tool("trace", json!({}));
        call().trace_context(sent).await.unwrap();
        call().await.unwrap();
        // What the request came with, if anything.
        let received = seen.lock().unwrap().clone();
        for context in received {
            call().trace_context(context).await.unwrap();
        }
    });
    let seen = seen.lock().unwrap();
    assert_eq!(**seen, [Some(context.clone()), None, Some(context), None]);
}

#[test]
fn handler_over_http_reads_the_metadata_of_its_request() {
    let (router, contexts) = held();
    let mut web = HttpHarness::new(router);
    let mut caller = web.ask("tools/call", json!({"name": "hold", "_meta": own_meta()}));
    caller.poll_exchange();
    check(&take(&contexts));
    let session = web.open();
    let _caller = web.post_request(&session, "tools/call", json!({"name": "hold", "_meta": own_meta()}));
    check(&take(&contexts));
}

#[test]
fn handler_of_a_task_reads_the_metadata_of_the_call() {
    let (router, contexts) = held();
    let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut s = ServerHarness::modern_with(router, extension);
    s.result("tools/call", json!({"name": "task", "_meta": own_meta()}));
    check(&take(&contexts));
    let (router, contexts) = held();
    let mut s = ServerHarness::legacy(router);
    s.result("tools/call", json!({"name": "task", "task": {}, "_meta": own_meta()}));
    check(&take(&contexts));
}

/// A handler that waits does not keep the message of its request in memory.
#[test]
fn waiting_handler_keeps_only_the_metadata_of_its_message() {
    struct Message(Vec<u8>, Arc<AtomicUsize>);
    impl AsRef<[u8]> for Message {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Message {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (router, contexts) = held();
    let mut s = ServerHarness::legacy(router);
    let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call",
        "params": {"name": "hold", "arguments": {}, "_meta": own_meta()}});
    let dropped = Arc::new(AtomicUsize::new(0));
    let input = Bytes::from_owner(Message(format!("{call}\n").into_bytes(), dropped.clone()));
    s.driver.lock(|machine, now| machine.handle_input(now, input));
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "the handler has not run");
    s.turn();
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    check(&take(&contexts));
}

// --- Attachments ---

#[derive(Debug, PartialEq)]
struct Address(&'static str);

/// Counts the values that are alive.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn attachments_have_one_value_of_each_type_and_clones_are_independent() {
    let one = Attachments::new().with(Address("a")).with(7_u32);
    let mut other = one.clone();
    other.insert(Address("b"));
    assert_eq!((one.get::<Address>(), other.get::<Address>()), (Some(&Address("a")), Some(&Address("b"))));
    assert_eq!((other.get::<u32>(), other.get::<u64>(), other.len()), (Some(&7), None, 2));
    assert!(Attachments::new().is_empty() && !one.is_empty());
}

#[test]
fn handlers_of_a_stream_read_the_attachments_of_their_connection() {
    let (router, contexts) = held();
    let router = Arc::new(router);
    for mut s in [
        ServerHarness::modern_with(router.clone(), json!({})),
        ServerHarness::legacy_shared(router.clone(), LEGACY, json!({})),
    ] {
        s.send("tools/call", json!({"name": "hold"}));
        assert!(take(&contexts).attachments().is_empty());
        s.driver.attach(Attachments::new().with(Address("socket")));
        for _ in 0..2 {
            s.send("tools/call", json!({"name": "hold"}));
            assert_eq!(take(&contexts).attachments().get(), Some(&Address("socket")));
        }
    }
}

/// Posts a call whose exchange has an attachment.
fn post(
    web: &mut HttpHarness,
    session: Option<&str>,
    params: &Value,
    attachments: Attachments,
) -> TestExchange {
    let mut params = params.clone();
    let version = if session.is_some() { LEGACY } else { MODERN };
    let name = params["name"].as_str().unwrap().to_owned();
    let mut fields = vec![
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", version),
    ];
    match session {
        Some(session) => fields.push(("mcp-session-id", session)),
        None => {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
            });
            fields.extend([("mcp-method", "tools/call"), ("mcp-name", &*name)]);
        }
    }
    let head = RequestHead { method: "POST", path: "/mcp", fields: &&fields[..], client: None };
    let mut exchange = web.server.exchange(&head, None).with_attachments(attachments);
    let body = json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": params}).to_string();
    exchange.handle_body(Bytes::from(body));
    exchange.handle_body_end();
    let mut caller = TestExchange::from_exchange(exchange);
    caller.poll_exchange();
    web.poll_driver();
    caller.poll_exchange();
    caller
}

#[test]
fn handlers_over_http_read_the_attachments_of_the_exchange_that_carried_the_request() {
    let (router, contexts) = held();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let alive = Arc::new(AtomicUsize::new(0));
    for session in [None, Some(&*session)] {
        let attachments = Attachments::new().with(Address("one")).with(Counted::new(&alive));
        let caller = post(&mut web, session, &json!({"name": "hold"}), attachments);
        let cx = take(&contexts);
        assert_eq!(cx.attachments().get(), Some(&Address("one")));
        assert_eq!(alive.load(Ordering::SeqCst), 1);
        drop(caller);
        if let Some(session) = session {
            let params = json!({"requestId": 77});
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            web.post(session, &cancel);
        }
        drop(cx);
        assert_eq!(alive.load(Ordering::SeqCst), 0, "neither the server nor the session keeps it");
    }
    // The next request of the session has none.
    let _caller = web.post_request(&session, "tools/call", json!({"name": "hold"}));
    assert!(take(&contexts).attachments().is_empty());
}

#[test]
fn handlers_of_tasks_over_http_read_the_attachments_of_the_call() {
    let (router, contexts) = held();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    for (session, params) in
        [(None, json!({"name": "task"})), (Some(&*session), json!({"name": "task", "task": {}}))]
    {
        let mut caller = post(&mut web, session, &params, Attachments::new().with(Address("call")));
        let answer = caller.message();
        let cx = take(&contexts);
        assert!(cx.task_id().is_some(), "{answer}");
        drop(caller);
        assert_eq!(cx.attachments().get(), Some(&Address("call")));
    }
}

/// An attachment's destructor may use the server.
#[test]
fn attachments_are_not_dropped_under_a_lock() {
    struct Notifies(mcp_proto::front::http::HttpHandle, Arc<AtomicUsize>);
    impl Drop for Notifies {
        fn drop(&mut self) {
            self.0.list_changed(mcp_proto::peer::server::ListKind::Tools);
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (router, contexts) = held();
    let mut web = HttpHarness::new(router);
    let session = web.open();
    let dropped = Arc::new(AtomicUsize::new(0));
    let notifies =
        |web: &HttpHarness| Attachments::new().with(Notifies(web.server.handle().clone(), dropped.clone()));
    let attachments = notifies(&web);
    drop(post(&mut web, Some(&session), &json!({"name": "unknown"}), attachments));
    let attachments = notifies(&web);
    drop(post(&mut web, Some(&session), &json!({"name": "hold"}), attachments));
    drop(take(&contexts));
    let attachments = notifies(&web);
    drop(post(&mut web, None, &json!({"name": "unknown"}), attachments));
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
}

/// The driver is dropped before the handler of a received request has started.
#[test]
fn attachments_of_unstarted_requests_are_not_dropped_under_a_lock() {
    struct Closes(mcp_proto::front::ServerHandle, Arc<AtomicUsize>);
    impl Drop for Closes {
        fn drop(&mut self) {
            assert!(self.0.session().is_some());
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    let mut s = ServerHarness::legacy(held().0);
    let dropped = Arc::new(AtomicUsize::new(0));
    s.driver.attach(Attachments::new().with(Closes(s.handle.clone(), dropped.clone())));
    let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "hold"}});
    s.driver.lock(|machine, now| machine.handle_input(now, Bytes::from(format!("{call}\n"))));
    s.driver.attach(Attachments::new());
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "the request has it");
    drop(s);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}
