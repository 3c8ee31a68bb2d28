//! The handler takes no context.
//~ closure is expected to take 2 arguments

use mcp_proto::Router;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

fn main() {
    let router = Router::new("greeter", "1.0.0")
        .tool("greet", "Greets", async |greet: Greet| format!("Hello, {}!", greet.name));
    drop(router);
}
