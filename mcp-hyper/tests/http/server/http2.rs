//! HTTP/2, and TLS under both versions.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::common::runtime::within;
use crate::common::server::*;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use mcp_hyper::ServerLimits;
use mcp_hyper::mcp_proto::front::Attachments;
use mcp_hyper::rustls::pki_types::{PrivateKeyDer, ServerName};
use mcp_hyper::rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::json;
use smol::io::{AsyncRead, AsyncWrite};
use smol::net::TcpStream;

const SHORT_WAIT: Duration = Duration::from_millis(200);

fn start_server(change: impl FnOnce(&mut ServerLimits)) -> (SocketAddr, HandlerLog) {
    let log = HandlerLog::default();
    let (listener, address) = listener();
    let (_, driver) = serving(router(&log)).limits(change).listen(listener);
    run(driver);
    (address, log)
}

async fn connect(address: SocketAddr) -> Sender {
    http2(TcpStream::connect(address).await.unwrap(), |_| {}).await
}

async fn ask(sender: &mut Sender, (headers, body): (String, String)) -> Response<Incoming> {
    let mut request = request(&headers, &body);
    // HTTP/2 carries the host here.
    request.headers_mut().remove("host");
    *request.uri_mut() = "http://localhost/mcp".parse().unwrap();
    sender.ready().await.unwrap();
    sender.send_request(request).await.unwrap()
}

async fn read_body(answer: Response<Incoming>) -> String {
    assert_eq!(answer.status(), StatusCode::OK);
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().into()).unwrap()
}

async fn read_frame(body: &mut Incoming) -> Bytes {
    body.frame().await.unwrap().unwrap().into_data().unwrap()
}

async fn echo(sender: &mut Sender, message: &str) {
    let answer = ask(sender, call("echo", &json!({ "message": message }), Progress::Unwanted)).await;
    assert_eq!(text(&read_body(answer).await), message);
}

#[test]
fn server_serves_http2_with_prior_knowledge() {
    let (address, _) = start_server(|_| {});
    bounded(async {
        let mut sender = connect(address).await;
        echo(&mut sender, "one").await;
        let calls = ["two", "three", "four"].map(|message| {
            let mut sender = sender.clone();
            async move { echo(&mut sender, message).await }
        });
        for call in calls.map(smol::spawn) {
            call.await;
        }
    });
}

#[test]
fn stream_ends_with_the_response() {
    let (address, _) = start_server(|_| {});
    bounded(async {
        let mut sender = connect(address).await;
        let answer = ask(&mut sender, call("report", &json!({ "message": "hello" }), Progress::Wanted)).await;
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let body = read_body(answer).await;
        assert!(body.contains("notifications/progress") && body.contains("hello"), "{body}");
    });
}

/// S3.16
#[test]
fn reset_stream_cancels_only_its_request() {
    let (address, log) = start_server(|_| {});
    bounded(async {
        let mut sender = connect(address).await;
        // One is reset before its response, one in the middle of it, and one continues.
        let mut before = sender.clone();
        let before =
            smol::spawn(async move { ask(&mut before, call("wait", &json!({}), Progress::Unwanted)).await });
        until("the first runs", || log.begun_calls() == 1).await;
        let mut midst = ask(&mut sender, call("wait", &json!({}), Progress::Wanted)).await.into_body();
        read_frame(&mut midst).await;
        let mut on = ask(&mut sender, call("wait", &json!({}), Progress::Wanted)).await.into_body();
        read_frame(&mut on).await;
        assert_eq!((log.begun_calls(), log.ended_calls()), (3, 0));
        before.cancel().await;
        until("the first is dropped", || log.ended_calls() == 1).await;
        drop(midst);
        until("the second is dropped", || log.ended_calls() == 2).await;
        echo(&mut sender, "and the connection goes on").await;
        assert_eq!(log.ended_calls(), 2);
    });
}

