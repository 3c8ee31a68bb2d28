//! The server role over HTTP, without a socket.
#![cfg(all(feature = "server", feature = "http"))]

#[path = "../http_server_common/mod.rs"]
mod http_server_common;

mod batches;
mod contracts;
mod exchange;
mod headers;
mod intake;
mod legacy_sse;
mod review;
mod sessions;
mod streams;
