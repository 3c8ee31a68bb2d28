//! Limits of request bodies over HTTP, and the byte budget that bodies, stored events and queued responses share.

use core::net::IpAddr;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use crate::common::front_http::{HttpHarness, TestExchange, field, router};
use mcp_proto::Bytes;
use mcp_proto::front::http::HttpExchange;
use mcp_proto::peer::Principal;
use mcp_proto::quota::ByteLimits;
use mcp_proto::transport::http::server::{RequestHead, ResponseHead};
use serde_json::{Value, json};

const MIB: usize = 1024 * 1024;

fn small_budget() -> HttpHarness {
    HttpHarness::configured(router().0, |config| config.byte_limits = limits())
}

fn limits() -> ByteLimits {
    ByteLimits { total: 16_000, unauthenticated: 8_000, owner: 4_000 }
}

/// A request from this address whose body is still missing.
fn begin(web: &HttpHarness, last: u8) -> HttpExchange {
    let headers = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    let client = Some(IpAddr::from([192, 0, 2, last]));
    let head = RequestHead { method: "POST", path: "/mcp", fields: &headers, client };
    web.server.exchange(&head, web.principal.clone())
}

/// The same with this many bytes of its body.
fn receiving(web: &HttpHarness, last: u8, bytes: usize) -> HttpExchange {
    let mut exchange = begin(web, last);
    exchange.handle_body(Bytes::from(vec![b' '; bytes]));
    exchange
}

#[track_caller]
fn answered(exchange: &mut HttpExchange) -> (ResponseHead, Value) {
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(head) = exchange.poll_head(&mut cx) else { panic!("there is no answer") };
    let Poll::Ready(Some(body)) = exchange.poll_body(&mut cx) else { panic!("the answer is empty") };
    (head, serde_json::from_slice(&body).unwrap())
}

#[track_caller]
fn expect_over_budget(exchange: &mut HttpExchange) {
    assert!(!exchange.wants_body());
    let (head, body) = answered(exchange);
    assert_eq!((head.status, field(&head, "retry-after")), (503, Some("5")));
    assert_eq!(body["error"]["code"], -32603);
}

#[test]
fn server_refuses_bodies_beyond_the_share_of_their_owner() {
    let mut web = small_budget();
    let (first, second) = (receiving(&web, 1, 2_000), receiving(&web, 1, 1_000));
    assert!(first.wants_body() && second.wants_body());
    expect_over_budget(&mut receiving(&web, 1, 1));
    let stranger = receiving(&web, 2, 3_000);
    assert!(stranger.wants_body(), "another owner has a share of its own");
    expect_over_budget(&mut receiving(&web, 3, 1));
    web.principal = Some(Principal::new("ada"));
    assert!(receiving(&web, 3, 3_000).wants_body(), "anonymous owners leave room for principals");
    web.principal = None;
    assert_eq!(web.server.handle().bytes_used(), 6_000);
    drop(first);
    assert!(receiving(&web, 1, 2_000).wants_body());
    drop((second, stranger));
    assert_eq!(web.server.handle().bytes_used(), 0);
}

#[test]
fn server_refuses_bodies_over_4_mib_by_default() {
    let web = HttpHarness::new(router().0);
    let mut exchange = receiving(&web, 1, 4 * MIB);
    assert!(exchange.wants_body());
    exchange.handle_body(Bytes::from_static(b" "));
    let (head, body) = answered(&mut exchange);
    assert_eq!((head.status, &body["error"]["code"]), (413, &json!(-32600)));
    assert_eq!(
        body["error"]["message"],
        "the request body is longer than the 4194304 bytes of `HttpServerConfig::body_bytes`"
    );
    assert_eq!(web.server.handle().bytes_used(), 0, "the refused body is not stored");
}

