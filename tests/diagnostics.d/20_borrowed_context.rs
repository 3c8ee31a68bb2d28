//! A function takes the context by reference.
//~ consider adjusting the signature so it does not borrow its argument

use mcp_proto::{Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

async fn greet(greet: Greet, cx: &Context) -> String {
    cx.progress(1);
    format!("Hello, {}!", greet.name)
}

fn main() {
    drop(Router::new("greeter", "1.0.0").tool("greet", "Greets", greet));
}
