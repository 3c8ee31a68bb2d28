//! Upgrade requests that the server accepts and refuses.

use super::pair::{TestServer, close_during_a_call, speaking};
use mcp_hyper::mcp_proto::front::http::HttpServer;
use mcp_hyper::mcp_proto::peer::client::EraPolicy;
use mcp_hyper::{HttpService, ServerOptions};
use serde_json::json;

use crate::common::client::{connect, legacy, modern, run};
use crate::common::runtime::within;
use crate::common::server::{
    HandlerLog, RawClient, ResponseHead, listener, router, serving, smol_listener, wait_until,
};

/// A well-formed upgrade, but for the lines of `change`, which replace those of the same name.
fn upgrade(url: &str, change: &str) -> (ResponseHead, RawClient) {
    let (_, rest) = url.split_once("//").unwrap();
    let (address, path) = rest.split_once('/').unwrap();
    let mut client = RawClient::connect(address.parse().unwrap());
    let usual = "host: localhost\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                 sec-websocket-protocol: mcp\r\n";
    let name = |line: &str| line.split_once(':').unwrap().0.to_owned();
    let changed: Vec<String> = change.lines().map(name).collect();
    let kept = usual.lines().filter(|line| !changed.contains(&name(line)));
    let kept: String = kept.map(|line| format!("{line}\r\n")).collect();
    client.send(format!("GET /{path} HTTP/1.1\r\n{kept}{change}\r\n"));
    (client.head(), client)
}

#[test]
fn server_answers_the_handshake_of_rfc_6455() {
    let server = TestServer::start(|options| options);
    let (head, _client) = upgrade(&server.url, "");
    assert_eq!(head.status, 101);
    assert_eq!(head.get("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(head.get("upgrade"), Some("websocket"));
    assert_eq!(head.get("sec-websocket-protocol"), Some("mcp"));
    assert_eq!(head.get("sec-websocket-extensions"), None);
    let (head, _client) = upgrade(&server.url, "sec-websocket-protocol: chat, mcp\r\n");
    assert_eq!((head.status, head.get("sec-websocket-protocol")), (101, Some("mcp")));
}

/// S3.2
#[test]
fn server_rejects_upgrades_from_foreign_origins_and_for_foreign_hosts() {
    let server = TestServer::start(|options| options);
    for (status, change) in [
        (101, "origin: http://localhost:9\r\n"),
        (403, "origin: https://evil.example\r\n"),
        (403, "origin: null\r\n"),
        (403, "host: evil.example\r\n"),
        (400, "sec-websocket-protocol: chat\r\n"),
        (426, "sec-websocket-version: 8\r\n"),
        (426, "sec-websocket-key: short\r\n"),
        (426, "connection: keep-alive\r\n"),
    ] {
        let (head, _client) = upgrade(&server.url, change);
        assert_eq!(head.status, status, "{change}");
        if status == 426 {
            assert_eq!(head.get("sec-websocket-version"), Some("13"));
        }
    }
    let (head, _client) = upgrade(&server.url.replace("/mcp", "/elsewhere"), "");
    assert_eq!(head.status, 404);
}

#[test]
fn server_upgrades_no_connection_by_default() {
    run(async {
        let (listener, address) = listener();
        let (_, driver) = serving(router(&HandlerLog::default())).listen(listener);
        let _driver = smol::spawn(within(driver));
        let (head, _client) = smol::unblock(move || upgrade(&format!("ws://{address}/mcp"), "")).await;
        assert_eq!(head.status, 400);
    });
}

/// A server of this crate whose service another hyper server calls for each request.
struct EmbeddedServer {
    url: String,
    server: HttpServer,
    log: HandlerLog,
    driver: smol::Task<std::io::Result<()>>,
    _accepting: smol::Task<()>,
}

impl EmbeddedServer {
    fn start(change: impl FnOnce(ServerOptions) -> ServerOptions) -> Self {
        Self::serve(change, async |io, mcp: HttpService| {
            // It ends early where the client breaks off.
            let _ = hyper::server::conn::http1::Builder::new()
                .header_read_timeout(None)
                .serve_connection(io, mcp)
                .with_upgrades()
                .await;
        })
    }

    fn serve<F: Future<Output = ()> + Send + 'static>(
        change: impl FnOnce(ServerOptions) -> ServerOptions,
        serve: impl Fn(smol_hyper::rt::FuturesIo<smol::net::TcpStream>, HttpService) -> F + Send + 'static,
    ) -> Self {
        let log = HandlerLog::default();
        let (listener, address) = smol_listener();
        let (mcp, driver) = change(serving(router(&log)).websocket()).service();
        let server = mcp.server().clone();
        let accepting = smol::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let serving = serve(smol_hyper::rt::FuturesIo::new(stream), mcp.clone());
                smol::spawn(within(serving)).detach();
            }
        });
        let url = format!("ws://{address}/mcp");
        Self { url, server, log, driver: smol::spawn(within(driver)), _accepting: accepting }
    }
}

