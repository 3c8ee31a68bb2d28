//! The memory of a server for each client that waits: bytes left on the heap, over HTTP without HTTP itself.
//!
//! Both servers get whole requests in memory, so that sockets and their buffers count for neither.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use mcp_proto::adapter::{Entropy, SystemClock};
use mcp_proto::front::NoArguments;
use mcp_proto::front::http::{HttpExchange, HttpServer, HttpServerDriver, http_server};
use mcp_proto::schema::{ServerCapability, Tool};
use mcp_proto::transport::http::server::{HttpServerConfig, RequestHead};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};

use crate::measure::{Mode, counted, grouped};
use crate::memory::router;
use crate::official::{Era, Server, tokio_runtime};

pub(crate) const URI: &str = "note:///one";
const ROWS: [&str; 5] = [
    "new session (2025-11-25)",
    "idle session (2025-11-25)",
    "open stream of a new session",
    "subscriptions/listen",
    "tools/call that waits",
];
/// Longer than our server keeps the buffers of a silent session.
const SILENCE: Duration = Duration::from_secs(2);

pub(crate) fn run(mode: &Mode) {
    let clients = match mode {
        Mode::Measure => 1_000,
        Mode::Quick => 10,
        Mode::List => return ROWS.iter().for_each(|row| println!("{row}")),
        Mode::Repeat { .. } => {
            eprintln!("memory is not repeated");
            return;
        }
    };
    println!("\n### memory of a server for each waiting client\n");
    println!("| bytes | rmcp | ours | rmcp ÷ ours |\n|---|--:|--:|--:|");
    let (theirs, ours) = (their_memory(clients), our_memory(clients));
    for (row, name) in ROWS.into_iter().enumerate() {
        let (theirs, ours) = (theirs[row] as f64, ours[row] as f64);
        println!("| {name} | {} | {} | {:.1} |", grouped(theirs), grouped(ours), theirs / ours);
    }
}

/// The bytes that each of `clients` leaves on the heap. The tables grow in steps, so a first batch is not counted.
fn growth<T>(clients: u64, mut open: impl FnMut() -> T) -> (i64, Vec<T>) {
    let mut all: Vec<T> = (0..clients).map(|_| open()).collect();
    all.reserve_exact(clients as usize);
    let ((), _, bytes) = counted(|| (0..clients).for_each(|_| all.push(open())));
    // The room for what stands for the client was reserved before.
    (bytes / clients as i64 + size_of::<T>() as i64, all)
}

/// Like [`growth`], for clients that have then been silent for a while, in which `rest` runs the server.
fn silent_growth<C, T>(
    clients: u64,
    context: &mut C,
    open: impl Fn(&mut C) -> T,
    rest: impl Fn(&mut C),
) -> i64 {
    let mut all: Vec<T> = (0..clients).map(|_| open(context)).collect();
    all.reserve_exact(clients as usize);
    rest(context);
    let ((), _, bytes) = counted(|| {
        (0..clients).for_each(|_| all.push(open(context)));
        rest(context);
    });
    bytes / clients as i64 + size_of::<T>() as i64
}

fn our_memory(clients: u64) -> [i64; 5] {
    let silent = silent_growth(clients, &mut Ours::new(), Ours::open, Ours::rest);
    let mut ours = Ours::new();
    let (session, sessions) = growth(clients, || ours.open());
    let mut opened = sessions.iter();
    let (stream, streams) = growth(clients, || ours.get(opened.next().expect("a session")));
    let other = Ours::new();
    let (listen, listening) = growth(clients, || other.listen());
    let (wait, waiting) = growth(clients, || other.wait());
    drop((streams, listening, waiting));
    // Less the session's id, which belongs to the client.
    let id = size_of_id(&sessions[0]);
    [session - id, silent - id, stream, listen, wait]
}

