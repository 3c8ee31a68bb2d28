//! The closure is not async.
//~ an async closure or function

use mcp_proto::{Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

fn main() {
    let router = Router::new("greeter", "1.0.0")
        .tool("greet", "Greets", |greet: Greet, _: Context| format!("Hello, {}!", greet.name));
    drop(router);
}
