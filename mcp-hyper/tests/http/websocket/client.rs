//! Clients against servers whose frames the test chooses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_tungstenite::tungstenite::Message;
use async_tungstenite::tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use async_tungstenite::tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};
use async_tungstenite::{WebSocketStream, accept_hdr_async};
use futures_lite::StreamExt as _;
use mcp_hyper::Proxy;
use mcp_hyper::mcp_proto::peer::client::EraPolicy;
use serde_json::{Value, json};
use smol::net::TcpStream;

use super::pair::speaking;
use crate::common::client::{accept, call, connect, listen, run};

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// Keeps the head of a request, and answers it with a subprotocol.
struct Handshake {
    head: Arc<Mutex<Option<Request>>>,
    protocol: Option<&'static str>,
}

impl Callback for Handshake {
    fn on_request(self, request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
        *self.head.lock().unwrap() = Some(request.clone());
        if let Some(protocol) = self.protocol {
            response.headers_mut().insert("sec-websocket-protocol", protocol.parse().unwrap());
        }
        Ok(response)
    }
}

/// Accepts a WebSocket; returns it with the head of its request.
pub(crate) async fn accept_socket(stream: TcpStream, protocol: Option<&'static str>) -> (Socket, Request) {
    let head = Arc::default();
    let handshake = Handshake { head: Arc::clone(&head), protocol };
    let socket = accept_hdr_async(stream, handshake).await.unwrap();
    let head = head.lock().unwrap().take().unwrap();
    (socket, head)
}

async fn request(socket: &mut Socket) -> Value {
    loop {
        if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
            let message: Value = serde_json::from_str(&text).unwrap();
            if message.get("id").is_some() {
                return message;
            }
        }
    }
}

/// Answers the client's handshake of 2025-11-25.
async fn initialize(socket: &mut Socket) {
    let id = request(socket).await["id"].clone();
    let result = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "s", "version": "1" },
    });
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    socket.send(Message::text(answer.to_string())).await.unwrap();
}

fn ws(url: &str) -> String {
    url.replace("http:", "ws:")
}

/// F61
#[test]
fn close_code_and_reason_reach_the_callers() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move {
            let (mut socket, _) = accept_socket(accept(&listener).await.stream, Some("mcp")).await;
            initialize(&mut socket).await;
            request(&mut socket).await;
            let reason = "out of \u{1b}[31mdisk".into();
            socket.close(Some(CloseFrame { code: CloseCode::Error, reason })).await.unwrap();
            while let Some(Ok(_)) = socket.next().await {}
        });
        let (client, driver) = connect(speaking(EraPolicy::LegacyOnly), &ws(&url));
        let error = call(&client).await.unwrap_err().to_string();
        assert!(error.contains("1011 (internal error): out of \\u{1b}[31mdisk"), "{error}");
        let ended = driver.await.unwrap_err().to_string();
        assert!(ended.contains("1011"), "{ended}");
        server.await;
    });
}

/// F61
#[test]
fn connection_that_breaks_off_fails_all_calls() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move {
            let (mut socket, _) = accept_socket(accept(&listener).await.stream, Some("mcp")).await;
            initialize(&mut socket).await;
            request(&mut socket).await;
            request(&mut socket).await;
        });
        let (client, driver) = connect(speaking(EraPolicy::LegacyOnly), &ws(&url));
        let (one, two) = futures_lite::future::zip(call(&client), call(&client)).await;
        for error in [one.unwrap_err(), two.unwrap_err()] {
            assert!(error.to_string().contains("without a close frame"), "{error}");
        }
        driver.await.unwrap_err();
        server.await;
    });
}

#[test]
fn client_pings_at_its_interval() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move {
            let (mut socket, _) = accept_socket(accept(&listener).await.stream, Some("mcp")).await;
            initialize(&mut socket).await;
            while !matches!(socket.next().await.unwrap().unwrap(), Message::Ping(_)) {}
        });
        let options = speaking(EraPolicy::LegacyOnly).ping_interval(Some(Duration::from_millis(50)));
        let (_client, _driver) = connect(options, &ws(&url));
        server.await;
    });
}

#[test]
fn client_sends_its_headers_and_accepts_a_server_without_subprotocols() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move {
            let (mut socket, head) = accept_socket(accept(&listener).await.stream, None).await;
            initialize(&mut socket).await;
            let closed = loop {
                match socket.next().await.unwrap().unwrap() {
                    Message::Close(frame) => break frame.unwrap(),
                    _ => continue,
                }
            };
            assert_eq!(closed.code, CloseCode::Normal);
            head
        });
        let options = speaking(EraPolicy::LegacyOnly).header("x-team", "blue");
        let (client, driver) = connect(options, &ws(&url).replace("//", "//ada:secret@"));
        client.ready().await.unwrap();
        client.close().await;
        driver.await.unwrap();
        let head = server.await;
        assert_eq!(head.uri().path(), "/mcp");
        let header = |name: &str| head.headers().get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!(header("x-team"), "blue");
        assert_eq!(header("authorization"), "Basic YWRhOnNlY3JldA==");
        assert_eq!(header("sec-websocket-protocol"), "mcp");
        assert!(head.headers().get("origin").is_none());
        assert!(head.headers().get("sec-websocket-extensions").is_none());
    });
}

#[test]
fn client_tunnels_through_a_proxy() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move {
            let mut wire = accept(&listener).await;
            assert_eq!(wire.request().await.unwrap().line, "CONNECT server.example:80 HTTP/1.1");
            wire.write("HTTP/1.1 200 OK\r\n\r\n").await;
            let (mut socket, head) = accept_socket(wire.stream, Some("mcp")).await;
            assert_eq!(head.headers()["host"], "server.example");
            initialize(&mut socket).await;
            while let Some(Ok(_)) = socket.next().await {}
        });
        let options = speaking(EraPolicy::LegacyOnly).proxy(Proxy::through(&url).unwrap());
        let (client, _driver) = connect(options, "ws://server.example/mcp");
        client.ready().await.unwrap();
        client.close().await;
        server.await;
    });
}

#[test]
fn client_explains_a_refused_upgrade() {
    run(async {
        for (answer, words) in [
            (
                "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
                "the server answered the upgrade to a WebSocket with HTTP status 404",
            ),
            ("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n", "no login configured"),
            (
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
                "not that of a WebSocket",
            ),
        ] {
            let (listener, url) = listen().await;
            let server = smol::spawn(async move {
                loop {
                    let mut wire = accept(&listener).await;
                    wire.request().await;
                    wire.write(answer).await;
                }
            });
            let (client, _driver) = connect(speaking(EraPolicy::LegacyOnly), &ws(&url));
            let error = client.ready().await.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            server.cancel().await;
        }
    });
}
