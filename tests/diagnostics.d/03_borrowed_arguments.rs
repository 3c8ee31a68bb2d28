//! The handler takes its arguments by reference.
//~ by value (`add: Add`, not `add: &Add`)

use mcp_proto::{Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

fn main() {
    let router = Router::new("greeter", "1.0.0")
        .tool("greet", "Greets", async |greet: &Greet, _: Context| format!("Hello, {}!", greet.name));
    drop(router);
}
