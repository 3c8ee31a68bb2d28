//! Requests of 2026-07-28 over HTTP: each runs in its own exchange.

use core::time::Duration;

use crate::common::front_http::{HttpHarness, field, router};
use crate::common::messages::MODERN;
use mcp_proto::front::{Context, Error, NoArguments, Router, RouterError};
use mcp_proto::peer::RequestError;
use mcp_proto::peer::server::ListKind;
use mcp_proto::schema::tasks::TaskUpdatedParams;
use mcp_proto::schema::{Elicit, ElicitParams, ElicitSchema, LoggingLevel, Map, Tool};
use mcp_proto::transport::http::server::BodyKind;
use serde_json::{Value, json};

fn listen(web: &mut HttpHarness, filter: Value) -> crate::common::front_http::TestExchange {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    web.ask_with("subscriptions/listen", json!({"notifications": filter}), capabilities)
}

/// S3.7
#[test]
fn server_answers_a_tool_call_as_json() {
    let mut web = HttpHarness::new(router().0);
    let mut caller = web.call("add", json!({"a": 2, "b": 3}));
    let head = caller.head();
    assert_eq!((head.status, field(&head, "content-type")), (200, Some("application/json")));
    assert!(matches!(head.body, BodyKind::Sized(_)));
    assert_eq!(caller.json()["result"]["content"], json!([{"type": "text", "text": "5"}]));
}

/// The driver handles sessions only.
#[test]
fn modern_requests_need_no_driver() {
    let mut web = HttpHarness::new(router().0);
    web.driver = None;
    assert_eq!(web.call("add", json!({"a": 2, "b": 3})).json()["result"]["content"][0]["text"], "5");
}

/// S3.13
#[test]
fn server_answers_by_an_event_stream_after_progress() {
    let mut web = HttpHarness::new(router().0);
    let mut caller = web.ask("tools/call", json!({"name": "work", "_meta": {"progressToken": "p"}}));
    let head = caller.head();
    assert_eq!((head.status, field(&head, "content-type")), (200, Some("text/event-stream")));
    for expected in [1, 2] {
        let progress = caller.message();
        assert_eq!(progress["method"], "notifications/progress");
        assert_eq!(progress["params"]["progress"], expected);
    }
    assert_eq!(caller.message()["result"]["content"][0]["text"], "done");
    assert!(caller.ended);
}

#[test]
fn exchange_is_woken_when_its_handler_finishes() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let mut caller = web.ask("tools/call", json!({"name": "hold", "_meta": {"progressToken": 1}}));
    assert!(!caller.has_head());
    caller.wakes.take();
    held.context().progress(1);
    assert_eq!(caller.wakes.take(), 1);
    assert_eq!(caller.message()["method"], "notifications/progress");
    held.release("there");
    assert_eq!(caller.wakes.take(), 1);
    assert_eq!(caller.message()["result"]["content"][0]["text"], "there");
}

/// The body may arrive after the response is polled.
#[test]
fn exchange_polled_early_is_woken_by_the_end_of_the_body() {
    use crate::common::polling::WakeCounter;
    use core::task::{Context, Poll};
    use mcp_proto::Bytes;
    use mcp_proto::transport::http::server::RequestHead;

    let web = HttpHarness::new(router().0);
    let headers = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/list"),
    ];
    let head = RequestHead { method: "POST", path: "/mcp", fields: &headers, client: None };
    let mut exchange = web.server.exchange(&head, None);
    let (wakes, waker) = WakeCounter::new();
    let mut cx = Context::from_waker(&waker);
    assert!(exchange.poll_head(&mut cx).is_pending() && exchange.poll_body(&mut cx).is_pending());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    exchange.handle_body(Bytes::from(body.to_string()));
    assert_eq!(wakes.take(), 0);
    assert!(exchange.wants_body());
    exchange.handle_body_end();
    assert_eq!(wakes.take(), 1);
    assert!(!exchange.wants_body());
    let Poll::Ready(head) = exchange.poll_head(&mut cx) else { panic!() };
    assert_eq!(head.status, 200);
}

