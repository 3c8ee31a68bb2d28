//! A router and its driver, polled one step at a time, whose client the test plays.

use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use mcp_proto::Bytes;
use mcp_proto::adapter::{self, ServerDriver};
use mcp_proto::front::{HandlerMode, SendHandlers, ServedRouter, ServerHandle};
use mcp_proto::transport::StreamServer;
use serde_json::{Value, json};

use super::messages::{LEGACY, MODERN, notification, parse_lines, request};
use super::polling::{CountingEntropy, TestClock, WakeCounter};

pub struct ServerHarness<H: HandlerMode = SendHandlers> {
    pub handle: ServerHandle,
    pub driver: ServerDriver<StreamServer, H>,
    pub clock: Arc<TestClock>,
    /// How often the driver was woken.
    pub wakes: Arc<WakeCounter>,
    waker: Waker,
    lines: VecDeque<Value>,
    next: i64,
    /// The `_meta` of every request, of a modern client.
    meta: Option<Value>,
}

impl<H: HandlerMode> ServerHarness<H> {
    /// A server whose client is modern and declares `capabilities`.
    pub fn modern_with(router: impl Into<ServedRouter<H>>, capabilities: Value) -> Self {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        Self { meta: Some(meta), ..Self::unintroduced(router) }
    }

    pub fn modern(router: impl Into<ServedRouter<H>>) -> Self {
        Self::modern_with(router, json!({}))
    }

    /// A server whose client has initialized at `version` and declared `capabilities`.
    pub fn legacy_with(router: impl Into<ServedRouter<H>>, version: &str, capabilities: Value) -> Self {
        Self::legacy_shared(router, version, capabilities)
    }

    /// The same of a router that serves others as well.
    pub fn legacy_shared(router: impl Into<ServedRouter<H>>, version: &str, capabilities: Value) -> Self {
        let mut served = Self::unintroduced(router);
        let answer = served.request(
            "initialize",
            json!({
                "protocolVersion": version, "capabilities": capabilities,
                "clientInfo": {"name": "tester", "version": "1"},
            }),
        );
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        served.notify("notifications/initialized", json!({}));
        served
    }

    pub fn legacy(router: impl Into<ServedRouter<H>>) -> Self {
        Self::legacy_with(router, LEGACY, json!({}))
    }

    /// A server whose client has said nothing yet.
    pub fn unintroduced(router: impl Into<ServedRouter<H>>) -> Self {
        let router = router.into();
        router.router().check().unwrap();
        let machine = StreamServer::new(router.router().config());
        let clock = Arc::new(TestClock::default());
        let (handle, driver) =
            adapter::server(machine, clock.clone(), Arc::new(CountingEntropy::default()), router);
        let (wakes, waker) = WakeCounter::new();
        Self { handle, driver, clock, wakes, waker, lines: VecDeque::new(), next: 1, meta: None }
    }

    /// Polls the driver until it makes no progress, as an executor does when its task is woken.
    pub fn turn(&mut self) {
        let mut cx = Context::from_waker(&self.waker);
        loop {
            let mut out = Vec::new();
            let polled = self.driver.poll(&mut cx, |machine, _| {
                if machine.poll_transmit(&mut out) { Poll::Ready(()) } else { Poll::Pending }
            });
            self.lines.extend(parse_lines(&out));
            // A handler that woke itself wants another turn.
            if polled.is_pending() && self.wakes.take() == 0 {
                break;
            }
        }
    }

    pub fn advance(&mut self, duration: Duration) {
        self.clock.advance(duration);
        self.driver.lock(|machine, now| machine.handle_timeout(now));
        self.turn();
    }

    pub fn send_message(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    pub fn send_text(&mut self, message: &str) {
        let text = format!("{message}\n");
        self.driver.lock(|machine, now| machine.handle_input(now, Bytes::from(text)));
        self.turn();
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send_message(&notification(method, params));
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, method: &str, mut params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        if let Some(meta) = &self.meta {
            let mut meta = meta.clone();
            if let (Some(meta), Some(own)) = (meta.as_object_mut(), params["_meta"].as_object()) {
                meta.extend(own.clone());
            }
            params["_meta"] = meta;
        }
        self.send_message(&request(&json!(id), method, params));
        id
    }

    /// Sends a request whose answer must be the next line.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let line = self.line();
        assert_eq!(line["id"], id, "{line}");
        line
    }

    /// The result of a request that must have one.
    #[track_caller]
    pub fn result(&mut self, method: &str, params: Value) -> Value {
        let line = self.request(method, params);
        assert!(line["result"].is_object(), "{line}");
        line["result"].clone()
    }

    /// The error of a request that must have one.
    #[track_caller]
    pub fn error(&mut self, method: &str, params: Value) -> Value {
        let line = self.request(method, params);
        assert!(line["error"].is_object(), "{line}");
        line["error"].clone()
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub fn try_line(&mut self) -> Option<Value> {
        self.turn();
        self.lines.pop_front()
    }

    #[track_caller]
    pub fn line(&mut self) -> Value {
        self.try_line().expect("nothing was written")
    }

    #[track_caller]
    pub fn expect_silence(&mut self) {
        assert_eq!(self.try_line(), None);
    }

    /// The client ends.
    pub fn end(&mut self) {
        self.driver.lock(|machine, now| machine.handle_eof(now, "gone"));
        self.turn();
    }
}
