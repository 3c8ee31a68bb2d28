//! `tools/call` requests over HTTP/1.1 on the loopback, both sides on one thread, one at a time and 64 at once: hyper
//! with hyper as the limit, hyper with our server, and our client with our server, as JSON and as a stream with
//! progress. All rows use the sockets of this crate, so that they differ in nothing else.
//!
//! `cargo bench -p mcp-hyper --bench http`, on smol, or on Tokio with `--features tokio`. With `--repeat N` and a row's
//! name it runs that row N times, for a profiler; the difference of two numbers leaves out the start.
//!
//! # What this crate cannot mend
//!
//! A call on smol costs 16 system calls for both ends, as `strace -f -c` counts them, and hyper's own echo costs the
//! same: 2 `sendto` and 2 `recvfrom` carry the messages. The other 12 belong to the reactor: per wait, and there are two,
//! `polling` sets its timerfd and registers it again, reads its eventfd and registers it again, and calls `epoll_pwait`;
//! per socket, one-shot interest is registered again after each event. On top of them come about 2 `futex`: the helper
//! thread of `async-io` competes with `block_on` for the reactor and wakes it. Both are upstream's to change.
//!
//! On Tokio a call costs 6 system calls, as the echo does: the same 4, and one `epoll_wait` per side.

#[cfg_attr(feature = "tokio", path = "http/on_tokio.rs")]
#[cfg_attr(not(feature = "tokio"), path = "http/on_smol.rs")]
mod executor;
/// The same for all rows.
#[path = "../src/io.rs"]
#[allow(dead_code, reason = "these rows need its stream alone")]
mod io;
#[path = "../../mcp-proto/benches/measure/mod.rs"]
mod measure;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::{SocketAddr, TcpListener};

use bytes::Bytes;
use executor::{Executor, RUNTIME};
use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use io::HyperIo;
use mcp_hyper::mcp_proto::front::{Client, Context, Router};
use mcp_hyper::mcp_proto::schema::Tool;
use mcp_hyper::{ClientOptions, Endpoint, Proxy, Runtime, ServerOptions};
use measure::measure;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Requests per run, so that entering the executor counts for little.
const BATCH: usize = 64;
/// About a hundred bytes, as in the other benchmarks.
const MESSAGE: &str =
    "The quick brown fox jumps over the lazy dog while the cow jumps over the moon, again and again.";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

