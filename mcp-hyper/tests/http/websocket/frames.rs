//! Frames that no client of this crate sends, and the server's answers.

use std::time::Duration;

use async_tungstenite::tungstenite::Message;
use async_tungstenite::tungstenite::client::IntoClientRequest as _;
use async_tungstenite::tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};
use async_tungstenite::{WebSocketStream, client_async};
use futures_lite::StreamExt as _;
use serde_json::{Value, json};
use smol::net::TcpStream;

use super::pair::TestServer;
use crate::common::client::run;
use crate::common::runtime::within;
use crate::common::server::{HandlerLog, listener, router, serving, until};

pub(crate) async fn open(url: &str) -> WebSocketStream<TcpStream> {
    let address = url.split('/').nth(2).unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
    client_async(request, stream).await.unwrap().0
}

async fn close_frame(socket: &mut WebSocketStream<TcpStream>) -> CloseFrame {
    loop {
        if let Message::Close(frame) = socket.next().await.unwrap().unwrap() {
            return frame.unwrap();
        }
    }
}

#[test]
fn server_answers_pings_with_their_payload() {
    run(async {
        let server = TestServer::start(|options| options);
        let mut socket = open(&server.url).await;
        socket.send(Message::Ping("are you there".into())).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong("are you there".into()));
    });
}

#[test]
fn server_pings_at_its_interval() {
    run(async {
        let interval = Some(Duration::from_millis(50));
        let server = TestServer::start(|options| options.limits(|limits| limits.ping_interval = interval));
        let mut socket = open(&server.url).await;
        assert!(matches!(socket.next().await.unwrap().unwrap(), Message::Ping(_)));
    });
}

/// K15
#[test]
fn each_text_message_is_one_json_rpc_message() {
    run(async {
        let server = TestServer::start(|options| options);
        let mut socket = open(&server.url).await;
        let initialize = json!({ "jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
        } });
        socket.send(Message::text(initialize.to_string())).await.unwrap();
        let Message::Text(text) = socket.next().await.unwrap().unwrap() else { panic!() };
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&answer["id"], &answer["result"]["protocolVersion"]),
            (&json!("a"), &json!("2025-06-18"))
        );
        assert!(!text.contains('\n'));

        socket.send(Message::text("no JSON")).await.unwrap();
        let Message::Text(text) = socket.next().await.unwrap().unwrap() else { panic!() };
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["error"]["code"], -32700);
    });
}

/// F61
#[test]
fn server_closes_with_a_code_for_each_violation() {
    run(async {
        let (listener, address) = listener();
        let (errors, reported) = smol::channel::unbounded();
        let options = serving(router(&HandlerLog::default())).websocket();
        let options = options.configure(|config| config.body_bytes = 1000);
        let options = options.on_error(move |error| errors.try_send(error.to_string()).unwrap());
        let (_, driver) = options.listen(listener);
        let _driver = smol::spawn(within(driver));
        let url = format!("ws://{address}/mcp");
        for (message, code, words) in [
            (Message::binary("{}"), CloseCode::Unsupported, "binary"),
            (
                Message::text("x".repeat(1001)),
                CloseCode::Size,
                "1001 bytes; 1000 are accepted: `Limits::message_bytes`",
            ),
        ] {
            let mut socket = open(&url).await;
            socket.send(message).await.unwrap();
            assert_eq!(close_frame(&mut socket).await.code, code);
            assert!(socket.next().await.is_none());
            drop(socket);
            let error = reported.recv().await.unwrap();
            assert!(error.contains(words), "{error}");
        }
        let mut socket = open(&url).await;
        socket.close(Some(CloseFrame { code: CloseCode::Normal, reason: "bye".into() })).await.unwrap();
        assert_eq!(close_frame(&mut socket).await.code, CloseCode::Normal);
        assert!(socket.next().await.is_none());
        assert!(reported.is_empty());
    });
}

#[test]
fn server_charges_an_incomplete_message_to_the_byte_budget() {
    use futures_lite::AsyncWriteExt as _;
    use mcp_hyper::mcp_proto::quota::ByteLimits;

    run(async {
        let limits = ByteLimits { total: 400_000, unauthenticated: 400_000, owner: 200_000 };
        let server = TestServer::start(|options| options.configure(|config| config.byte_limits = limits));
        let mut socket = open(&server.url).await;
        // The first frame of a message, of 100,000 bytes, masked by zeros: its head alone is charged with all of them.
        socket.get_mut().write_all(b"\x01\xff\0\0\0\0\0\x01\x86\xa0\0\0\0\0").await.unwrap();
        let counted = server.server.handle().clone();
        until("the bytes are charged", || (80_000..=100_100).contains(&counted.bytes_used())).await;
        socket.get_mut().write_all(&[b' '; 100_000]).await.unwrap();
        // The next one exceeds three quarters of the owner's limit.
        socket.get_mut().write_all(b"\x80\xff\0\0\0\0\0\x01\x86\xa0\0\0\0\0").await.unwrap();
        assert_eq!(close_frame(&mut socket).await.code, CloseCode::Again);
        drop(socket);
        until("nothing is charged", || counted.bytes_used() == 0).await;

        // Pings are not part of a message. Fifty at once, each masked by zeros.
        let mut socket = open(&server.url).await;
        let pings = [b"\x89\xfd\0\0\0\0".as_slice(), &[0; 125]].concat().repeat(50);
        for _ in 0..60 {
            socket.get_mut().write_all(&pings).await.unwrap();
            for _ in 0..50 {
                assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong(vec![0; 125].into()));
            }
        }
        assert_eq!(counted.bytes_used(), 0);
    });
}

#[test]
fn server_rejects_unmasked_frames() {
    use futures_lite::AsyncWriteExt as _;

    run(async {
        let server = TestServer::start(|options| options);
        let mut socket = open(&server.url).await;
        socket.get_mut().write_all(b"\x81\x02{}").await.unwrap();
        assert_eq!(close_frame(&mut socket).await.code, CloseCode::Protocol);
    });
}
