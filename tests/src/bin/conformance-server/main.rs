//! The server that the official conformance suite tests: `tests/conformance` runs it.

mod content;
mod input;
mod prompts;
mod reports;
mod resources;
mod server_requests;
mod skills;
mod tasks;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use mcp_hyper::ServerOptions;
use mcp_proto::front::Router;
use mcp_proto::peer::server::ListKind;
use mcp_proto::redact::Redactor;
use smol::channel::Sender;
use smol::net::TcpListener;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [option, address] = arguments.as_slice() else { return usage() };
    if option != "--listen" {
        return usage();
    }
    match smol::block_on(serve(address)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance-server: {address}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("conformance-server --listen ADDRESS:PORT");
    ExitCode::from(2)
}

/// Serves both eras at `/mcp`, and prints the address: the system chooses a port in place of 0.
async fn serve(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let (changes, changed) = smol::channel::unbounded();
    let trace = mcp_tests::trace("conformance-server");
    let recorder = trace.and_then(|file| file.connection("server", "http", Redactor::new()).recorder());
    let options = ServerOptions::new(router(&changes))
        .configure(|config| Arc::make_mut(&mut config.server).recorder = recorder);
    let (server, driver) = options.listen(listener);
    let announcer = smol::spawn(async move {
        while let Ok(list) = changed.recv().await {
            server.list_changed(list);
        }
    });
    let served = driver.await;
    drop(announcer);
    served
}

/// All tools, resources and prompts that the suite uses; its sources define the scenarios.
fn router(changes: &Sender<ListKind>) -> Router {
    let mut router = Router::new("conformance-server", env!("CARGO_PKG_VERSION"))
        .instructions("A server for the official conformance suite.");
    router = content::add(router);
    router = reports::add(router, changes);
    router = server_requests::add(router);
    router = input::add(router);
    router = resources::add(router);
    router = tasks::add(router);
    router = skills::add(router);
    prompts::add(router)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conformance_router_is_valid() {
        let (changes, _changed) = smol::channel::unbounded();
        router(&changes).check().unwrap();
    }
}
