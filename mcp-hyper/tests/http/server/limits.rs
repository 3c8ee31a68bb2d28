//! Limits on what a client makes the server store, and for how long, over HTTP/1.1.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::common::server::*;
use mcp_hyper::mcp_proto::transport::http::server::HttpServerConfig;
use mcp_hyper::{ConnectionError, ConnectionLimit, Listener, ServerError, ServerLimits};
use serde_json::json;

const SHORT_WAIT: Duration = Duration::from_millis(200);

type Errors = Arc<Mutex<Vec<String>>>;

fn start_server(change: impl FnOnce(&mut ServerLimits)) -> (SocketAddr, HandlerLog, Errors) {
    start_configured(change, |_| {})
}

fn start_configured(
    change: impl FnOnce(&mut ServerLimits),
    configure: impl FnOnce(&mut HttpServerConfig),
) -> (SocketAddr, HandlerLog, Errors) {
    let log = HandlerLog::default();
    let errors = Errors::default();
    let (listener, address) = listener();
    let seen = errors.clone();
    let options = serving(router(&log)).configure(configure).limits(change);
    let options = options.on_error(move |error| {
        let error = match error {
            ServerError::Connection(ConnectionError::LimitReached(overrun)) => format!("{overrun:?}"),
            error => error.to_string(),
        };
        seen.lock().unwrap().push(error);
    });
    let (_, driver) = options.listen(listener);
    run(driver);
    (address, log, errors)
}

fn assert_limit_error(errors: &Errors, overrun: ConnectionLimit) {
    let name = format!("{overrun:?}");
    wait_until("the error is shown", || errors.lock().unwrap().contains(&name));
}

#[test]
fn server_refuses_headers_that_are_too_long_or_too_many() {
    let (address, ..) = start_server(|limits| {
        limits.header_bytes = 16 * 1024;
        limits.headers = 40;
    });
    let many = (0..60).map(|n| format!("x-{n}: y\r\n")).collect::<String>();
    for headers in [format!("x: {}\r\n", "y".repeat(20_000)), many] {
        let mut client = RawClient::connect(address);
        client.post("/mcp", &headers, "{}");
        assert_eq!(client.answer().0.status, 431);
        let begin = Instant::now();
        assert!(client.closed());
        assert!(begin.elapsed() < Duration::from_secs(1), "the client learns at once that nothing follows");
    }
    RawClient::connect(address).echo("others go on");
}

#[test]
fn server_cuts_a_connection_with_slow_headers() {
    let (address, _, errors) = start_server(|limits| limits.header_timeout = SHORT_WAIT);
    let mut client = RawClient::connect(address);
    let begin = Instant::now();
    for byte in "POST /mcp HTTP/1.1\r\nx: y".as_bytes() {
        client.send([*byte]);
    }
    assert!(client.closed());
    assert!(begin.elapsed() >= SHORT_WAIT);
    assert_limit_error(&errors, ConnectionLimit::Headers);
}

#[test]
fn header_timeout_applies_to_a_second_request() {
    let (address, _, errors) = start_server(|limits| limits.header_timeout = SHORT_WAIT);
    let mut client = RawClient::connect(address);
    client.echo("first");
    client.send("POST /mcp");
    assert!(client.closed());
    assert_limit_error(&errors, ConnectionLimit::Headers);
}

#[test]
fn server_answers_a_request_whose_body_does_not_arrive() {
    let (address, ..) = start_configured(|_| {}, |config| config.body_timeout = SHORT_WAIT);
    let mut client = RawClient::connect(address);
    let (headers, body) = call("echo", &json!({ "message": "hello" }), Progress::Unwanted);
    client.send(format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{{",
        body.len()
    ));
    let head = client.head();
    assert_eq!((head.status, head.get("connection")), (408, Some("close")));
    assert!(client.closed());
}

#[test]
fn server_refuses_a_body_that_arrives_steadily_but_takes_too_long() {
    let (address, ..) = start_configured(|_| {}, |config| config.body_timeout = SHORT_WAIT);
    let mut client = RawClient::connect(address);
    let (headers, _) = call("echo", &json!({}), Progress::Unwanted);
    client.send(format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: 4000000\r\n\r\n"
    ));
    let begin = Instant::now();
    // Faster than any minimum rate, until the server refuses it.
    while begin.elapsed() < SHORT_WAIT + SHORT_WAIT / 2 {
        client.send(" ".repeat(1024));
        std::thread::sleep(SHORT_WAIT / 20);
    }
    let head = client.head();
    assert_eq!((head.status, head.get("connection")), (408, Some("close")));
    assert!(client.closed());
}