/// S3.16
#[test]
fn disconnect_cancels_the_request() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let mut caller = web.call("hold", json!({}));
    assert!(!caller.has_head());
    let cx = held.context();
    assert!(!cx.is_cancelled());
    drop(caller);
    assert_eq!(held.dropped_count(), 1);
    assert!(cx.is_cancelled());
    cx.progress(1);
}

/// S3.16
#[test]
fn disconnect_during_a_stream_cancels_the_request() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let mut caller = web.ask("tools/call", json!({"name": "hold", "_meta": {"progressToken": 1}}));
    caller.poll_exchange();
    held.context().progress(1);
    assert_eq!(caller.message()["method"], "notifications/progress");
    drop(caller);
    assert_eq!(held.dropped_count(), 1);
}

/// S3.11
#[test]
fn unknown_method_has_status_404() {
    let mut web = HttpHarness::new(router().0);
    let mut caller = web.ask("tools/fetch", json!({}));
    assert_eq!(caller.head().status, 404);
    assert_eq!(caller.json()["error"]["code"], -32601);
}

/// S3.17, F50
#[test]
fn server_refuses_an_unsupported_http_method_at_once() {
    let web = HttpHarness::new(router().0);
    let mut caller = web.send("PUT", &[], "");
    assert!(!caller.exchange.wants_body());
    assert_eq!(caller.head().status, 405);
    caller.poll_exchange();
    assert!(caller.ended);
}

#[test]
fn server_answers_for_a_handler_that_panics() {
    let router = Router::new("x", "1").tool_with(
        Tool::new("fall", "Falls", json!({"type": "object"})),
        async |NoArguments {}, _| {
            if true { panic!("the test's own") } else { "" }
        },
    );
    let mut web = HttpHarness::new(router);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let answer = web.call("fall", json!({})).json();
    std::panic::set_hook(hook);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
}

/// S1.9: modern clients receive no requests.
#[test]
fn server_sends_no_requests_to_a_modern_client() {
    let (asked, heard) = std::sync::mpsc::channel();
    let router = Router::new("x", "1").tool_with(
        Tool::new("ask", "Asks", json!({"type": "object"})),
        move |NoArguments {}, cx: Context| {
            let asked = asked.clone();
            async move {
                let schema = ElicitSchema::new(Map::new());
                let params = ElicitParams::form("Your name?", schema);
                asked.send(cx.request::<Elicit>(params).await.unwrap_err()).unwrap();
                "asked"
            }
        },
    );
    let mut web = HttpHarness::new(router);
    assert_eq!(web.call("ask", json!({})).json()["result"]["content"][0]["text"], "asked");
    assert!(matches!(heard.recv().unwrap(), Error::NotSent(RequestError::Revision { .. })));
}

/// S3.15
#[test]
fn server_sends_comments_on_a_long_stream() {
    let mut web = HttpHarness::configured(router().0, |config| config.keepalive = Duration::from_secs(15));
    let mut caller = listen(&mut web, json!({"toolsListChanged": true}));
    assert_eq!(caller.message()["method"], "notifications/subscriptions/acknowledged");
    let before = caller.bytes;
    let due = caller.exchange.next_timeout().expect("the deadline of the comment");
    caller.advance_to_timeout();
    assert_eq!(caller.bytes, before, "no comment is due yet");
    web.advance(Duration::from_secs(15));
    assert!(due <= mcp_proto::adapter::Clock::now(&*web.clock));
    caller.advance_to_timeout();
    assert!(caller.bytes > before);
    caller.expect_silence();
    assert!(caller.exchange.next_timeout() > Some(due));
}

// --- Subscriptions ---

#[test]
fn server_acknowledges_a_subscription_first_and_sends_requested_changes() {
    let mut web = HttpHarness::new(router().0);
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["note:///a"]});
    let mut caller = listen(&mut web, filter.clone());
    // Before the response is polled.
    web.server.list_changed(ListKind::Tools);
    let acknowledged = caller.message();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], filter);
    assert_eq!(caller.message()["method"], "notifications/tools/list_changed");
    caller.expect_silence();
    caller.wakes.take();

    web.server.list_changed(ListKind::Resources);
    web.server.resource_updated("note:///b");
    assert_eq!(caller.wakes.take(), 0, "the client did not subscribe to that");
    web.server.resource_updated("note:///a");
    assert_eq!(caller.wakes.take(), 1);
    let updated = caller.message();
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "note:///a");
    caller.expect_silence();
    assert!(!caller.ended);
}

