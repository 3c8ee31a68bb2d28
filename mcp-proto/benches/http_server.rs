//! Costs of a server over HTTP, in memory.
//!
//! It measures an exchange without HTTP itself, the notification of many subscribers, and the memory of waiting
//! clients.
//!
//! `cargo bench -p mcp-proto --bench http_server --features http`. With `--repeat N` and a row's name it runs that row
//! N times, for a profiler; with `--memory` it measures only the memory.

mod measure;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mcp_proto::adapter::{Clock, Entropy, SystemClock};
use mcp_proto::front::http::{HttpExchange, HttpServer, HttpServerDriver, http_server};
use mcp_proto::front::{self, NoArguments, Router};
use mcp_proto::schema::{ServerCapability, Tool};
use mcp_proto::transport::http::server::{HttpServerConfig, RequestHead};
use mcp_proto::{Bytes, Instant, UnixTime};
use measure::{heap_growth, measure};
use serde_json::{Value, json};

const SESSIONS: u64 = 1_000;
const SUBSCRIBERS: u64 = 10_000;

fn main() {
    if std::env::args().any(|argument| argument == "--memory") {
        return print_memory();
    }
    let mut modern = HttpBench::new();
    let call = modern_call("echo", None);
    let mut stream = HttpBench::new();
    let work = modern_call("work", Some("p"));
    let mut legacy = HttpBench::new();
    let session = legacy.open();
    let mut subscribers = Subscribers::new();
    let mut rows: [(&str, &mut dyn FnMut()); 4] = [
        ("modern, JSON", &mut || {
            assert!(modern.answer(&MODERN_ECHO, &call) > 0);
        }),
        ("modern, events", &mut || {
            assert!(stream.answer(&MODERN_WORK, &work) > 0);
        }),
        ("legacy session", &mut || legacy.call(&session)),
        ("notifying 10,000", &mut || subscribers.notify()),
    ];
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--repeat") {
        let times: usize = arguments[at + 1].parse().expect("a number of times");
        let (_, run) =
            rows.iter_mut().find(|(name, _)| arguments.iter().any(|a| a == name)).expect("a row's name");
        (0..times).for_each(|_| run());
        return;
    }
    let names = rows.each_ref().map(|(name, _)| *name);
    let costs = measure(rows.map(|(_, run)| run));
    println!("{:16} {:>10} {:>12} {:>12}", "", "ns", "per second", "allocations");
    for (name, cost) in names.into_iter().zip(costs) {
        let times = if name.starts_with("notifying") { SUBSCRIBERS as f64 } else { 1.0 };
        println!(
            "{name:16} {:>10.0} {:>12.0} {:>12.1}",
            cost.nanoseconds,
            times * 1e9 / cost.nanoseconds,
            cost.allocations as f64 / times
        );
    }
    println!();
    print_memory();
}

fn print_memory() {
    println!("{:32} {:>8}", "held", "bytes");
    for (name, bytes) in memory() {
        println!("{name:32} {bytes:>8}");
    }
}

/// The average memory of each kind of waiting client.
fn memory() -> [(&'static str, u64); 4] {
    let mut web = HttpBench::new();
    // The tables grow in steps: measure only after a first batch.
    let first: Vec<String> = (0..SESSIONS).map(|_| web.open()).collect();
    web.pause();
    let (sessions, more) = heap_growth(|| {
        let more = (0..SESSIONS).map(|_| web.open()).collect::<Vec<String>>();
        web.pause();
        more
    });
    // Subtract the benchmark's own list of ids.
    let sessions = sessions - SESSIONS * (24 + 32);
    let (streams, open) = heap_growth(|| more.iter().map(|session| web.get(session)).collect::<Vec<_>>());
    let other = HttpBench::new();
    let before: Vec<_> = (0..SESSIONS).map(|_| other.listen()).collect();
    let (listening, after) = heap_growth(|| (0..SESSIONS).map(|_| other.listen()).collect::<Vec<_>>());
    let (waiting, _calls) = heap_growth(|| (0..SESSIONS).map(|_| other.wait()).collect::<Vec<_>>());
    drop((first, open, before, after));
    [
        ("idle session", sessions / SESSIONS),
        ("its open stream", streams / SESSIONS),
        ("subscriptions/listen", listening / SESSIONS),
        ("tools/call, its handler waiting", waiting / SESSIONS),
    ]
}

struct HttpBench {
    server: HttpServer,
    driver: HttpServerDriver,
    clock: Arc<AdvancedClock>,
}

/// The system's clock, advanced by a number of seconds.
#[derive(Default)]
struct AdvancedClock {
    system: SystemClock,
    seconds: AtomicU64,
}

impl Clock for AdvancedClock {
    fn now(&self) -> Instant {
        self.system.now() + Duration::from_secs(self.seconds.load(Ordering::Relaxed))
    }

    fn unix_time(&self) -> UnixTime {
        self.system.unix_time()
    }
}

struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = (self.0.fetch_add(1, Ordering::Relaxed) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            chunk.copy_from_slice(&word.to_be_bytes()[..chunk.len()]);
        }
    }
}

const MODERN_ECHO: [(&str, &str); 6] = modern("tools/call", "echo");
const MODERN_WORK: [(&str, &str); 6] = modern("tools/call", "work");
const MODERN_WAIT: [(&str, &str); 6] = modern("tools/call", "wait");
const MODERN_LISTEN: [(&str, &str); 6] = modern("subscriptions/listen", "");

const fn modern(method: &'static str, name: &'static str) -> [(&'static str, &'static str); 6] {
    [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
        (if name.is_empty() { "user-agent" } else { "mcp-name" }, name),
    ]
}

