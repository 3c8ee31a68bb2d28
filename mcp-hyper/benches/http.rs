//! Sequential requests over HTTP/1.1 and the loopback, both ends on one thread: hyper against hyper, and our server.
//!
//! `cargo bench -p mcp-hyper --bench http`

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
use mcp_hyper::ServerOptions;
use mcp_hyper::mcp_proto::front::Router;
use measure::measure;
use smol::net::TcpListener;
use smol::{Async, LocalExecutor};
use smol_hyper::rt::FuturesIo;

/// Requests per run, so that entering the executor counts for little.
const BATCH: usize = 32;

fn main() {
    // It lives as long as the program.
    let executor: &'static LocalExecutor<'static> = Box::leak(Box::new(LocalExecutor::new()));
    let bare = echo(executor);
    let (listener, ours) = listener();
    let (_server, driver) = ServerOptions::new(Router::new("echo", "1.0.0")).listen(listener);
    executor.spawn(driver).detach();
    let mut bare = Caller::new(executor, bare);
    let mut ours = Caller::new(executor, ours);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, times, name] = &arguments[..]
        && flag == "--repeat"
    {
        let times: usize = times.parse().expect("a number of times");
        let row = if name == "hyper" { &mut bare } else { &mut ours };
        (0..times).for_each(|_| row.run());
        return;
    }
    let costs = measure([&mut || bare.run(), &mut || ours.run()]);
    for (name, cost) in ["hyper", "ours"].into_iter().zip(costs) {
        let each = cost.nanoseconds / BATCH as f64;
        println!(
            "{name:10} {:8.0} req/s {:6.1} µs {:5} allocations, {:.2} of hyper",
            1e9 / each,
            each / 1e3,
            cost.allocations / BATCH as u64,
            costs[0].nanoseconds / cost.nanoseconds
        );
    }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    (listener.try_into().expect("a listener"), address)
}

/// A server of hyper's alone.
fn echo(executor: &'static LocalExecutor<'static>) -> SocketAddr {
    let (listener, address) = listener();
    executor
        .spawn(async move {
            let listener: Arc<Async<std::net::TcpListener>> = listener.into();
            let (stream, _) = listener.accept().await.expect("a client");
            stream.get_ref().set_nodelay(true).expect("no delay");
            let service = service_fn(async |request: Request<Incoming>| {
                let body = request.into_body().collect().await.expect("a body").to_bytes();
                Ok::<_, Infallible>(Response::new(Full::new(body)))
            });
            let _ = http1::Builder::new()
                .header_read_timeout(None)
                .serve_connection(FuturesIo::new(stream), service)
                .await;
        })
        .detach();
    address
}

struct Caller {
    executor: &'static LocalExecutor<'static>,
    sender: SendRequest<Full<Bytes>>,
}

impl Caller {
    fn new(executor: &'static LocalExecutor<'static>, address: SocketAddr) -> Self {
        let sender = on(executor, async {
            let stream = Async::<std::net::TcpStream>::connect(address).await.expect("a connection");
            stream.get_ref().set_nodelay(true).expect("no delay");
            let (sender, connection) =
                hyper::client::conn::http1::handshake(FuturesIo::new(stream)).await.expect("a handshake");
            executor.spawn(connection).detach();
            sender
        });
        Self { executor, sender }
    }

    fn run(&mut self) {
        let Self { executor, sender } = self;
        on(executor, async {
            for _ in 0..BATCH {
                let request = Request::post("http://localhost/mcp")
                    .header("host", "localhost")
                    .header("content-type", "application/json")
                    .header("accept", "application/json, text/event-stream")
                    .body(Full::new(Bytes::from_static(&[b'x'; 200])))
                    .expect("a request");
                let answer = sender.send_request(request).await.expect("an answer");
                let body = answer.into_body().collect().await.expect("its body").to_bytes();
                assert_eq!(body.len(), 200);
            }
        });
    }
}

fn on<T>(executor: &'static LocalExecutor<'static>, future: impl Future<Output = T>) -> T {
    smol::block_on(executor.run(future))
}
