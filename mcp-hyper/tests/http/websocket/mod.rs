//! WebSocket connections over real sockets.
#![cfg(feature = "websocket")]

pub(crate) mod client;
mod frames;
pub(crate) mod pair;
#[cfg(feature = "auth-jwt")]
mod secure;
mod tool_frames;
mod upgrade;