#[test]
fn embedded_service_refuses_websockets_while_nothing_polls_its_driver() {
    run(async {
        let (listener, address) = smol_listener();
        let (mcp, _driver) = serving(router(&HandlerLog::default())).websocket().service();
        let _accepting = smol::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let io = smol_hyper::rt::FuturesIo::new(stream);
            let builder = hyper::server::conn::http1::Builder::new();
            let _ = builder.serve_connection(io, mcp).with_upgrades().await;
        });
        let (head, _client) = smol::unblock(move || upgrade(&format!("ws://{address}/mcp"), "")).await;
        assert_eq!(head.status, 503);
    });
}

#[test]
fn embedded_service_serves_http_and_websockets_at_one_url() {
    run(async {
        let server = EmbeddedServer::start(|options| options);
        let http = server.url.replace("ws:", "http:");
        for (options, url) in [
            (speaking(EraPolicy::ModernOnly), &server.url),
            (speaking(EraPolicy::LegacyOnly), &server.url),
            (modern(), &http),
            (legacy(), &http),
        ] {
            let (client, driver) = connect(options, url);
            let long = "x".repeat(300_000);
            let called = client.call_tool("echo", json!({ "message": long })).await.unwrap();
            assert_eq!(called.text_content(), long);
            client.close().await;
            driver.await.unwrap();
        }
    });
}

#[test]
fn embedded_service_checks_upgrades_as_a_listener_does() {
    let server = EmbeddedServer::start(|options| options.limits(|limits| limits.connections = 1));
    for (status, change) in [
        (403, "origin: https://evil.example\r\n"),
        (403, "host: evil.example\r\n"),
        (400, "sec-websocket-protocol: chat\r\n"),
        (426, "sec-websocket-version: 8\r\n"),
        (426, "connection: keep-alive\r\n"),
    ] {
        let (head, _client) = upgrade(&server.url, change);
        assert_eq!(head.status, status, "{change}");
    }
    let (head, client) = upgrade(&server.url, "");
    assert_eq!((head.status, head.get("sec-websocket-protocol")), (101, Some("mcp")));
    let (head, _client) = upgrade(&server.url, "");
    assert_eq!(head.status, 503, "there is room for one");
    drop(client);
    wait_until("the place is free", || upgrade(&server.url, "").0.status == 101);
}

/// F61
#[test]
fn closing_server_closes_embedded_websockets_with_a_reason() {
    run(async {
        let server = EmbeddedServer::start(|options| options);
        close_during_a_call(&server.url, &server.server, &server.log).await;
        server.driver.await.unwrap();
        let (head, _client) = smol::unblock(move || upgrade(&server.url, "")).await;
        assert_eq!(head.status, 503);
    });
}

#[test]
fn dropped_service_driver_ends_embedded_websockets() {
    run(async {
        let server = EmbeddedServer::start(|options| options);
        let (client, driver) = connect(speaking(EraPolicy::Auto), &server.url);
        client.ready().await.unwrap();
        server.driver.cancel().await;
        driver.await.unwrap_err();
        let (head, _client) = smol::unblock(move || upgrade(&server.url, "")).await;
        assert_eq!(head.status, 503);
    });
}

#[test]
fn service_reports_an_upgrade_that_the_other_server_does_not_hand_over() {
    run(async {
        let (errors, reported) = smol::channel::unbounded();
        let server = EmbeddedServer::serve(
            |options| options.on_error(move |error| errors.try_send(error.to_string()).unwrap()),
            async |io, mcp: HttpService| {
                let connection = hyper::server::conn::http1::Builder::new()
                    .header_read_timeout(None)
                    .serve_connection(io, mcp);
                let _ = connection.await;
            },
        );
        let (client, driver) = connect(speaking(EraPolicy::Auto), &server.url);
        client.ready().await.unwrap_err();
        driver.await.unwrap_err();
        let error = reported.recv().await.unwrap();
        assert!(error.contains("upgrade"), "{error}");
    });
}