/// The client sends all of it before it reads the response, which still arrives.
#[test]
fn client_receives_the_refusal_of_an_oversized_body() {
    let (address, ..) =
        start_configured(|_| {}, |config| Arc::make_mut(&mut config.server).limits.message_bytes = 64 * 1024);
    let mut client = RawClient::connect(address);
    let (headers, _) = call("echo", &json!({}), Progress::Unwanted);
    client.post("/mcp", &headers, &"x".repeat(16 * 1024 * 1024));
    assert_eq!(client.answer().0.status, 413);
    assert!(client.closed());
    RawClient::connect(address).echo("others go on");
}

#[test]
fn server_closes_a_connection_without_a_request() {
    let (address, ..) = start_server(|limits| limits.idle_timeout = SHORT_WAIT);
    let begin = Instant::now();
    let mut fresh = RawClient::connect(address);
    let mut used = RawClient::connect(address);
    used.echo("hello");
    assert!(fresh.closed());
    assert!(used.closed());
    assert!(begin.elapsed() >= SHORT_WAIT);
}

#[test]
fn handler_may_take_longer_than_every_limit() {
    const SHORT: Duration = Duration::from_millis(50);
    let limits = |limits: &mut ServerLimits| {
        limits.header_timeout = SHORT;
        (limits.idle_timeout, limits.write_timeout) = (SHORT, SHORT);
    };
    let (address, ..) = start_configured(limits, |config| config.body_timeout = SHORT);
    let mut client = RawClient::connect(address);
    client.call("soon", &json!({}), Progress::Unwanted);
    assert_eq!(text(&client.answer().1), "done");
}

#[test]
fn server_cuts_a_client_that_reads_nothing_and_serves_others() {
    let (address, _, errors) = start_server(|limits| limits.write_timeout = 2 * SHORT_WAIT);
    let mut slow = RawClient::connect(address);
    slow.call("big", &json!({ "bytes": 16 * 1024 * 1024 }), Progress::Unwanted);
    slow.head();
    let mut other = RawClient::connect(address);
    other.echo("meanwhile");
    assert_limit_error(&errors, ConnectionLimit::Write);
    other.echo("and afterwards");
}

#[test]
fn connections_above_the_limit_wait() {
    let (address, ..) = start_server(|limits| limits.connections = 2);
    let mut first = RawClient::connect(address);
    first.echo("first");
    let mut second = RawClient::connect(address);
    second.echo("second");
    let mut third = RawClient::connect(address);
    third.call("echo", &json!({ "message": "third" }), Progress::Unwanted);
    third.stream.set_read_timeout(Some(SHORT_WAIT)).unwrap();
    let waited = io::Read::read(&mut third.stream, &mut [0]).unwrap_err();
    // The second is the kind on Windows.
    assert!(matches!(waited.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{waited:?}");
    first.echo("the first goes on");
    drop(second);
    third.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(text(&third.answer().1), "third");
}

#[test]
fn old_connection_ends_with_its_next_response() {
    let (address, ..) = start_server(|limits| limits.lifetime = Some(SHORT_WAIT));
    let mut client = RawClient::connect(address);
    client.call("soon", &json!({}), Progress::Unwanted);
    let (head, body) = client.answer();
    assert_eq!((head.get("connection"), &*text(&body)), (Some("close"), "done"));
    assert!(client.closed());
}

/// A listener that fails with errors of the system.
struct FailingListener<L> {
    errors: VecDeque<io::Error>,
    listener: L,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl<L: Listener> Listener for FailingListener<L> {
    type Io = L::Io;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>> {
        self.asked.lock().unwrap().push(Instant::now());
        match self.errors.pop_front() {
            Some(error) => Poll::Ready(Err(error)),
            None => self.listener.poll_accept(cx),
        }
    }
}

#[test]
fn server_pauses_after_accept_errors_and_continues() {
    let too_many_files = || io::Error::from_raw_os_error(24);
    let gone = || io::Error::from(io::ErrorKind::ConnectionAborted);
    let errors = VecDeque::from([too_many_files(), too_many_files(), gone(), gone()]);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (listener, address) = listener();
    let listener = FailingListener { errors, listener, asked: asked.clone() };
    let shown = Errors::default();
    let seen = shown.clone();
    let options = serving(router(&HandlerLog::default()));
    let options = options.on_error(move |error| seen.lock().unwrap().push(error.to_string()));
    let (_, driver) = options.listen(listener);
    run(driver);
    RawClient::connect(address).echo("hello");
    let asked = asked.lock().unwrap();
    assert!(asked[1] - asked[0] >= Duration::from_millis(10), "the first time");
    assert!(asked[2] - asked[1] >= Duration::from_millis(20), "longer the second time");
    assert_eq!(shown.lock().unwrap().len(), 4);
}
