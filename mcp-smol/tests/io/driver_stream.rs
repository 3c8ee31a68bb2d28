//! The client's driver over sockets. The servers are scripts in Rust.

use std::future::Future as _;
use std::io::{self, Read as _, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::common::{self, blocking_pair, pair, polled, run};
use futures_lite::AsyncRead;
use futures_lite::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use mcp_proto::front::{Client, Error};
use mcp_proto::peer::client::CloseReason;
use mcp_smol::{ClientOptions, WireDirection};
use serde_json::{Value, json};
use smol::net::{TcpListener, TcpStream};

async fn ask(reader: &mut (impl futures_lite::AsyncBufRead + Unpin)) -> Option<Value> {
    let mut line = String::new();
    match reader.read_line(&mut line).await.unwrap() {
        0 => None,
        _ => Some(serde_json::from_str(&line).unwrap()),
    }
}

fn answer(request: &Value, result: Value) -> String {
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
}

fn discovered(request: &Value) -> String {
    let result = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
        "ttlMs": 0, "cacheScope": "private"
    });
    answer(request, result)
}

/// The metadata of a request is the same on every stream.
#[track_caller]
fn assert_metadata(request: &Value) {
    let meta = &request["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{request}");
    assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object(), "{request}");
}

/// Answers every call with its number until the client closes; returns the count of calls.
async fn serve<S: futures_lite::AsyncRead + futures_lite::AsyncWrite + Unpin>(stream: S) -> usize {
    let (reader, mut writer) = futures_lite::io::split(stream);
    let mut reader = BufReader::new(reader);
    let probe = ask(&mut reader).await.unwrap();
    assert_metadata(&probe);
    writer.write_all(discovered(&probe).as_bytes()).await.unwrap();
    let mut calls = 0;
    while let Some(request) = ask(&mut reader).await {
        assert_metadata(&request);
        calls += 1;
        let result =
            json!({ "resultType": "complete", "content": [{ "type": "text", "text": calls.to_string() }] });
        writer.write_all(answer(&request, result).as_bytes()).await.unwrap();
    }
    calls
}

async fn call(client: &Client) -> Result<String, Error> {
    client.call_tool("tool", json!({})).await.map(|result| result.text_content())
}

#[test]
fn call_ends_at_its_timeout_if_nothing_polls_the_driver() {
    run(async {
        let (ours, _theirs) = pair();
        let (client, _driver) = mcp_smol::connect_stream(ours.clone(), ours);
        let call = client.call_tool("tool", json!({})).timeout(Duration::from_millis(20));
        let error = call.await.unwrap_err();
        assert!(error.is_timeout() && error.to_string().contains("`driver`"), "{error:?}");
    });
}

/// C3.8
#[test]
fn socket_carries_a_session_until_close_ends_both_sides() {
    run(async {
        let (ours, theirs) = pair();
        let server = common::spawn(serve(theirs));
        let (client, driver) = mcp_smol::connect_stream(ours.clone(), ours);
        let driver = common::spawn(driver);
        for number in 1..=100 {
            assert_eq!(call(&client).await.unwrap(), number.to_string());
        }
        assert_eq!(client.close().await, CloseReason::Done);
        driver.await.unwrap();
        assert_eq!(server.await, 100);
    });
}

/// C3.8
#[test]
fn tcp_socket_carries_a_session() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = common::spawn(async move { serve(listener.accept().await.unwrap().0).await });
        let ours = TcpStream::connect(address).await.unwrap();
        let (client, driver) = mcp_smol::connect_stream(ours.clone(), ours);
        let driver = common::spawn(driver);
        assert_eq!(call(&client).await.unwrap(), "1");
        drop(client);
        driver.await.unwrap();
        assert_eq!(server.await, 1);
    });
}

/// C3.8
#[test]
fn documentation_says_how_a_connection_on_a_stream_is_established() {
    let source = include_str!("../../src/client.rs");
    let (before, _) = source.split_once("pub fn connect_stream<").expect("the function");
    let docs = before.rsplit("\n}\n").next().unwrap_or_default();
    for words in
        ["a stream that is open already", "one message per line", "The first message on it is the client's"]
    {
        assert!(docs.contains(words), "{words}: {docs}");
    }
}

