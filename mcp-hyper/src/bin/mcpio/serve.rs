//! `mcpio serve`: the demo server, for other clients.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::time::Duration;

use mcp_hyper::ServerOptions;
use mcp_proto::transport::http::server::LegacyPaths;
use smol::Timer;
use smol::net::TcpListener;

use crate::error::CommandError;
use crate::options::ProtectionOptions;
use crate::protect::ProtectionSetup;
use crate::terminal::Screen;
use crate::{demo_server, protect};

pub(crate) async fn stdio() -> Result<(), CommandError> {
    if std::io::stdin().is_terminal() {
        let hint =
            "This is a server: it expects a client's messages, one JSON object to a line. Ctrl-D ends it.";
        let _ = Screen::messages().line(hint);
    }
    let served = mcp_smol::serve_stdio(demo_server::router()).await;
    served.map_err(|error| CommandError::server(format!("serving standard input and output: {error}")))
}

pub(crate) async fn http(
    address: SocketAddr,
    legacy_sse: bool,
    websocket: bool,
    demands: &ProtectionOptions,
) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| CommandError::server(format!("serving {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    let url = format!("http://{at}/mcp");
    let protected = protect::protection(&url, demands)?;
    let _ = Screen::messages().line(format!("Serving {url}. Ctrl-C ends it."));
    let mut options = ServerOptions::new(protect::with_scopes(demo_server::with_clock(), demands));
    if let Some(ProtectionSetup { guard, host }) = protected {
        options = options.protect(guard).configure(|config| config.hosts = host);
    }
    if legacy_sse {
        options = options.configure(|config| config.legacy_sse = Some(LegacyPaths::default()));
    }
    if websocket {
        options = options.websocket();
    }
    let (server, driver) = options.listen(listener);
    let ticking = smol::spawn(async move {
        loop {
            Timer::after(Duration::from_secs(1)).await;
            server.resource_updated(demo_server::CLOCK);
        }
    });
    let served = driver.await.map_err(failed);
    ticking.cancel().await;
    served
}
