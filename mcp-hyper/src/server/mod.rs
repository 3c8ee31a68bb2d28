//! HTTP servers: each hyper request is an exchange of an `HttpServer`.

mod connection;
mod driver;
mod exchange;
#[cfg(feature = "auth")]
mod guard;
mod monitor;
mod observed;
mod options;
mod service;
mod socket;
#[cfg(feature = "stdio-v2")]
mod stdio_v2;
#[cfg(feature = "websocket")]
mod websocket;

use mcp_proto::adapter::ServeError;
use mcp_proto::front::ServedRouter;

pub use connection::Connection;
pub use driver::{ConnectionTask, Listener, ServerDriver, ServiceDriver};
pub use exchange::{ResponseBody, ResponseFuture, ServerMode};
pub use monitor::{ConnectionError, ConnectionLimit, ServerError, ServerLimits};
pub use options::{ServerOptions, SystemEntropy};
pub use service::{HttpService, PeerAddress};
#[cfg(feature = "tls")]
pub use socket::TlsPeer;
#[cfg(feature = "stdio-v2")]
pub use stdio_v2::serve_stdio_v2;

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

/// Stands in for the feature `websocket`: no connection is upgraded.
#[cfg(not(feature = "websocket"))]
mod websocket {
    use std::convert::Infallible;
    use std::marker::PhantomData;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use http::request::Parts;
    use mcp_proto::front::HandlerMode;
    use mcp_proto::front::http::HttpChannel;
    use mcp_proto::transport::http::server::{HttpResponse, ResponseHeaders};

    use super::monitor::{ConnectionError, ConnectionMonitor};
    use crate::time::RuntimeClock;

    pub(super) fn handshake(_: &Parts) -> Result<ResponseHeaders, HttpResponse> {
        Err(HttpResponse::empty(426))
    }

    /// Uninhabited, as no connection is upgraded.
    pub(super) struct WebSocket<Io, H>(Infallible, PhantomData<fn(Io) -> H>);

    impl<Io, H: HandlerMode> WebSocket<Io, H> {
        pub(super) fn start(
            _: Io,
            _: &[u8],
            _: HttpChannel<H>,
            _: bool,
            _: Arc<RuntimeClock>,
            _: Arc<ConnectionMonitor>,
        ) -> Option<Self> {
            None
        }

        pub(super) fn retire(&mut self) {
            match self.0 {}
        }

        pub(super) fn poll(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
            match self.0 {}
        }
    }
}
