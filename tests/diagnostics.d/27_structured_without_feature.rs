//! The feature `schemars` is missing.
//! Features: client, server, std
//~ gated behind the `schemars` feature

use mcp_proto::front::Structured;

fn main() {
    drop(Structured("Bern"));
}
