//! HTTP/2 with prior knowledge on plain connections.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::client::{TestOptions, accept, answer_to, call, connect, listen, modern, run};
use crate::common::h2_server::Server;
use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _};
use futures_util::stream::FuturesUnordered;
use h2::Reason;
use http::Response;
use mcp_hyper::WireEvent;
use mcp_hyper::mcp_proto::front::Error;
use mcp_hyper::mcp_proto::peer::client::CloseReason;
use mcp_hyper::mcp_proto::transport::http::{ExchangeEnd, SentState};
use serde_json::json;
use smol::net::TcpStream;

fn http2() -> TestOptions {
    modern().http2_prior_knowledge()
}

/// The ends of exchanges that failed.
type Failures = Arc<Mutex<Vec<SentState>>>;

fn watched() -> (TestOptions, Failures) {
    let failures = Failures::default();
    let seen = failures.clone();
    let options = http2().configure(|config| config.backoff.first = Duration::from_millis(1));
    let options = options.on_wire(move |event| {
        if let WireEvent::End { end: ExchangeEnd::Failed { sent, .. }, .. } = event {
            seen.lock().unwrap().push(*sent);
        }
    });
    (options, failures)
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A server that writes single frames.
struct FrameServer(TcpStream);

impl FrameServer {
    async fn expect(&mut self, text: &[u8]) {
        let mut received = Vec::new();
        while !received.windows(text.len()).any(|window| window == text) {
            let mut piece = [0; 4096];
            let count = self.0.read(&mut piece).await.unwrap();
            assert!(count > 0, "the client closed the connection");
            received.extend_from_slice(&piece[..count]);
        }
    }

    async fn frame(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        let [.., a, b, c] = payload.len().to_be_bytes();
        self.0.write_all(&[a, b, c, kind, flags, 0, 0, 0, stream]).await.unwrap();
        self.0.write_all(payload).await.unwrap();
    }
}

#[test]
fn many_requests_share_a_connection() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move {
            let mut server = Server::handshake(accept(&listener).await.stream, 100).await;
            server.serve().await
        });
        let (client, driver) = connect(http2(), &url);
        client.ready().await.unwrap();
        let calls: FuturesUnordered<_> = (0..90).map(|_| call(&client)).collect();
        let texts: Vec<_> = calls.map(Result::unwrap).collect().await;
        assert!(texts.iter().all(|text| *text == url));
        assert_eq!(client.close().await, CloseReason::Done);
        driver.await.unwrap();
        assert_eq!(server.await, 91);
    });
}

#[test]
fn client_opens_more_connections_to_a_server_that_allows_few_streams() {
    run(async {
        let (listener, url) = listen().await;
        let (client, _driver) = connect(http2(), &url);
        let server = smol::spawn(async move {
            let mut servers = Vec::new();
            let mut held = Vec::new();
            for number in 0..4 {
                let mut server = Server::handshake(accept(&listener).await.stream, 2).await;
                if number == 0 {
                    server.answer_one().await;
                }
                for _ in 0..2 {
                    held.push(server.next().await.unwrap());
                }
                servers.push(smol::spawn(async move { server.serve().await }));
            }
            for stream in held {
                stream.answer().await;
            }
            servers
        });
        client.ready().await.unwrap();
        let mut running = Vec::new();
        // One after the other, so that the client knows the limit of each.
        for _ in 0..8 {
            running.push(client.call_tool("tool", json!({})).start().unwrap());
        }
        for call in running {
            call.await.unwrap();
        }
        server.await;
    });
}

#[test]
fn refused_stream_counts_as_not_sent() {
    run(async {
        let (listener, url) = listen().await;
        let (options, failures) = watched();
        let (client, _driver) = connect(options, &url);
        let server = smol::spawn(async move {
            let mut server = Server::handshake(accept(&listener).await.stream, 100).await;
            server.answer_one().await;
            server.next().await.unwrap().respond.send_reset(Reason::REFUSED_STREAM);
            server.serve().await
        });
        assert_eq!(call(&client).await.unwrap(), url, "sent again on the same connection");
        assert_eq!(*failures.lock().unwrap(), [SentState::NotSent]);
        drop(client);
        assert_eq!(server.await, 1);
    });
}

#[test]
fn reset_stream_counts_as_possibly_sent() {
    run(async {
        let (listener, url) = listen().await;
        let (options, failures) = watched();
        let (client, _driver) = connect(options, &url);
        let server = smol::spawn(async move {
            let mut server = Server::handshake(accept(&listener).await.stream, 100).await;
            server.answer_one().await;
            server.next().await.unwrap().respond.send_reset(Reason::INTERNAL_ERROR);
            server.serve().await
        });
        assert!(matches!(call(&client).await, Err(Error::Lost(_))));
        assert_eq!(*failures.lock().unwrap(), [SentState::MaybeSent]);
        drop(client);
        assert_eq!(server.await, 0);
    });
}

