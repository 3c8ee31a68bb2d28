//! `mcp serve`: the demo server, for other people's clients.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;


use crate::demo_server;
use crate::failure::Failure;

pub(crate) async fn stdio() -> Result<(), Failure> {
    if std::io::stdin().is_terminal() {
        let hint =
            "This is a server: it expects a client's messages, one JSON object to a line. Ctrl-D ends it.";
        let _ = writeln!(anstream::stderr(), "{hint}");
    }
    let served = mcp_smol::serve_stdio(demo_server::router()).await;
    served.map_err(|error| Failure::Server(format!("serving standard input and output: {error}")))
}

pub(crate) async fn http(_: SocketAddr, _: bool) -> Result<(), Failure> { todo!() }