fn main() {
    let executor = executor::start();
    let (limit, ours) = (echo(executor), serve(executor));
    let mut limits: Vec<_> = (0..BATCH).map(|_| Bare::new(executor, limit, JSON)).collect();
    let mut limit = Bare::new(executor, limit, JSON);
    let mut json = Bare::new(executor, ours, JSON);
    let mut events = Bare::new(executor, ours, EVENTS);
    let both = Ours::new(executor, ours);
    let mut rows: [(&str, &mut dyn FnMut()); 7] = [
        ("hyper, echo", &mut || limit.run(executor)),
        ("server, JSON", &mut || json.run(executor)),
        ("server, SSE", &mut || events.run(executor)),
        ("both, JSON", &mut || both.run(Answer::Json)),
        ("both, SSE", &mut || both.run(Answer::Events)),
        ("hyper, 64 in flight", &mut || in_flight(executor, &mut limits)),
        ("both, 64 in flight", &mut || both.run_in_flight()),
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
    /// The row that each row is compared to.
    const LIMITS: [usize; 7] = [0, 0, 0, 0, 0, 5, 5];
    let names = rows.each_ref().map(|(name, _)| *name);
    let mut runs = rows.map(|(_, run)| run);
    let cpu = cpu(&mut runs);
    let costs = measure(runs);
    println!(
        "{:20} {:>8} {:>8} {:>9} {:>8} {:>9} {:>12}",
        executor::NAME,
        "req/s",
        "µs",
        "of hyper",
        "CPU µs",
        "of hyper",
        "allocations"
    );
    for (row, name) in names.into_iter().enumerate() {
        let each = costs[row].nanoseconds / BATCH as f64;
        let limit = LIMITS[row];
        println!(
            "{name:20} {:>8.0} {:>8.1} {:>9.2} {:>8.1} {:>9.2} {:>12.1}",
            1e9 / each,
            each / 1e3,
            costs[limit].nanoseconds / costs[row].nanoseconds,
            cpu[row] / BATCH as f64 / 1e3,
            cpu[limit] / cpu[row],
            costs[row].allocations as f64 / BATCH as f64,
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

/// A server on plain hyper that echoes its input.
fn echo(executor: Executor) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let serving = async move {
        let mut listener = RUNTIME.listen(listener).expect("a listener");
        loop {
            let (stream, _) = poll_fn(|cx| listener.poll_accept(cx)).await.expect("a client");
            let service = service_fn(async |request: Request<Incoming>| {
                let body = request.into_body().collect().await.expect("a body").to_bytes();
                Ok::<_, Infallible>(Response::new(Full::new(body)))
            });
            let mut builder = http1::Builder::new();
            let connection = builder.header_read_timeout(None).serve_connection(HyperIo(stream), service);
            executor.spawn(async { drop(connection.await) });
        }
    };
    executor.spawn(serving);
    address
}

#[derive(Serialize, Deserialize)]
struct Echo {
    message: String,
}

/// This crate's server with two tools that echo their input; one also reports progress first.
fn serve(executor: Executor) -> SocketAddr {
    let tool = |name: &str| Tool::new(name, "Echoes its input", json!({ "type": "object" }));
    let router = Router::new("echo", "1.0.0")
        .tool_with(tool("echo"), async |Echo { message }, _| message)
        .tool_with(tool("report"), async |Echo { message }, cx: Context| {
            cx.progress(1);
            message
        });
    let (listener, address) = executor.on(async { executor::listener() });
    let (_, driver) = ServerOptions::new(router).runtime(RUNTIME).listen(listener);
    executor.spawn(async { driver.await.expect("the server runs on") });
    address
}

/// A client with hyper alone.
struct Bare {
    /// Absent during a run.
    sender: Option<SendRequest<Full<Bytes>>>,
    accept: &'static str,
    body: Bytes,
}

impl Bare {
    fn new(executor: Executor, address: SocketAddr, accept: &'static str) -> Self {
        let sender = executor.on(async move {
            let stream = RUNTIME.connect(&Endpoint::Tcp(address)).await.expect("a connection");
            let (sender, connection) =
                hyper::client::conn::http1::handshake(HyperIo(stream)).await.expect("a handshake");
            executor.spawn(async { drop(connection.await) });
            sender
        });
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "benchmark", "version": "1.0.0" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "name": "echo", "arguments": { "message": MESSAGE }, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        Self { sender: Some(sender), accept, body: body.to_string().into() }
    }

    /// Calls this many times in turn; ready with the sender for the next run.
    fn calls(&mut self, times: usize) -> impl Future<Output = SendRequest<Full<Bytes>>> + Send + 'static {
        let (accept, body) = (self.accept, self.body.clone());
        let mut sender = self.sender.take().expect("no run at the same time");
        async move {
            for _ in 0..times {
                let request = Request::post("/mcp")
                    .header("host", "localhost")
                    .header("content-type", "application/json")
                    .header("accept", accept)
                    .header("mcp-protocol-version", "2026-07-28")
                    .header("mcp-method", "tools/call")
                    .header("mcp-name", "echo")
                    .body(Full::new(body.clone()))
                    .expect("a request");
                let answer = sender.send_request(request).await.expect("an answer");
                let body = answer.into_body().collect().await.expect("its body").to_bytes();
                assert!(body.windows(MESSAGE.len()).any(|part| part == MESSAGE.as_bytes()));
                sender.ready().await.expect("an open connection");
            }
            sender
        }
    }

    fn run(&mut self, executor: Executor) {
        self.sender = Some(executor.on(self.calls(BATCH)));
    }
}

/// One call of each client, at the same time.
fn in_flight(executor: Executor, clients: &mut [Bare]) {
    let senders = executor.on(join_all(clients.iter_mut().map(|client| client.calls(1))));
    for (client, sender) in clients.iter_mut().zip(senders) {
        client.sender = Some(sender);
    }
}

#[derive(Clone, Copy)]
enum Answer {
    Json,
    Events,
}

/// Our client.
struct Ours {
    executor: Executor,
    client: Client,
}

impl Ours {
    fn new(executor: Executor, address: SocketAddr) -> Self {
        let client = executor.on(async move {
            let options = ClientOptions::new("benchmark", "1.0.0").proxy(Proxy::none()).runtime(RUNTIME);
            let (client, driver) = options.connect(format!("http://{address}/mcp")).expect("a URL");
            executor.spawn(async { drop(driver.await) });
            client
        });
        Self { executor, client }
    }

    fn run(&self, answer: Answer) {
        let client = self.client.clone();
        self.executor.on(async move {
            for _ in 0..BATCH {
                call(&client, answer).await;
            }
        });
    }

    fn run_in_flight(&self) {
        let client = self.client.clone();
        self.executor.on(async move {
            join_all((0..BATCH).map(|_| call(&client, Answer::Json))).await;
        });
    }
}

async fn call(client: &Client, answer: Answer) {
    let arguments = Echo { message: MESSAGE.into() };
    let result = match answer {
        Answer::Json => client.call_tool("echo", arguments).await,
        Answer::Events => client.call_tool("report", arguments).on_progress(drop).await,
    };
    assert_eq!(result.expect("a result").text_content(), MESSAGE);
}
