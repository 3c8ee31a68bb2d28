//! The handler of a `Router::new` holds an `Rc` while it waits.
//~ not `Send`: `Router::local`

use mcp_proto::{Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

fn main() {
    let router = Router::new("greeter", "1.0.0").tool("greet", "Greets", async |greet: Greet, _: Context| {
        let name = std::rc::Rc::new(greet.name);
        std::future::ready(()).await;
        format!("Hello, {name}!")
    });
    drop(router);
}
