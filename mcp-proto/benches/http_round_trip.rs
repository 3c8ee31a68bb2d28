//! Cost of a whole `tools/call` over HTTP in memory, both sides on one thread, without an HTTP implementation.
//!
//! It compares the bare state machines and the async front, answers as JSON and as events, and both eras.
//!
//! `cargo bench -p mcp-proto --bench http_round_trip --features http`. With `--repeat N` and a row's name it runs that
//! row N times, for a profiler: the difference between runs of 2 N and N, divided by N, is the number of instructions
//! per round trip.

mod measure;

use std::borrow::Cow;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use mcp_proto::Instant;
use mcp_proto::adapter::{self, ClientDriver, Entropy, SystemClock};
use mcp_proto::front::http::{HttpExchange, HttpServer, HttpServerDriver, http_server};
use mcp_proto::front::{self, Client, ClientHandlers, Router};
use mcp_proto::peer::RequestOptions;
use mcp_proto::peer::client::{ClientConfig, EraPolicy, Event, State};
use mcp_proto::peer::server::ServerTransport as _;
use mcp_proto::peer::server::{self, Answer};
use mcp_proto::schema::{CallTool, CallToolParams, CallToolResult, Implementation, Json, Params as _, Tool};
use mcp_proto::transport::http::client::{Action, HttpClient, HttpClientConfig, HttpRequest, ListenPolicy};
use mcp_proto::transport::http::server::{
    Chunk, Exchange, HttpServerConfig, PostOutcome, RequestHead, RequestIntake, RequestRoute, Session,
    SessionId, Setup,
};
use mcp_proto::transport::http::{ExchangeEnd, Fields};
use measure::measure;
use serde::{Deserialize, Serialize};

/// About a hundred bytes.
const MESSAGE: &str =
    "The quick brown fox jumps over the lazy dog, again and again, until the dog has had enough of it all.";
const NOW: Instant = Instant::ORIGIN;

fn main() {
    let mut bare_modern = Bare::ready(EraPolicy::ModernOnly);
    let mut bare_legacy = Bare::ready(EraPolicy::LegacyOnly);
    let mut modern = Front::ready(EraPolicy::ModernOnly);
    let mut legacy = Front::ready(EraPolicy::LegacyOnly);
    let mut modern_events = Front::ready(EraPolicy::ModernOnly);
    let mut legacy_events = Front::ready(EraPolicy::LegacyOnly);
    let mut rows: [(&str, &mut dyn FnMut()); 6] = [
        ("bare, modern, JSON", &mut || bare_modern.round_trip()),
        ("bare, legacy, JSON", &mut || bare_legacy.round_trip()),
        ("front, modern, JSON", &mut || modern.round_trip("echo")),
        ("front, legacy, JSON", &mut || legacy.round_trip("echo")),
        ("front, modern, SSE", &mut || modern_events.round_trip("work")),
        ("front, legacy, SSE", &mut || legacy_events.round_trip("work")),
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
    println!("{:20} {:>8} {:>12}", "round trip", "ns", "allocations");
    for (name, cost) in names.into_iter().zip(costs) {
        println!("{name:20} {:>8.0} {:>12}", cost.nanoseconds, cost.allocations);
    }
}

fn client(mode: EraPolicy) -> HttpClientConfig {
    let mut config = ClientConfig::new(Implementation::new("benchmark", "1.0.0"));
    config.era_policy = mode;
    let mut config = HttpClientConfig::new(config, "http://localhost/mcp");
    config.listen = ListenPolicy::Never;
    config
}

fn router() -> Router {
    let tool = |name| Tool::new(name, "Returns its message", serde_json::json!({ "type": "object" }));
    Router::new("echo", "1.0.0")
        .tool_with(tool("echo"), async |Echo { message }, _| message)
        // Its progress report makes the answer an event stream.
        .tool_with(tool("work"), async |Echo { message }, cx: front::Context| {
            cx.progress(1);
            message
        })
}

#[derive(Deserialize)]
struct Echo {
    message: String,
}

#[derive(Serialize)]
struct EchoArguments {
    message: &'static str,
}

/// The headers of a request: those of the client, and `host`.
struct RequestFields<'a>(&'a HttpRequest);

