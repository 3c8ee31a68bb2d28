//! Byte streams for [`mcp_proto`] on smol's I/O: child processes, this process's own standard streams, and
//! anything else that can be read and written.
//!
//! Nothing here knows about MCP. Nothing spawns a task: everything is polled by whoever uses it, under any
//! executor (readiness and timers come from [`async_io`], which brings its own thread where no `block_on` of
//! its own runs).
//!
//! | To | use |
//! |---|---|
//! | run a server as a child | [`Command`] → [`Child`], its [`Stderr`], its end as an [`Exit`] or why not, a [`SpawnError`] |
//! | be a server on one's own standard streams | [`stdio()`] |
//! | read and write at the same time in one poll | [`Io`], over any pair of reader and writer or any one stream |
//!
//! # Systems
//!
//! Developed and tested on Linux. Other Unix systems share all of the code but the lookups in `/proc` and the
//! process handles, in whose place a thread per child waits (tested on Linux); OpenBSD lacks `waitid` and is
//! not supported. The Windows parts (`.cmd` and `.bat` through `PATHEXT`, no console window, a job object
//! that ends the tree, threads for pipes) are written against the documentation of the crates they use and
//! have been neither compiled nor run there.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod alarm;
mod child;
mod client;
mod command;
mod environment;
mod io;
mod ladder;
mod os;
mod pipe;
#[cfg(unix)]
mod polled;
mod pump;
mod server;
mod spawn_error;
mod stderr;
mod stdio;

pub use mcp_proto;

pub use child::{Child, Exit, Process};
pub use client::{ChildLink, ClientDriver, ClientOptions, StreamLink, Wire, connect, connect_stream};
pub use command::Command;
pub use environment::Environment;
pub use io::Io;
pub use ladder::{Rung, Shutdown};
pub use pipe::{ChildStdin, ChildStdout};
pub use server::{ServerDriver, ServerOptions, serve, serve_stdio};
pub use spawn_error::{SpawnError, SpawnFailure};
pub use stderr::{Stderr, StderrLine, StderrLines};
pub use stdio::{Stdin, Stdout, stdio, stdio_shared};
