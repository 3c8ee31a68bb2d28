//! Upgrade requests that the server accepts and refuses.

use super::pair::TestServer;
use crate::common::client::run;
use crate::common::runtime::within;
use crate::common::server::{HandlerLog, RawClient, ResponseHead, listener, router, serving};

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
