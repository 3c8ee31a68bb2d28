//! Options of a server, and the streams it is served over.

use std::any::Any;
use std::fmt;
use std::io;

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::front::{Attachments, HandlerMode, SendHandlers, ServedRouter, ServerHandle};
use mcp_proto::peer::Principal;
use mcp_proto::peer::server::ServerConfig;

use super::ServerDriver;
use super::own_thread::StdioServer;
use crate::stdio::stdio_on;
use crate::{RuntimeKind, Stdin, Stdout};

/// Options for serving a router: configuration beyond the router's own, and a handle for the application.
///
/// ```no_run
/// use mcp_proto::front::Router;
/// use mcp_proto::peer::server::ListKind;
/// use mcp_proto::schema::ServerCapability;
/// use mcp_smol::ServerOptions;
///
/// # fn main() -> std::io::Result<()> {
/// let router = Router::new("notes", "1.0.0").declare(ServerCapability::ResourcesListChanged);
/// let (server, driver) = ServerOptions::new(router).stdio()?;
/// std::thread::spawn(move || {
///     // Whenever there is a new note:
///     server.list_changed(ListKind::Resources);
/// });
/// smol::block_on(driver)
/// # }
/// ```
#[must_use = "options do nothing until something is served with them"]
pub struct ServerOptions<H: HandlerMode = SendHandlers> {
    pub(super) router: ServedRouter<H>,
    pub(super) config: ServerConfig,
    pub(super) principal: Option<Principal>,
    pub(super) attachments: Attachments,
    pub(super) runtime: RuntimeKind,
}

impl<H: HandlerMode> ServerOptions<H> {
    /// Options with the router's own [configuration](mcp_proto::front::Router::config).
    pub fn new(router: impl Into<ServedRouter<H>>) -> Self {
        let router = router.into();
        let attachments = Attachments::new();
        let runtime = RuntimeKind::default();
        Self { config: router.router().config(), router, principal: None, attachments, runtime }
    }

    /// Changes the configuration.
    pub fn configure(mut self, change: impl FnOnce(&mut ServerConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets the principal on whose behalf the client acts, as identified by the code that accepted the connection: the
    /// user at the other end of a Unix socket, for example. Handlers can read it, and the server refuses one
    /// principal's tasks and states to all others.
    pub fn principal(mut self, principal: Principal) -> Self {
        self.principal = Some(principal);
        self
    }

    /// Attaches a value to each request, in place of one of the same type. Handlers read it with
    /// [`Context::attachments`](mcp_proto::front::Context::attachments). A stream of this crate knows nothing about its
    /// other end; the code that accepted the connection attaches what it knows:
    ///
    /// ```no_run
    /// use std::net::SocketAddr;
    ///
    /// use mcp_proto::front::{Context, NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    /// use mcp_smol::ServerOptions;
    ///
    /// # async fn example(listener: smol::net::TcpListener) -> std::io::Result<()> {
    /// let tool = Tool::new("whoami", "Tells your address", Json::empty_object());
    /// let router = Router::new("mirror", "1.0.0").tool_with(tool, async |NoArguments {}, cx: Context| {
    ///     format!("{:?}", cx.attachments().get::<SocketAddr>())
    /// });
    /// let (client, address) = listener.accept().await?;
    /// let (_, driver) = ServerOptions::new(router).attach(address).stream(client.clone(), client);
    /// driver.await
    /// # }
    /// ```
    pub fn attach<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.attachments.insert(value);
        self
    }

    /// Sets the runtime of the driver's timers, and of standard input and output. Default: [`RuntimeKind::default`].
    pub fn runtime(mut self, runtime: RuntimeKind) -> Self {
        self.runtime = runtime;
        self
    }

    /// Serves this process's standard input and output, which it [takes](crate::stdio()).
    ///
    /// # Errors
    ///
    /// As [`stdio`](crate::stdio()).
    pub fn stdio(self) -> io::Result<(ServerHandle, ServerDriver<Stdin, Stdout, H>)> {
        let (stdin, stdout) = stdio_on(self.runtime)?;
        Ok(self.stream(stdin, stdout))
    }

    /// Serves this process's standard input and output, which it [takes](crate::stdio()), on a thread of its own: see
    /// [`run_stdio`](crate::run_stdio). No runtime is needed.
    ///
    /// ```no_run
    /// use mcp_proto::front::Router;
    /// use mcp_smol::ServerOptions;
    ///
    /// # fn main() -> Result<(), mcp_smol::ServeError> {
    /// let (handle, server) = ServerOptions::new(Router::new("notes", "1.0.0")).blocking_stdio()?;
    /// # drop(handle);
    /// server.run()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`stdio`](crate::stdio()).
    pub fn blocking_stdio(self) -> io::Result<(ServerHandle, StdioServer<H>)> {
        StdioServer::start(self)
    }

    /// The error of an invalid router.
    pub(super) fn check(&self) -> io::Result<()> {
        self.router.router().check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    /// Serves one client over a stream.
    pub fn stream<R, W>(self, reader: R, writer: W) -> (ServerHandle, ServerDriver<R, W, H>)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        ServerDriver::start(self, reader, writer)
    }
}

impl<H: HandlerMode> fmt::Debug for ServerOptions<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions").field("router", &self.router).field("config", &self.config).finish()
    }
}