impl Fields for RequestFields<'_> {
    fn each<'a>(&'a self, show: &mut dyn FnMut(&str, &'a [u8])) {
        show("host", b"localhost");
        self.0.headers.iter().for_each(|(name, value)| show(name, value.as_bytes()));
    }
}

/// The headers of an answer.
struct AnswerFields<'a>(&'a [(&'static str, Cow<'static, str>)]);

impl Fields for AnswerFields<'_> {
    fn each<'a>(&'a self, show: &mut dyn FnMut(&str, &'a [u8])) {
        self.0.iter().for_each(|(name, value)| show(name, value.as_bytes()));
    }
}

fn request_head<'a>(request: &HttpRequest, fields: &'a RequestFields<'a>) -> RequestHead<'a> {
    RequestHead { method: request.verb.as_str(), path: "/mcp", fields, client: None }
}

/// The state machines of both sides.
struct Bare {
    client: HttpClient,
    setup: Setup,
    session: Option<Session>,
    params: CallToolParams,
}

impl Bare {
    fn ready(mode: EraPolicy) -> Self {
        let client = HttpClient::new(client(mode), NOW).expect("the URL is valid");
        let setup = Setup::new(HttpServerConfig::new(router().config()));
        let mut params = CallToolParams::new("echo");
        params.arguments = Some(Json::encode(&EchoArguments { message: MESSAGE }).unwrap());
        let mut bare = Self { client, setup, session: None, params };
        while bare.carry() {}
        assert_eq!(bare.client.state(), State::Ready);
        while bare.client.poll_event().is_some() {}
        bare
    }

    /// Carries a request to the server and its answer to the client.
    fn carry(&mut self) -> bool {
        let Some(action) = self.client.poll_action() else { return false };
        let Action::Open(request) = action else { return true };
        let fields = RequestFields(&request);
        let mut intake =
            RequestIntake::new(&self.setup, &request_head(&request, &fields)).expect("a valid head");
        intake.handle_body(request.body.clone()).expect("a valid body");
        let (head, body) = match intake.finish() {
            RequestRoute::Modern(modern) => {
                let mut exchange = Exchange::open(&self.setup, modern, NOW);
                if let Some(server::Event::Request { id, params, .. }) = exchange.poll_event() {
                    exchange.at(NOW).respond(id, Answer::Result(&echo(params)));
                }
                let head = exchange.poll_head().expect("an answer");
                let Chunk::Bytes(body) = exchange.poll_body() else { panic!("no body") };
                assert_eq!(exchange.poll_body(), Chunk::End);
                (head, body)
            }
            RequestRoute::OpenSession(post) => {
                let (session, answer) =
                    Session::open(&self.setup, SessionId::from_entropy([1; 16]), post, NOW)
                        .expect("a session");
                self.session = Some(session);
                (answer.head(), answer.body)
            }
            RequestRoute::Session { post, .. } => {
                let session = self.session.as_mut().expect("a session");
                match session.handle_post(NOW, post) {
                    PostOutcome::Answer(answer) => (answer.head(), answer.body),
                    PostOutcome::Connection(connection) => {
                        if let Some(server::Event::Request { id, params, .. }) = session.poll_event() {
                            session.at(NOW).respond(id, Answer::Result(&echo(params)));
                        }
                        let head = session.poll_head(connection).expect("an answer");
                        let Chunk::Bytes(body) = session.poll_body(NOW, connection) else {
                            panic!("no body")
                        };
                        assert_eq!(session.poll_body(NOW, connection), Chunk::End);
                        while session.poll_connection().is_some() {}
                        (head, body)
                    }
                }
            }
            route => panic!("{route:?}"),
        };
        while self.session.as_mut().is_some_and(|session| session.poll_event().is_some()) {}
        self.client.handle_head(NOW, request.exchange, head.status, &AnswerFields(&head.headers));
        if !body.is_empty() {
            self.client.handle_body(NOW, request.exchange, body);
        }
        self.client.handle_end(NOW, request.exchange, ExchangeEnd::Complete);
        true
    }

