//! The [Model Context Protocol](https://modelcontextprotocol.io) over HTTP: servers, clients, authorization, hosts.
//!
//! A server: functions of your program as tools for a model, at `http://127.0.0.1:8080/mcp`. The type of the arguments
//! gives a tool its schema:
//!
//! ```no_run
//! use mcp_hyper::Router;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! fn main() -> Result<(), mcp_hyper::ServeError> {
//!     let router = Router::new("calculator", "1.0.0")
//!         .tool("add", "Adds two numbers", async |Add { a, b }, _| a + b);
//!     smol::block_on(async {
//!         let listener = smol::net::TcpListener::bind("127.0.0.1:8080").await?;
//!         mcp_hyper::serve(listener, router).await
//!     })
//! }
//! ```
//!
//! A client calls the tools of such a server. The driver is a future that moves the bytes of the connection: spawn
//! it on your executor.
//!
//! ```no_run
//! use serde_json::json;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! smol::block_on(async {
//!     let (client, driver) = mcp_hyper::connect("http://127.0.0.1:8080/mcp")?;
//!     smol::spawn(driver).detach();
//!
//!     let sum = client.call_tool("add", json!({ "a": 2, "b": 3 })).await?;
//!     println!("{}", sum.text_content());
//!     client.close().await;
//!     Ok(())
//! })
//! # }
//! ```
//!
//! The [`guide`] has a page for each of: servers, clients, many servers, layers, authorization, extensions, tests, the way from `rmcp`.
//! Its index says which crate and which features to choose.
//!
//! | Task | Item |
//! |---|---|
//! | connect to a server | [`connect`], or [`ClientOptions::connect`] with options |
//! | choose a proxy, or none | [`Proxy`] |
//! | log in to servers that require it | `auth::Authorization`, with the feature `auth` |
//! | log or inspect HTTP traffic | [`ClientOptions::on_wire`] and its [`WireEvent`]s; without secrets, [`mcp_proto::redact`] |
//! | use Tokio's sockets and timers, or others | [`Runtime`] |
//! | run a server | [`serve`], or [`ServerOptions`] |
//! | observe its connections | [`ServerOptions::on_wire`] |
//! | use many servers at once, programs and URLs | `host::Host`, with the feature `host` |
//! | find the servers that a user's applications have | `host::discover`, with the feature `host` |
//! | serve folders of instructions for models | `skills::SkillFolder`, with the feature `skills` |
//! | share tasks among the instances of a server | `redis::Redis`, with the feature `redis` |
//! | embed a server in an accept loop or another router | [`ServerOptions::service`] and its [`HttpService`] |
//!
//! The protocol itself is in `mcp_proto`: clients, routers, handlers and results in [`mcp_proto::front`], its HTTP
//! transport in [`mcp_proto::transport::http`]. The drivers here open connections, transfer heads and bodies, and
//! read the clock.
//!
//! What they carry between the machines and the network:
//!
//! ```text
//! HttpClient                    driver                                          server
//!   Open                    →   a request, with the application's headers   →   on a new or a kept connection
//!   handle_head, _body      ←   status and headers, pieces of the body      ←   a value, or a stream of events
//!   handle_end              ←   complete, truncated, or failed: was it sent?
//!   Abort                   →   resets the stream (HTTP/2) or closes the connection
//!   AuthorizationRequired   →   headers are asked for, or the user logs in; then resume or refuse
//!
//! HttpServer                    driver                                          client
//!   exchange, handle_body   ←   head, and pieces of the body                ←   a request
//!   poll_head, poll_body    →   head, and pieces of the answer              →   a value, or a stream of events
//!   drop                    ←   the client has left
//!
//! ChannelClient, ChannelServer carry whole messages: texts of a WebSocket. Its pings and close codes are the driver's.
//! ```
//!
//! # Features
//!
//! | Feature | |
//! |---|---|
//! | `client` (default) | clients of servers at a URL |
//! | `server` (default) | servers, and services to embed |
//! | `http2` (default) | HTTP/2 beside HTTP/1.1, negotiated over TLS |
//! | `stdio-v2` | experimental: HTTP/2 over the standard streams of a child process; implies `client`, `server` and `http2` |
//! | `smol` (default) | smol's sockets and timers, [under any executor](Runtime) |
//! | `tokio` | Tokio's sockets and timers, for drivers that a Tokio runtime polls; `Tokio` implements [`Runtime`] |
//! | `schemars` (default) | `Router::tool`: schemas of tools from the types of their arguments and results |
//! | `seal` (default) | handlers of servers request input from clients of 2026-07-28; with `auth`, another process finishes a login |
//! | `platform-roots` (default) | TLS with the system's root certificates |
//! | `bundled-roots` | TLS with Mozilla's root certificates, unless `platform-roots` is enabled |
//! | `host` | many servers at once: `host::Host`; implies `client` |
//! | `redis` | Redis as the store that the instances of a server share: `redis::Redis`; implies `client`, `server` and `seal` |
//! | `skills` | folders of instructions for models, which clients list and verify; `host` implies it |
//! | `auth` | OAuth: `auth::Authorization` for clients (implies `client`), `ServerOptions::protect` for servers |
//! | `auth-jwt` | servers that verify signed tokens and proofs of possession; implies `auth` and `server` |
//! | `tracing` | a span for each request: `mcp_proto::front::trace`; events of hosts |
//! | `websocket` | clients of `ws:` and `wss:` URLs, and servers that accept WebSocket connections |
//! | `tls` | TLS with [roots of the application](ClientOptions::tls); both others imply it |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]
#![cfg_attr(
    not(all(feature = "auth", feature = "server", feature = "stdio-v2")),
    allow(dead_code, unreachable_pub, reason = "not every feature uses all of it")
)]