/// revisions.md A1, S3
#[test]
fn client_does_not_reopen_a_stream_that_ends_on_the_probe() {
    run(async {
        let (ours, theirs) = pair();
        let (client, driver) = mcp_smol::connect_stream(ours.clone(), ours);
        let driver = common::spawn(driver);
        let server = common::spawn(async move {
            ask(&mut BufReader::new(theirs)).await.unwrap();
        });
        let error = call(&client).await.unwrap_err().to_string();
        assert!(error.contains("legacy-only"), "{error}");
        assert!(driver.await.is_err());
        server.await;
    });
}

#[test]
fn call_fails_if_the_server_ends_in_the_middle_of_a_line() {
    run(async {
        let (ours, theirs) = pair();
        let (client, driver) = mcp_smol::connect_stream(ours.clone(), ours);
        let driver = common::spawn(driver);
        let server = common::spawn(async move {
            let mut theirs = BufReader::new(theirs);
            let probe = ask(&mut theirs).await.unwrap();
            theirs.get_mut().write_all(discovered(&probe).as_bytes()).await.unwrap();
            ask(&mut theirs).await.unwrap();
            theirs.get_mut().write_all(b"{\"jsonrpc\":\"2.0\",\"id\"").await.unwrap();
        });
        assert!(matches!(call(&client).await, Err(Error::Lost(_))));
        assert!(matches!(driver.await, Err(Error::Closed(CloseReason::Lost(_)))));
        server.await;
    });
}

#[test]
fn connection_fails_in_time_if_the_server_never_reads() {
    run(async {
        let (ours, mut theirs) = blocking_pair();
        let ours = polled(ours);
        let server = thread::spawn(move || {
            let mut probe = vec![0; 64 * 1024];
            let length = theirs.read(&mut probe).unwrap();
            let probe: Value = serde_json::from_slice(&probe[..length]).unwrap();
            theirs.write_all(discovered(&probe).as_bytes()).unwrap();
            theirs
        });
        let (taken, large_taken) = mpsc::channel();
        let (client, driver) = ClientOptions::new("test", "1")
            .configure(|config| config.write_timeout = Duration::from_secs(1))
            .on_wire(move |direction, bytes| {
                if direction == WireDirection::Sent && bytes.len() > 8_000_000 {
                    taken.send(()).unwrap();
                }
            })
            .connect_stream(ours.clone(), ours);
        let driver = common::spawn(driver);
        client.ready().await.unwrap();
        let _kept = server.join().unwrap();
        let large = json!({ "text": "x".repeat(8_000_000) });
        let large = client.call_tool("tool", large).timeout(Duration::from_secs(60)).start().unwrap();
        large_taken.recv().unwrap();
        // The first request is being written; this one stays in the queue.
        let queued = client.call_tool("tool", json!({})).start().unwrap();
        assert!(matches!(large.await, Err(Error::Lost(_))));
        assert!(queued.await.is_err());
        assert!(driver.await.is_err());
    });
}

/// A peer that sends without end.
struct EndlessReader(Arc<AtomicUsize>);

impl AsyncRead for EndlessReader {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        buffer.fill(b'\n');
        self.0.fetch_add(buffer.len(), Ordering::Relaxed);
        Poll::Ready(Ok(buffer.len()))
    }
}

#[test]
fn driver_yields_to_other_tasks_during_a_flood() {
    let read = Arc::new(AtomicUsize::new(0));
    let (client, mut driver) =
        mcp_smol::connect_stream(EndlessReader(read.clone()), futures_lite::io::sink());
    let mut cx = Context::from_waker(Waker::noop());
    let _entered = common::enter();
    for polls in 1..=10 {
        assert!(Pin::new(&mut driver).poll(&mut cx).is_pending());
        let read = read.load(Ordering::Relaxed);
        assert!(read > 0 && read <= polls * 256 * 1024, "{read} bytes in {polls} polls");
    }
    drop(client);
}
