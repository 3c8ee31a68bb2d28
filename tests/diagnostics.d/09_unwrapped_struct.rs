//! The handler returns a struct that is not wrapped in `Structured`.
//~ return `Structured(value)`

use mcp_proto::{Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Greeting {
    text: String,
}

fn main() {
    let router = Router::new("greeter", "1.0.0")
        .tool("greet", "Greets", async |greet: Greet, _: Context| Greeting { text: greet.name });
    drop(router);
}
