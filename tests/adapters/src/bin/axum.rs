//! A server at `/mcp` of an existing axum application, on Tokio, over HTTP and WebSocket. It prints its URL, and ends with
//! its standard input.
//!
//! The duties of the application: it polls the service's driver for as long as it serves, since sessions and WebSockets
//! live there and not in connections; it passes the address of each client on, by which the server keeps one client from
//! using up the quota of all; and it limits connections itself, as its own listener accepts them. At the end it closes
//! the server first: otherwise the application would wait for event streams that end only with their clients.

use std::error::Error;
use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request};
use axum::routing::{any, get};
use hyper::service::Service as _;
use mcp_hyper::{HttpService, PeerAddress, Router, ServerOptions, Tokio, Tool};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

fn service() -> (HttpService, impl Future<Output = std::io::Result<()>>) {
    let number = json!({ "type": "number" });
    let schema =
        json!({ "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"] });
    let router = Router::new("axum", "1.0.0")
        .tool_with(Tool::new("add", "Adds two numbers", schema), async |Add { a, b }, _| (a + b).to_string());
    // The application's own router has checked the path.
    ServerOptions::new(router).any_path().websocket().runtime(Tokio).service()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (service, driver) = service();
    let driver = tokio::spawn(driver);
    let server = service.server().clone();

    let mcp = any(async move |ConnectInfo(client): ConnectInfo<SocketAddr>, mut request: Request| {
        request.extensions_mut().insert(PeerAddress(client.ip()));
        service.call(request).await
    });
    let application = axum::Router::new().route("/", get(async || "The application.")).route("/mcp", mcp);

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, application.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(async move {
            let _ =
                tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
                    .await;
            server.close();
        })
        .await?;
    Ok(driver.await??)
}
