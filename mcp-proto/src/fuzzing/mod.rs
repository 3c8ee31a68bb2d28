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
mod model;
mod resource_server;
mod server;
mod sse;
mod trace_file;
mod wire;

pub use auth::{challenge, fetch_policy, metadata, token_answer};
pub use harness::{Application, ChunkMode, Recording, RunState};
pub use host::{host_config, host_control, host_names, host_results};
pub use resource_server::resource_server;
pub use sse::{redact, sse};
pub use trace_file::trace_file;
pub use wire::{envelope, frontmatter, header, lines, schema, skill_manifest};

/// What a machine does with a fuzzer's input: a line for each operation, event, output and deadline. An empty text if the
/// input encodes no operations.
pub type Transcript = fn(&[u8]) -> alloc::string::String;

macro_rules! machines {
    ($($name:ident: $target:ty),*) => {
        $(
            /// Fuzzes the machine with arbitrary operations.
            pub fn $name(data: &[u8]) {
                harness::fuzz::<$target>(data);
            }
        )*

        /// The machines with fuzz targets, by the names of the targets; with `_ready`, a machine is made ready before the
        /// operations.
        pub const TRANSCRIPTS: [(&str, Transcript); 8] = [
            $((stringify!($name), harness::transcript::<$target>),)*
            $((concat!(stringify!($name), "_ready"), harness::ready_transcript::<$target>),)*
        ];
    };
}

/// The machines with reference models, by the names of their targets. Each function compares the machine with its model, and
/// returns the number of operations that the model has covered, and of all.
pub const MODELS: [(&str, ModelComparison); 3] = [
    ("client", harness::compare_with_model::<client::Client>),
    ("server", harness::compare_with_model::<server::Server>),
    ("http_server", harness::compare_with_model::<http_server::Server>),
];

/// Compares a machine with its model on a fuzzer's input.
pub type ModelComparison = fn(&[u8]) -> (usize, usize);

machines! {
    client: client::Client,
    http_client: http_client::Client,
    server: server::Server,
    http_server: http_server::Server
}
