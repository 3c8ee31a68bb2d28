//! HTTP/2 over a stream that is open already, the one connection of its client.

use std::pin::pin;
use std::time::Duration;

use futures_lite::future::{or, poll_once, yield_now, zip};
use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use h2::Reason;
use http_body_util::BodyExt as _;
use mcp_hyper::ConnectionError;
use mcp_hyper::mcp_proto::front::{Client, Error};
use mcp_hyper::mcp_proto::peer::LostReason;
use mcp_hyper::mcp_proto::peer::client::CloseReason;
use serde_json::json;
use smol::Task;

use crate::common::client::{TestOptions, call, modern, run};
use crate::common::h2_server::{Io, Server};
use crate::common::runtime::within;
use crate::common::server::{self, HandlerLog, Pipe, Progress, http2, pipe, request, router, serving, until};

const SHORT: Duration = Duration::from_millis(1);

type Driver = Task<Result<(), Error>>;

/// A client over one end of a stream, and the other end.
fn connect(options: TestOptions) -> (Client, Driver, Pipe) {
    let (ours, other) = pipe();
    let (client, driver) = options.connect_stream(ours).unwrap();
    (client, smol::spawn(within(driver)), other)
}

/// A client of a server of this crate.
fn serve(log: &HandlerLog) -> (Client, Driver, Task<Result<(), ConnectionError>>) {
    let (client, driver, stream) = connect(modern().idle_timeout(SHORT));
    let (service, serving) = serving(router(log)).limits(|limits| limits.idle_timeout = SHORT).service();
    smol::spawn(within(serving)).detach();
    (client, driver, smol::spawn(within(service.http2_connection(stream))))
}

/// Serves the client until it is ready.
async fn become_ready(client: &Client, server: &mut Server<Pipe>) {
    or(async { drop(client.ready().await.unwrap()) }, async { _ = server.serve().await }).await;
}

#[test]
fn requests_wait_while_the_server_accepts_no_more_streams() {
    run(async {
        let (client, _driver, stream) = connect(modern());
        let server = smol::spawn(async move {
            let mut server = Server::handshake(stream, 2).await;
            server.answer_one().await;
            let held = [server.next().await.unwrap(), server.next().await.unwrap()];
            for stream in held {
                smol::spawn(stream.answer()).detach();
            }
            server.serve().await
        });
        client.ready().await.unwrap();
        let running: Vec<_> = (0..6).map(|_| client.call_tool("tool", json!({})).start().unwrap()).collect();
        for call in running {
            call.await.unwrap();
        }
        assert_eq!(client.close().await, CloseReason::Done);
        assert_eq!(server.await, 4, "all on the one connection");
    });
}

#[test]
fn reset_stream_fails_its_request_and_the_end_of_the_stream_the_client() {
    run(async {
        let (client, driver, stream) = connect(modern());
        let server = smol::spawn(async move {
            let mut server = Server::handshake(stream, 100).await;
            server.answer_one().await;
            server.next().await.unwrap().respond.send_reset(Reason::INTERNAL_ERROR);
            server.answer_one().await;
            server.next().await.unwrap();
        });
        let reset = call(&client).await.unwrap_err();
        assert!(reset.to_string().contains("internal error"), "{reset}");
        call(&client).await.unwrap();
        let lost = call(&client).await.unwrap_err();
        server.await;
        assert!(matches!(&lost, Error::Lost(LostReason::Disconnected(_))), "{lost:?}");
        let ended = driver.await.unwrap_err();
        assert!(matches!(&ended, Error::Closed(CloseReason::Lost(LostReason::Disconnected(_)))), "{ended:?}");
        assert!(matches!(call(&client).await.unwrap_err(), Error::Closed(_)));
    });
}

/// S3.16
#[test]
fn cancelled_call_resets_its_stream_and_the_connection_is_never_idle_for_too_long() {
    run(async {
        let log = HandlerLog::default();
        let (client, driver, server) = serve(&log);
        client.ready().await.unwrap();
        let waiting = client.call_tool("wait", json!({})).start().unwrap();
        until("the handler runs", || log.begun_calls() == 1).await;
        drop(waiting);
        until("the handler is dropped", || log.ended_calls() == 1).await;
        smol::Timer::after(50 * SHORT).await;
        let echo = client.call_tool("echo", json!({ "message": "afterwards" })).await.unwrap();
        assert_eq!(echo.text_content(), "afterwards");
        assert_eq!(client.close().await, CloseReason::Done);
        driver.await.unwrap();
        server.await.unwrap();
    });
}

