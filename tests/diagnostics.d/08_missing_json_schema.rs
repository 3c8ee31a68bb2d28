//! The arguments do not implement `JsonSchema`.
//~ derives `serde::Deserialize` and `schemars::JsonSchema`

use mcp_proto::{Context, Router};

#[derive(serde::Deserialize)]
struct Greet {
    name: String,
}

fn main() {
    let router = Router::new("greeter", "1.0.0")
        .tool("greet", "Greets", async |greet: Greet, _: Context| format!("Hello, {}!", greet.name));
    drop(router);
}
