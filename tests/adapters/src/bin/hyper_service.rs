//! A server at `/mcp` of a bare hyper service, on Tokio. It prints its URL, and ends with its standard input.
//!
//! The duties of the application: it polls the service's driver for as long as it serves; it passes the address of
//! each client on; and it limits its connections, each of which it serves on its own. At the end it closes the server,
//! whose driver then waits for the sessions.

use std::error::Error;
use std::net::SocketAddr;

use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_hyper::{HttpService, PeerAddress, Router, ServerOptions, Tokio, Tool};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

/// The connections that are served at once.
const CONNECTIONS: usize = 256;

async fn answer(
    mcp: HttpService,
    client: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<
    Response<impl Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>>,
    std::convert::Infallible,
> {
    if request.uri().path() == "/mcp" {
        request.extensions_mut().insert(PeerAddress(client.ip()));
        return Ok(mcp.call(request).await?.map(Either::Left));
    }
    Ok(Response::new(Either::Right(Full::from("The application."))))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let number = json!({ "type": "number" });
    let schema =
        json!({ "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"] });
    let router = Router::new("hyper", "1.0.0")
        .tool_with(Tool::new("add", "Adds two numbers", schema), async |Add { a, b }, _| (a + b).to_string());
    let (service, driver) = ServerOptions::new(router).any_path().runtime(Tokio).service();
    let driver = tokio::spawn(driver);
    let mut input_end =
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let connections = std::sync::Arc::new(tokio::sync::Semaphore::new(CONNECTIONS));
    loop {
        let permit = connections.clone().acquire_owned().await?;
        let (socket, client) = tokio::select! {
            accepted = listener.accept() => accepted?,
            _ = &mut input_end => break,
        };
        socket.set_nodelay(true)?;
        let service = service.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| answer(service.clone(), client, request));
            let connection =
                http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(socket), answer);
            if let Err(error) = connection.await
                && !error.is_incomplete_message()
            {
                eprintln!("{client}: {error}");
            }
            drop(permit);
        });
    }
    service.server().close();
    Ok(driver.await??)
}