// Its tables of texts and of fields.
#[macro_use]
pub extern crate mcp_proto;

#[cfg(not(any(feature = "client", feature = "server")))]
compile_error!("no role chosen: enable the feature `client`, `server` or both");
#[cfg(not(any(feature = "smol", feature = "tokio")))]
compile_error!("no runtime chosen: enable the feature `smol`, `tokio` or both");

#[cfg(feature = "auth")]
pub mod auth;
#[cfg(feature = "client")]
mod client;
#[cfg(doc)]
pub mod guide;
#[cfg(feature = "host")]
pub mod host;
mod io;
#[cfg(any(feature = "auth", feature = "host", all(feature = "server", feature = "seal")))]
mod private_files;
#[cfg(feature = "redis")]
pub mod redis;
mod runtime;
#[cfg(feature = "server")]
mod server;
#[cfg(all(feature = "server", feature = "seal"))]
mod shared_folder;
#[cfg(all(feature = "server", feature = "skills"))]
pub mod skills;
mod task_set;
mod time;
#[cfg(feature = "websocket")]
mod websocket;
mod wire;

pub use http;
#[doc(no_inline)]
pub use mcp_proto::schema;
pub use mcp_proto::{
    CallToolResult, ContentBlock, ElicitAction, ElicitParams, ElicitSchema, Error, HandlerError,
    Implementation, PrimitiveSchema, Tool, ToolAnnotations,
};

#[cfg(feature = "host")]
pub use client::{ForwardDriver, Forwarder};
#[cfg(feature = "tls")]
pub use futures_rustls::rustls;
#[cfg(all(feature = "server", feature = "schemars"))]
pub use mcp_proto::Structured;
#[cfg(feature = "smol")]
pub use runtime::Smol;
pub use runtime::{Acceptor, DefaultRuntime, Endpoint, Runtime, Stream};
#[cfg(feature = "tokio")]
pub use runtime::{Tokio, TokioSocket};
#[cfg(all(feature = "server", feature = "tls"))]
pub use server::TlsPeer;
#[cfg(feature = "stdio-v2")]
pub use server::serve_stdio_v2;
#[cfg(all(feature = "server", feature = "seal"))]
pub use shared_folder::SharedFolder;
pub use wire::WireEvent;
#[cfg(feature = "client")]
pub use {
    client::{
        ClientDriver, ClientOptions, ConnectError, HeaderError, HeaderErrorKind, Proxy, ProxyError, connect,
    },
    mcp_proto::front::call_once,
    mcp_proto::{Client, ClientContext, ClientHandlers},
};
#[cfg(feature = "server")]
pub use {
    mcp_proto::adapter::ServeError,
    mcp_proto::{Context, LiveRouter, NoArguments, Progress, Router, without_arguments},
    server::{
        Connection, ConnectionError, ConnectionLimit, ConnectionTask, HttpService, Listener, PeerAddress,
        ResponseBody, ResponseFuture, ServerDriver, ServerError, ServerLimits, ServerMode, ServerOptions,
        ServiceDriver, SystemEntropy, serve,
    },
};
