//! The handler of a client returns a list in place of the result.
//~ return `ListRootsResult`, or a `Result<ListRootsResult, HandlerError>`

use mcp_proto::ClientHandlers;
use mcp_proto::schema::Root;

fn main() {
    drop(ClientHandlers::new().roots(async |_, _| vec![Root::new("file:///home/me/project")]));
}
