//! Stored records and wire traces, compared with fixtures that an older version wrote.
//!
//! A program of its own, so that `RECORD=1` reaches no other test. The fixtures lie beside this file. A test fails if a byte differs. If a format changes on purpose, `RECORD=1` writes
//! new fixtures:
//!
//! ```text
//! RECORD=1 cargo test -p mcp-proto --all-features --test recorded
//! ```
//!
//! The JSON that the tests send has sorted members: the bytes are then the same with and without `preserve_order` of
//! `serde_json`, which other crates of the workspace enable.
#![cfg(all(
    feature = "std",
    feature = "client",
    feature = "server",
    feature = "http",
    feature = "seal",
    feature = "auth",
    feature = "testing"
))]

#[path = "../common/mod.rs"]
mod common;
mod fixtures;
#[allow(dead_code, unused_imports, reason = "the tests of the authorization client use the rest")]
#[path = "../auth/client/sim/mod.rs"]
mod sim;

mod http_traces;
mod login_traces;
mod sealed_states;
mod stream_traces;
mod task_records;
mod token_records;