fn their_memory(clients: u64) -> [i64; 5] {
    let runtime = tokio_runtime();
    let open = |theirs: &mut Theirs| runtime.block_on(theirs.open());
    let rest = |_: &mut Theirs| runtime.block_on(async { tokio::time::sleep(SILENCE).await });
    let silent = silent_growth(clients, &mut Theirs::new(), open, rest);
    let theirs = Theirs::new();
    let (session, sessions) = growth(clients, || runtime.block_on(theirs.open()));
    let mut opened = sessions.iter();
    let (stream, streams) =
        growth(clients, || runtime.block_on(settled(theirs.get(opened.next().expect("a session")))));
    let (listen, listening) = growth(clients, || runtime.block_on(settled(theirs.listen())));
    let (wait, waiting) = growth(clients, || {
        // Its answer comes only at the end, so that its future is what waits.
        let mut call = Box::pin(theirs.send(modern("tools/call", Some("wait"), json!({ "name": "wait" }))));
        runtime.block_on(async {
            settled(async { futures_lite::future::poll_once(&mut call).await.is_none() }).await
        });
        call
    });
    drop((streams, listening, waiting));
    let id = size_of_id(&sessions[0]);
    [session - id, silent - id, stream, listen, wait]
}

fn size_of_id(id: &str) -> i64 {
    (size_of::<String>() + id.len()) as i64
}

/// Runs `future`, then every task that it woke.
async fn settled<F: Future>(future: F) -> F::Output {
    let output = future.await;
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
    output
}

/// The headers and the body of a request.
type Sent = (Method, Vec<(&'static str, String)>, Bytes);

fn sent(method: Method, era: Era, body: String) -> Sent {
    let headers = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", era.revision()),
    ];
    (method, headers.map(|(name, value)| (name, value.to_owned())).into(), body.into())
}

fn modern(method: &str, name: Option<&str>, mut params: Value) -> Sent {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "benchmark", "version": "1.0.0" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut sent = sent(Method::POST, Era::Modern, body.to_string());
    sent.1.push(("mcp-method", method.to_owned()));
    sent.1.extend(name.map(|name| ("mcp-name", name.to_owned())));
    sent
}

fn listen() -> Sent {
    modern("subscriptions/listen", None, json!({ "notifications": { "resourceSubscriptions": [URI] } }))
}

fn initialize() -> Sent {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "benchmark", "version": "1.0.0" },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    sent(Method::POST, Era::Legacy, body.to_string())
}

fn in_session(method: Method, session: &str, body: Value) -> Sent {
    let mut sent = sent(method, Era::Legacy, if body.is_null() { String::new() } else { body.to_string() });
    sent.1.push(("mcp-session-id", session.to_owned()));
    sent
}

fn initialized(session: &str) -> Sent {
    in_session(Method::POST, session, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
}

/// Our server, without hyper.
pub(crate) struct Ours {
    pub(crate) server: HttpServer,
    driver: HttpServerDriver,
}

struct Counter(AtomicU64);

impl Entropy for Counter {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = (self.0.fetch_add(1, Ordering::Relaxed) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            chunk.copy_from_slice(&word.to_be_bytes()[..chunk.len()]);
        }
    }
}

impl Ours {
    pub(crate) fn new() -> Self {
        let wait = Tool::new("wait", "Never returns", json!({ "type": "object" }));
        let router = router()
            .declare(ServerCapability::ResourcesSubscribe)
            .tool_with(wait, async |NoArguments {}, _| core::future::pending::<String>().await);
        let mut config = HttpServerConfig::new(router.config());
        config.session_idle = Duration::from_secs(3600);
        let entropy = Arc::new(Counter(AtomicU64::new(0)));
        let (server, driver) = http_server(router, config, Arc::new(SystemClock::new()), entropy);
        Self { server, driver }
    }

    fn exchange(&self, (method, headers, body): Sent) -> HttpExchange {
        let head = RequestHead { method: method.as_str(), path: "/mcp", fields: &headers, client: None };
        let mut exchange = self.server.exchange(&head, None);
        exchange.handle_body(body);
        exchange.handle_body_end();
        exchange
    }

