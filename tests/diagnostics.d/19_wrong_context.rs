//! The handler of a server takes the context of a client.
//~ expected function signature `fn(Greet, mcp_proto::Context) -> _`

use mcp_proto::{ClientContext, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

fn main() {
    let router = Router::new("greeter", "1.0.0")
        .tool("greet", "Greets", async |greet: Greet, _: ClientContext| format!("Hello, {}!", greet.name));
    drop(router);
}
