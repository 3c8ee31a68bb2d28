//! An async closure uses a variable that it captures.
//~ captures: clone

use mcp_proto::Router;
use mcp_proto::front::NoArguments;

fn main() {
    let names = vec!["Ada".to_owned(), "Grace".to_owned()];
    let router = Router::new("names", "1.0.0")
        .tool("names", "Lists the names", async move |NoArguments {}, _| names.join(", "));
    drop(router);
}