/// C7.5, C7.6
#[test]
fn response_that_races_its_cancellation_is_discarded_and_frees_its_stream() {
    run(async {
        let (client, _driver, stream) = connect(modern());
        let server = smol::spawn(async move { Server::handshake(stream, 2).await.serve().await });
        client.ready().await.unwrap();
        for round in 0..200 {
            let cancelled = client.call_tool("tool", json!({})).start().unwrap();
            for _ in 0..round % 20 {
                yield_now().await;
            }
            drop(cancelled);
        }
        // A stream that was not freed would hold up one of them for good.
        let (one, other) = zip(call(&client), call(&client)).await;
        assert_eq!([one.unwrap(), other.unwrap()], ["http://localhost/mcp"; 2]);
        assert_eq!(client.close().await, CloseReason::Done);
        assert!(server.await >= 3, "all on the one connection");
    });
}

/// C7.5: a client may cancel all calls that it may have in flight before the server has seen one of them.
#[test]
fn burst_of_cancellations_does_not_end_the_connection() {
    run(async {
        let (ours, other) = pipe();
        let (client, driver) = modern().connect_stream(ours).unwrap();
        let (service, serving) = serving(router(&HandlerLog::default())).service();
        smol::spawn(within(serving)).detach();
        let (mut driver, mut server) = (pin!(driver), pin!(service.http2_connection(other)));
        let both = async { drop(zip(&mut driver, &mut server).await) };
        or(async { drop(client.ready().await.unwrap()) }, both).await;
        let wait = || client.call_tool("wait", json!({})).start().unwrap();
        let calls: Vec<_> = (0..150).map(|_| wait()).collect();
        // Only the client runs: the requests and their ends arrive together.
        for _ in 0..20 {
            poll_once(&mut driver).await;
        }
        drop(calls);
        for _ in 0..20 {
            poll_once(&mut driver).await;
        }
        let both = async { drop(zip(&mut driver, &mut server).await) };
        let call = async { client.call_tool("echo", json!({ "message": "after" })).await };
        let answer = or(async { Some(call.await) }, async {
            both.await;
            None
        })
        .await;
        assert_eq!(answer.expect("the connection lives").unwrap().text_content(), "after");
    });
}

#[test]
fn client_that_does_not_read_one_response_gets_others_and_loses_that_one_after_the_timeout() {
    run(async {
        let (service, serving) = serving(router(&HandlerLog::default()))
            .limits(|limits| limits.write_timeout = 50 * SHORT)
            .service();
        smol::spawn(within(serving)).detach();
        let (ours, other) = pipe();
        let _server = smol::spawn(within(service.http2_connection(other)));
        let mut sender = http2(ours, |builder| _ = builder.initial_stream_window_size(64 * 1024)).await;
        let mut ask = |tool, arguments| {
            let (headers, body) = server::call(tool, &arguments, Progress::Unwanted);
            sender.send_request(request(&headers.replace('\r', ""), &body))
        };
        let unread = ask("big", json!({ "bytes": 1024 * 1024 })).await.unwrap();
        let echo = ask("echo", json!({ "message": "beside it" })).await.unwrap();
        let echo = echo.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(server::text(str::from_utf8(&echo).unwrap()), "beside it");
        smol::Timer::after(100 * SHORT).await;
        unread.into_body().collect().await.unwrap_err();
        ask("echo", json!({ "message": "afterwards" })).await.unwrap();
    });
}

#[test]
fn server_that_stops_reading_fails_calls_by_their_timeout_and_does_not_hold_up_the_close() {
    run(async {
        let options =
            modern().request_timeout(20 * SHORT).configure(|config| config.client.close_timeout = 20 * SHORT);
        let (client, driver, stream) = connect(options);
        let mut stalled = {
            let wide = h2::server::Builder::new()
                .initial_window_size(1 << 30)
                .initial_connection_window_size(1 << 30)
                .handshake(Io(stream));
            Server(wide.await.unwrap())
        };
        become_ready(&client, &mut stalled).await;
        // More than the socket takes.
        let large = client.call_tool("tool", json!({ "text": "x".repeat(4 << 20) }));
        for failed in [large.await, client.call_tool("tool", json!({})).await] {
            let failed = failed.unwrap_err().to_string();
            assert!(failed.contains("no answer and no progress within"), "{failed}");
        }
        assert_eq!(client.close().await, CloseReason::Done);
        driver.await.unwrap();
    });
}

