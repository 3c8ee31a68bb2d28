//! The feature `websocket` of `mcp-hyper` is missing.
//! Crate: mcp-hyper
//! Features: client, server, smol
//~ a server accepts WebSocket connections only with the feature `websocket`
//~ a client speaks WebSocket only with the feature `websocket`
//~ in `Cargo.toml`, add `"websocket"` to the features of `mcp-hyper`

use std::time::Duration;

use mcp_hyper::{ClientOptions, Router, ServerOptions};

fn main() {
    drop(ServerOptions::new(Router::new("notes", "1.0.0")).tool_frames());
    drop(ClientOptions::new("my-host", "1.0.0").ping_interval(Some(Duration::from_secs(5))));
}
