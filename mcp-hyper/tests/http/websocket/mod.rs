//! WebSocket connections over real sockets.
#![cfg(feature = "websocket")]

mod client;
mod frames;
mod pair;
#[cfg(feature = "auth-jwt")]
mod secure;
mod tool_frames;
mod upgrade;
