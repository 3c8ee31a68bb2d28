//! Clients and servers over HTTP and WebSocket.

#[path = "../common/mod.rs"]
mod common;

mod client;
mod descriptors;
mod redis;
mod restart;
mod server;
mod stdio_v2;
mod transport;
mod websocket;
