//! The arguments have a borrowed field.
//~ implementation of `_serde::Deserialize` is not general enough

use mcp_proto::{Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet<'a> {
    name: &'a str,
}

fn main() {
    let router = Router::new("greeter", "1.0.0")
        .tool("greet", "Greets", async |greet: Greet<'_>, _: Context| format!("Hello, {}!", greet.name));
    drop(router);
}