fn modern_call(tool: &str, progress: Option<&str>) -> Bytes {
    let mut params = json!({"name": tool, "arguments": {"text": "Hello, world"}});
    if let Some(token) = progress {
        params["_meta"]["progressToken"] = json!(token);
    }
    modern_body("tools/call", params)
}

fn modern_body(method: &str, mut params: Value) -> Bytes {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "bench", "version": "1"});
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    Bytes::from(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string())
}

#[derive(serde::Deserialize)]
struct Echo {
    text: String,
}

impl HttpBench {
    fn new() -> Self {
        let tool = |name| Tool::new(name, "A tool", json!({"type": "object"}));
        let router = Router::new("bench", "1")
            .declare(ServerCapability::ResourcesSubscribe)
            .tool_with(tool("echo"), async |Echo { text }, _| text)
            .tool_with(tool("work"), async |NoArguments {}, cx: front::Context| {
                cx.progress(1);
                "done"
            })
            .tool_with(tool("wait"), async |NoArguments {}, _| core::future::pending::<String>().await);
        let mut config = HttpServerConfig::new(router.config());
        config.session_idle = Duration::from_secs(3600);
        let entropy = Arc::new(CountingEntropy(AtomicU64::new(0)));
        let clock = Arc::new(AdvancedClock::default());
        let (server, driver) = http_server(router, config, clock.clone(), entropy);
        Self { server, driver, clock }
    }

    /// Lets the sessions become idle.
    fn pause(&mut self) {
        self.clock.seconds.fetch_add(2, Ordering::Relaxed);
        self.turn();
    }

    fn exchange<const N: usize>(
        &self,
        headers: &[(&'static str, &'static str); N],
        body: &Bytes,
    ) -> HttpExchange {
        let mut exchange = self
            .server
            .exchange(&RequestHead { method: "POST", path: "/mcp", fields: headers, client: None }, None);
        exchange.handle_body(body.clone());
        exchange.handle_body_end();
        exchange
    }

    fn turn(&mut self) {
        let _ = self.driver.poll(&mut Context::from_waker(Waker::noop()));
    }

    /// Runs a whole exchange; returns the size of the answer's body.
    fn answer<const N: usize>(&mut self, headers: &[(&'static str, &'static str); N], body: &Bytes) -> usize {
        let mut exchange = self.exchange(headers, body);
        read(&mut exchange)
    }

    fn listen(&self) -> HttpExchange {
        let filter = json!({"resourceSubscriptions": ["note:///one"]});
        let body = modern_body("subscriptions/listen", json!({"notifications": filter}));
        let mut exchange = self.exchange(&MODERN_LISTEN, &body);
        assert!(read(&mut exchange) > 0);
        exchange
    }

    fn wait(&self) -> HttpExchange {
        let mut exchange = self.exchange(&MODERN_WAIT, &modern_call("wait", None));
        assert!(exchange.poll_head(&mut Context::from_waker(Waker::noop())).is_pending());
        exchange
    }

    fn in_session(&self, method: &str, session: Option<&str>, body: &Bytes) -> HttpExchange {
        let mut headers = vec![
            ("host", "localhost"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        let mut exchange =
            self.server.exchange(&RequestHead { method, path: "/mcp", fields: &headers, client: None }, None);
        exchange.handle_body(body.clone());
        exchange.handle_body_end();
        exchange
    }

    fn open(&mut self) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {"sampling": {}},
            "clientInfo": {"name": "bench", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
        let mut exchange = self.in_session("POST", None, &Bytes::from(body));
        self.turn();
        let Poll::Ready(head) = exchange.poll_head(&mut Context::from_waker(Waker::noop())) else { panic!() };
        let (_, id) = head.headers.iter().find(|(name, _)| *name == "mcp-session-id").expect("a session");
        let mut session = (**id).to_owned();
        session.shrink_to_fit();
        read_body(&mut exchange);
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        let mut exchange = self.in_session("POST", Some(&session), &Bytes::from(ready));
        self.turn();
        read(&mut exchange);
        session
    }

    fn get(&self, session: &str) -> HttpExchange {
        let mut exchange = self.in_session("GET", Some(session), &Bytes::new());
        read(&mut exchange);
        exchange
    }

    fn call(&mut self, session: &str) {
        let body = Bytes::from_static(
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"Hello, world"}}}"#,
        );
        let mut exchange = self.in_session("POST", Some(session), &body);
        self.turn();
        assert!(read(&mut exchange) > 0);
    }
}

/// Reads the available part of an answer; returns the number of bytes of its body.
fn read(exchange: &mut HttpExchange) -> usize {
    let Poll::Ready(head) = exchange.poll_head(&mut Context::from_waker(Waker::noop())) else { return 0 };
    black_box(head);
    read_body(exchange)
}

fn read_body(exchange: &mut HttpExchange) -> usize {
    let mut bytes = 0;
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(part)) = exchange.poll_body(&mut cx) {
        bytes += part.len();
    }
    bytes
}

/// Many clients that subscribe to the same resource.
struct Subscribers {
    web: HttpBench,
    exchanges: Vec<HttpExchange>,
}

impl Subscribers {
    fn new() -> Self {
        let web = HttpBench::new();
        let exchanges = (0..SUBSCRIBERS).map(|_| web.listen()).collect();
        Self { web, exchanges }
    }

    fn notify(&mut self) {
        self.web.server.resource_updated("note:///one");
        for exchange in &mut self.exchanges {
            assert!(read_body(exchange) > 0);
        }
    }
}
