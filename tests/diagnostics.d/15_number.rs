//! The handler returns a number.

use mcp_proto::{Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

fn main() {
    let router = Router::new("calculator", "1.0.0")
        .tool("add", "Adds two numbers", async |Add { a, b }, _: Context| a + b);
    drop(router);
}
