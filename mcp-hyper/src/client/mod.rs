//! HTTP clients: hyper connections that carry the exchanges of an `HttpClient`.

mod connection;
mod credentials;
mod driver;
mod error;
#[cfg(feature = "auth")]
pub(crate) mod fetch;
mod headers;
mod options;
mod pool;
mod target;
#[cfg(feature = "tls")]
mod tls;
mod transport;
#[cfg(feature = "websocket")]
mod websocket;

use mcp_proto::front::Client;

#[cfg(feature = "auth")]
pub(crate) use credentials::ExchangeAction;
pub use driver::ClientDriver;
pub use headers::{HeaderError, HeaderErrorKind, WireEvent};
pub use options::{ClientOptions, ConnectError};
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
