//! Bodies of the fuzz targets: in this crate, so that they compile with the code under test and run in ordinary tests
//! too.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a panic is how a fuzz target reports"
)]

mod auth;
mod client;
mod harness;
mod host;
mod http_client;
mod http_server;
mod server;
mod server_messages;
mod sse;
mod wire;

pub use auth::challenge;
pub use auth::fetch_policy;
pub use auth::metadata;
pub use auth::token_answer;
pub use host::host_config;
pub use host::host_control;
pub use host::host_names;
pub use host::host_results;
pub use sse::sse;
pub use wire::envelope;
pub use wire::header;
pub use wire::lines;
pub use wire::schema;

/// Fuzzes a client with arbitrary operations.
pub fn client(data: &[u8]) {
    harness::fuzz::<client::Client>(data);
}

/// Fuzzes a client over HTTP with arbitrary operations.
pub fn http_client(data: &[u8]) {
    harness::fuzz::<http_client::Client>(data);
}

/// Fuzzes a server with arbitrary operations.
pub fn server(data: &[u8]) {
    harness::fuzz::<server::Server>(data);
}

/// Fuzzes a server over HTTP with arbitrary operations.
pub fn http_server(data: &[u8]) {
    harness::fuzz::<http_server::Server>(data);
}

/// What a machine does with a fuzzer's input: a line for each operation, event, output and deadline. An empty text if the
/// input encodes no operations.
pub type Transcript = fn(&[u8]) -> alloc::string::String;

/// The machines with fuzz targets, by the names of the targets; with `_ready`, a machine is made ready before the
/// operations.
pub const TRANSCRIPTS: [(&str, Transcript); 8] = [
    ("client", harness::transcript::<client::Client>),
    ("http_client", harness::transcript::<http_client::Client>),
    ("server", harness::transcript::<server::Server>),
    ("http_server", harness::transcript::<http_server::Server>),
    ("client_ready", harness::ready_transcript::<client::Client>),
    ("http_client_ready", harness::ready_transcript::<http_client::Client>),
    ("server_ready", harness::ready_transcript::<server::Server>),
    ("http_server_ready", harness::ready_transcript::<http_server::Server>),
];
