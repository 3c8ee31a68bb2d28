//! Exchanges: headers, streams, concurrency, and the addresses of connections.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::client::{accept, call, connect, legacy, listen, modern, run};
use futures_lite::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::HeaderValue;
use hyper::rt::Timer;
use mcp_hyper::mcp_proto::front::{ClientHandlers, HandlerError, LocalHandlers};
use mcp_hyper::mcp_proto::schema::ListRootsResult;
use mcp_hyper::mcp_proto::transport::http::ExchangeEnd;
use mcp_hyper::{ConnectError, Endpoint, HeaderErrorKind, Runtime, Smol, Stream, WireEvent};
use serde_json::json;

/// F39
#[test]
fn application_adds_headers_but_replaces_none_of_the_protocol() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move { accept(&listener).await.serve(3).await });
        let mut tokens = 0;
        let options = modern().header("X-Team", "blue").headers(move |headers| {
            tokens += 1;
            headers.insert("authorization", HeaderValue::try_from(format!("Bearer {tokens}")).unwrap());
            for name in ["mcp-method", "mcp-protocol-version", "mcp-session-id", "mcp-new", "accept"] {
                headers.insert(name, HeaderValue::from_static("evil"));
            }
            for name in ["content-type", "content-length", "host", "transfer-encoding", "connection"] {
                headers.insert(name, HeaderValue::from_static("evil"));
            }
            headers.append("last-event-id", HeaderValue::from_static("evil"));
        });
        let (client, _driver) = connect(options, &url);
        call(&client).await.unwrap();
        call(&client).await.unwrap();
        for (number, request) in server.await.iter().enumerate() {
            assert_eq!(request.header("authorization"), Some(&*format!("Bearer {}", number + 1)));
            assert_eq!(request.header("x-team"), Some("blue"));
            assert_eq!(request.header("mcp-method"), Some(request.method()));
            assert_eq!(request.header("content-type"), Some("application/json"));
            assert!(url.contains(request.header("host").unwrap()));
            assert!(request.headers.iter().all(|(_, value)| value != "evil"), "{request:?}");
        }
    });
}

#[test]
fn client_refuses_to_replace_a_header_of_the_protocol() {
    for name in ["Mcp-Session-Id", "accept", "Content-Type", "host", "Last-Event-ID", "Connection"] {
        let error = modern().header(name, "x").connect("http://localhost/").unwrap_err();
        let ConnectError::Header(error) = error else { panic!("{error}") };
        assert_eq!((error.name.as_str(), error.kind), (name, HeaderErrorKind::Reserved));
    }
    assert!(matches!(modern().connect("localhost:80").unwrap_err(), ConnectError::Url(_)));
}

#[test]
fn client_sends_credentials_of_the_url_only_as_a_header() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move { accept(&listener).await.serve(1).await });
        let (client, _driver) = connect(modern(), &url.replace("http://", "http://user:pass@"));
        client.ready().await.unwrap();
        let request = server.await.pop().unwrap();
        assert_eq!(request.header("authorization"), Some("Basic dXNlcjpwYXNz"));
        assert_eq!(request.line, "POST /mcp HTTP/1.1");
        assert!(!request.header("host").unwrap().contains('@'));
    });
}

#[test]
fn events_reach_the_caller_as_they_arrive() {
    run(async {
        let (listener, url) = listen().await;
        let (told, is_told) = smol::channel::bounded(1);
        let server = smol::spawn(async move {
            let mut wire = accept(&listener).await;
            wire.serve(1).await;
            let request = wire.request().await.unwrap();
            let token = &request.body["params"]["_meta"]["progressToken"];
            wire.events().await;
            for step in 1..=3 {
                wire.event(&json!({
                    "jsonrpc": "2.0", "method": "notifications/progress",
                    "params": { "progressToken": token, "progress": step }
                }))
                .await;
                // The next event only when this one has reached the caller.
                assert_eq!(is_told.recv().await.unwrap(), step.to_string());
            }
            // Cut at an arbitrary place.
            let answer = format!("data: {}\n\n", request.answer("done"));
            let (first, second) = answer.split_at(answer.len() / 2);
            wire.chunk(first).await;
            wire.chunk(second).await;
            wire.end_of_events().await;
            wire.serve(1).await.len()
        });
        let (client, _driver) = connect(modern(), &url);
        let result = client
            .call_tool("slow", json!({}))
            .on_progress(move |progress| told.try_send(progress.progress.to_string()).unwrap())
            .await
            .unwrap();
        assert_eq!(result.text_content(), "done");
        // And its connection serves the next call.
        call(&client).await.unwrap();
        assert_eq!(server.await, 1);
    });
}

