//! Servers that are reached by WebSocket.

use mcp_hyper::mcp_proto::host::control::Status;
use serde_json::json;

use super::testbed::*;
use crate::common::runtime::{server_listener, within};
use crate::common::server::*;

/// F4
#[test]
fn host_calls_servers_by_websocket_and_reconnects() {
    bounded(async {
        let (listener, address) = listener();
        let (server, driver) = serving(router(&HandlerLog::default())).websocket().listen(listener);
        let running = smol::spawn(within(driver));
        let url = format!("ws://{address}/mcp");
        let servers = json!({ "web": { "type": "websocket", "url": url } });
        let (host, driver) = start(options(config(servers)));
        host.ready().await;
        let echo = host.call_tool("mcp__web__echo", json!({ "message": "hello" })).await.unwrap();
        assert_eq!(echo.text_content(), "hello");

        server.close();
        running.await.unwrap();
        until("the host has noticed", || status(&host, "web") != Status::Connected).await;
        let listener = server_listener(std::net::TcpListener::bind(address).unwrap());
        let (_server, again) = serving(router(&HandlerLog::default())).websocket().listen(listener);
        let running = smol::spawn(within(again));
        let echo = host.call_tool("mcp__web__echo", json!({ "message": "again" })).await.unwrap();
        assert_eq!(echo.text_content(), "again");
        host.close().await;
        driver.await.unwrap();
        running.cancel().await;
    });
}
