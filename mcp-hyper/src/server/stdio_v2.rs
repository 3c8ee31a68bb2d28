//! Serves HTTP/2 on this process's standard streams.

use std::io;

use futures_lite::future::or;
use mcp_proto::adapter::ServeError;
use mcp_proto::front::ServedRouter;
use mcp_proto::transport::http::server::Hosts;

use super::{ServerMode, ServerOptions};
use crate::client::error_chain;

/// Serves HTTP/2 on this process's standard input and output until the client closes them: experimental, the transport
/// `stdio-v2`. See [the guide](crate::guide::stdio_v2).
///
/// ```no_run
/// use mcp_hyper::Router;
///
/// fn main() -> Result<(), mcp_hyper::ServeError> {
///     smol::block_on(mcp_hyper::serve_stdio_v2(Router::new("notes", "1.0.0")))
/// }
/// ```
///
/// # Errors
/// Those of [`ServerOptions::stdio_v2`].
pub async fn serve_stdio_v2<H: ServerMode>(router: impl Into<ServedRouter<H>>) -> Result<(), ServeError> {
    Ok(ServerOptions::new(router).stdio_v2().await?)
}

impl<H: ServerMode> ServerOptions<H> {
    /// Serves HTTP/2 on this process's standard input and output, which it [takes](mcp_smol::stdio()), until the client
    /// closes them: experimental, the transport `stdio-v2`. Handlers that still run then are dropped. Any path and any host
    /// is served, as no browser reaches these streams, and a request may be as long as
    /// [`message_bytes`](mcp_proto::Limits::message_bytes), as there is one client.
    ///
    /// # Errors
    /// - [`io::ErrorKind::AlreadyExists`] if the streams are already taken;
    /// - [`io::ErrorKind::InvalidInput`] for an invalid [router](mcp_proto::front::Router::check);
    /// - the text of a [`ConnectionError`](super::ConnectionError) and its sources, also if the client does not speak HTTP/2.
    ///   Print it on standard error, as `main` does that returns it: clients quote that.
    pub async fn stdio_v2(self) -> io::Result<()> {
        let (stdin, stdout) = mcp_smol::stdio()?;
        let options = self.any_path().configure(|config| {
            config.hosts = Hosts::Any;
            config.body_bytes = usize::MAX;
        });
        let (service, driver) = options.service();
        let connection = service.http2_connection(mcp_smol::Duplex::new(stdin, stdout));
        or(driver, async { connection.await.map_err(|error| io::Error::other(error_chain(&error))) }).await
    }
}