#[test]
fn client_reads_hundreds_of_streams_at_once() {
    const STREAMS: usize = 300;

    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move {
            let mut open = Vec::new();
            let mut names = BTreeSet::new();
            let mut wire = accept(&listener).await;
            wire.serve(1).await;
            loop {
                let request = wire.request().await.unwrap();
                names.insert(request.body["params"]["name"].to_string());
                wire.events().await;
                open.push((wire, request));
                if open.len() == STREAMS {
                    break;
                }
                wire = accept(&listener).await;
            }
            (open, names)
        });
        let (client, _driver) =
            connect(modern().configure(|config| config.client.limits.exchanges = STREAMS), &url);
        client.ready().await.unwrap();
        let calls: FuturesUnordered<_> = (0..STREAMS)
            .map(|number| {
                let call = client.call_tool(format!("tool-{number}"), json!({})).start().unwrap();
                async move { (number, call.await.unwrap().text_content()) }
            })
            .collect();
        let (mut open, names) = server.await;
        assert_eq!(names.len(), STREAMS);
        let answering = smol::spawn(async move {
            // The last first: no stream waits for another.
            while let Some((mut wire, request)) = open.pop() {
                let name = request.body["params"]["name"].as_str().unwrap().to_owned();
                wire.event(&request.answer(&name)).await;
                wire.end_of_events().await;
            }
        });
        let answers: Vec<_> = calls.collect().await;
        assert_eq!(answers.len(), STREAMS);
        assert!(answers.iter().all(|(number, text)| *text == format!("tool-{number}")));
        answering.await;
    });
}

#[test]
fn wire_events_show_both_directions() {
    run(async {
        let (listener, url) = listen().await;
        let _server = smol::spawn(async move { accept(&listener).await.serve(usize::MAX).await });
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let options = modern().header("authorization", "Bearer secret").on_wire(move |event| {
            assert!(!format!("{event:?}").contains("secret"));
            log.lock().unwrap().push(match event {
                WireEvent::Request { method, url, headers, body, .. } => {
                    assert!(headers.contains_key("mcp-method"));
                    assert!(body.starts_with(b"{"));
                    format!("{method} {url}")
                }
                WireEvent::Head { status, headers, .. } => {
                    format!("{status} {}", headers["content-type"].to_str().unwrap())
                }
                WireEvent::Body { bytes, .. } => {
                    String::from_utf8_lossy(bytes.get(..10).unwrap()).into_owned()
                }
                WireEvent::End { end, .. } => {
                    assert_eq!(*end, ExchangeEnd::Complete);
                    "end".into()
                }
                other => panic!("{other:?}"),
            });
        });
        let (client, driver) = connect(options, &url);
        client.ready().await.unwrap();
        client.close().await;
        driver.await.unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(*seen, [&*format!("POST {url}"), "200 OK application/json", "{\"jsonrpc\"", "end"]);
    });
}

#[test]
fn legacy_server_sends_a_request_to_the_client() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move {
            let mut wire = accept(&listener).await;
            wire.serve(2).await;
            let call = wire.request().await.unwrap();
            wire.events().await;
            wire.event(&json!({ "jsonrpc": "2.0", "id": "ask", "method": "roots/list" })).await;
            let mut other = accept(&listener).await;
            let reply = other.request().await.unwrap();
            other.write("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
            wire.event(&call.answer("asked")).await;
            wire.end_of_events().await;
            reply.body
        });
        let handlers =
            ClientHandlers::new().roots(async |_, _| Ok::<_, HandlerError>(ListRootsResult::new(Vec::new())));
        let (client, _driver) = connect(legacy().handlers(handlers), &url);
        assert_eq!(call(&client).await.unwrap(), "asked");
        assert_eq!(server.await, json!({ "jsonrpc": "2.0", "id": "ask", "result": { "roots": [] } }));
    });
}

