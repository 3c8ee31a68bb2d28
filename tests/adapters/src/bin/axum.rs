//! The program of the page "A server on Tokio, in axum": a server at `/mcp` of an axum application, over HTTP and
//! WebSocket, or with the argument `stdio` on its standard streams. Over HTTP it prints its URL, and ends with its
//! standard input.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request};
use axum::routing::{any, get};
use mcp_hyper::{Context, HandlerError, NoArguments, PeerAddress, Router, ServerOptions, Tokio};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Wait {
    milliseconds: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Lookup {
    host: String,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    text: String,
}

fn router() -> Router {
    Router::new("axum", "1.0.0")
        .tool("add", "Adds two numbers", async |Add { a, b }, _| a + b)
        .tool("wait", "Waits", async |Wait { milliseconds }, _| {
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            "done"
        })
        .tool("lookup", "Finds the address of a host", async |Lookup { host }, _| {
            let mut found = tokio::net::lookup_host((host, 0)).await?;
            let address = found.next().ok_or_else(|| HandlerError::new("no address"))?;
            Ok(address.ip().to_string())
        })
        .tool("count", "Counts the words of a text", async |Count { text }, _| {
            let counting = tokio::task::spawn_blocking(move || text.split_whitespace().count());
            Ok(counting.await?.to_string())
        })
        .tool("whoami", "The client's address", async |NoArguments {}, cx: Context| {
            let client = cx.attachments().get::<PeerAddress>();
            client.map_or("unknown".to_owned(), |client| client.0.to_string())
        })
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let router = router();
    router.check()?;
    let (service, driver) = ServerOptions::new(router).any_path().websocket().runtime(Tokio).service();
    let driver = tokio::spawn(driver);
    let server = service.server().clone();

    let mcp = any(async move |ConnectInfo(client): ConnectInfo<SocketAddr>, mut request: Request| {
        request.extensions_mut().insert(PeerAddress(client.ip()));
        service.call(request).await
    });
    let application = axum::Router::new().route("/", get(async || "The application.")).route("/mcp", mcp);

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, application.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(async move {
            end_of_input().await;
            server.close();
        })
        .await?;
    Ok(driver.await??)
}

/// Stands for a signal, such as that of `tokio::signal::ctrl_c`.
async fn end_of_input() {
    let read = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    let _ = tokio::task::spawn_blocking(read).await;
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    if std::env::args().nth(1).as_deref() == Some("stdio") {
        let _inside = runtime.enter();
        return Ok(mcp_smol::run_stdio(router())?);
    }
    runtime.block_on(serve())
}
