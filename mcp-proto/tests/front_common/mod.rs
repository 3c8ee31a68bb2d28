//! A client's handle, its driver and a server that a test writes by hand, polled one step at a time.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Wake;

use mcp_proto::adapter::{self, ClientDriver, Clock, Entropy};
use mcp_proto::front::{Client, ClientHandlers, HandlerMode, SendHandlers};
use mcp_proto::peer::client::{ClientConfig, LinkAction, State};
use mcp_proto::schema::Implementation;
use mcp_proto::transport::StreamClient;
use mcp_proto::{Bytes, Instant, UnixTime};
use serde_json::{Value, json};

/// A clock that a test sets.
#[derive(Default)]
pub struct TestClock {
    now: Mutex<Instant>,
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl TestClock {
    pub fn advance(&self, duration: Duration) {
        let mut now = self.now.lock().unwrap();
        *now = *now + duration;
    }

    /// Does this when it is read next: what another thread might do at that moment.
    pub fn meanwhile(&self, act: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::new(act));
    }
}

impl Clock for TestClock {
    fn now(&self) -> Instant {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(act) = meanwhile {
            act();
        }
        *self.now.lock().unwrap()
    }

    fn unix_time(&self) -> UnixTime {
        UnixTime::from_epoch(Duration::from_secs(1_785_240_000)) + self.now.lock().unwrap().since_origin()
    }
}

/// Random enough for tests: it counts.
#[derive(Default)]
pub struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = (self.0.fetch_add(1, Ordering::Relaxed) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            chunk.copy_from_slice(&word.to_be_bytes()[..chunk.len()]);
        }
    }
}

/// A waker that counts.
#[derive(Default)]
pub struct WakeCounter(AtomicUsize);

impl WakeCounter {
    pub fn new() -> (Arc<Self>, Waker) {
        let wakes = Arc::new(Self::default());
        (wakes.clone(), Waker::from(wakes))
    }

    /// How often it was called since the last time this was asked.
    pub fn take(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls a future once, without anybody to wake.
pub fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

pub fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[track_caller]
pub fn ready<T>(polled: Poll<T>) -> T {
    match polled {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future is not ready"),
    }
}

#[track_caller]
pub fn pending<T: core::fmt::Debug>(polled: Poll<T>) {
    if let Poll::Ready(value) = polled {
        panic!("the future is ready: {value:?}");
    }
}

/// A future that may be polled more than once by hand.
pub fn boxed<'a, T>(future: impl Future<Output = T> + 'a) -> Pin<Box<dyn Future<Output = T> + 'a>> {
    Box::pin(future)
}

pub struct ClientHarness<H: HandlerMode = SendHandlers> {
    pub client: Client,
    pub driver: ClientDriver<StreamClient, H>,
    pub clock: Arc<TestClock>,
    /// How often the driver was woken.
    pub wakes: Arc<WakeCounter>,
    waker: Waker,
    lines: VecDeque<Value>,
    pub links: Vec<LinkAction>,
}

impl ClientHarness<SendHandlers> {
    /// A client of a modern server with every capability.
    pub fn modern() -> Self {
        Self::modern_with(ClientHandlers::new())
    }

    /// A client of a server of 2025-11-25 with every capability.
    pub fn legacy() -> Self {
        Self::legacy_with(ClientHandlers::new())
    }
}

impl<H: HandlerMode> ClientHarness<H> {
    /// A client whose link is open: it has written what it opens with.
    pub fn open(mut config: ClientConfig, handlers: ClientHandlers<H>) -> Self {
        config.capabilities = handlers.capabilities().clone();
        let clock = Arc::new(TestClock::default());
        let (client, driver) = adapter::client(StreamClient::new(config), clock.clone(), handlers);
        let (wakes, waker) = WakeCounter::new();
        let mut front =
            Self { client, driver, clock, wakes, waker, lines: VecDeque::new(), links: Vec::new() };
        front.turn();
        assert_eq!(front.links.pop(), Some(LinkAction::Open));
        front.driver.lock(|machine, now| machine.handle_open(now));
        front.turn();
        front
    }

    pub fn modern_with(handlers: ClientHandlers<H>) -> Self {
        let mut front = Self::open(config(), handlers);
        let id = front.expect("server/discover");
        front.answer(
            &id,
            json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities(),
                "ttlMs": 0, "cacheScope": "private",
            }),
        );
        assert_eq!(front.client.state(), State::Ready);
        front
    }

    pub fn legacy_with(handlers: ClientHandlers<H>) -> Self {
        let mut config = config();
        config.era_policy = mcp_proto::peer::client::EraPolicy::LegacyOnly;
        let mut front = Self::open(config, handlers);
        let id = front.expect("initialize");
        front.answer(
            &id,
            json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities(),
                "serverInfo": {"name": "scripted", "version": "1"},
            }),
        );
        assert_eq!(front.expect("notifications/initialized"), Value::Null);
        assert_eq!(front.client.state(), State::Ready);
        front
    }

    /// Lets the driver do what it can: what a task of an executor does when it is woken.
    pub fn turn(&mut self) {
        let mut cx = Context::from_waker(&self.waker);
        loop {
            let polled = self.driver.poll(&mut cx, |machine, _| {
                if let Some(action) = machine.poll_link() {
                    return Poll::Ready((Some(action), Vec::new()));
                }
                let mut out = Vec::new();
                if machine.poll_transmit(&mut out) { Poll::Ready((None, out)) } else { Poll::Pending }
            });
            match polled {
                Poll::Ready((action, out)) => {
                    self.links.extend(action);
                    for line in out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                        self.lines.push_back(serde_json::from_slice(line).expect("a line of JSON"));
                    }
                }
                // A handler that woke itself wants another turn.
                Poll::Pending if self.wakes.take() > 0 => {}
                Poll::Pending => break,
            }
        }
    }

    /// Lets time pass, and the machine act on it.
    pub fn advance(&mut self, duration: Duration) {
        self.clock.advance(duration);
        self.driver.lock(|machine, now| machine.handle_timeout(now));
        self.turn();
    }

    pub fn try_line(&mut self) -> Option<Value> {
        self.turn();
        self.lines.pop_front()
    }

    #[track_caller]
    pub fn line(&mut self) -> Value {
        self.try_line().expect("nothing was written")
    }

    /// The next line must be of `method`; returns its id.
    #[track_caller]
    pub fn expect(&mut self, method: &str) -> Value {
        let line = self.line();
        assert_eq!(line["method"], method, "{line}");
        line["id"].clone()
    }

    #[track_caller]
    pub fn expect_silence(&mut self) {
        assert_eq!(self.try_line(), None);
    }

    pub fn receive(&mut self, messages: &[Value]) {
        let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
        self.driver.lock(|machine, now| machine.handle_input(now, Bytes::from(text)));
        self.turn();
    }

    pub fn answer(&mut self, id: &Value, result: Value) {
        self.receive(&[answer(id, result)]);
    }

    /// The server ends.
    pub fn end(&mut self, detail: &str) {
        self.driver.lock(|machine, now| machine.handle_eof(now, detail));
        self.turn();
    }
}

pub fn config() -> ClientConfig {
    ClientConfig::new(Implementation::new("test-client", "1.0"))
}

pub fn answer(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub fn error(id: &Value, code: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}})
}

pub fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

pub fn request(id: &Value, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub fn progress(id: &Value, value: u32) -> Value {
    notification("notifications/progress", json!({"progressToken": id, "progress": value}))
}

pub fn text(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

pub fn capabilities() -> Value {
    json!({
        "tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": true},
        "prompts": {"listChanged": true}, "completions": {}, "logging": {},
    })
}
