//! The memory of a server with many clients, on real sockets: a thousand streams, ten thousand sessions. It is printed
//! (`cargo test -p mcp-hyper --test scale -- --nocapture`). A program of its own, because it counts the allocations of the
//! whole process.
#![allow(missing_docs)]

mod common;
#[path = "common/heap.rs"]
mod heap;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use common::server::*;
use heap::{live, settle};
use hyper::rt::{Sleep, Timer};
use mcp_hyper::mcp_proto::front::http::HttpServer;
use mcp_hyper::mcp_proto::peer::server::ListKind;
use mcp_hyper::{Endpoint, Runtime, ServerOptions, Smol, Stream};
use serde_json::json;

/// One test at a time, so that each counts only its own memory.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const QUIET: Duration = Duration::from_millis(50);
const STREAMS: usize = 1000;
const SESSIONS: usize = 10_000;

/// Sockets of both sides, and some more.
fn allow_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

fn served(options: ServerOptions) -> (SocketAddr, HttpServer) {
    allow_files();
    let (listener, address) = listener();
    let (server, driver) = options.listen(listener);
    run(driver);
    (address, server)
}

/// KiB per each of `count`.
fn kib_each(before: usize, count: usize) -> f64 {
    live().saturating_sub(before) as f64 / 1024.0 / count as f64
}

/// Opens a stream with each of the clients, sends a change to all, and disconnects them.
fn hold_streams(
    kind: &str,
    most: f64,
    at: &(SocketAddr, HttpServer),
    open: impl Fn() -> RawClient,
    first: Option<&str>,
) {
    let (address, server) = (at.0, &at.1);
    let mut other = open();
    other.head();
    let mut caller = RawClient::connect(address);
    caller.echo("first");
    caller.forget();
    settle("the first one is served", QUIET);
    let before = live();
    let mut clients: Vec<_> = (0..STREAMS).map(|_| open()).collect();
    for client in &mut clients {
        assert_eq!(client.head().get("content-type"), Some("text/event-stream"));
        if let Some(first) = first {
            assert_eq!(client.event()["method"], first);
        }
        // The client's own memory is not counted.
        client.forget();
    }
    let each = kib_each(before, STREAMS);
    let begin = Instant::now();
    server.list_changed(ListKind::Tools);
    for client in &mut clients {
        assert_eq!(client.event()["method"], "notifications/tools/list_changed");
    }
    let told = begin.elapsed();
    drop(clients);
    wait_until("their memory is freed", || {
        // The reactor frees memory on its next event, so this causes one.
        caller.echo("again");
        caller.forget();
        live() < before + 64 * 1024
    });
    println!(
        "{STREAMS} {kind} streams: {each:.1} KiB each with its connection, all notified within {told:?}"
    );
    assert!(each < most, "{each} KiB");
}

#[test]
fn a_thousand_subscriptions_cost_little_memory_and_all_receive_a_change() {
    let _alone = alone();
    let at = served(serving(router(&HandlerLog::default())));
    let open = || {
        let mut client = RawClient::connect(at.0);
        let (headers, body) = listen();
        client.post("/mcp", &headers, &body);
        client
    };
    let first = "notifications/subscriptions/acknowledged";
    hold_streams("modern", 40.0, &at, open, Some(first));
}

#[test]
fn a_thousand_listening_streams_of_legacy_sessions_cost_little_memory_and_all_receive_a_change() {
    let _alone = alone();
    let options = serving(router(&HandlerLog::default()));
    let at = served(options.configure(|config| config.session_idle = Duration::from_secs(1)));
    let open = || {
        let mut client = RawClient::connect(at.0);
        let session = client.initialize();
        client.send(format!(
            "GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n{}\r\n",
            in_session(&session)
        ));
        client
    };
    hold_streams("legacy", 60.0, &at, open, None);
}

#[test]
fn ten_thousand_sessions_expire_and_free_their_memory() {
    let _alone = alone();
    let runtime = ShiftedTimer::default();
    let options = serving(router(&HandlerLog::default())).runtime(runtime.clone());
    let (address, _server) = served(options);
    let mut client = RawClient::connect(address);
    let early = client.initialize();
    client.forget();
    settle("nothing else is going on", QUIET);
    let before = live();
    let begin = Instant::now();
    for _ in 1..SESSIONS {
        client.initialize();
    }
    let opening = begin.elapsed();
    let each = kib_each(before, SESSIONS);
    assert_eq!(client.list_tools(&early), 200, "every session is open");

    runtime.shift(Duration::from_secs(31 * 60));
    let mut client = RawClient::connect(address);
    wait_until("their memory is given back", || live() < before + 256 * 1024);
    assert_eq!(client.list_tools(&early), 404, "the session has expired");
    client.initialize();
    let left = live() as f64 - before as f64;
    println!(
        "{SESSIONS} sessions: {each:.2} KiB each, opened within {opening:?}; {:.0} KiB left after they expired",
        left / 1024.0
    );
    assert!(each < 8.0, "{each} KiB");
}

