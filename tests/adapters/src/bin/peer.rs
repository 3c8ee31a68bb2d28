//! The peer of the tests: a server on its standard streams, with the argument `stdio-v2` by HTTP/2, or on a socket of HTTP with
//! `http`, until its input ends. It has the tools of `check_transport`, and one that adds.

use std::io::{self, Read as _};

use mcp_hyper::ServerOptions;
use mcp_proto::testing::transport_router;
use mcp_smol::Tool;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

fn main() -> io::Result<()> {
    let numbers =
        json!({ "type": "object", "properties": { "a": { "type": "number" }, "b": { "type": "number" } } });
    let router = transport_router(|| std::process::exit(1))
        .tool_with(Tool::new("add", "Adds two numbers", numbers), async |Add { a, b }, _| {
            (a + b).to_string()
        });
    match std::env::args().nth(1).as_deref() {
        None => return Ok(mcp_smol::run_stdio(router)?),
        Some("stdio-v2") => return smol::block_on(ServerOptions::new(router).stdio_v2()),
        Some(_) => {}
    }
    smol::block_on(async {
        let listener = smol::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}/mcp", listener.local_addr()?);
        let (server, driver) = ServerOptions::new(router).listen(listener);
        let handle = server.handle().clone();
        std::thread::spawn(move || {
            let _ = io::stdin().read_to_end(&mut Vec::new());
            handle.close();
        });
        driver.await
    })
}