#[test]
fn server_times_out_a_body_that_comes_steadily() {
    let web = HttpHarness::new(router().0);
    let mut exchange = begin(&web, 1);
    for _ in 0..29 {
        web.clock.advance(Duration::from_secs(1));
        exchange.handle_body(Bytes::from_static(b" "));
        assert!(exchange.wants_body());
    }
    let mut silent = begin(&web, 2);
    let due = exchange.next_timeout().unwrap();
    assert_eq!(silent.next_timeout().unwrap().saturating_since(due), Duration::from_secs(29));
    web.clock.advance(Duration::from_secs(1));
    exchange.handle_body(Bytes::from_static(b" "));
    let (head, body) = answered(&mut exchange);
    assert_eq!((head.status, &body["error"]["code"]), (408, &json!(-32600)));
    assert_eq!(body["error"]["message"], "the request body did not arrive within 30s");
    silent.handle_timeout();
    assert!(silent.wants_body());
    web.clock.advance(Duration::from_secs(29));
    silent.handle_timeout();
    assert_eq!(answered(&mut silent).0.status, 408);
}

#[test]
fn server_replaces_unread_responses_when_the_budget_is_exhausted() {
    let (router, held) = router();
    let mut web = HttpHarness::configured(router, |config| config.byte_limits = limits());
    let mut callers: Vec<TestExchange> = (0..4).map(|_| web.call("hold", json!({}))).collect();
    assert!(callers.iter_mut().all(|caller| !caller.has_head()));
    held.release(&"x".repeat(2_000));
    let mut cx = Context::from_waker(Waker::noop());
    let mut statuses = Vec::new();
    for caller in &mut callers {
        let Poll::Ready(head) = caller.exchange.poll_head(&mut cx) else { panic!("there is no answer") };
        statuses.push((head.status, field(&head, "retry-after").map(str::to_owned)));
    }
    assert_eq!(statuses.first(), Some(&(200, None)));
    assert_eq!(statuses.last(), Some(&(503, Some("5".to_owned()))));
    assert!(web.server.handle().bytes_used() < 4_000 + 2_500);
    drop(callers);
    assert_eq!(web.server.handle().bytes_used(), 0);
    assert_eq!(web.call("hold", json!({})).head().status, 200);
}

#[test]
fn session_replaces_unread_responses_when_the_budget_is_exhausted() {
    let (router, held) = router();
    let mut web = HttpHarness::configured(router, |config| config.byte_limits = limits());
    let session = web.open();
    let call = json!({"name": "hold", "arguments": {}});
    let mut callers: Vec<TestExchange> =
        (0..5).map(|_| web.post_request(&session, "tools/call", call.clone())).collect();
    held.release(&"x".repeat(2_000));
    web.poll_driver();
    let answers: Vec<Value> = callers.iter_mut().map(TestExchange::message).collect();
    assert_eq!(answers[0]["result"]["content"][0]["text"], "x".repeat(2_000));
    assert_eq!(answers[4]["error"]["code"], -32603);
    drop(callers);
    assert_eq!(web.server.handle().bytes_used(), 0);
    web.delete(&session);
    assert_eq!(web.server.handle().bytes_used(), 0);
}

#[test]
fn server_counts_a_body_until_its_request_is_answered() {
    let (router, held) = router();
    let mut web = HttpHarness::configured(router, |config| config.byte_limits = limits());
    let session = web.open();
    let call = json!({"name": "hold", "arguments": {"text": "x".repeat(1_000)}});
    let caller = web.post_request(&session, "tools/call", call.clone());
    assert!(web.server.handle().bytes_used() > 1_000);
    // The client disconnects; the handler continues.
    drop(caller);
    web.poll_driver();
    assert!(web.server.handle().bytes_used() > 1_000);
    held.release("done");
    web.poll_driver();
    assert_eq!(web.server.handle().bytes_used(), 0);
    let mut caller = web.ask("tools/call", call);
    assert_eq!(caller.head().status, 200);
    drop(caller);
    assert_eq!(web.server.handle().bytes_used(), 0);
}
