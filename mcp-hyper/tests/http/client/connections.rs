//! Connections of HTTP/1.1: reused, dropped, lost.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::common::client::{TestOptions, accept, call, connect, legacy, listen, modern, run};
use crate::common::runtime::within;
use futures_lite::future::{or, poll_once, zip};
use futures_lite::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use hyper::rt::Timer;
use mcp_hyper::mcp_proto::front::Error;
use mcp_hyper::mcp_proto::peer::client::CloseReason;
use mcp_hyper::mcp_proto::transport::http::{ExchangeEnd, SentState};
use mcp_hyper::{Endpoint, Runtime, Smol, Stream, WireEvent, call_once};
use serde_json::json;

/// The ends of exchanges, in order.
type EndLog = Arc<Mutex<Vec<ExchangeEnd>>>;

fn watched(options: TestOptions) -> (TestOptions, EndLog) {
    let ends = EndLog::default();
    let seen = ends.clone();
    let options = options.on_wire(move |event| {
        if let WireEvent::End { end, .. } = event {
            seen.lock().unwrap().push(end.clone());
        }
    });
    (options, ends)
}

/// F3
#[test]
fn one_call_needs_no_client_and_closes_its_connection() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move { accept(&listener).await.serve(usize::MAX).await });
        let connection = modern().connect(&url).unwrap();
        let result = within(call_once(connection, "count", json!({}))).await.unwrap();
        assert_eq!(result.text_content(), "1");
        let requests: Vec<_> = server.await;
        assert_eq!(requests.last().unwrap().header("mcp-method"), Some("tools/call"));
    });
}

/// F50
#[test]
fn requests_in_a_row_share_a_connection() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move {
            let mut wire = accept(&listener).await;
            or(wire.serve(usize::MAX), async {
                let _second = listener.accept().await;
                panic!("a second connection")
            })
            .await
        });
        let (client, driver) = connect(modern(), &url);
        for number in 1..=20 {
            assert_eq!(call(&client).await.unwrap(), number.to_string());
        }
        assert_eq!(client.close().await, CloseReason::Done);
        driver.await.unwrap();
        let requests = server.await;
        assert_eq!(requests.len(), 21);
        assert!(requests.iter().all(|request| request.line == "POST /mcp HTTP/1.1"));
        assert_eq!(requests[1].header("mcp-method"), Some("tools/call"));
        assert!(url.contains(requests[1].header("host").unwrap()));
    });
}

#[test]
fn a_legacy_session_shares_a_connection_too() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move { accept(&listener).await.serve(usize::MAX).await });
        let (client, driver) = connect(legacy(), &url);
        assert_eq!(call(&client).await.unwrap(), "1");
        assert_eq!(call(&client).await.unwrap(), "2");
        client.close().await;
        driver.await.unwrap();
        let methods: Vec<_> = server.await.iter().map(|request| request.method().to_owned()).collect();
        assert_eq!(methods, ["initialize", "notifications/initialized", "tools/call", "tools/call"]);
    });
}

#[test]
fn client_does_not_reuse_a_connection_that_the_server_closes() {
    run(async {
        let (listener, url) = listen().await;
        let server = smol::spawn(async move {
            for _ in 0..4 {
                let mut wire = accept(&listener).await;
                let request = wire.request().await.unwrap();
                wire.answer_with("connection: close\r\n", &request.answer("closed")).await;
            }
        });
        let (client, _driver) = connect(modern(), &url);
        for _ in 0..3 {
            assert_eq!(call(&client).await.unwrap(), "closed");
        }
        server.await;
    });
}

#[test]
fn client_replaces_a_dead_idle_connection_without_an_error() {
    run(async {
        let (listener, url) = listen().await;
        let (options, ends) = watched(modern());
        let (client, _driver) = connect(options, &url);
        let (died, has_died) = smol::channel::unbounded();
        let server = smol::spawn(async move {
            let mut seen = 0;
            for _ in 0..10 {
                let mut wire = accept(&listener).await;
                seen += wire.serve(1).await.len();
                // The server ends the connection without a message. The client closes its side as soon as its reactor
                // has learnt that, without a request.
                wire.stream.shutdown(Shutdown::Write).unwrap();
                assert!(wire.request().await.is_none());
                died.send(()).await.unwrap();
            }
            seen
        });
        client.ready().await.unwrap();
        for _ in 0..9 {
            has_died.recv().await.unwrap();
            assert_eq!(call(&client).await.unwrap(), "1");
        }
        assert_eq!(server.await, 10, "every request reached the server once");
        assert!(ends.lock().unwrap().iter().all(|end| *end == ExchangeEnd::Complete));
    });
}

