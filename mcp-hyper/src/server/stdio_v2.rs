//! Serves HTTP/2 on this process's standard streams.

use std::io;

use futures_lite::future::or;
use mcp_proto::adapter::ServeError;
use mcp_proto::front::ServedRouter;

use super::{ServerMode, ServerOptions};

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
    /// closes them: experimental, the transport `stdio-v2`. Handlers that still run then are dropped.
    ///
    /// # Errors
    /// - [`io::ErrorKind::AlreadyExists`] if the streams are already taken;
    /// - [`io::ErrorKind::InvalidInput`] for an invalid [router](mcp_proto::front::Router::check);
    /// - a [`ConnectionError`](super::ConnectionError), which a client that does not speak HTTP/2 causes as well. Print it
    ///   on standard error, as `main` does that returns it: clients quote that.
    pub async fn stdio_v2(self) -> io::Result<()> {
        let (stdin, stdout) = mcp_smol::stdio()?;
        let (service, driver) = self.service();
        let connection = service.http2_connection(mcp_smol::Duplex::new(stdin, stdout));
        or(driver, async { connection.await.map_err(io::Error::other) }).await
    }
}
