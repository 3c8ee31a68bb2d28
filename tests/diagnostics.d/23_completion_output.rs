//! The handler of completions returns one text.
//~ return the values, a `Vec` of texts, or a `CompleteResult`

use mcp_proto::{Context, Router};

fn main() {
    let router = Router::new("notes", "1.0.0").completion(async |_, _: Context| "Buy milk");
    drop(router);
}
