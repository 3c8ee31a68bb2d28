//! The feature `schema-validate` is missing.
//! Features: client, server, std
//~ gated behind the `schema-validate` feature

use mcp_proto::Client;
use mcp_proto::front::OutputChecks;

fn unchecked(client: &Client) {
    client.check_outputs(OutputChecks::Off);
}

fn main() {
    let _ = unchecked;
}
