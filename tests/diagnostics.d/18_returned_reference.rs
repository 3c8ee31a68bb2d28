//! The handler returns a reference into its arguments.
//~ cannot return value referencing local data

use mcp_proto::{Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

fn main() {
    let router = Router::new("greeter", "1.0.0")
        .tool("greet", "Greets", async |greet: Greet, _: Context| greet.name.as_str());
    drop(router);
}