    pub(crate) fn listen(&self) -> HttpExchange {
        let mut exchange = self.exchange(listen());
        assert!(read(&mut exchange).is_some());
        exchange
    }

    fn wait(&self) -> HttpExchange {
        let mut exchange = self.exchange(modern("tools/call", Some("wait"), json!({ "name": "wait" })));
        assert!(read(&mut exchange).is_none());
        exchange
    }

    fn turn(&mut self) {
        let _ = self.driver.poll(&mut Context::from_waker(Waker::noop()));
    }

    /// Lets the clients be silent.
    fn rest(&mut self) {
        std::thread::sleep(SILENCE);
        self.turn();
    }

    fn open(&mut self) -> String {
        let mut exchange = self.exchange(initialize());
        self.turn();
        let session = read(&mut exchange).flatten().expect("a session");
        let mut exchange = self.exchange(initialized(&session));
        self.turn();
        read(&mut exchange);
        session
    }

    fn get(&mut self, session: &str) -> HttpExchange {
        let mut exchange = self.exchange(in_session(Method::GET, session, Value::Null));
        self.turn();
        read(&mut exchange);
        exchange
    }
}

/// Reads the head of the answer and what its body has; returns the session's id.
fn read(exchange: &mut HttpExchange) -> Option<Option<String>> {
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(head) = exchange.poll_head(&mut cx) else { return None };
    while let Poll::Ready(Some(_)) = exchange.poll_body(&mut cx) {}
    let session = head.headers.iter().find(|(name, _)| *name == "mcp-session-id");
    Some(session.map(|(_, id)| id.to_string()))
}

/// rmcp's server, without hyper.
pub(crate) struct Theirs {
    pub(crate) server: Server,
    service: StreamableHttpService<Server, LocalSessionManager>,
}

type Body = http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>;

impl Theirs {
    pub(crate) fn new() -> Self {
        let server = Server::new();
        let each = server.clone();
        let service = StreamableHttpService::new(
            move || Ok(each.clone()),
            Arc::<LocalSessionManager>::default(),
            StreamableHttpServerConfig::default(),
        );
        Self { server, service }
    }

    async fn send(&self, (method, headers, body): Sent) -> Response<Body> {
        let mut request = Request::builder().method(method).uri("/mcp");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        self.service.handle(request.body(Full::new(body)).expect("a request")).await
    }

    async fn open(&self) -> String {
        let answer = self.send(initialize()).await;
        let session = session_of(answer.headers());
        let mut body = answer.into_body();
        while !body.frame().await.is_none_or(|frame| is_answer(&frame)) {}
        drop(body);
        let answer = self.send(initialized(&session)).await;
        settled(answer.into_body().collect()).await.expect("no body");
        session
    }

    async fn get(&self, session: &str) -> Body {
        let answer = self.send(in_session(Method::GET, session, Value::Null)).await;
        assert!(answer.status().is_success(), "{answer:?}");
        answer.into_body()
    }

    /// Listens, and reads the acknowledgement.
    pub(crate) async fn listen(&self) -> Body {
        let answer = self.send(listen()).await;
        assert!(answer.status().is_success(), "{answer:?}");
        let mut body = answer.into_body();
        while !body.frame().await.is_none_or(|frame| is_answer(&frame)) {}
        body
    }
}

/// Whether it is an event with a message: rmcp begins streams with an empty event.
fn is_answer(frame: &Result<http_body::Frame<Bytes>, std::convert::Infallible>) -> bool {
    let data = frame.as_ref().ok().and_then(|frame| frame.data_ref());
    data.is_some_and(|data| data.windows(7).any(|part| part == b"jsonrpc"))
}

fn session_of(headers: &HeaderMap) -> String {
    headers["mcp-session-id"].to_str().expect("text").to_owned()
}
