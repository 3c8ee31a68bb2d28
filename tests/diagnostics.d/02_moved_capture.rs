//! The future of a closure moves a variable that the closure captures.
//~ consider cloning the value before moving it into the closure

use mcp_proto::Router;
use mcp_proto::front::NoArguments;

fn main() {
    let names = vec!["Ada".to_owned(), "Grace".to_owned()];
    let router = Router::new("names", "1.0.0")
        .tool("names", "Lists the names", move |NoArguments {}, _| async move { names.join(", ") });
    drop(router);
}
