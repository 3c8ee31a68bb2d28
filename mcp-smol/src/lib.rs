//! The [Model Context Protocol](https://modelcontextprotocol.io) over child processes, standard input and output,
//! and sockets.
//!
//! A server is a program whose functions are tools for a model. Applications start it as their child process. The type
//! of the arguments gives a tool its schema:
//!
//! ```no_run
//! use mcp_smol::Router;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! fn main() -> Result<(), mcp_smol::ServeError> {
//!     let router = Router::new("calculator", "1.0.0")
//!         .tool("add", "Adds two numbers", async |Add { a, b }, _| a + b);
//!     mcp_smol::run_stdio(router)
//! }
//! ```
//!
//! A client starts such a program and calls its tools. The driver is a future that moves the bytes of the
//! connection: spawn it on your executor.
//!
//! ```no_run
//! use mcp_smol::Command;
//! use serde_json::json;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! smol::block_on(async {
//!     let server = Command::new("npx").arg("-y").arg("@modelcontextprotocol/server-everything");
//!     let (client, driver) = mcp_smol::connect(server);
//!     smol::spawn(driver).detach();
//!
//!     for tool in client.list_tools().await? {
//!         println!("{}", tool.name);
//!     }
//!     let sum = client.call_tool("get-sum", json!({ "a": 2, "b": 3 })).await?;
//!     println!("{}", sum.text_content());
//!     client.close().await;
//!     Ok(())
//! })
//! # }
//! ```
//!
//! | To | use |
//! |---|---|
//! | start a server as a child process | [`connect`], or [`ClientOptions::connect`] with options |
//! | connect to a server over a socket | [`connect_stream`] |
//! | serve on this process's standard streams | [`serve_stdio`], or [`ServerOptions::stdio`] with options |
//! | the same on a thread of its own, faster and without a runtime | [`run_stdio`], or [`ServerOptions::blocking_stdio`] |
//! | serve on a socket | [`serve`] |
//! | show a user the command before it runs | [`Command::preview`] |
//! | run a child without MCP | [`Command`] → [`Child`], its [`Stderr`], its [`Exit`]; or a [`SpawnError`] |
//! | get an error, not a panic, if no file descriptors are left | [`start_reactor`] |
//! | read and write at the same time in one poll | [`Io`], over any pair of reader and writer or any one stream |
//! | pass standard streams to a library that expects one stream | [`Duplex`]; [`ChildStream`] for those of a child |
//!
//! The protocol itself is in `mcp_proto`: clients, routers, handlers and results in [`mcp_proto::front`]. The
//! drivers here move bytes, read the clock and open and close links. They need no particular executor: async-io
//! provides readiness and timers, on a thread of its own where none of its `block_on` runs. With
//! `RuntimeKind::Tokio` tokio provides them.
//!
//! What the driver of a client carries between the machine of `mcp-proto` and a child process:
//!
//! ```text
//! StreamClient            driver                                        child process
//!   Open              →   starts it, at the head of a process group  →  runs
//!   poll_transmit     →   writes bytes                               →  standard input
//!   handle_input      ←   reads bytes                                ←  standard output
//!   handle_eof        ←   exit status, end of the standard error     ←  exits
//!   CloseWrite        →   ends its input; after 2 s SIGTERM to the group, after 2 s more SIGKILL
//!   Abort             →   SIGTERM at once, then the same steps
//! ```
//!
//! A server's driver carries bytes between a `StreamServer` and the standard streams or a socket, and both drivers the time.
//!
//! The [guides](https://docs.rs/mcp-hyper/latest/mcp_hyper/guide/) of `mcp-hyper` are for this crate too: servers,
//! clients, tests, which crate and feature to choose, and the way from `rmcp`. In a clone of the repository,
//! `cargo doc --workspace --all-features --no-deps` writes them to `target/doc/mcp_hyper/guide/index.html`.
//!
//! # Features
//!
//! | Feature | |
//! |---|---|
//! | `client` (default) | clients of child processes and sockets |
//! | `server` (default) | servers on standard streams and sockets |
//! | `smol` (default) | readiness and timers by async-io, under any executor |
//! | `tokio` | the same by tokio: the [`RuntimeKind`] to choose, and the default without `smol` |
//! | `schemars` (default) | `Router::tool`: schemas of tools from the types of their arguments and results |
//! | `seal` (default) | handlers of servers request input from clients of 2026-07-28 (implies `server`) |
//! | `tracing` | a span for each request: `mcp_proto::front::trace` |
//!
//! # Systems
//!
//! Developed and tested on Linux. Other Unix systems share all of the code except the lookups in `/proc` and the
//! process handles, which a waiting thread per child replaces (tested on Linux); OpenBSD lacks `waitid` and is
//! not supported. The Windows parts (`.cmd` and `.bat` through `PATHEXT`, no console window, a job object
//! that ends the tree, threads for pipes) are tested under Wine, not on Windows. There a server's printed text is not
//! kept from its standard output, and a client sees that its server has closed its output only when the server exits.
#![forbid(unsafe_code)]
// Beside the pages of the crates that link here. Without this, rustdoc links to the crates that it documented before,
// and `cargo doc --no-deps` documents a workspace in any order. docs.rs replaces it.
#![doc(html_root_url = "../")]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]
#![cfg_attr(
    not(all(feature = "client", feature = "server")),
    allow(dead_code, unreachable_pub, reason = "one role alone does not use all that both share")
)]

// Its tables of texts and of fields.
#[macro_use]
pub extern crate mcp_proto;

#[cfg(not(any(feature = "smol", feature = "tokio")))]
compile_error!("no runtime chosen: enable the feature `smol`, `tokio` or both");

#[cfg(not(any(feature = "client", feature = "server")))]
compile_error!("no role chosen: enable the feature `client`, `server` or both");

mod child;
#[cfg(feature = "client")]
mod client;
mod command;
mod io;
mod reactor;
#[cfg(feature = "server")]
mod server;
mod stderr;
mod stdio;
mod threaded;
mod tree;
#[cfg(unix)]
mod watch;

#[doc(no_inline)]
pub use mcp_proto::schema;
pub use mcp_proto::{
    CallToolResult, ContentBlock, ElicitAction, ElicitParams, ElicitSchema, Error, HandlerError,
    Implementation, PrimitiveSchema, Tool, ToolAnnotations,
};

pub use child::{Child, ChildStdin, ChildStdout, Exit, Process};
pub use command::{Command, CommandPreview, Environment, Risk, SpawnError, SpawnErrorKind};
pub use io::{Duplex, Io, WireDirection};
pub use reactor::RuntimeKind;
#[cfg(feature = "smol")]
pub use reactor::start_reactor;
pub use stderr::{Stderr, StderrLine, StderrLines};
pub use stdio::{Stdin, Stdout, stdio, stdio_shared};
pub use tree::{Killer, ShutdownStep, ShutdownTimeouts};

#[cfg(all(feature = "server", feature = "schemars"))]
pub use mcp_proto::Structured;
#[cfg(feature = "client")]
pub use {
    client::{ChildLink, ChildStream, ClientDriver, ClientOptions, StreamLink, connect, connect_stream},
    mcp_proto::front::call_once,
    mcp_proto::{Client, ClientContext, ClientHandlers},
};
#[cfg(feature = "server")]
pub use {
    mcp_proto::adapter::ServeError,
    mcp_proto::{Context, LiveRouter, NoArguments, Progress, Router, without_arguments},
    server::{ServerDriver, ServerOptions, StdioServer, SystemEntropy, run_stdio, serve, serve_stdio},
};
