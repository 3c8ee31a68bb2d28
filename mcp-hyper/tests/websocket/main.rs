//! WebSocket connections over real sockets.
#![cfg(feature = "websocket")]

#[path = "../common/mod.rs"]
mod common;

mod client;
mod frames;
mod pair;
mod upgrade;
