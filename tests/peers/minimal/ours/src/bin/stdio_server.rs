//! Serves one tool on the standard streams.

use mcp_smol::Router;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

fn main() -> Result<(), mcp_smol::ServeError> {
    let router =
        Router::new("calculator", "1.0.0")
            .tool("add", "Adds two numbers", async |Add { a, b }, _| (a + b).to_string());
    async_io::block_on(mcp_smol::serve_stdio(router))
}
