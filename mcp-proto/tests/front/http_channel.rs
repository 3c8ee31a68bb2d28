//! Connections that become channels of whole messages.

use core::task::{Context, Waker};
use core::time::Duration;

use mcp_proto::Bytes;
use mcp_proto::front::Attachments;
use mcp_proto::front::http::{Change, HttpChannel, HttpServerEvent};
use mcp_proto::front::layer::Decision;
use mcp_proto::peer::LostReason;
use mcp_proto::peer::server::{CloseReason, ListKind};
use mcp_proto::quota::{ByteLimits, RateLimit};
use mcp_proto::transport::http::server::{HttpResponse, HttpServerConfig, RequestHead};
use serde_json::{Value, json};

use crate::common::front_http::{HttpHarness, TestExchange, router, sent};
use crate::common::messages::{notification, request};
use crate::http_relay::Broker;
use crate::layer_messages::{Recorder, each};

/// Asks for a channel; returns the status too.
fn upgrade(web: &HttpHarness, path: &str, headers: &[(&str, &str)]) -> (u16, Option<HttpChannel>) {
    let head = RequestHead { method: "GET", path, fields: &headers, client: None };
    let handshake = Ok(vec![("upgrade", "websocket".into())]);
    let (exchange, channel) = web.server.upgrade(&head, None, Attachments::new(), handshake.map(Into::into));
    (TestExchange::from_exchange(exchange).head().status, channel)
}

fn open(web: &HttpHarness) -> HttpChannel {
    let (status, channel) = upgrade(web, "/mcp", &[("host", "localhost")]);
    assert_eq!(status, 101);
    channel.unwrap()
}

fn send(channel: &mut HttpChannel, message: &Value) -> Vec<Value> {
    channel.handle_message(&Bytes::from(message.to_string()));
    sent(channel)
}

