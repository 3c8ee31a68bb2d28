//! A server on Tokio, in axum.
//!
//! Handlers are ordinary futures, and the driver is one too: on Tokio they may use everything of Tokio. This page is one
//! program, which the project's tests build and run (`tests/adapters/src/bin/axum.rs`): a server at `/mcp` of an axum
//! application, or on its standard streams.
//!
//! ```toml
//! [dependencies]
//! axum = "0.8"
//! mcp-hyper = { version = "0.1", default-features = false, features = ["server", "tokio", "schemars", "seal", "websocket"] }
//! mcp-smol = { version = "0.1", default-features = false, features = ["server", "tokio"] }
//! schemars = "1"
//! serde = { version = "1", features = ["derive"] }
//! tokio = { version = "1", features = ["net", "rt-multi-thread", "signal", "time"] }
//! ```
//!
//! It needs neither `hyper` nor `tower`; nor `seal` if no handler asks the user, nor `websocket` if no client needs it.
//!
//! # Tools
//!
//! ```rust,ignore
//! use std::error::Error;
//! use std::net::SocketAddr;
//! use std::time::Duration;
//!
//! use axum::extract::{ConnectInfo, Request};
//! use axum::routing::{any, get};
//! use mcp_hyper::{Context, HandlerError, NoArguments, PeerAddress, Router, ServerOptions, Tokio};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use tokio::net::TcpListener;
//! use tokio::runtime::Runtime;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Wait {
//!     milliseconds: u64,
//! }
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Lookup {
//!     host: String,
//! }
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Count {
//!     text: String,
//! }
//! ```
//!
//! ```rust,ignore
//! fn router() -> Router {
//!     Router::new("axum", "1.0.0")
//!         .tool("add", "Adds two numbers", async |Add { a, b }, _| a + b)
//!         .tool("wait", "Waits", async |Wait { milliseconds }, _| {
//!             tokio::time::sleep(Duration::from_millis(milliseconds)).await;
//!             "done"
//!         })
//!         .tool("lookup", "Finds the address of a host", async |Lookup { host }, _| {
//!             let mut found = tokio::net::lookup_host((host, 0)).await?;
//!             let address = found.next().ok_or_else(|| HandlerError::new("no address"))?;
//!             Ok(address.ip().to_string())
//!         })
//!         .tool("count", "Counts the words of a text", async |Count { text }, _| {
//!             let counting = tokio::task::spawn_blocking(move || text.split_whitespace().count());
//!             Ok(counting.await?.to_string())
//!         })
//!         .tool("whoami", "The client's address", async |NoArguments {}, cx: Context| {
//!             let client = cx.attachments().get::<PeerAddress>();
//!             client.map_or("unknown".to_owned(), |client| client.0.to_string())
//!         })
//! }
//! ```
//!
//! - **`wait`, `lookup`**: a handler runs inside of the runtime, so that Tokio's timers and sockets work, as these two tools
//!   show. A library that is written for Tokio, such as `reqwest` or `sqlx`, finds the runtime in the same way. Errors that implement `std::error::Error` convert by `?`; `anyhow::Error` and boxed
//!   errors by `.map_err(HandlerError::new)?`. The model reads an error with its sources: map those that say too much.
//! - **`count`**: work that computes for long or blocks leaves the handler, by `spawn_blocking`. A request of 2026-07-28 runs in
//!   the task of its connection; all legacy sessions and WebSockets run in the driver, on one thread at a time, where a handler
//!   that blocks stops the others. [`Router::spawn_handlers`](crate::Router::spawn_handlers) lets those use every core.
//! - **`whoami`**: what the server knows of a request is in [`Context::attachments`](crate::Context::attachments): the
//!   client's address, the head of the request, and what axum's layers have added to its extensions.
//! - A handler that panics ends its own call: the model reads that the tool has failed, and the text of the panic goes to
//!   the program's panic hook, which prints it to standard error. A handler that uses Tokio outside of its runtime panics
//!   in this way: "there is no reactor running".
//!
//! # In axum
//!
//! ```rust,ignore
//! async fn serve() -> Result<(), Box<dyn Error>> {
//!     let router = router();
//!     router.check()?;
//!     let (service, driver) = ServerOptions::new(router).any_path().websocket().runtime(Tokio).service();
//!     let driver = tokio::spawn(driver);
//!     let server = service.server().clone();
//!
//!     let mcp = any(async move |ConnectInfo(client): ConnectInfo<SocketAddr>, mut request: Request| {
//!         request.extensions_mut().insert(PeerAddress(client.ip()));
//!         service.call(request).await
//!     });
//!     let application = axum::Router::new().route("/", get(async || "The application.")).route("/mcp", mcp);
//!
//!     let listener = TcpListener::bind("127.0.0.1:0").await?;
//!     println!("http://{}/mcp", listener.local_addr()?);
//!     axum::serve(listener, application.into_make_service_with_connect_info::<SocketAddr>())
//!         .with_graceful_shutdown(async move {
//!             end_of_input().await;
//!             server.close();
//!         })
//!         .await?;
//!     Ok(driver.await??)
//! }
//! ```
//!
//! The duties of the application are:
//!
//! - **The router is checked** before it serves: the driver ends at once if it is invalid, and the application would not see
//!   that until its end.
//! - **The user**: if a layer of the application authenticates, pass its result by
//!   [`principal`](crate::ServerOptions::principal). Without that all clients are one user, who may use each other's sessions and
//!   tasks. Handlers read [`Context::principal`](crate::Context::principal).
//! - **The driver is polled** as long as the application serves, by a task of its own: legacy sessions, WebSockets
//!   and tasks live there and not in connections. Without that, requests of sessions and for WebSockets are answered with
//!   503, and the text names the driver; a call that becomes a task waits.
//! - **The client's address** goes with the request, as [`PeerAddress`](crate::PeerAddress): the server divides its limits
//!   between addresses, and requests without one share a quota. Behind a proxy, name it in
//!   [`trusted_proxies`](crate::ServerOptions::trusted_proxies).
//! - **The path** is axum's: [`any_path`](crate::ServerOptions::any_path). `Host` and `Origin` are still checked: a public
//!   name is set by `HttpServerConfig::hosts`, in [`configure`](crate::ServerOptions::configure).
//! - **Connections** are limited by the application, as its listener accepts them.
//! - **The end**: [`close`](mcp_proto::front::http::HttpHandle::close) first, or axum waits for event streams that end only
//!   with their clients. It lets running calls finish within
//!   [`close_timeout`](mcp_proto::peer::server::ServerConfig::close_timeout), 2 seconds by default; another one is set by
//!   `.configure(|config| Arc::make_mut(&mut config.server).close_timeout = …)`. Then the driver ends too, and its result says
//!   why. `end_of_input` stands for a signal: write `let _ = tokio::signal::ctrl_c().await;`.
//! - **Logs**: nothing is printed. [`events`](mcp_proto::front::http::HttpHandle::events) of `service.server()` name handlers that
//!   block and a driver that nothing polls; the feature `tracing` gives a span for each request, and an event for each
//!   report about a handler.
//!
//! Without axum, [`ServerOptions::listen`](crate::ServerOptions::listen) accepts the connections of a Tokio listener itself,
//! and [`listen_with`](crate::ServerOptions::listen_with) spawns a task for each.
//!
//! # On standard input and output
//!
//! ```rust,ignore
//! fn main() -> Result<(), Box<dyn Error>> {
//!     let runtime = Runtime::new()?;
//!     if std::env::args().nth(1).as_deref() == Some("stdio") {
//!         let _inside = runtime.enter();
//!         return Ok(mcp_smol::run_stdio(router())?);
//!     }
//!     runtime.block_on(serve())
//! }
//! ```
//!
//! `mcp_smol::run_stdio` takes the thread that calls it, also for the handlers; `enter` lets them use the runtime, whose own
//! threads drive timers and sockets. That needs the multi-threaded runtime. Within `async` code, or on a runtime of one
//! thread, await the driver instead: `ServerOptions::new(router).runtime(RuntimeKind::Tokio).stdio()?.1.await`, with the types of
//! `mcp_smol`.
//!
//! [Clients on Tokio](super::client#on-tokio) are on a page of their own.