/// Unread changes of one resource are reported once.
#[test]
fn slow_subscriber_receives_many_changes_once() {
    let mut web = HttpHarness::new(router().0);
    let mut caller = listen(&mut web, json!({"resourceSubscriptions": ["note:///a", "note:///b"]}));
    caller.message();
    caller.wakes.take();
    for _ in 0..1000 {
        web.server.resource_updated("note:///a");
        web.server.resource_updated("note:///b");
    }
    assert_eq!(caller.wakes.take(), 1);
    let told: Vec<_> = [caller.message(), caller.message()].map(|told| told["params"]["uri"].clone()).into();
    assert_eq!(told, ["note:///a", "note:///b"]);
    caller.expect_silence();
}

#[test]
fn slow_subscriber_receives_the_latest_state_of_a_task() {
    let mut web = HttpHarness::new(router().0);
    let mut caller = listen(&mut web, json!({"taskIds": ["t1"]}));
    assert_eq!(caller.message()["params"]["notifications"], json!({"taskIds": ["t1"]}));
    for (task, status) in [("t1", "working"), ("t2", "working"), ("t1", "completed")] {
        let params = json!({
            "taskId": task, "status": status, "createdAt": "2026-07-28T00:00:00Z",
            "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": null, "result": {"content": []},
        });
        let params: TaskUpdatedParams = serde_json::from_value(params).unwrap();
        web.server.task_updated(&params);
    }
    let told = caller.message();
    assert_eq!((&told["params"]["taskId"], &told["params"]["status"]), (&json!("t1"), &json!("completed")));
    caller.expect_silence();
}

#[test]
fn a_thousand_subscribers_receive_a_change_and_disconnected_ones_do_not() {
    let mut web = HttpHarness::new(router().0);
    let mut callers: Vec<_> = (0..1000)
        .map(|n| listen(&mut web, json!({"resourceSubscriptions": [format!("note:///{}", n % 2)]})))
        .collect();
    for caller in &mut callers {
        assert_eq!(caller.message()["method"], "notifications/subscriptions/acknowledged");
        caller.wakes.take();
    }
    let left: Vec<_> = callers.drain(900..).collect();
    let wakes: Vec<_> = left.iter().map(|caller| caller.wakes.clone()).collect();
    drop(left);
    web.server.resource_updated("note:///0");
    for (n, caller) in callers.iter_mut().enumerate() {
        assert_eq!(caller.wakes.take(), usize::from(n % 2 == 0));
        assert_eq!(caller.try_message().is_some(), n % 2 == 0);
    }
    assert!(wakes.iter().all(|wakes| wakes.take() == 0));
}

// --- Closing ---

#[test]
fn closing_server_ends_subscriptions_and_lets_requests_finish() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let mut listening = listen(&mut web, json!({"toolsListChanged": true}));
    listening.message();
    let mut waiting = web.call("hold", json!({}));
    assert!(!waiting.has_head());
    listening.wakes.take();
    waiting.wakes.take();

    web.server.close();
    assert_eq!((listening.wakes.take(), waiting.wakes.take()), (1, 1));
    let ended = listening.message();
    assert_eq!(ended["result"]["resultType"], "complete");
    assert!(listening.ended);
    assert!(!waiting.has_head());
    let mut late = web.call("add", json!({"a": 1, "b": 1}));
    assert_eq!(late.head().status, 503);
    web.poll_driver();
    assert!(web.done, "there are no sessions to wait for");

    held.release("in time");
    assert_eq!(waiting.message()["result"]["content"][0]["text"], "in time");
}

#[test]
fn closing_server_answers_unfinished_requests_with_an_error() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let mut waiting = web.call("hold", json!({}));
    assert!(!waiting.has_head());
    web.server.close();
    assert!(!waiting.has_head());
    let patience = web.server.config().server.close_timeout;
    assert_eq!(
        waiting.exchange.next_timeout().map(|at| at.saturating_since(mcp_proto::Instant::ORIGIN)),
        Some(patience)
    );
    web.advance(patience);
    waiting.advance_to_timeout();
    assert_eq!(waiting.message()["error"]["code"], -32603);
    assert!(waiting.ended);
    assert_eq!(held.dropped_count(), 1);
}

