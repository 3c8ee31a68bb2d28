//! The structured output does not implement `Serialize`.
//~ consider adding `#[derive(serde::Serialize)]` to your `Greeting` type

use mcp_proto::front::Structured;
use mcp_proto::{Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

#[derive(schemars::JsonSchema)]
struct Greeting {
    text: String,
}

fn main() {
    let router = Router::new("greeter", "1.0.0")
        .tool("greet", "Greets", async |greet: Greet, _: Context| Structured(Greeting { text: greet.name }));
    drop(router);
}