#[test]
fn refused_connection_leaves_the_call_of_a_known_server_unsent() {
    run(async {
        let (listener, url) = listen().await;
        let options = modern().configure(|config| config.backoff.attempts = 0);
        let (client, _driver) = connect(options, &url);
        let server = smol::spawn(async move { accept(&listener).await.serve(1).await });
        client.ready().await.unwrap();
        server.await;
        let error = call(&client).await.unwrap_err();
        assert!(error.is_unsent() && error.is_disconnect(), "{error:?}");
        assert!(error.to_string().ends_with("connection refused"), "{error}");
    });
}

/// F40
#[test]
fn waits_end_at_their_timeouts_if_nothing_polls_the_driver() {
    run(async {
        let (listener, url) = listen().await;
        let options = modern().ready_timeout(Duration::from_millis(30));
        let (client, _driver) = options.connect(&url).unwrap();
        let call = client.call_tool("tool", json!({})).timeout(Duration::from_millis(20));
        let (call, ready) = within(zip(call, client.ready())).await;
        for error in [call.unwrap_err(), ready.unwrap_err()] {
            assert!(error.is_timeout() && error.to_string().contains("`driver`"), "{error:?}");
        }
        assert!(poll_once(listener.accept()).await.is_none(), "no connection was opened");
    });
}

#[test]
fn client_does_not_repeat_a_written_request_when_its_connection_ends() {
    run(async {
        let (listener, url) = listen().await;
        let (options, ends) = watched(modern());
        let (client, _driver) = connect(options, &url);
        let server = smol::spawn(async move {
            let mut wire = accept(&listener).await;
            wire.serve(2).await;
            assert_eq!(wire.request().await.unwrap().method(), "tools/call");
            drop(wire);
            // Only the request that follows.
            let mut wire = accept(&listener).await;
            wire.serve(1).await
        });
        call(&client).await.unwrap();
        assert!(matches!(call(&client).await, Err(Error::Lost(_))));
        let last = ends.lock().unwrap().last().cloned();
        assert!(matches!(last, Some(ExchangeEnd::Failed { sent: SentState::MaybeSent, .. })), "{last:?}");
        client.call_tool("other", json!({})).await.unwrap();
        assert_eq!(server.await[0].body["params"]["name"], "other");
    });
}

#[test]
fn refused_connection_fails_at_once_with_its_reason() {
    run(async {
        let (listener, url) = listen().await;
        drop(listener);
        let (options, ends) = watched(modern());
        let (client, driver) = connect(options, &url);
        let error = client.ready().await.unwrap_err().to_string();
        let place = url.trim_start_matches("http://").trim_end_matches("/mcp");
        assert_eq!(error, format!("cannot connect to {place}: connection refused"));
        assert!(driver.await.is_err());
        let ends = ends.lock().unwrap();
        assert!(matches!(&ends[..], [ExchangeEnd::Unreachable(_)]), "{ends:?}");
    });
}