fn initialize(channel: &mut HttpChannel) {
    let info = json!({ "name": "tester", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    let answers = send(channel, &request(&json!(0), "initialize", params));
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-11-25");
    assert!(send(channel, &notification("notifications/initialized", json!({}))).is_empty());
}

fn call(id: i64, tool: &str) -> Value {
    request(&json!(id), "tools/call", json!({ "name": tool, "arguments": { "a": 2, "b": 3 } }))
}

#[test]
fn messages_of_a_channel_pass_through_layers() {
    let seen = Recorder::default();
    let no_news = each(|message| match message.method() {
        Some("com.example/news" | "ping") => Decision::Drop,
        _ => Decision::Keep,
    });
    let web = HttpHarness::new(router().0.layer(no_news).layer(seen.clone()));
    let mut events = web.server.events();
    let mut channel = open(&web);
    initialize(&mut channel);
    assert!(send(&mut channel, &notification("com.example/news", json!({}))).is_empty());
    assert_eq!(send(&mut channel, &request(&json!(1), "ping", json!({})))[0]["result"], json!({}));
    assert_eq!(send(&mut channel, &call(2, "add"))[0]["result"]["content"][0]["text"], "5");
    assert_eq!(seen.methods(), ["initialize", "notifications/initialized", "ping", "tools/call"]);
    let expected = HttpServerEvent::LayerDropIgnored { message: "ping".to_owned() };
    assert_eq!(events.drain(), [expected]);
}

/// S3.2
#[test]
fn upgrade_is_refused_like_any_request() {
    let mut web = HttpHarness::configured(router().0, |config| config.path = Some("/mcp".into()));
    for (status, path, headers) in [
        (403, "/mcp", vec![("host", "localhost"), ("origin", "https://evil.example")]),
        (403, "/mcp", vec![("host", "evil.example")]),
        (404, "/other", vec![("host", "localhost")]),
    ] {
        let (answered, channel) = upgrade(&web, path, &headers);
        assert_eq!((answered, channel.is_none()), (status, true));
    }
    let head = RequestHead { method: "GET", path: "/mcp", fields: &[("host", "localhost")], client: None };
    let handshake = Err(HttpResponse::empty(426));
    let (exchange, channel) = web.server.upgrade(&head, None, Attachments::new(), handshake);
    assert_eq!((TestExchange::from_exchange(exchange).head().status, channel.is_none()), (426, true));
    web.server.close();
    web.poll_driver();
    assert_eq!(upgrade(&web, "/mcp", &[("host", "localhost")]).0, 503);
}

#[test]
fn published_changes_reach_the_client_of_a_channel() {
    let web = HttpHarness::new(router().0);
    let mut channel = open(&web);
    initialize(&mut channel);
    let subscribe = request(&json!(1), "resources/subscribe", json!({ "uri": "demo://one" }));
    assert_eq!(send(&mut channel, &subscribe).len(), 1);
    web.server.list_changed(ListKind::Tools);
    web.server.resource_updated("demo://one");
    web.server.resource_updated("demo://two");
    let mut methods: Vec<_> = sent(&mut channel).iter().map(|message| message["method"].clone()).collect();
    methods.sort_by_key(ToString::to_string);
    assert_eq!(methods, ["notifications/resources/updated", "notifications/tools/list_changed"]);
}

#[test]
fn client_beyond_its_rate_is_read_later() {
    let rate = |config: &mut HttpServerConfig| {
        config.request_rate = Some(RateLimit::per_second(1).burst(3));
    };
    let mut web = HttpHarness::configured(router().0, rate);
    let mut channel = open(&web);
    initialize(&mut channel);
    assert!(channel.wants_read());
    assert_eq!(send(&mut channel, &call(1, "add")).len(), 1);
    assert!(!channel.wants_read());
    assert!(channel.next_timeout().is_some());
    web.advance(Duration::from_secs(1));
    assert!(sent(&mut channel).is_empty());
    assert!(channel.wants_read());
}

#[test]
fn channel_charges_an_incomplete_message_to_the_byte_budget() {
    let limits = ByteLimits { total: 100, unauthenticated: 100, owner: 100 };
    let web = HttpHarness::configured(router().0, |config| config.byte_limits = limits);
    let used = web.server.handle().clone();
    let mut channel = open(&web);
    assert!(channel.handle_partial(70).is_ok());
    assert_eq!(used.bytes_used(), 70);
    assert!(channel.handle_partial(80).is_err(), "requests have three quarters");
    assert!(channel.handle_partial(0).is_ok());
    assert_eq!(used.bytes_used(), 0);
}

#[test]
fn channel_charges_a_message_until_it_is_written() {
    let web = HttpHarness::new(router().0);
    let used = web.server.handle().clone();
    let mut channel = open(&web);
    initialize(&mut channel);
    assert_eq!(used.bytes_used(), 0);
    channel.handle_message(&Bytes::from(request(&json!(1), "ping", json!({})).to_string()));
    assert!(used.bytes_used() > 0, "it is queued");
    let answer = channel.poll_transmit().unwrap();
    assert_eq!(used.bytes_used(), answer.len(), "the transport is writing it");
    assert_eq!(channel.poll_transmit(), None);
    assert_eq!(used.bytes_used(), 0);
}

#[test]
fn channel_charges_each_request_until_it_is_answered() {
    let limits = ByteLimits { total: 1_200, unauthenticated: 1_200, owner: 1_200 };
    let (router, held) = router();
    let web = HttpHarness::configured(router, |config| config.byte_limits = limits);
    let used = web.server.handle().clone();
    let mut channel = open(&web);
    initialize(&mut channel);
    assert_eq!(used.bytes_used(), 0);
    let large = |id: i64| {
        let arguments = json!({ "a": "x".repeat(400) });
        request(&json!(id), "tools/call", json!({ "name": "hold", "arguments": arguments }))
    };
    assert!(send(&mut channel, &large(1)).is_empty());
    let first = used.bytes_used();
    assert_eq!(first, large(1).to_string().len());
    // Up to three quarters of the limit.
    let answers = send(&mut channel, &large(2));
    assert_eq!(answers[0]["error"]["message"], "the server's byte budget is exhausted: try again later");
    assert_eq!((&answers[0]["id"], &answers[0]["error"]["code"]), (&json!(2), &json!(-32603)));
    assert_eq!((held.started(), used.bytes_used()), (1, first));
    // What frees the budget is handled.
    assert_eq!(send(&mut channel, &request(&json!(3), "ping", json!({}))).len(), 1);
    assert!(
        send(&mut channel, &notification("notifications/cancelled", json!({ "requestId": 1 }))).is_empty()
    );
    assert_eq!(used.bytes_used(), 0);
    assert!(send(&mut channel, &large(4)).is_empty());
    assert_eq!(used.bytes_used(), first);
    held.release("done");
    assert_eq!(sent(&mut channel).len(), 1);
    assert_eq!(used.bytes_used(), 0);
}

#[test]
fn channel_charges_requests_that_wait_for_the_client_to_read() {
    let unread = |config: &mut HttpServerConfig| {
        std::sync::Arc::make_mut(&mut config.server).limits.queued_bytes = 10;
    };
    let web = HttpHarness::configured(router().0, unread);
    let used = web.server.handle().clone();
    let mut channel = open(&web);
    initialize(&mut channel);
    let queued = |channel: &mut HttpChannel, message: &Value| {
        channel.handle_message(&Bytes::from(message.to_string()));
        channel.poll(&mut Context::from_waker(Waker::noop()));
        used.bytes_used()
    };
    let mut before = queued(&mut channel, &call(1, "add"));
    for id in 2..5 {
        let message = call(id, "add");
        let now = queued(&mut channel, &message);
        assert_eq!(now, before + message.to_string().len(), "{id} waits for the answer to 1 to be read");
        before = now;
    }
    let answers: Vec<_> = (0..4).flat_map(|_| sent(&mut channel)).collect();
    assert_eq!(answers.len(), 4);
    assert_eq!(used.bytes_used(), 0);
}

#[test]
fn client_is_read_later_while_the_byte_budget_has_no_room_for_answers() {
    let limits = ByteLimits { total: 20, unauthenticated: 20, owner: 20 };
    let mut web = HttpHarness::configured(router().0, |config| config.byte_limits = limits);
    let mut channel = open(&web);
    let ping = Bytes::from(request(&json!(1), "ping", json!({})).to_string());
    assert!(channel.wants_read());
    channel.handle_message(&ping);
    channel.poll(&mut Context::from_waker(Waker::noop()));
    assert!(!channel.wants_read(), "its answer is not written yet");
    assert_eq!(sent(&mut channel).len(), 1);
    web.advance(Duration::from_secs(1));
    assert!(sent(&mut channel).is_empty());
    assert!(channel.wants_read());
}

#[test]
fn closing_server_ends_a_channel_after_its_requests() {
    let (router, held) = router();
    let web = HttpHarness::new(router);
    let mut channel = open(&web);
    initialize(&mut channel);
    assert!(send(&mut channel, &call(1, "hold")).is_empty());
    web.server.close();
    assert!(sent(&mut channel).is_empty());
    assert!(channel.is_closing() && channel.closed().is_none());
    held.release("the last");
    let answers = sent(&mut channel);
    assert_eq!(answers[0]["result"]["content"][0]["text"], "the last");
    assert_eq!(channel.closed(), Some(CloseReason::Done));
}

#[test]
fn client_that_disconnects_cancels_its_requests() {
    let (router, held) = router();
    let web = HttpHarness::new(router);
    let mut channel = open(&web);
    initialize(&mut channel);
    send(&mut channel, &call(1, "hold"));
    assert_eq!(held.started(), 1);
    channel.handle_end("gone");
    assert!(sent(&mut channel).is_empty());
    assert_eq!(held.dropped_count(), 1);
    assert!(matches!(
        channel.closed(),
        Some(CloseReason::Done | CloseReason::Lost(LostReason::Disconnected(_)))
    ));
}

/// Only the machine of a channel knows what its client subscribed to.
#[test]
fn client_of_a_channel_is_notified_of_everything_after_a_loss() {
    let broker = Broker::default();
    let mut web = broker.instance();
    let mut channel = open(&web);
    initialize(&mut channel);
    let subscribe = request(&json!(1), "resources/subscribe", json!({ "uri": "file:///a" }));
    assert_eq!(send(&mut channel, &subscribe)[0]["result"], json!({}));
    broker.deliver(&[Change::Any]);
    web.poll_driver();
    let notified = sent(&mut channel);
    let methods: Vec<_> = notified.iter().filter_map(|message| message["method"].as_str()).collect();
    let expected = ["tools/list_changed", "resources/list_changed", "resources/updated"];
    assert_eq!(methods, expected.map(|name| format!("notifications/{name}")));
}
