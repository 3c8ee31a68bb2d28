//! The handler of a prompt returns a tool result.
//~ a `PromptMessage`, a `Vec` of them, or a `GetPromptResult`

use mcp_proto::schema::Prompt;
use mcp_proto::{CallToolResult, Context, Router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

fn main() {
    let router = Router::new("greeter", "1.0.0")
        .prompt(Prompt::new("greet"), async |greet: Greet, _: Context| CallToolResult::text(greet.name));
    drop(router);
}