#[test]
fn exchange_end_distinguishes_a_truncated_body_from_a_complete_one() {
    run(async {
        let (listener, url) = listen().await;
        let (options, ends) = watched(modern());
        let (client, _driver) = connect(options, &url);
        let server = smol::spawn(async move {
            let mut wire = accept(&listener).await;
            wire.serve(1).await;
            wire.request().await.unwrap();
            wire.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{")
                .await;
        });
        assert!(call(&client).await.is_err());
        server.await;
        let ends = ends.lock().unwrap();
        assert!(matches!(*ends.last().unwrap(), ExchangeEnd::Truncated(_)), "{ends:?}");
        assert_eq!(ends[0], ExchangeEnd::Complete);
    });
}

#[test]
fn client_closes_an_idle_connection() {
    run(async {
        let (listener, url) = listen().await;
        let (client, _driver) = connect(modern().idle_timeout(Duration::from_millis(50)), &url);
        let (_, requests) =
            zip(client.ready(), async { accept(&listener).await.serve(usize::MAX).await }).await;
        assert_eq!(requests.len(), 1);
        // And the client continues with a new one.
        let (text, _) = zip(call(&client), async { accept(&listener).await.serve(1).await }).await;
        assert_eq!(text.unwrap(), "1");
    });
}

#[test]
fn client_closes_a_connection_before_the_keep_alive_timeout_of_the_server() {
    run(async {
        let (listener, url) = listen().await;
        let (client, _driver) = connect(modern(), &url);
        let server = smol::spawn(async move {
            for _ in 0..3 {
                let mut wire = accept(&listener).await;
                let request = wire.request().await.unwrap();
                wire.answer_with("keep-alive: max=5, timeout=1\r\n", &request.answer("kept")).await;
                assert!(wire.request().await.is_none(), "closed by the client");
            }
        });
        for _ in 0..2 {
            assert_eq!(call(&client).await.unwrap(), "kept");
        }
        server.await;
    });
}

#[test]
#[expect(clippy::async_yields_async, reason = "the call is in flight, not ended")]
fn dropping_the_driver_ends_every_connection() {
    run(async {
        let (listener, url) = listen().await;
        let (client, driver) = connect(modern(), &url);
        let (call, mut wire) = zip(
            async {
                client.ready().await.unwrap();
                client.call_tool("slow", json!({})).start().unwrap()
            },
            async {
                let mut wire = accept(&listener).await;
                wire.serve(2).await;
                wire
            },
        )
        .await;
        drop(call);
        let _ = driver.cancel().await;
        assert_eq!(wire.stream.read(&mut [0]).await.unwrap_or(0), 0);
    });
}

#[test]
fn dropping_a_call_closes_only_its_connection() {
    run(async {
        let (listener, url) = listen().await;
        let (client, _driver) = connect(modern(), &url);
        let (seen, both_seen) = smol::channel::bounded(1);
        let server = smol::spawn(async move {
            let mut first = accept(&listener).await;
            first.serve(1).await;
            first.request().await.unwrap();
            let mut second = accept(&listener).await;
            let kept = second.request().await.unwrap();
            seen.send(()).await.unwrap();
            assert_eq!(first.stream.read(&mut [0]).await.unwrap_or(0), 0);
            second.answer(&kept.answer("kept")).await;
            second.serve(1).await
        });
        client.ready().await.unwrap();
        let dropped = client.call_tool("dropped", json!({})).start().unwrap();
        let kept = client.call_tool("kept", json!({})).start().unwrap();
        both_seen.recv().await.unwrap();
        drop(dropped);
        assert_eq!(kept.await.unwrap().text_content(), "kept");
        assert_eq!(call(&client).await.unwrap(), "1");
        assert_eq!(server.await.len(), 1);
    });
}

/// A connection that reads as ended once `has_ended` is set; nothing wakes its reader then.
struct EndableStream {
    stream: Box<dyn Stream>,
    has_ended: Arc<AtomicBool>,
}

impl AsyncRead for EndableStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.has_ended.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(0));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for EndableStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

/// Smol, with the switch that ends each connection.
#[derive(Clone, Default)]
struct EndingRuntime(Arc<Mutex<Vec<Arc<AtomicBool>>>>);

impl Runtime for EndingRuntime {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Smol.resolve(host, port).await
    }

    async fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
        let stream = Smol.connect(endpoint).await?;
        let has_ended = Arc::new(AtomicBool::new(false));
        self.0.lock().unwrap().push(has_ended.clone());
        Ok(Box::new(EndableStream { stream, has_ended }))
    }

    fn timer(&self) -> Arc<dyn Timer + Send + Sync> {
        Smol.timer()
    }
}

#[test]
fn client_moves_a_request_from_a_dead_connection_before_it_writes_a_byte() {
    run(async {
        let (listener, url) = listen().await;
        let (options, ends) = watched(modern());
        let runtime = EndingRuntime::default();
        let (client, _driver) = connect(options.runtime(runtime.clone()), &url);
        let server = smol::spawn(async move {
            let mut first = accept(&listener).await;
            first.serve(1).await;
            let mut second = accept(&listener).await;
            second.serve(1).await.len()
        });
        client.ready().await.unwrap();
        runtime.0.lock().unwrap()[0].store(true, Ordering::SeqCst);
        assert_eq!(call(&client).await.unwrap(), "1");
        assert_eq!(server.await, 1);
        assert_eq!(runtime.0.lock().unwrap().len(), 2);
        let ends = ends.lock().unwrap();
        assert!(ends.iter().all(|end| *end == ExchangeEnd::Complete), "{ends:?}");
    });
}
