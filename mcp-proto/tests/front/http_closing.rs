//! An HTTP server that closes while other threads use it.

use core::task::{Context, Poll, Waker};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::front_http::router;
use crate::common::polling::TestClock;
use mcp_proto::Bytes;
use mcp_proto::adapter::Entropy;
use mcp_proto::front::http::http_server;
use mcp_proto::transport::http::server::{HttpServerConfig, RequestHead};
use serde_json::json;

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
            let info = json!({"name": "tester", "version": "1"});
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
            let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
            let mut exchange = server.exchange(&head, None);
            exchange.handle_body(Bytes::from(body.to_string()));
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
