//! The feature `auth` is missing.
//! Features: client, server, std
//~ access and its scopes need the feature `auth`
//~ in `Cargo.toml`, add `"auth"` to the features of `mcp-hyper` or `mcp-proto`

use mcp_proto::front::{Context, HandlerError, NoArguments, Router};
use mcp_proto::schema::{Json, Tool};

async fn clear(_: NoArguments, cx: Context) -> Result<&'static str, HandlerError> {
    cx.require(["notes:write"])?;
    Ok("done")
}

fn main() {
    let tool = Tool::new("clear", "Deletes all notes", Json::empty_object());
    drop(Router::new("notes", "1.0.0").tool_with(tool, clear).tool_scopes("clear", ["notes:write"]));
}
