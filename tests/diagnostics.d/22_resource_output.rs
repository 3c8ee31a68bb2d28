//! The handler of a resource returns JSON.
//~ JSON is text: `serde_json::to_string(&value)`

use mcp_proto::schema::{Json, Resource};
use mcp_proto::{Context, Router};

fn main() {
    let router = Router::new("notes", "1.0.0")
        .resource(Resource::new("note:///today", "today"), async |_, _: Context| Json::empty_object());
    drop(router);
}