#[test]
fn goaway_fails_later_requests_after_their_attempts_and_lets_running_ones_end() {
    run(async {
        let (client, driver, stream) = connect(modern().configure(|config| config.backoff.attempts = 0));
        let mut server = Server::handshake(stream, 100).await;
        become_ready(&client, &mut server).await;
        let running = client.call_tool("tool", json!({})).start().unwrap();
        let held = server.next().await.unwrap();
        server.0.graceful_shutdown();
        let server = smol::spawn(async move { server.serve().await });
        // The first ones may be sent before the client knows: the server answers them, or has ended their streams.
        let mut refused = String::new();
        while !refused.contains("accepts no more requests") {
            if let Err(error) = call(&client).await {
                refused = error.to_string();
                let has_ended = refused.contains("not a result of an error");
                assert!(has_ended || refused.contains("accepts no more requests"), "{refused}");
            }
        }
        held.answer().await;
        running.await.unwrap();
        driver.await.unwrap_err();
        server.await;
    });
}

#[test]
fn large_results_and_small_ones_pass_beside_each_other() {
    run(async {
        let (client, _driver, _server) = serve(&HandlerLog::default());
        let big = |_| client.call_tool("big", json!({ "bytes": 1024 * 1024 })).start().unwrap();
        let large: Vec<_> = (0..12).map(big).collect();
        for number in 0..20 {
            let message = number.to_string();
            let echo = client.call_tool("echo", json!({ "message": message })).await.unwrap();
            assert_eq!(echo.text_content(), message);
        }
        for result in large {
            assert_eq!(result.await.unwrap().text_content().len(), 1024 * 1024);
        }
    });
}

#[test]
fn server_tells_a_client_of_lines_what_it_speaks() {
    run(async {
        let (service, _serving) = serving(router(&HandlerLog::default())).service();
        let (mut client, stream) = pipe();
        let served = smol::spawn(within(service.http2_connection(stream)));
        client.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await.unwrap();
        let refused = served.await.unwrap_err();
        assert!(matches!(&refused, ConnectionError::NotHttp2(sent) if sent.starts_with("{\"jsonrpc\"")));
        assert!(refused.to_string().contains("`stdio-v2`"), "{refused}");
        let mut settings = Vec::new();
        let _ = client.read_to_end(&mut settings).await;
        assert_eq!(settings, [0, 0, 0, 4, 0, 0, 0, 0, 0]);
    });
}

#[test]
fn text_amid_the_frames_is_named_as_the_cause() {
    run(async {
        let (client, driver, stream) = connect(modern());
        let mut raw = stream.clone();
        let mut server = Server::handshake(stream, 100).await;
        become_ready(&client, &mut server).await;
        let running = client.call_tool("tool", json!({})).start().unwrap();
        server.next().await.unwrap();
        raw.write_all(b"DEBUG: handling a call\n").await.unwrap();
        let lost = running.await.unwrap_err();
        assert!(
            matches!(&lost, Error::Lost(LostReason::Failed(why)) if why.contains("must write nothing else")),
            "{lost:?}"
        );
        driver.await.unwrap_err();
    });
}

#[test]
fn silent_server_fails_the_client_once_the_first_request_times_out() {
    run(async {
        let (client, driver, _stream) = connect(modern().configure(|config| {
            let timeouts = &mut config.client.connect;
            (timeouts.initialize, timeouts.probe_http) = (20 * SHORT, 20 * SHORT);
        }));
        let failed = client.ready().await.unwrap_err().to_string();
        assert!(failed.contains("the server has sent nothing"), "{failed}");
        assert_eq!(driver.await.unwrap_err().to_string(), failed);

        let (client, driver, _stream) = connect(modern());
        assert_eq!(client.close().await, CloseReason::Done);
        driver.await.unwrap();
    });
}

#[test]
fn client_tells_a_server_of_another_transport_at_once() {
    run(async {
        for (output, expected) in [
            (&b"{\"jsonrpc\":\"2.0\"}\n"[..], "the server speaks newline-delimited JSON (`stdio`)"),
            (b"Listening\n", "its output begins with \"Listening\\n\""),
        ] {
            let (client, driver, mut server) = connect(modern());
            server.write_all(output).await.unwrap();
            let failed = client.ready().await.unwrap_err();
            let wrong = |error: &Error| matches!(error, Error::Closed(CloseReason::Lost(LostReason::WrongTransport(why))) if why.contains(expected));
            assert!(wrong(&failed), "{failed:?}");
            assert!(wrong(&driver.await.unwrap_err()));
        }
    });
}
