//! The shutdown of a server.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::server::*;
use mcp_hyper::mcp_proto::front::Router;
use mcp_hyper::mcp_proto::front::http::HttpServer;
use mcp_hyper::mcp_proto::peer::server::ListKind;
use mcp_hyper::serve;
use serde_json::json;

struct TestServer {
    log: HandlerLog,
    address: SocketAddr,
    server: HttpServer,
    driver: JoinHandle<std::io::Result<()>>,
}

fn start_server(close_timeout: Duration) -> TestServer {
    let log = HandlerLog::default();
    let (listener, address) = listener();
    let options = serving(router(&log)).configure(|config| {
        Arc::make_mut(&mut config.server).close_timeout = close_timeout;
    });
    let (server, driver) = options.listen(listener);
    TestServer { log, address, server, driver: run(driver) }
}

/// C6.4
#[test]
fn subscription_ends_by_its_result_and_the_driver_with_it() {
    let TestServer { address, server, driver, .. } = start_server(Duration::from_secs(2));
    let mut client = RawClient::connect(address);
    let (headers, body) = listen();
    client.post("/mcp", &headers, &body);
    assert_eq!(client.head().get("content-type"), Some("text/event-stream"));
    assert_eq!(client.event()["method"], "notifications/subscriptions/acknowledged");
    server.list_changed(ListKind::Tools);
    assert_eq!(client.event()["method"], "notifications/tools/list_changed");
    let begin = Instant::now();
    server.close();
    assert!(client.event()["result"].is_object());
    assert_eq!(client.chunk(), None);
    assert!(client.closed());
    ended(driver).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(2), "no timeout was needed");
}

#[test]
fn closing_server_answers_open_requests_and_accepts_no_connections() {
    let TestServer { log, address, server, driver } = start_server(Duration::from_secs(2));
    let mut idle = RawClient::connect(address);
    idle.echo("hello");
    let mut fresh = RawClient::connect(address);
    let mut busy = RawClient::connect(address);
    busy.call("soon", &json!({}), Progress::Unwanted);
    wait_until("the handler runs", || log.begun_calls() == 1);
    server.close();
    assert!(idle.closed());
    assert!(fresh.closed());
    wait_until("the server accepts no connections", || TcpStream::connect(address).is_err());
    assert_eq!(log.ended_calls(), 0, "the handler still runs");
    let (head, body) = busy.answer();
    assert_eq!((head.get("connection"), &*text(&body)), (Some("close"), "done"));
    ended(driver).unwrap();
}

/// The status of a balancer's health check, which may be older than HTTP/1.1 and name no host.
fn health(address: SocketAddr) -> u16 {
    let mut client = RawClient::connect(address);
    client.send("GET /healthz HTTP/1.0\r\n\r\n");
    client.head().status
}

#[test]
fn draining_server_serves_on_and_fails_health_checks_until_it_closes() {
    let (listener, address) = listener();
    let is_ready = Arc::new(AtomicBool::new(true));
    let ready = is_ready.clone();
    let options = serving(router(&HandlerLog::default())).health("/healthz", move || ready.load(SeqCst));
    let (server, driver) = options.listen(listener);
    let driver = run(driver);
    assert_eq!(health(address), 200);
    is_ready.store(false, SeqCst);
    assert_eq!(health(address), 503);
    is_ready.store(true, SeqCst);
    server.drain(Duration::MAX);
    assert_eq!(health(address), 503);
    let mut client = RawClient::connect(address);
    client.echo("still here");
    server.drain(Duration::from_millis(1));
    assert!(client.closed());
    ended(driver).unwrap();
    assert!(server.is_closing());
}

#[test]
fn closing_server_drops_a_handler_that_does_not_end() {
    let TestServer { log, address, server, driver } = start_server(Duration::from_millis(100));
    let mut client = RawClient::connect(address);
    client.call("wait", &json!({}), Progress::Unwanted);
    wait_until("the handler runs", || log.begun_calls() == 1);
    server.close();
    assert!(client.closed());
    assert_eq!(log.ended_calls(), 1);
    ended(driver).unwrap();
}

#[test]
fn closing_server_does_not_wait_for_a_client_that_does_not_read() {
    let TestServer { address, server, driver, .. } = start_server(Duration::from_millis(100));
    let mut client = RawClient::connect(address);
    client.call("big", &json!({ "bytes": 16 * 1024 * 1024 }), Progress::Unwanted);
    client.head();
    server.close();
    ended(driver).unwrap();
}

#[test]
fn closing_server_sends_goaway_and_finishes_http2_streams() {
    let TestServer { log, address, server, driver } = start_server(Duration::from_secs(2));
    bounded(async {
        let mut sender = http2(smol::net::TcpStream::connect(address).await.unwrap(), |_| {}).await;
        let (headers, body) = call("soon", &json!({}), Progress::Unwanted);
        let mut request = request(&headers, &body);
        *request.uri_mut() = "http://localhost/mcp".parse().unwrap();
        let answer = smol::spawn(sender.send_request(request));
        until("the handler runs", || log.begun_calls() == 1).await;
        server.close();
        let body = http_body_util::BodyExt::collect(answer.await.unwrap().into_body()).await.unwrap();
        assert_eq!(text(std::str::from_utf8(&body.to_bytes()).unwrap()), "done");
        until("it is closed", || sender.is_closed()).await;
    });
    ended(driver).unwrap();
}

#[test]
fn server_refuses_an_invalid_router() {
    let (listener, address) = listener();
    let router = Router::new("server", "1");
    let tool = || mcp_hyper::mcp_proto::schema::Tool::new("twice", "", json!({ "type": "object" }));
    let handler = async |_: mcp_hyper::mcp_proto::front::NoArguments, _| "";
    let router = router.tool_with(tool(), handler).tool_with(tool(), handler);
    let error = bounded(serve(listener, router)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    // This is what a program prints whose `main` returns it.
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(error.to_string().contains("twice") && !error.to_string().contains("Custom"), "{error}");
    assert!(TcpStream::connect(address).is_err());
}
