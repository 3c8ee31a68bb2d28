//! Sequential `tools/call` requests over HTTP/1.1 on the loopback, both sides on one thread: hyper with hyper as the
//! limit, hyper with our server, and our client with our server, as JSON and as a stream with progress.
//!
//! `cargo bench -p mcp-hyper --bench http`. With `--repeat N` and a row's name it runs that row N times, for a profiler.

/// The same for all rows.
#[path = "../src/io.rs"]
mod io;
#[path = "../../mcp-proto/benches/measure/mod.rs"]
mod measure;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use io::HyperIo;
use mcp_hyper::mcp_proto::front::{Client, Context, Router};
use mcp_hyper::mcp_proto::schema::Tool;
use mcp_hyper::{ClientOptions, Proxy, ServerOptions};
use measure::measure;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::json;
use smol::net::TcpListener;
use smol::{Async, LocalExecutor};

/// Requests per run, so that entering the executor counts for little.
const BATCH: usize = 32;
/// About a hundred bytes, as in the other benchmarks.
const MESSAGE: &str =
    "The quick brown fox jumps over the lazy dog while the cow jumps over the moon, again and again.";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

type Executor = LocalExecutor<'static>;

fn main() {
    // It lives as long as the program.
    let executor: &'static Executor = Box::leak(Box::new(LocalExecutor::new()));
    let (limit, ours) = (echo(executor), serve(executor));
    let mut limit = Bare::new(executor, limit, JSON);
    let mut json = Bare::new(executor, ours, JSON);
    let mut events = Bare::new(executor, ours, EVENTS);
    let both = Ours::new(executor, ours);
    let mut rows: [(&str, &mut dyn FnMut()); 5] = [
        ("hyper, echo", &mut || limit.run()),
        ("server, JSON", &mut || json.run()),
        ("server, SSE", &mut || events.run()),
        ("both, JSON", &mut || both.run(Answer::Json)),
        ("both, SSE", &mut || both.run(Answer::Events)),
    ];
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, times, name] = &arguments[..]
        && flag == "--repeat"
    {
        let times: usize = times.parse().expect("a number of times");
        let (_, run) = rows.iter_mut().find(|(row, _)| row == name).expect("a row's name");
        (0..times).for_each(|_| run());
        return;
    }
    let names = rows.each_ref().map(|(name, _)| *name);
    let mut runs = rows.map(|(_, run)| run);
    let cpu = cpu(&mut runs);
    let costs = measure(runs);
    println!(
        "{:14} {:>8} {:>8} {:>9} {:>8} {:>9} {:>12}",
        "tools/call", "req/s", "µs", "of hyper", "CPU µs", "of hyper", "allocations"
    );
    for (row, name) in names.into_iter().enumerate() {
        let each = costs[row].nanoseconds / BATCH as f64;
        println!(
            "{name:14} {:>8.0} {:>8.1} {:>9.2} {:>8.1} {:>9.2} {:>12}",
            1e9 / each,
            each / 1e3,
            costs[0].nanoseconds / costs[row].nanoseconds,
            cpu[row] / BATCH as f64 / 1e3,
            cpu[0] / cpu[row],
            costs[row].allocations / BATCH as u64,
        );
    }
}

/// Nanoseconds of processor time per run, the median over interleaved rounds: elapsed time means little on a busy
/// machine.
fn cpu<const N: usize>(runs: &mut [&mut dyn FnMut(); N]) -> [f64; N] {
    const ROUNDS: usize = 101;
    let mut rounds: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        for (row, run) in runs.iter_mut().enumerate() {
            let begin = clock_gettime(ClockId::ProcessCPUTime);
            run();
            let end = clock_gettime(ClockId::ProcessCPUTime);
            let seconds = (end.tv_sec - begin.tv_sec) as f64;
            rounds[row].push(seconds * 1e9 + (end.tv_nsec - begin.tv_nsec) as f64);
        }
    }
    rounds.map(|mut rounds| {
        rounds.sort_by(f64::total_cmp);
        rounds[ROUNDS / 2]
    })
}