/// An exchange that starts between the closing and its first poll must notice it.
#[test]
fn closing_server_ends_an_exchange_before_its_first_poll() {
    let mut web = HttpHarness::new(router().0);
    let mut listening = listen(&mut web, json!({"toolsListChanged": true}));
    web.server.close();
    assert_eq!(listening.message()["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(listening.message()["result"]["resultType"], "complete");
    assert!(listening.ended);
}

// --- Parameters mirrored in headers ---

fn mirrored() -> Router {
    let schema =
        json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    Router::new("x", "1").tool_with(
        Tool::new("where", "Says where", schema),
        async |arguments: std::collections::BTreeMap<String, String>, _| arguments["region"].clone(),
    )
}

/// S3.8, S3.9
#[test]
fn headers_of_a_call_repeat_its_marked_arguments() {
    let web = HttpHarness::new(mirrored());
    let ask = |header: Option<&str>| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": "where", "arguments": {"region": "north"}, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let mut headers =
            vec![("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "where")];
        headers.extend(header.map(|value| ("mcp-param-region", value)));
        let mut caller = web.send("POST", &headers, &body.to_string());
        (caller.head().status, caller.json())
    };
    for good in ["north", "=?base64?bm9ydGg=?="] {
        let (status, answer) = ask(Some(good));
        assert_eq!((status, &answer["result"]["content"][0]["text"]), (200, &json!("north")));
    }
    for bad in [None, Some("south"), Some("=?base64?!?=")] {
        let (status, answer) = ask(bad);
        assert_eq!((status, &answer["error"]["code"], &answer["id"]), (400, &json!(-32020), &json!(7)));
    }
}

/// S8.9
#[test]
fn router_refuses_a_tool_with_invalid_header_marks() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "array", "x-mcp-header": "A"}}});
    let router =
        Router::new("x", "1").tool_with(Tool::new("bad", "", schema), async |NoArguments {}, _| "never");
    assert!(matches!(router.check(), Err(RouterError::ParamHeader { tool, .. }) if tool == "bad"));
}

/// S3.13: while several streams are open, each carries the messages of its own request, and nothing after the response.
#[test]
fn stream_of_a_request_carries_only_messages_of_that_request() {
    let (router, held) = router();
    let mut web = HttpHarness::new(router);
    let hold = |web: &mut HttpHarness, token: &str| {
        let meta = json!({"progressToken": token, "io.modelcontextprotocol/logLevel": "debug"});
        let mut caller = web.ask("tools/call", json!({"name": "hold", "_meta": meta}));
        assert!(!caller.has_head());
        (caller, held.context())
    };
    let (mut first, first_cx) = hold(&mut web, "first");
    let (mut second, second_cx) = hold(&mut web, "second");
    let mut listening = listen(&mut web, json!({"toolsListChanged": true, "resourceSubscriptions": ["x:y"]}));
    assert_eq!(listening.message()["method"], "notifications/subscriptions/acknowledged");
    for (cx, text) in [(&first_cx, "one"), (&second_cx, "two")] {
        cx.progress(1);
        web.server.list_changed(ListKind::Tools);
        web.server.resource_updated("x:y");
        cx.log(LoggingLevel::Warning, text);
    }
    for (caller, token, text) in [(&mut first, "first", "one"), (&mut second, "second", "two")] {
        assert_eq!(caller.message()["params"]["progressToken"], token);
        assert_eq!(caller.message()["params"]["data"], text);
        caller.expect_silence();
    }
    let mut changes: Vec<_> = core::iter::from_fn(|| listening.try_message()).collect();
    changes.dedup();
    let methods: Vec<_> = changes.iter().map(|change| change["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["notifications/tools/list_changed", "notifications/resources/updated"]);
    held.release("done");
    for (caller, cx) in [(&mut first, &first_cx), (&mut second, &second_cx)] {
        assert_eq!(caller.message()["result"]["content"][0]["text"], "done");
        cx.progress(2);
        caller.expect_silence();
        assert!(caller.ended);
    }
    listening.expect_silence();
}
