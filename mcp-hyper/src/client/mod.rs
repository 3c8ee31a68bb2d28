//! HTTP clients: hyper connections that carry the exchanges of an `HttpClient`.

mod connection;
mod credentials;
mod driver;
mod error;
#[cfg(feature = "auth")]
pub(crate) mod fetch;
#[cfg(feature = "host")]
mod forward;
mod headers;
mod options;
mod pool;
mod stream;
mod target;
#[cfg(feature = "tls")]
mod tls;
mod transport;
#[cfg(feature = "websocket")]
mod websocket;

use std::sync::Arc;
use std::task::Poll;

use mcp_proto::adapter::{self, ClientTransport};
use mcp_proto::front::{Client, ClientHandlers, Error, HandlerMode};
use mcp_proto::peer::client::CloseReason;

use self::credentials::Authorizer;
use crate::time::RuntimeClock;

#[cfg(feature = "redis")]
pub(crate) use connection::{Connector, TlsOptions};

#[cfg(feature = "auth")]
pub(crate) use credentials::ExchangeAction;
pub use driver::ClientDriver;
#[cfg(feature = "stdio-v2")]
pub(crate) use error::error_chain;
#[cfg(feature = "host")]
pub use forward::{ForwardDriver, Forwarder};
pub use headers::{HeaderError, HeaderErrorKind};
pub use options::{ClientOptions, ConnectError};
#[cfg(feature = "redis")]
pub(crate) use target::percent_decoded;
pub use target::{Proxy, ProxyError};

//= F40 "Connecting alone opens no connection"
/// Connects to the server at this URL, `http` or `https`, with default [options](ClientOptions). With the feature
/// `websocket`, the schemes `ws` and `wss` connect over WebSocket: see [`ClientOptions::connect`].
///
/// The driver opens connections as needed while it is polled, and reuses them. Dropping the last [`Client`] closes the
/// session in an orderly way while the driver runs.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// smol::block_on(async {
///     let (client, driver) = mcp_hyper::connect("https://example.com/mcp")?;
///     smol::spawn(driver).detach();
///
///     for tool in client.list_tools().await? {
///         println!("{}: {}", tool.name, tool.description.unwrap_or_default());
///     }
///     let sum = client.call_tool("get-sum", serde_json::json!({ "a": 2, "b": 3 })).await?;
///     println!("{}", sum.text_content());
///     client.close().await;
///     Ok(())
/// })
/// # }
/// ```
///
/// # Errors
/// If the URL is invalid, or the environment names an invalid proxy. Only the driver finds out whether the server can
/// be reached.
pub fn connect(url: impl Into<String>) -> Result<(Client, ClientDriver), ConnectError> {
    ClientOptions::default().connect(url)
}

// What the loops of a client over HTTP and over WebSocket share.

/// Maximum rounds of the driver before it lets other tasks run.
const ROUNDS: usize = 4;

/// Maximum batches of events that the driver handles in each round.
const TURN: usize = 32;

/// Error of an exchange that the server refused, in a client without authorization. Users of applications read it, which
/// have their own ways to log in.
const NO_AUTHORIZATION: &str = "no login configured";

/// Starts the machine and the handle of a client.
fn start<M: ClientTransport + Send + 'static, H: HandlerMode>(
    machine: M,
    handlers: ClientHandlers<H>,
    authorizer: Option<&mut Authorizer>,
    clock: &Arc<RuntimeClock>,
) -> (Client, adapter::ClientDriver<M, H>) {
    let (client, mut front) = adapter::client(machine, clock.clone(), handlers);
    let timers = clock.clone();
    front.set_handle_timer(move |time| {
        let timers = timers.clone();
        Box::pin(async move { timers.sleep_in_handle(time).await })
    });
    if let Some(authorizer) = authorizer {
        authorizer.link_cache(front.cache_context_ender());
    }
    (client, front)
}

/// Ready once the client is closed, and nothing is in progress that must finish first.
fn poll_end<M: ClientTransport + Send + 'static, H: HandlerMode>(
    front: &mut adapter::ClientDriver<M, H>,
    authorizer: Option<&Authorizer>,
) -> Poll<Result<(), Error>> {
    let closed = front.closed().filter(|_| !authorizer.is_some_and(Authorizer::is_finishing));
    let Some(closed) = closed else { return Poll::Pending };
    front.handle_link_down();
    Poll::Ready(match closed {
        CloseReason::Done => Ok(()),
        closed => Err(Error::Closed(closed)),
    })
}