fn on<T>(executor: &'static Executor, future: impl Future<Output = T>) -> T {
    smol::block_on(executor.run(future))
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    (listener.try_into().expect("a listener"), address)
}

/// A server on plain hyper that echoes its input.
fn echo(executor: &'static Executor) -> SocketAddr {
    let (listener, address) = listener();
    let serving = executor.spawn(async move {
        let listener: Arc<Async<std::net::TcpListener>> = listener.into();
        let (stream, _) = listener.accept().await.expect("a client");
        stream.get_ref().set_nodelay(true).expect("no delay");
        let service = service_fn(async |request: Request<Incoming>| {
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            Ok::<_, Infallible>(Response::new(Full::new(body)))
        });
        let mut builder = http1::Builder::new();
        builder.header_read_timeout(None).serve_connection(HyperIo(stream), service).await
    });
    serving.detach();
    address
}

#[derive(Serialize, Deserialize)]
struct Echo {
    message: String,
}

/// This crate's server with two tools that echo their input; one also reports progress first.
fn serve(executor: &'static Executor) -> SocketAddr {
    let tool = |name: &str| Tool::new(name, "Echoes its input", json!({ "type": "object" }));
    let router = Router::new("echo", "1.0.0")
        .tool_with(tool("echo"), async |Echo { message }, _| message)
        .tool_with(tool("report"), async |Echo { message }, cx: Context| {
            cx.progress(1);
            message
        });
    let (listener, address) = listener();
    executor.spawn(ServerOptions::new(router).listen(listener).1).detach();
    address
}

/// A client with hyper alone.
struct Bare {
    executor: &'static Executor,
    sender: SendRequest<Full<Bytes>>,
    accept: &'static str,
    body: Bytes,
}

impl Bare {
    fn new(executor: &'static Executor, address: SocketAddr, accept: &'static str) -> Self {
        let sender = on(executor, async {
            let stream = Async::<std::net::TcpStream>::connect(address).await.expect("a connection");
            stream.get_ref().set_nodelay(true).expect("no delay");
            let stream = HyperIo(stream);
            let (sender, connection) =
                hyper::client::conn::http1::handshake(stream).await.expect("a handshake");
            executor.spawn(connection).detach();
            sender
        });
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "benchmark", "version": "1.0.0" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "name": "echo", "arguments": { "message": MESSAGE }, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        Self { executor, sender, accept, body: body.to_string().into() }
    }

    fn run(&mut self) {
        let Self { executor, sender, accept, body } = self;
        on(executor, async {
            for _ in 0..BATCH {
                let request = Request::post("/mcp")
                    .header("host", "localhost")
                    .header("content-type", "application/json")
                    .header("accept", *accept)
                    .header("mcp-protocol-version", "2026-07-28")
                    .header("mcp-method", "tools/call")
                    .header("mcp-name", "echo")
                    .body(Full::new(body.clone()))
                    .expect("a request");
                let answer = sender.send_request(request).await.expect("an answer");
                let body = answer.into_body().collect().await.expect("its body").to_bytes();
                assert!(body.windows(MESSAGE.len()).any(|part| part == MESSAGE.as_bytes()));
            }
        });
    }
}

#[derive(Clone, Copy)]
enum Answer {
    Json,
    Events,
}

/// Our client.
struct Ours {
    executor: &'static Executor,
    client: Client,
}

impl Ours {
    fn new(executor: &'static Executor, address: SocketAddr) -> Self {
        let options = ClientOptions::new("benchmark", "1.0.0").proxy(Proxy::none());
        let (client, driver) = options.connect(format!("http://{address}/mcp")).expect("a URL");
        executor.spawn(driver).detach();
        Self { executor, client }
    }

    fn run(&self, answer: Answer) {
        on(self.executor, async {
            for _ in 0..BATCH {
                let arguments = Echo { message: MESSAGE.into() };
                let result = match answer {
                    Answer::Json => self.client.call_tool("echo", arguments).await,
                    Answer::Events => self.client.call_tool("report", arguments).on_progress(drop).await,
                };
                assert_eq!(result.expect("a result").text_content(), MESSAGE);
            }
        });
    }
}
