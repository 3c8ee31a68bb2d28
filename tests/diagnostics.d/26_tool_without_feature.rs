//! The feature `schemars` is missing.
//! Features: client, server, std
//~ `Router::tool` needs the feature `schemars`
//~ in `Cargo.toml`, add `"schemars"` to the features of `mcp-smol`, `mcp-hyper` or `mcp-proto`

use mcp_proto::Router;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

fn main() {
    drop(Router::new("calculator", "1.0.0").tool("add", "Adds two numbers", async |Add { a, b }, _| a + b));
}