#[test]
fn server_resets_an_unread_stream_and_continues_the_others() {
    let (address, _) = start_server(|limits| limits.write_timeout = SHORT_WAIT);
    bounded(async {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut sender = http2(stream, |builder| {
            builder.initial_stream_window_size(64 * 1024).initial_connection_window_size(1024 * 1024);
        })
        .await;
        let big = call("big", &json!({ "bytes": 512 * 1024 }), Progress::Unwanted);
        let stalled = ask(&mut sender, big).await.into_body();
        echo(&mut sender, "meanwhile").await;
        smol::Timer::after(4 * SHORT_WAIT).await;
        stalled.collect().await.unwrap_err();
        echo(&mut sender, "and afterwards").await;
    });
}

#[test]
fn server_closes_a_connection_without_a_request() {
    let (address, _) = start_server(|limits| limits.idle_timeout = SHORT_WAIT);
    bounded(async {
        let mut sender = connect(address).await;
        echo(&mut sender, "hello").await;
        until("it is closed", || sender.is_closed()).await;
    });
}

struct TlsServer {
    address: SocketAddr,
    roots: RootCertStore,
}

fn start_tls_server(change: impl FnOnce(&mut ServerLimits)) -> TlsServer {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certified.cert.der().clone()], key).unwrap();
    let (listener, address) = listener();
    let options = serving(router(&HandlerLog::default())).tls(config).limits(change);
    run(options.listen(listener).1);
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    TlsServer { address, roots }
}

impl TlsServer {
    async fn connect(&self, protocols: &[&[u8]]) -> futures_rustls::client::TlsStream<TcpStream> {
        let config = ClientConfig::builder().with_root_certificates(self.roots.clone());
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        futures_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

#[test]
fn encrypted_client_negotiates_its_http_version() {
    let server = start_tls_server(|_| {});
    bounded(async {
        let stream = server.connect(&[b"h2", b"http/1.1"]).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        echo(&mut http2(stream, |_| {}).await, "hello").await;

        let stream = server.connect(&[b"http/1.1"]).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(smol_hyper::rt::FuturesIo::new(stream)).await.unwrap();
        smol::spawn(connection).detach();
        let (headers, body) = call("echo", &json!({ "message": "hello" }), Progress::Unwanted);
        let request = request(&headers, &body);
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(text(&read_body(answer).await), "hello");
    });
}

/// A stream from which the given pieces are read. A poll between two of them finds nothing.
struct ScriptedStream {
    pieces: VecDeque<Vec<u8>>,
}

impl AsyncRead for ScriptedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.pieces.front().is_some_and(Vec::is_empty) {
            self.pieces.pop_front();
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(piece) = self.pieces.front_mut() else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let length = piece.len().min(buf.len());
        buf[..length].copy_from_slice(&piece[..length]);
        piece.drain(..length);
        Poll::Ready(Ok(length))
    }
}

impl AsyncWrite for ScriptedStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The connection is reset in the poll that has accepted a request.
#[test]
fn requests_that_were_accepted_last_are_freed_with_their_connection() {
    let head = [&[0x83, 0x86, 0x04, 4][..], b"/mcp", &[0x01, 9], b"localhost"].concat();
    let length = head.len() as u8;
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let request = [&[0, 0, length, 1, 5, 0, 0, 0, 1][..], &head].concat();
    let bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..], &request].concat();
    let attached = Arc::new("attached to each request");
    let attachments = Attachments::new().with(attached.clone());
    bounded(async {
        let (service, _driver) = serving(router(&HandlerLog::default())).service();
        let stream = ScriptedStream { pieces: [bytes].into() };
        within(service.connection_with(stream, None, attachments)).await.unwrap_err();
    });
    assert_eq!(Arc::strong_count(&attached), 1);
}

#[test]
fn server_does_not_wait_long_for_a_tls_handshake() {
    let server = start_tls_server(|limits| limits.header_timeout = SHORT_WAIT);
    let mut silent = RawClient::connect(server.address);
    let mut nonsense = RawClient::connect(server.address);
    nonsense.send("POST /mcp HTTP/1.1\r\n\r\n");
    assert!(nonsense.closed());
    assert!(silent.closed());
    bounded(async {
        let stream = server.connect(&[b"h2"]).await;
        echo(&mut http2(stream, |_| {}).await, "others go on").await;
    });
}
