//! Errors convert into a `HandlerError`, and a closure that ends with `Ok` needs no annotation.

use mcp_proto::front::{HandlerError, NoArguments};
use mcp_proto::schema::Resource;
use mcp_proto::{Context, Router};

fn find() -> Result<String, Box<dyn std::error::Error>> {
    Err("there is no such note".into())
}

async fn read(_: NoArguments, _: Context) -> Result<String, HandlerError> {
    find().map_err(HandlerError::new)
}

fn main() {
    let router = Router::new("notes", "1.0.0")
        .tool("read", "Reads a note", read)
        .tool("parse", "Parses a note", async |NoArguments {}, _| {
            let number: i64 = "7".parse()?;
            Ok(number)
        })
        .resource(Resource::new("note:///bytes", "bytes"), async |_, _| vec![0_u8, 1])
        .completion(async |_, _| vec!["today", "tomorrow"]);
    drop(router);
}
