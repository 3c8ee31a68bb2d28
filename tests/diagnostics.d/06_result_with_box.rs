//! The error of a handler is a boxed error.
//~ `map_err(HandlerError::new)`

use mcp_proto::{Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

async fn greet(greet: Greet, _: Context) -> Result<String, Box<dyn std::error::Error>> {
    Ok(std::fs::read_to_string(greet.name)?)
}

fn main() {
    drop(Router::new("greeter", "1.0.0").tool("greet", "Greets", greet));
}
