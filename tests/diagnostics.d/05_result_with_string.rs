//! The error of a handler is a `String`.
//~ `map_err(HandlerError::new)`

use mcp_proto::{Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

fn main() {
    let router = Router::new("greeter", "1.0.0").tool("greet", "Greets", async |greet: Greet, _: Context| {
        if greet.name.is_empty() {
            return Err("the name is empty".to_string());
        }
        Ok(format!("Hello, {}!", greet.name))
    });
    drop(router);
}
