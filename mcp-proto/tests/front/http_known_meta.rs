//! Requests of 2026-07-28 with the `_meta` of an earlier request share the decoded sender.

use core::task::{Context as TaskContext, Poll, Waker};
use std::sync::{Arc, Mutex};

use crate::common::front_http::HttpHarness;
use crate::common::messages::MODERN;
use crate::common::tools::tool;
use mcp_proto::Bytes;
use mcp_proto::front::{Context, NoArguments, Router};
use mcp_proto::transport::http::server::RequestHead;
use serde_json::{Value, json};

type Contexts = Arc<Mutex<Vec<Context>>>;

/// A server whose tool keeps its contexts, and says who called it.
fn server() -> (HttpHarness, Contexts) {
    let contexts = Contexts::default();
    let kept = contexts.clone();
    let who = move |NoArguments {}, cx: Context| {
        let capabilities = serde_json::to_string(cx.client_capabilities()).unwrap();
        let name = cx.client().map(|client| client.name.clone());
        let meta = serde_json::to_string(cx.meta()).unwrap();
        kept.lock().unwrap().push(cx);
        async move { format!("{name:?} {capabilities} {meta}") }
    };
    (HttpHarness::new(Router::new("known", "1").tool_with(tool("who"), who)), contexts)
}

fn meta(name: &str, capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// The answer to a call of the tool: its text, or the code of its error.
fn call(web: &HttpHarness, meta: &Value) -> Value {
    let headers = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "who"),
    ];
    let head = RequestHead { method: "POST", path: "/mcp", fields: &headers, client: None };
    let mut exchange = web.server.exchange(&head, None);
    let params = json!({"name": "who", "arguments": {}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    exchange.handle_body(Bytes::from(body.to_string()));
    exchange.handle_body_end();
    let mut cx = TaskContext::from_waker(Waker::noop());
    assert!(exchange.poll_head(&mut cx).is_ready());
    let Poll::Ready(Some(answer)) = exchange.poll_body(&mut cx) else { panic!("it has an answer") };
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    match answer["error"]["code"].clone() {
        Value::Null => answer["result"]["content"][0]["text"].clone(),
        code => code,
    }
}

#[test]
fn requests_of_one_client_share_its_capabilities() {
    let (web, contexts) = server();
    let (ours, theirs) = (meta("ours", json!({"sampling": {}})), meta("theirs", json!({})));
    for meta in [&ours, &theirs, &ours] {
        call(&web, meta);
    }
    let contexts = contexts.lock().unwrap();
    let [first, other, second] = &**contexts else { panic!("three calls") };
    assert!(core::ptr::eq(first.client_capabilities(), second.client_capabilities()));
    assert!(!core::ptr::eq(first.client_capabilities(), other.client_capabilities()));
}

#[test]
fn requests_with_differing_trace_contexts_share_their_client() {
    let (web, contexts) = server();
    for trace in 0..3 {
        let mut meta = meta("traced", json!({}));
        meta["traceparent"] = json!(format!("00-{trace:032}-0000000000000001-01"));
        assert!(call(&web, &meta).as_str().unwrap().contains(&format!("{trace:032}")));
    }
    let contexts = contexts.lock().unwrap();
    assert!(core::ptr::eq(contexts[0].client_capabilities(), contexts[2].client_capabilities()));
}

#[test]
fn server_tells_clients_apart_whose_requests_alternate() {
    let (web, _) = server();
    // More clients than the server remembers.
    let clients: Vec<Value> = (0..40)
        .map(|client| {
            let mut meta = meta(&format!("client {client}"), json!({"sampling": {}}));
            if client % 3 == 0 {
                meta["progressToken"] = json!(client);
            }
            meta
        })
        .collect();
    let (alone, first): (Vec<Value>, Vec<Value>) =
        clients.iter().map(|meta| (call(&server().0, meta), call(&web, meta))).unzip();
    assert_eq!(first, alone);
    for repeated in [1, 1, 16, 17, 40] {
        for (client, alone) in clients.iter().zip(&alone).rev().take(repeated) {
            assert_eq!(call(&web, client), *alone);
        }
    }
}

#[test]
fn known_meta_lends_nothing_to_an_incomplete_one() {
    let (web, _) = server();
    let complete = meta("tester", json!({}));
    assert!(call(&web, &complete).is_string());
    for lacking in ["io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/protocolVersion"] {
        let mut meta = complete.clone();
        meta.as_object_mut().unwrap().remove(lacking);
        assert!(call(&web, &meta).is_i64(), "{lacking}");
    }
    let mut meta = complete.clone();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!([]);
    assert_eq!(call(&web, &meta), json!(-32602));
    assert!(call(&web, &complete).is_string());
}
