//! HTTP servers: each hyper request is an exchange of an `HttpServer`.

mod connection;
mod driver;
mod embedded_websocket;
mod exchange;
#[cfg(feature = "auth")]
mod guard;
mod listener;
mod monitor;
mod options;
mod service;
mod socket;
mod streams;
#[cfg_attr(not(feature = "websocket"), path = "no_websocket.rs")]
mod websocket;

use mcp_proto::adapter::ServeError;
use mcp_proto::front::ServedRouter;

pub use connection::{Connection, ConnectionError, ConnectionLimit, ServerError};
pub use driver::{ConnectionTask, ServerDriver, ServiceDriver};
pub use exchange::{ResponseBody, ResponseFuture};
pub use listener::Listener;
pub use monitor::ServerLimits;
pub use options::{ServerOptions, SystemEntropy};
pub use service::{HttpService, PeerAddress};
#[cfg(feature = "tls")]
pub use socket::TlsPeer;
pub use streams::ServerMode;

/// Serves a router at `/mcp` with default options, until the future is dropped:
///
/// ```no_run
/// use mcp_hyper::mcp_proto::front::Router;
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     /// The one number.
///     a: f64,
///     /// The other.
///     b: f64,
/// }
///
/// fn main() -> Result<(), mcp_hyper::ServeError> {
///     let router = Router::new("calculator", "1.0.0")
///         .tool("add", "Adds two numbers", async |Add { a, b }, _| format!("{}", a + b));
///     smol::block_on(async {
///         let listener = smol::net::TcpListener::bind("127.0.0.1:8080").await?;
///         mcp_hyper::serve(listener, router).await
///     })
/// }
/// ```
///
/// The server speaks every revision, over HTTP/1.1 and HTTP/2. Unless the [options](ServerOptions::configure) say
/// otherwise, it answers only requests to this machine's loopback names, and from web pages of these names.
///
/// # Errors
///
/// Those of [`ServerDriver`].
pub async fn serve<H: ServerMode, L: Listener + Unpin>(
    listener: L,
    router: impl Into<ServedRouter<H>>,
) -> Result<(), ServeError> {
    let (_, driver) = ServerOptions::new(router).listen(listener);
    Ok(driver.await?)
}
