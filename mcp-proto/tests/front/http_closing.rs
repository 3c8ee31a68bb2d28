//! An HTTP server that drains, and one that closes while other threads use it.

use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::front_http::{HttpHarness, TestExchange, field, router};
use crate::common::polling::TestClock;
use mcp_proto::Bytes;
use mcp_proto::adapter::Entropy;
use mcp_proto::front::Attachments;
use mcp_proto::front::http::http_server;
use mcp_proto::transport::http::server::{HttpServerConfig, LegacyPaths, RequestHead};
use serde_json::{Value, json};

/// The handshake of a client of 2025-11-25.
fn handshake() -> Value {
    let info = json!({"name": "tester", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn listen(web: &mut HttpHarness) -> TestExchange {
    web.ask("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))
}

/// What would last longer than the server goes to another instance.
#[test]
fn draining_server_refuses_new_sessions_and_subscriptions() {
    let legacy = |config: &mut HttpServerConfig| config.legacy_sse = Some(LegacyPaths::default());
    let mut web = HttpHarness::configured(router().0, legacy);
    web.server.drain(Duration::from_secs(10));
    assert!(web.server.is_draining() && !web.server.is_closing());
    let oldest = web.send_to("/sse", "GET", &[("accept", "text/event-stream")], "");
    let head = RequestHead { method: "GET", path: "/mcp", fields: &[("host", "localhost")], client: None };
    let (upgrade, channel) = web.server.upgrade(&head, None, Attachments::new(), Ok(Vec::new().into()));
    assert!(channel.is_none());
    let upgrade = TestExchange::from_exchange(upgrade);
    for mut refused in [web.send("POST", &[], &handshake().to_string()), listen(&mut web), oldest, upgrade] {
        let head = refused.head();
        assert_eq!((head.status, field(&head, "retry-after")), (503, Some("5")));
    }
}

#[test]
fn draining_server_serves_requests_and_closes_after_the_notice() {
    let mut web = HttpHarness::new(router().0);
    let session = web.open();
    let mut listening = listen(&mut web);
    listening.message();
    web.server.drain(Duration::MAX);
    web.server.drain(Duration::from_secs(10));
    web.server.drain(Duration::from_secs(20));
    web.poll_driver();
    web.advance(Duration::from_secs(9));
    assert_eq!(web.call("add", json!({"a": 1, "b": 1})).head().status, 200);
    assert_eq!(web.post_request(&session, "ping", json!({})).head().status, 200);
    listening.expect_silence();
    let due = web.driver.as_ref().unwrap().next_timeout().unwrap();
    assert!(due <= mcp_proto::Instant::ORIGIN + Duration::from_secs(10), "{due:?}");
    web.advance(Duration::from_secs(1));
    assert!(web.server.is_closing() && web.done);
    assert_eq!(listening.message()["result"]["resultType"], "complete");
    let mut late = web.call("add", json!({"a": 1, "b": 1}));
    let head = late.head();
    assert_eq!((head.status, field(&head, "retry-after")), (503, Some("5")));
}

/// Signals that it was called, and blocks until it is released.
struct BlockingEntropy(Mutex<(Sender<()>, Receiver<()>)>);

impl Entropy for BlockingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let gate = self.0.lock().unwrap();
        gate.0.send(()).unwrap();
        gate.1.recv().unwrap();
        bytes.fill(7);
    }
}

/// The handshake was in progress, and its session arrives after the driver has looked for sessions.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test needs a thread")]
fn driver_ends_whenever_the_last_session_arrives() {
    let (is_asked, asked) = channel();
    let (go_on, may_go_on) = channel();
    let clock = Arc::new(TestClock::default());
    let router = router().0;
    let config = HttpServerConfig::new(router.config());
    let gate = Arc::new(BlockingEntropy(Mutex::new((is_asked, may_go_on))));
    let (server, mut driver) = http_server(router, config, clock.clone(), gate);
    let opening = {
        let server = server.clone();
        thread::spawn(move || {
            let headers = [("host", "localhost"), ("content-type", "application/json")];
            let head = RequestHead { method: "POST", path: "/mcp", fields: &headers, client: None };
            let mut exchange = server.exchange(&head, None);
            exchange.handle_body(Bytes::from(handshake().to_string()));
            exchange.handle_body_end();
            let Poll::Ready(head) = exchange.poll_head(&mut Context::from_waker(Waker::noop())) else {
                panic!()
            };
            head.status
        })
    };
    asked.recv().unwrap();
    server.close();
    let (has_opened, opened) = channel();
    clock.meanwhile(move || {
        go_on.send(()).unwrap();
        has_opened.send(opening.join().unwrap()).unwrap();
    });
    let done = driver.poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert_eq!(opened.recv().unwrap(), 200);
    assert!(done, "no waker will be called");
}
