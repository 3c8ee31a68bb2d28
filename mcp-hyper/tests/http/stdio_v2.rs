//! HTTP/2 over a stream that is open already, the one connection of its client.

use std::time::Duration;

use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use h2::Reason;
use mcp_hyper::ConnectionError;
use mcp_hyper::mcp_proto::front::{Client, Error};
use mcp_hyper::mcp_proto::peer::LostReason;
use mcp_hyper::mcp_proto::peer::client::CloseReason;
use serde_json::json;
use smol::Task;
use smol::net::unix::UnixStream;

use crate::common::client::{TestOptions, call, modern, run};
use crate::common::h2_server::Server;
use crate::common::runtime::within;
use crate::common::server::{HandlerLog, router, serving, until};

const SHORT: Duration = Duration::from_millis(1);

type Driver = Task<Result<(), Error>>;

/// A client over one end of a stream, and the other end.
fn connect(options: TestOptions) -> (Client, Driver, UnixStream) {
    let (ours, other) = UnixStream::pair().unwrap();
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
        let (mut client, stream) = UnixStream::pair().unwrap();
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