    fn round_trip(&mut self) {
        self.client
            .at(NOW)
            .request::<CallTool>(&self.params, RequestOptions::default())
            .expect("it is ready");
        assert!(self.carry());
        let Some(Event::Outcome { outcome, .. }) = self.client.poll_event() else { panic!("no answer") };
        black_box((outcome.decode::<CallTool>().unwrap(), self.client.poll_timeout()));
    }
}

fn echo(params: Option<mcp_proto::rpc::Raw>) -> CallToolResult {
    let params = CallToolParams::from_raw(&params.expect("parameters")).unwrap();
    let Echo { message } = params.arguments.expect("arguments").decode().unwrap();
    CallToolResult::text(message)
}

/// A client handle and its driver, a router with its server.
struct Front {
    client: Client,
    driver: ClientDriver<HttpClient>,
    server: HttpServer,
    sessions: HttpServerDriver,
}

/// Distinct numbers, which are not random: this benchmark needs no secrets.
struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let number = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        bytes.iter_mut().zip(number.into_iter().cycle()).for_each(|(byte, part)| *byte = part);
    }
}

impl Front {
    fn ready(mode: EraPolicy) -> Self {
        let (router, clock) = (router(), Arc::new(SystemClock::new()));
        let config = HttpServerConfig::new(router.config());
        let entropy = Arc::new(CountingEntropy(AtomicU64::new(1)));
        let (server, sessions) = http_server(router, config, clock.clone(), entropy);
        let machine = HttpClient::new(client(mode), NOW).expect("the URL is valid");
        let (client, driver) = adapter::client(machine, clock, ClientHandlers::new());
        let mut front = Self { client, driver, server, sessions };
        while front.carry() {}
        assert_eq!(front.client.state(), State::Ready);
        front
    }

    /// Carries a request to the server and its answer to the client.
    fn carry(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let action =
            self.driver.poll(&mut cx, |machine, _| machine.poll_action().map_or(Poll::Pending, Poll::Ready));
        let Poll::Ready(action) = action else { return false };
        let Action::Open(request) = action else { return true };
        let fields = RequestFields(&request);
        let mut exchange: HttpExchange = self.server.exchange(&request_head(&request, &fields), None);
        exchange.handle_body(request.body.clone());
        exchange.handle_body_end();
        let head = loop {
            if let Poll::Ready(head) = exchange.poll_head(&mut cx) {
                break head;
            }
            let _ = self.sessions.poll(&mut cx);
        };
        let id = request.exchange;
        self.driver
            .lock(|machine, now| machine.handle_head(now, id, head.status, &AnswerFields(&head.headers)));
        loop {
            match exchange.poll_body(&mut cx) {
                Poll::Ready(Some(bytes)) => {
                    self.driver.lock(|machine, now| machine.handle_body(now, id, bytes));
                }
                Poll::Ready(None) => break,
                Poll::Pending => drop(self.sessions.poll(&mut cx)),
            }
        }
        self.driver.lock(|machine, now| machine.handle_end(now, id, ExchangeEnd::Complete));
        true
    }

    fn round_trip(&mut self, tool: &'static str) {
        let call = self.client.call_tool(tool, EchoArguments { message: MESSAGE });
        let mut call = if tool == "work" { call.on_progress(|_| ()) } else { call };
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(result) = Pin::new(&mut call).poll(&mut cx) {
                black_box(result.unwrap());
                return;
            }
            self.carry();
        }
    }
}
