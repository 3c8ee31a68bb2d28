//! The server that the official conformance suite tests: `tests/conformance` runs it.

mod asks;
mod content;
mod input;
mod prompts;
mod reports;
mod resources;
mod state;

use std::io;

use mcp_proto::front::Router;
use mcp_proto::peer::server::ListKind;
use smol::channel::Sender;

fn main() -> io::Result<()> {
    let (changes, _changed) = smol::channel::unbounded();
    smol::block_on(mcp_smol::serve_stdio(router(&changes)))
}

/// Everything that the suite asks for; what the scenarios are is in its sources.
fn router(changes: &Sender<ListKind>) -> Router {
    let mut router = Router::new("conformance-server", env!("CARGO_PKG_VERSION"))
        .instructions("A server for the official conformance suite.");
    router = content::add(router);
    router = reports::add(router, changes);
    router = asks::add(router);
    router = input::add(router);
    router = resources::add(router);
    prompts::add(router)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_registered_makes_sense() {
        let (changes, _changed) = smol::channel::unbounded();
        router(&changes).check().unwrap();
    }
}