/// A server that is full of sessions.
const FULL: usize = 2000;

/// The number of a hundred clients' sessions that survive another client, which opens as many as possible; and the
/// memory of the server before and after that, in MiB. A proxy forwards all clients.
fn survivors(told_apart: bool) -> (usize, [f64; 2]) {
    let proxies = told_apart.then(|| "127.0.0.1".parse().unwrap());
    let options = serving(router(&HandlerLog::default())).trusted_proxies(proxies);
    let options = options.configure(|config| config.max_sessions = FULL);
    let (address, _server) = served(options);
    let mut client = RawClient::connect(address);
    settle("nothing else is going on", QUIET);
    let start = live();
    let held = || live().saturating_sub(start) as f64 / 1024.0 / 1024.0;
    let others: Vec<_> = (0..100).map(|number| client.initialize_for(&format!("192.0.2.{number}"))).collect();
    client.forget();
    let before = held();
    for _ in 0..FULL {
        client.initialize_for("198.51.100.66");
    }
    client.forget();
    let after = held();
    let alive = others.iter().filter(|session| client.list_tools(session) == 200).count();
    (alive, [before, after])
}

#[test]
fn client_that_fills_the_server_evicts_no_sessions_of_others() {
    let _alone = alone();
    for (told_apart, expected) in [(true, 100), (false, 0)] {
        let (alive, [before, after]) = survivors(told_apart);
        let owners = if told_apart { "an owner each" } else { "one owner for all" };
        println!(
            "{owners}: {alive} of 100 sessions survive {FULL} of another client; {before:.2} MiB before, {after:.2} after"
        );
        assert_eq!(alive, expected);
        assert!(after < 16.0, "{after} MiB");
    }
}

impl RawClient {
    /// Opens a session for the client of this address; returns its id.
    fn initialize_for(&mut self, forwarded: &str) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        self.post("/mcp", &format!("x-forwarded-for: {forwarded}\r\n"), &body.to_string());
        let (head, body) = self.answer();
        assert_eq!(head.status, 200, "{body}");
        head.get("mcp-session-id").unwrap().to_owned()
    }

    /// Lists the tools in a session; returns the status.
    fn list_tools(&mut self, session: &str) -> u16 {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
        self.post("/mcp", &in_session(session), &request);
        self.answer().0.status
    }
}

/// Smol's time, shifted by the test.
#[derive(Clone, Default)]
struct ShiftedTimer(Arc<Mutex<ClockShift>>);

#[derive(Default)]
struct ClockShift {
    by: Duration,
    waiting: Vec<Waker>,
}

impl ShiftedTimer {
    fn shift(&self, by: Duration) {
        let waiting = {
            let mut shift = self.0.lock().unwrap();
            shift.by += by;
            std::mem::take(&mut shift.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Timer for ShiftedTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let left = deadline.saturating_duration_since(self.now());
        Box::pin(ShiftedSleep { timer: self.clone(), deadline, sleep: smol::Timer::after(left) })
    }

    fn now(&self) -> Instant {
        Instant::now() + self.0.lock().unwrap().by
    }
}

struct ShiftedSleep {
    timer: ShiftedTimer,
    deadline: Instant,
    sleep: smol::Timer,
}

impl Future for ShiftedSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.timer.now() >= self.deadline {
            return Poll::Ready(());
        }
        self.timer.0.lock().unwrap().waiting.push(cx.waker().clone());
        Pin::new(&mut self.sleep).poll(cx).map(drop)
    }
}

impl Sleep for ShiftedSleep {}

impl Runtime for ShiftedTimer {
    async fn resolve(&self, host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
        Smol.resolve(host, port).await
    }

    async fn connect(&self, endpoint: &Endpoint) -> std::io::Result<Box<dyn Stream>> {
        Smol.connect(endpoint).await
    }

    fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
        Arc::new(self.clone())
    }
}