#[test]
fn client_continues_accepted_streams_after_goaway_and_moves_the_others() {
    run(async {
        let (listener, url) = listen().await;
        let (options, failures) = watched();
        let (client, _driver) = connect(options, &url);
        let (seen, is_seen) = smol::channel::bounded(1);
        let (gone, is_gone) = smol::channel::bounded(1);
        let server = smol::spawn(async move {
            let mut first = Server::handshake(accept(&listener).await.stream, 100).await;
            first.answer_one().await;
            let known = first.next().await.unwrap();
            first.0.graceful_shutdown();
            seen.send(()).await.unwrap();
            smol::spawn(known.answer()).detach();
            assert_eq!(first.serve().await, 0);
            gone.send(()).await.unwrap();
            let mut second = Server::handshake(accept(&listener).await.stream, 100).await;
            second.serve().await
        });
        client.ready().await.unwrap();
        let known = client.call_tool("known", json!({})).start().unwrap();
        is_seen.recv().await.unwrap();
        known.await.unwrap();
        is_gone.recv().await.unwrap();
        call(&client).await.unwrap();
        drop(client);
        assert_eq!(server.await, 1);
        assert_eq!(*failures.lock().unwrap(), []);
    });
}

#[test]
fn request_beyond_the_last_stream_of_goaway_counts_as_not_sent() {
    run(async {
        let (listener, url) = listen().await;
        let (options, failures) = watched();
        let (client, _driver) = connect(options, &url);
        let server = smol::spawn(async move {
            let mut raw = FrameServer(accept(&listener).await.stream);
            raw.expect(b"server/discover").await;
            raw.frame(SETTINGS, 0, 0, &[]).await;
            raw.frame(HEADERS, END_HEADERS, 1, b"\x88\x0f\x10\x10application/json").await;
            let answer = answer_to(&json!({ "id": 1, "method": "server/discover" }), "").to_string();
            raw.frame(DATA, END_STREAM, 1, answer.as_bytes()).await;
            raw.expect(b"tools/call").await;
            // The last processed stream is number 1; no error.
            raw.frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]).await;
            let mut second = Server::handshake(accept(&listener).await.stream, 100).await;
            second.serve().await
        });
        call(&client).await.unwrap();
        assert_eq!(*failures.lock().unwrap(), [SentState::NotSent]);
        drop(client);
        assert_eq!(server.await, 1);
    });
}

#[test]
fn broken_connection_loses_its_requests() {
    run(async {
        let (listener, url) = listen().await;
        let (options, failures) = watched();
        let (client, _driver) = connect(options, &url);
        let server = smol::spawn(async move {
            let mut server = Server::handshake(accept(&listener).await.stream, 100).await;
            server.answer_one().await;
            server.next().await.unwrap();
            drop(server);
            let mut server = Server::handshake(accept(&listener).await.stream, 100).await;
            server.serve().await
        });
        client.ready().await.unwrap();
        assert!(matches!(call(&client).await, Err(Error::Lost(_))));
        assert_eq!(call(&client).await.unwrap(), url);
        assert_eq!(*failures.lock().unwrap(), [SentState::MaybeSent]);
        drop(client);
        assert_eq!(server.await, 1);
    });
}

#[test]
fn dropping_a_call_resets_only_its_stream() {
    run(async {
        let (listener, url) = listen().await;
        let (client, _driver) = connect(http2(), &url);
        let (seen, is_seen) = smol::channel::bounded(1);
        let server = smol::spawn(async move {
            let mut server = Server::handshake(accept(&listener).await.stream, 100).await;
            server.answer_one().await;
            let mut dropped = server.next().await.unwrap();
            seen.send(()).await.unwrap();
            let serving = smol::spawn(async move { server.serve().await });
            let head = Response::new(());
            let reset = futures_lite::future::poll_fn(|cx| dropped.respond.poll_reset(cx)).await;
            assert_eq!(reset.unwrap(), Reason::CANCEL);
            assert!(dropped.respond.send_response(head, true).is_err());
            serving.await
        });
        client.ready().await.unwrap();
        let dropped = client.call_tool("dropped", json!({})).start().unwrap();
        is_seen.recv().await.unwrap();
        drop(dropped);
        call(&client).await.unwrap();
        drop(client);
        assert_eq!(server.await, 1);
    });
}

#[test]
fn client_closes_an_idle_connection() {
    run(async {
        let (listener, url) = listen().await;
        let (client, _driver) = connect(http2().idle_timeout(Duration::from_millis(50)), &url);
        let server = smol::spawn(async move {
            let mut server = Server::handshake(accept(&listener).await.stream, 100).await;
            server.serve().await
        });
        call(&client).await.unwrap();
        assert_eq!(server.await, 2);
    });
}