#[test]
fn local_handlers_make_a_local_driver() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move { accept(&listener).await.serve(2).await.len() });
        let handlers = ClientHandlers::<LocalHandlers>::local();
        let (client, driver) = modern().handlers(handlers).connect(url).unwrap();
        let called = async {
            call(&client).await.unwrap();
            client.close().await
        };
        let (_, ended) = futures_lite::future::zip(called, driver).await;
        ended.unwrap();
        assert_eq!(server.await, 2);
    });
}

#[cfg(unix)]
#[test]
fn client_connects_to_a_unix_socket_with_any_host_in_the_url() {
    use crate::common::client::ServerConnection;

    run(async {
        let path = std::env::temp_dir().join(format!("mcp-hyper-{}.sock", std::process::id()));
        let listener = smol::net::unix::UnixListener::bind(&path).unwrap();
        let server = smol::spawn(async move {
            ServerConnection { stream: listener.accept().await.unwrap().0 }.serve(usize::MAX).await
        });
        let (client, driver) = connect(modern().unix_socket(&path), "http://any.example/mcp");
        assert_eq!(call(&client).await.unwrap(), "1");
        client.close().await;
        driver.await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let requests = server.await;
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0].header("host"), Some("any.example"));
    });
}

/// Smol, except that some addresses never answer and others refuse.
#[derive(Debug)]
struct PartialRuntime {
    addresses: Vec<SocketAddr>,
}

const SILENT: &str = "192.0.2.1:1";
const REFUSING: &str = "192.0.2.2:1";

impl Runtime for PartialRuntime {
    async fn resolve(&self, host: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        assert_eq!(host, "server.example");
        Ok(self.addresses.clone())
    }

    async fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
        match endpoint {
            Endpoint::Tcp(address) if address.to_string() == SILENT => std::future::pending().await,
            Endpoint::Tcp(address) if address.to_string() == REFUSING => {
                Err(io::ErrorKind::ConnectionRefused.into())
            }
            endpoint => Smol.connect(endpoint).await,
        }
    }

    fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
        Smol.timer()
    }
}

#[test]
fn connecting_fails_after_its_timeout() {
    run(async {
        let runtime = PartialRuntime { addresses: vec![SILENT.parse().unwrap()] };
        let options = modern().runtime(runtime).connect_timeout(Duration::from_millis(50));
        let options = options.configure(|config| config.backoff.attempts = 0);
        let (client, driver) = connect(options, "http://server.example/");
        let error = call(&client).await.unwrap_err().to_string();
        assert!(error.contains("no connection to server.example:80 within 50 ms"), "{error}");
        assert!(driver.await.is_err());
    });
}

#[test]
fn client_finds_the_address_that_answers_among_others() {
    run(async {
        let (listener, url) = listen().await;
        let good = listener.local_addr().unwrap();
        let server = smol::spawn(async move { accept(&listener).await.serve(1).await.len() });
        let runtime =
            PartialRuntime { addresses: vec![SILENT.parse().unwrap(), REFUSING.parse().unwrap(), good] };
        let (client, _driver) =
            connect(modern().runtime(runtime), &url.replace("127.0.0.1", "server.example"));
        client.ready().await.unwrap();
        assert_eq!(server.await, 1);
    });
}

#[test]
fn name_without_addresses_is_an_error() {
    run(async {
        let options = modern().runtime(PartialRuntime { addresses: Vec::new() });
        let options = options.configure(|config| config.backoff.attempts = 0);
        let (client, _driver) = connect(options, "http://server.example/");
        let error = call(&client).await.unwrap_err().to_string();
        assert!(error.contains("no address"), "{error}");
    });
}
