//! The handler returns an `Option`.
//~ say what `None` means

use mcp_proto::{Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

fn main() {
    let router = Router::new("greeter", "1.0.0")
        .tool("greet", "Greets", async |greet: Greet, _: Context| Some(greet.name));
    drop(router);
}
