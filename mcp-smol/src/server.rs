//! Servers: a [`Router`](mcp_proto::front::Router) answers requests and a driver moves its bytes.

mod connection;
mod entropy;
mod options;
mod own_thread;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::adapter::{Repoll, ServeError, SystemClock};
use mcp_proto::front::{HandlerMode, SendHandlers, ServedRouter, ServerHandle};

use crate::RuntimeKind;
use crate::alarm::Alarm;

use connection::Connection;
pub use entropy::SystemEntropy;
pub use options::ServerOptions;
pub use own_thread::{StdioServer, run_stdio};

/// Serves this process's standard input and output until the client closes them. This is all of a server's `main`:
///
/// ```no_run
/// use mcp_proto::front::Router;
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
/// fn main() -> Result<(), mcp_smol::ServeError> {
///     let router = Router::new("calculator", "1.0.0")
///         .tool("add", "Adds two numbers", async |Add { a, b }, _| format!("{}", a + b));
///     smol::block_on(mcp_smol::serve_stdio(router))
/// }
/// ```
///
/// A program that does nothing else can do without an executor and its reactor: [`run_stdio`] needs half of the time.
///
/// Only messages reach standard output, even if other code prints; see [`stdio`](crate::stdio()). When the input ends,
/// handlers have [`ServerConfig::close_timeout`](mcp_proto::peer::server::ServerConfig::close_timeout) to finish, and their answers are written before this returns.
///
/// # Errors
///
/// Those of [`ServerDriver`], and those of [`stdio`](crate::stdio()) if standard input and output cannot be taken.
pub async fn serve_stdio<H: HandlerMode>(router: impl Into<ServedRouter<H>>) -> Result<(), ServeError> {
    let (_, driver) = ServerOptions::new(router).stdio()?;
    Ok(driver.await?)
}

/// Serves one client over a stream: both halves of a socket, pipes, or any reader and writer. To notify the client of
/// changed resources use [`ServerOptions::stream`].
///
/// ```no_run
/// use mcp_proto::front::Router;
///
/// # fn main() -> std::io::Result<()> {
/// let router = Router::new("shared", "1.0.0");
/// smol::block_on(async {
///     let listener = smol::net::unix::UnixListener::bind("/run/server.sock")?;
///     loop {
///         let (client, _) = listener.accept().await?;
///         smol::spawn(mcp_smol::serve(router.clone(), client.clone(), client)).detach();
///     }
/// })
/// # }
/// ```
pub fn serve<H, R, W>(router: impl Into<ServedRouter<H>>, reader: R, writer: W) -> ServerDriver<R, W, H>
where
    H: HandlerMode,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    ServerOptions::new(router).stream(reader, writer).1
}

/// The future that moves a server's messages, fires its timers and runs its handlers.
///
/// Spawn it on any executor, or await it; nothing happens otherwise. It is `Send` unless the router's handlers are
/// [`LocalHandlers`](mcp_proto::front::LocalHandlers). When the client has ended its side, or the [`ServerHandle`] has closed the
/// connection, it answers the requests in flight, closes its writer and ends.
///
/// # Errors
///
/// - [`io::ErrorKind::InvalidInput`] if the [router is invalid](mcp_proto::front::Router::check), before it serves anything;
/// - the error of [`start_reactor`](crate::start_reactor) if no file descriptors are left;
/// - errors of reading and writing, among them [`io::ErrorKind::TimedOut`] if the client does not read its answers.
///
/// A client that disconnects without reading its answers is not an error.
///
/// # A client that reads slowly
///
/// While more than [`Limits::queued_bytes`](mcp_proto::Limits::queued_bytes) of answers are unread, no further handler
/// runs and further requests are held. Once those fill [`Limits::message_bytes`](mcp_proto::Limits::message_bytes), the
/// driver stops reading from the client. Responses and cancellations up to that point are handled. If the client reads
/// nothing at all for [`ServerConfig::write_timeout`](mcp_proto::peer::server::ServerConfig::write_timeout), the driver ends the connection.
#[must_use = "no request is answered until the driver is polled: await it, or spawn it on an executor"]
pub struct ServerDriver<R, W, H: HandlerMode = SendHandlers> {
    connection: Connection<R, W, H>,
    alarm: Alarm,
    repoll: Repoll,
    /// The runtime, until the driver is polled.
    unstarted: Option<RuntimeKind>,
    /// Error that keeps the driver from serving anything.
    startup_error: Option<io::Error>,
}

impl<R, W, H: HandlerMode> ServerDriver<R, W, H> {
    fn start(options: ServerOptions<H>, reader: R, writer: W) -> (ServerHandle, Self) {
        let runtime = options.runtime;
        let startup_error = options.check().err();
        let clock = SystemClock::new();
        let (handle, connection) = Connection::new(options, clock, reader, writer);
        let alarm = Alarm::new(runtime.into(), clock);
        let repoll = Repoll::default();
        (handle, Self { connection, alarm, repoll, unstarted: Some(runtime), startup_error })
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, H: HandlerMode> Future for ServerDriver<R, W, H> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { connection, alarm, repoll, unstarted, startup_error } = &mut *self;
        if let Some(error) = startup_error.take() {
            return Poll::Ready(Err(error));
        }
        if let Some(runtime) = unstarted.take() {
            runtime.start()?;
        }
        let task = cx.waker();
        repoll.poll(cx, |cx| {
            loop {
                if let Poll::Ready(result) = connection.poll(cx, task) {
                    return Poll::Ready(result);
                }
                ready!(alarm.poll_until(connection.deadline(), cx));
            }
        })
    }
}

impl<R, W, H: HandlerMode> fmt::Debug for ServerDriver<R, W, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerDriver").field("front", &self.connection.front).finish_non_exhaustive()
    }
}
