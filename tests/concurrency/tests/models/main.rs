//! Models of what threads share in mcp-proto: each is a few threads that shuttle runs in many orders, one at a time.
//!
//! A lost wake-up is a deadlock here, which shuttle reports, and so is a lock that a thread takes twice. A failure prints
//! its schedule: `MCP_SCHEDULE=… cargo test … NAME` runs it again.

#[path = "../../../../mcp-proto/tests/common/mod.rs"]
mod common;
mod explore;
mod wire;

mod adapter;
mod calls;
mod connection;
mod handlers;
mod http;
mod live_router;
