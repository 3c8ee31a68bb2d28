//! Servers: hyper connections whose requests are exchanges of an HTTP server.

mod accept;
mod connection;
mod driver;
mod entropy;
mod exchange;
mod limits;
mod options;
mod preface;
mod registry;
mod service;
mod socket;
mod streams;
mod transport;
mod watch;

use std::io;
use std::sync::Arc;

use mcp_proto::front::Router;

pub use accept::Listener;
pub use connection::{Connection, ConnectionError};
pub use driver::{ConnectionTask, ServerDriver, ServerError, ServiceDriver};
pub use exchange::{ResponseBody, ResponseFuture};
pub use limits::ServerLimits;
pub use options::ServerOptions;
pub use service::HttpService;
pub use streams::ServerMode;
pub use watch::Overrun;

/// Serves a router at `/mcp`, with every default, until the future is dropped.
///
/// # Errors
///
/// As [`ServerDriver`].
pub async fn serve<H: ServerMode, L: Listener + Unpin>(
    listener: L,
    router: impl Into<Arc<Router<H>>>,
) -> io::Result<()> {
    let (_, driver) = ServerOptions::new(router).listen(listener);
    driver.await
}
