//! A `tools/call` over HTTP/1.1 on the loopback, both sides on one thread.
//!
//! The limits are hyper's client with hyper's server, which echo the body: on tokio's reactor, which rmcp uses, and on
//! smol's. With 64 in flight they have 64 connections. rmcp's client as it comes opens a connection for each request;
//! "pooled" gives it an HTTP client that keeps them, and room for 64 requests at once.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use mcp_hyper::{ClientDriver, ClientOptions, Proxy, Runtime, ServerOptions, Smol, Tokio};
use mcp_proto::front::{self, Context, Router, SendHandlers};
use mcp_proto::schema::Tool;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpClientTransport, StreamableHttpServerConfig, StreamableHttpService};
use smol::{Async, LocalExecutor};
use smol_hyper::rt::FuturesIo;

use crate::measure::{Mode, Row, Table, Unit};
use crate::memory::{call, router};
use crate::official::{Client, Echo, Era, IN_FLIGHT, Load, Server, tokio_runtime};
use crate::pair::MESSAGE;

const ON_TOKIO: &str = "limit: hyper on tokio";
const ON_SMOL: &str = "limit: hyper on smol";
/// The peer: rmcp as fast as its options make it.
const POOLED: &str = "rmcp, pooled";

/// How servers answer. In a legacy session rmcp answers as a stream only.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Json,
    Events,
    Session,
}

impl Answer {
    fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON, 2026-07-28",
            Self::Events => "SSE, 2026-07-28",
            Self::Session => "session, 2025-11-25",
        }
    }

    fn era(self) -> Era {
        if self == Self::Session { Era::Legacy } else { Era::Modern }
    }
}

pub(crate) fn run(mode: &Mode) {
    for answer in [Answer::Json, Answer::Events, Answer::Session] {
        for load in Load::BOTH {
            table(answer, load).run(mode);
        }
    }
}

fn table(answer: Answer, load: Load) -> Table {
    let requests = load.requests();
    let rows = vec![
        Row::new(ON_TOKIO, requests, move || hyper_on_tokio(load)),
        Row::new(ON_SMOL, requests, move || hyper_on_smol(load)),
        Row::new("rmcp, as it comes", requests, move || rmcp(answer, load, false)),
        Row::new(POOLED, requests, move || rmcp(answer, load, true)),
        Row::new("ours on smol", requests, move || ours_on_smol(answer, load)).limit(ON_SMOL),
        Row::new("ours on tokio", requests, move || ours_on_tokio(answer, load)),
    ];
    Table { title: format!("HTTP, {}, {}", answer.name(), load.name()), unit: Unit::Each, peer: POOLED, rows }
}

fn loopback() -> (std::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a listener that does not block");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    Ok(Response::new(Full::new(body)))
}

/// The connections of hyper's client. It is not cloned: each has one request at a time.
type Senders = Vec<SendRequest<Full<Bytes>>>;

/// Sends the requests of a run, evenly on all connections.
async fn exchange(senders: &mut Senders, load: Load, body: &Bytes) {
    let each = load.requests() as usize / senders.len();
    join_all(senders.iter_mut().map(async |sender| {
        for _ in 0..each {
            let request = Request::post("/mcp")
                .header("host", "localhost")
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream")
                .body(Full::new(body.clone()))
                .expect("a request");
            let answer = sender.send_request(request).await.expect("an answer");
            assert_eq!(answer.into_body().collect().await.expect("its body").to_bytes().len(), body.len());
        }
    }))
    .await;
}

fn connections(load: Load) -> u32 {
    if load == Load::Concurrent { IN_FLIGHT } else { 1 }
}

/// As long as a request of `tools/call`.
fn payload() -> Bytes {
    Bytes::from(vec![b'a'; 2 * MESSAGE.len()])
}

fn hyper_on_tokio(load: Load) -> impl FnMut() {
    let runtime = tokio_runtime();
    let (listener, address) = loopback();
    let mut senders = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a client");
                stream.set_nodelay(true).expect("no delay");
                tokio::spawn(
                    http1::Builder::new()
                        .header_read_timeout(None)
                        .serve_connection(TokioIo::new(stream), service_fn(echo)),
                );
            }
        });
        let mut senders = Senders::new();
        for _ in 0..connections(load) {
            let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
            stream.set_nodelay(true).expect("no delay");
            let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a handshake");
            tokio::spawn(connection);
            senders.push(sender);
        }
        senders
    });
    let body = payload();
    move || runtime.block_on(exchange(&mut senders, load, &body))
}

/// An executor for one thread that lives as long as the program.
fn smol_executor() -> &'static LocalExecutor<'static> {
    Box::leak(Box::new(LocalExecutor::new()))
}

