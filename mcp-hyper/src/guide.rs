//! Guides, one page each: servers, servers on Tokio, clients, hosts, layers, authorization, extensions, tests, traces; below,
//! which crate and which features to choose.
//!
//! | To | Read |
//! |---|---|
//! | write a server: tools that a model calls in your program | [`server`] |
//! | write a server on Tokio, or in an axum application | [`tokio`] |
//! | write a client: call the tools of a server | [`client`] |
//! | use many servers at once, from configuration files | [`host`] |
//! | log in to servers, or require tokens of clients | [`authorization`] |
//! | run several instances of a server behind a balancer | [`instances`] |
//! | try HTTP/2 over the standard streams of a program, an experiment | [`stdio_v2`] |
//! | write an extension of the protocol, or use one of others | [`extensions`] |
//! | write an adapter for another runtime | the page `guide` in [`mcp_proto::adapter`] |
//! | write a client in a web page, or a server in a worker (WebAssembly) | the page `web` in [`mcp_proto::adapter`] |
//! | log, limit, deny or change requests in one place | [`layers`] |
//! | test your own server or client | [`testing`] |
//! | see what goes over the wire of any client and server, and what is wrong with it | [`traces`] |
//! | move from `rmcp`, or compare the features of SDKs | [`migrating`] |
//!
//! # Which crate, which features
//!
//! The last column counts the crates in the dependency tree besides the crate itself, on Linux; `tests/dependencies`
//! lists them. Unless a row says otherwise, the default features are on.
//!
//! | You want | Depend on | Features | Crates |
//! |---|---|---|--:|
//! | a server that a host starts as a child process | `mcp-smol`: `run_stdio`, without an executor | the default features | 54 |
//! | the same with fewer crates | `mcp-smol` | `server`, `smol`, without the default features; `schemars` for `Router::tool`; `seal` if its handlers ask the user | 33; 37; 54 |
//! | a client of servers that are programs | `mcp-smol` | `client`, `smol`, without the default features | 33 |
//! | a client of servers at a URL | `mcp-hyper` | `client`, `smol`, `platform-roots`, without the default features | 65 |
//! | the same with HTTP/2 | `mcp-hyper` | also `http2` | 75 |
//! | a server over HTTP, or both roles | `mcp-hyper` | the default features | 95 |
//! | many servers, programs and URLs, as an agent has | `mcp-hyper`, which has `mcp_hyper::mcp_proto` for the types of configurations | `host`, `client`, `smol`, `platform-roots`, `http2`, without the default features | 88 |
//! | to log in to servers | `mcp-hyper` | `auth` | 121 |
//! | a server that requires tokens, checked by introspection or by a function | `mcp-hyper` | `auth` | 121 |
//! | a server that requires signed tokens | `mcp-hyper` | `auth-jwt` | 122 |
//! | a server inside of an axum application, or of another hyper service | `mcp-hyper`: [`ServerOptions::service`](crate::ServerOptions::service) | `server`, `tokio`, `schemars`, `seal`, without the default features | |
//! | child processes or standard streams on Tokio | `mcp-smol` | `client`, `server`, `tokio`, `schemars`, `seal`, without the default features | 52 |
//! | HTTP on Tokio | `mcp-hyper` | `tokio` in place of `smol` | |
//! | WebSocket | `mcp-hyper` | `websocket` | |
//! | I/O, an event loop or a runtime of your own | `mcp-proto` | the default features | 16 |
//! | WebAssembly in JavaScript | `mcp-proto` | `js`, `http`, and `client` or `server`, without the default features | |
//! | no `std` | `mcp-proto` | `client` or `server`, without the default features | |
//! | a command-line client | `cargo install mcp-hyper --features cli` | | |
//!
//! These features add to any of the rows:
//!
//! | You want | Feature | Of |
//! |---|---|---|
//! | `Router::tool`: the schemas of tools from the types of their arguments | `schemars`, on by default in the adapters | each crate |
//! | handlers that ask the user of a client of 2026-07-28; logins that another process finishes | `seal`, on by default in the adapters | each crate |
//! | a span for each request | `tracing` | each crate |
//! | tasks that the instances of a server share in Redis | `redis`, without further crates | `mcp-hyper` |
//! | arguments and results of tools checked against their JSON Schemas | `schema-validate`: 51 crates | `mcp-proto`, `mcp-hyper` |
//! | HTTP/2 over the standard streams of a program, an experiment | `stdio-v2`, with the crates of `http2` and `mcp-smol` | `mcp-hyper` |
//! | tests on a simulated clock, as in [`testing`] | `testing` | `mcp-proto`, in `[dev-dependencies]` |
//!
//! A feature of `mcp-proto` that the adapters do not have is enabled by depending on `mcp-proto` as well: the adapters
//! use the same crate. Routers, clients and handlers are types of `mcp-proto`, which both adapters export again, so
//! that one router serves both.
//!
//! The runtimes `smol` and `tokio` do not exclude each other. With `smol`, drivers run under any executor, also under
//! Tokio's: it provides sockets and timers by a thread of its own. With `tokio`, a Tokio runtime polls the drivers.
//!
//! # One router, two transports
//!
//! A server on its standard streams, or over HTTP if it is given an address. It depends on `mcp-smol`, `mcp-hyper`,
//! `smol`, `schemars` and `serde`:
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
//!         .tool("add", "Adds two numbers", async |Add { a, b }, _| (a + b).to_string());
//!     smol::block_on(async {
//!         match std::env::args().nth(1) {
//!             None => mcp_smol::serve_stdio(router).await,
//!             Some(address) => {
//!                 let listener = smol::net::TcpListener::bind(address).await?;
//!                 mcp_hyper::serve(listener, router).await
//!             }
//!         }
//!     })
//! }
//! ```

pub mod authorization;
pub mod client;
pub mod extensions;
pub mod host;
pub mod instances;
pub mod layers;
pub mod migrating;
pub mod server;
pub mod stdio_v2;
pub mod testing;
pub mod tokio;
pub mod traces;
