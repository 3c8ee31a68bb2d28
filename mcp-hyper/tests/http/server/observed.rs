//! Servers whose connections are observed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::server::*;
use bytes::Bytes;
use http_body_util::Full;
use mcp_hyper::WireEvent;
use serde_json::json;

/// The events of each connection, as text.
type Observed = Arc<Mutex<Vec<Vec<String>>>>;

fn observed() -> (Observed, std::net::SocketAddr) {
    let log = HandlerLog::default();
    let (listener, address) = listener();
    let connections = Observed::default();
    let seen = connections.clone();
    let options = serving(router(&log)).health("/healthz", || true).on_wire(move |client| {
        assert!(client.is_some_and(|client| client.is_loopback()));
        let number = {
            let mut all = seen.lock().unwrap();
            all.push(Vec::new());
            all.len() - 1
        };
        let seen = seen.clone();
        Some(Box::new(move |event| seen.lock().unwrap()[number].push(shown(&event))))
    });
    let (_, driver) = options.listen(listener);
    run(driver);
    (connections, address)
}

/// The kind of an event, its exchange, and what of it a test compares.
fn shown(event: &WireEvent<'_>) -> String {
    match event {
        WireEvent::Request { exchange, method, url, body, .. } => {
            let path = url.rsplit_once('/').unwrap().1;
            assert!(url.starts_with("http://"), "{url}");
            format!("{} {method} {path} {}", exchange.number(), String::from_utf8_lossy(body))
        }
        WireEvent::Head { exchange, status, headers } => {
            assert!(headers.get("mcp-session-id").is_none_or(|id| id.is_sensitive()));
            format!("{} {}", exchange.number(), status.as_u16())
        }
        WireEvent::Body { exchange, bytes } => {
            format!("{} {}", exchange.number(), String::from_utf8_lossy(bytes))
        }
        WireEvent::End { exchange, end } => format!("{} {end:?}", exchange.number()),
        WireEvent::Aborted { exchange } => format!("{} aborted", exchange.number()),
        event => format!("{event:?}"),
    }
}

fn events_of(connections: &Observed, number: usize) -> Vec<String> {
    connections.lock().unwrap()[number].clone()
}

#[test]
fn observer_of_a_server_sees_each_exchange_as_it_passes() {
    let (connections, address) = observed();
    let mut client = RawClient::connect(address);
    let (headers, body) = call("echo", &json!({ "message": "hello" }), Progress::Unwanted);
    client.post("/mcp", &headers, &body);
    let (_, answer) = client.answer();
    let expected = [format!("1 POST mcp {body}"), "1 200".into(), format!("1 {answer}"), "1 Complete".into()];
    assert_eq!(events_of(&connections, 0), expected);

    // A stream, and a response with an empty body.
    client.call("report", &json!({ "message": "hello" }), Progress::Wanted);
    client.head();
    client.event();
    client.event();
    assert_eq!(client.chunk(), None);
    client.initialize();
    let events = events_of(&connections, 0);
    let rest: Vec<_> =
        events.iter().skip(4).map(|event| event.split('{').next().unwrap().trim_end()).collect();
    assert_eq!((rest[0], rest[1]), ("2 POST mcp", "2 200"));
    let ends = rest.iter().position(|event| *event == "2 Complete").unwrap();
    assert!(rest[2..ends].iter().all(|event| event.starts_with("2 ")), "{rest:?}");
    let session = ["3 POST mcp", "3 200", "3", "3 Complete", "4 POST mcp", "4 202", "4 Complete"];
    assert_eq!(rest[ends + 1..], session);

    client.send("HEAD /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.head();
    let events = events_of(&connections, 0);
    assert_eq!(events[events.len() - 3..], ["5 HEAD mcp ", "5 405", "5 Complete"]);

    // Health checks are left out; each connection has its own observer, and no two exchanges have the same number.
    client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.answer().0.status, 200);
    let mut other = RawClient::connect(address);
    other.echo("second");
    assert_eq!(events_of(&connections, 0).len(), events.len());
    assert!(events_of(&connections, 1)[0].starts_with("6 POST mcp"));
}

/// S3.16
#[test]
fn observer_of_a_server_sees_a_client_that_disconnects() {
    let (connections, address) = observed();
    let mut client = RawClient::connect(address);
    let (headers, body) = listen();
    client.post("/mcp", &headers, &body);
    client.head();
    drop(client);
    wait_until("aborted", || events_of(&connections, 0).last().is_some_and(|event| event == "1 aborted"));
}

#[test]
fn health_check_of_an_embedded_server_opens_no_observed_connection() {
    let opened = Arc::new(AtomicUsize::new(0));
    let seen = opened.clone();
    let options = serving(router(&HandlerLog::default())).health("/healthz", || true).on_wire(move |_| {
        seen.fetch_add(1, Ordering::Relaxed);
        None
    });
    let (service, _driver) = options.service();
    let get = |path: &str| hyper::Request::get(path).body(Full::<Bytes>::default()).unwrap();
    assert_eq!(bounded(service.call(get("/healthz"))).unwrap().status(), 200);
    assert_eq!(opened.load(Ordering::Relaxed), 0);
    let _ = bounded(service.call(get("/mcp")));
    assert_eq!(opened.load(Ordering::Relaxed), 1);
}