fn on<T>(executor: &'static LocalExecutor<'static>, future: impl Future<Output = T>) -> T {
    smol::block_on(executor.run(future))
}

fn hyper_on_smol(load: Load) -> impl FnMut() {
    let executor = smol_executor();
    let (listener, address) = loopback();
    let serving = async move {
        let listener = Async::new(listener).expect("a listener");
        loop {
            let (stream, _) = listener.accept().await.expect("a client");
            stream.get_ref().set_nodelay(true).expect("no delay");
            let mut builder = http1::Builder::new();
            let connection =
                builder.header_read_timeout(None).serve_connection(FuturesIo::new(stream), service_fn(echo));
            executor.spawn(connection).detach();
        }
    };
    executor.spawn(serving).detach();
    let mut senders = on(executor, async {
        let mut senders = Senders::new();
        for _ in 0..connections(load) {
            let stream = Async::<std::net::TcpStream>::connect(address).await.expect("a connection");
            stream.get_ref().set_nodelay(true).expect("no delay");
            let (sender, connection) = handshake(FuturesIo::new(stream)).await.expect("a handshake");
            executor.spawn(connection).detach();
            senders.push(sender);
        }
        senders
    });
    let body = payload();
    move || on(executor, exchange(&mut senders, load, &body))
}

fn rmcp(answer: Answer, load: Load, pooled: bool) -> impl FnMut() {
    let runtime = tokio_runtime();
    let (listener, address) = loopback();
    let client = runtime.block_on(async {
        let server = Server::new();
        let config = StreamableHttpServerConfig::default()
            .with_json_response(answer == Answer::Json)
            .with_legacy_session_mode(answer == Answer::Session);
        let service = StreamableHttpService::new(
            move || Ok(server.clone()),
            Arc::<LocalSessionManager>::default(),
            config,
        );
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a client");
                stream.set_nodelay(true).expect("no delay");
                let service = TowerToHyperService::new(service.clone());
                tokio::spawn(
                    http1::Builder::new()
                        .timer(TokioTimer::new())
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        let url = format!("http://{address}/mcp");
        let transport = if pooled {
            let client = reqwest::Client::builder().build().expect("a client");
            let config = StreamableHttpClientTransportConfig::with_uri(url)
                .max_concurrent_requests(IN_FLIGHT as usize);
            StreamableHttpClientTransport::with_client(client, config)
        } else {
            StreamableHttpClientTransport::from_uri(url)
        };
        Client::connect(transport, answer.era()).await
    });
    move || runtime.block_on(load.run(|| client.call()))
}

/// Our client, for servers at `address`.
fn client_of<R: Runtime>(
    runtime: R,
    answer: Answer,
    address: SocketAddr,
) -> (front::Client, ClientDriver<SendHandlers, R>) {
    ClientOptions::new("benchmark", "1.0.0")
        .era_policy(answer.era().policy())
        .proxy(Proxy::none())
        .runtime(runtime)
        .connect(format!("http://{address}/mcp"))
        .expect("a URL")
}

/// The tool that every server here offers, and one that reports progress first.
fn reporting_router() -> Router {
    let report =
        Tool::new("report", "Returns its message after progress", serde_json::json!({ "type": "object" }));
    router().tool_with(report, async |Echo { message }, cx: Context| {
        cx.progress(1);
        message
    })
}

/// Makes one call. Our server answers as a stream when there is more to say than the result.
async fn call_for(client: &front::Client, answer: Answer) {
    if answer == Answer::Events {
        let result = client.call_tool("report", Echo::new()).on_progress(drop).await;
        assert_eq!(result.expect("an answer").text_content(), MESSAGE);
    } else {
        call(client).await;
    }
}

fn ours_on_smol(answer: Answer, load: Load) -> impl FnMut() {
    let executor = smol_executor();
    let (listener, address) = loopback();
    let listener = smol::net::TcpListener::from(Async::new(listener).expect("a listener"));
    executor.spawn(ServerOptions::new(reporting_router()).listen(listener).1).detach();
    let (client, driver) = client_of(Smol, answer, address);
    executor.spawn(driver).detach();
    on(executor, client.ready()).expect("it connects");
    move || on(executor, load.run(|| call_for(&client, answer)))
}

fn ours_on_tokio(answer: Answer, load: Load) -> impl FnMut() {
    let runtime = tokio_runtime();
    let (listener, address) = loopback();
    let client = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        tokio::spawn(ServerOptions::new(reporting_router()).runtime(Tokio).listen(listener).1);
        let (client, driver) = client_of(Tokio, answer, address);
        tokio::spawn(driver);
        client.ready().await.expect("it connects");
        client
    });
    move || runtime.block_on(load.run(|| call_for(&client, answer)))
}
