//! Memory of a server, and of a client's front, under attacks on their byte budgets.
//!
//! `cargo bench -p mcp-proto --bench attacks --features http`. The figures count bytes allocated and not freed: they do
//! not depend on the profile or the machine.

mod measure;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mcp_proto::adapter::{Clock, Entropy};
use mcp_proto::front::http::{HttpExchange, HttpServer, HttpServerDriver, http_server};
use mcp_proto::front::{ClientHandlers, NoArguments, Router};
use mcp_proto::peer::client::{ClientConfig, EraPolicy};
use mcp_proto::schema::{Implementation, Tool};
use mcp_proto::transport::StreamClient;
use mcp_proto::transport::http::server::{HttpServerConfig, RequestHead};
use mcp_proto::{Bytes, Instant, UnixTime};
use measure::{freed, heap_growth};
use serde_json::json;

const MIB: usize = 1024 * 1024;

fn main() {
    println!("{:56} {:>12}", "held", "bytes");
    for (name, bytes) in [lists(), slow_bodies(), unread_answers(), progress()].into_iter().flatten() {
        println!("{name:56} {bytes:>12}");
    }
}

/// A clock that only `add` advances.
#[derive(Default)]
struct ManualClock(AtomicU64);

impl ManualClock {
    fn add(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        Instant::from_origin(self.duration())
    }

    fn unix_time(&self) -> UnixTime {
        UnixTime::from_epoch(self.duration())
    }
}

struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let word = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        bytes.iter_mut().zip(word.into_iter().cycle()).for_each(|(byte, random)| *byte = random);
    }
}

struct HttpBench {
    server: HttpServer,
    driver: HttpServerDriver,
    clock: Arc<ManualClock>,
}

impl HttpBench {
    fn new() -> Self {
        let tool =
            |name, description: usize| Tool::new(name, "A".repeat(description), json!({"type": "object"}));
        let router = Router::new("bench", "1")
            .tool_with(tool("small", 600), async |NoArguments {}, _| "done")
            .tool_with(tool("large", 1), async |NoArguments {}, _| "A".repeat(4 * MIB));
        let config = HttpServerConfig::new(router.config());
        let clock = Arc::new(ManualClock::default());
        let entropy = Arc::new(CountingEntropy(AtomicU64::new(0)));
        let (server, driver) = http_server(router, config, clock.clone(), entropy);
        Self { server, driver, clock }
    }

    fn turn(&mut self) {
        let _ = self.driver.poll(&mut Context::from_waker(Waker::noop()));
    }

    fn begin(&self, session: Option<&str>) -> HttpExchange {
        let mut headers = vec![
            ("host", "localhost".to_owned()),
            ("content-type", "application/json".to_owned()),
            ("accept", "text/event-stream".to_owned()),
            ("mcp-protocol-version", "2025-06-18".to_owned()),
        ];
        headers.extend(session.map(|session| ("mcp-session-id", session.to_owned())));
        self.server
            .exchange(&RequestHead { method: "POST", path: "/mcp", fields: &headers, client: None }, None)
    }

    fn post(&mut self, session: Option<&str>, body: &serde_json::Value) -> HttpExchange {
        let mut exchange = self.begin(session);
        exchange.handle_body(Bytes::from(body.to_string()));
        exchange.handle_body_end();
        self.turn();
        exchange
    }

    fn open(&mut self) -> String {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let session = read(self.post(None, &body)).expect("a session");
        read(self.post(Some(&session), &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})));
        session
    }
}

/// Reads an answer to its end; returns its session id.
fn read(mut exchange: HttpExchange) -> Option<String> {
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(head) = exchange.poll_head(&mut cx) else { panic!("the server has not answered") };
    while let Poll::Ready(Some(_)) = exchange.poll_body(&mut cx) {}
    let session = head.headers.iter().find(|(name, _)| *name == "mcp-session-id");
    session.map(|(_, id)| (**id).to_owned())
}

/// The client of a legacy session reads the answers to 1,100 list calls as streams.
fn lists() -> Vec<(&'static str, u64)> {
    let mut web = HttpBench::new();
    let session = web.open();
    let (at_once, ()) = heap_growth(|| {
        for id in 0..1_100 {
            read(web.post(Some(&session), &json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})));
        }
    });
    let (gone, ()) = freed(|| {
        web.clock.add(60);
        web.turn();
    });
    vec![
        ("legacy session after 1,100 list calls", at_once),
        ("the same a minute later", at_once.saturating_sub(gone)),
    ]
}

/// Fifty request bodies arrive slowly and do not end.
fn slow_bodies() -> Vec<(&'static str, u64)> {
    let web = HttpBench::new();
    let piece = Bytes::from(vec![b' '; 64 * 1024]);
    let (at_once, mut bodies) = heap_growth(|| {
        let mut bodies: Vec<HttpExchange> = (0..50).map(|_| web.begin(None)).collect();
        // A little less than 4 MiB each.
        for _ in 0..63 {
            bodies.iter_mut().for_each(|exchange| exchange.handle_body(piece.clone()));
        }
        bodies
    });
    let (gone, ()) = freed(|| {
        web.clock.add(60);
        bodies.iter_mut().for_each(HttpExchange::handle_timeout);
    });
    vec![("50 slow bodies of 4 MiB", at_once), ("the same a minute later", at_once.saturating_sub(gone))]
}

/// A client calls a tool a hundred times and reads none of the answers of 4 MiB each.
fn unread_answers() -> Vec<(&'static str, u64)> {
    let mut web = HttpBench::new();
    let session = web.open();
    let (bytes, exchanges) = heap_growth(|| {
        let call =
            |id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "large"}});
        (0..100).map(|id| web.post(Some(&session), &call(id))).collect::<Vec<_>>()
    });
    drop(exchanges);
    vec![("100 unread answers of 4 MiB", bytes)]
}

/// A server floods a call with progress notifications of 1 MiB each, and the application reads none.
fn progress() -> Vec<(&'static str, u64)> {
    let mut config = ClientConfig::new(Implementation::new("bench", "1"));
    config.era_policy = EraPolicy::ModernOnly;
    let clock = Arc::new(ManualClock::default());
    let (client, mut driver) =
        mcp_proto::adapter::client(StreamClient::new(config), clock, ClientHandlers::new());
    driver.lock(|machine, now| {
        let _ = machine.poll_link();
        machine.handle_open(now);
    });
    let mut send = |text: String| {
        driver.lock(|machine, now| machine.handle_input(now, Bytes::from(text)));
        let mut written = Vec::new();
        driver.lock(|machine, _| while machine.poll_transmit(&mut written) {});
        written
    };
    let id = |written: &[u8]| {
        let request: serde_json::Value = serde_json::from_slice(written).expect("a request");
        request["id"].clone()
    };
    let discover = id(&send(String::new()));
    let result = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
        "ttlMs": 0, "cacheScope": "private",
    });
    send(format!("{}\n", json!({"jsonrpc": "2.0", "id": discover, "result": result})));
    let call = client.call_tool("slow", json!({})).start().expect("a call");
    let token = id(&send(String::new()));
    let (bytes, ()) = heap_growth(|| {
        for progress in 0..200 {
            let params = json!({"progressToken": token, "progress": progress, "message": "A".repeat(MIB)});
            let report = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            send(format!("{report}\n"));
        }
    });
    drop(call);
    vec![("200 MiB of unread progress notifications", bytes)]
}
