//! Options of a client.

use std::fmt;
use std::time::Duration;

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::front::{Client, ClientHandlers, HandlerMode, SendHandlers};
use mcp_proto::peer::client::{self, ClientConfig, ConnectTimeouts, KnownEra};
use mcp_proto::schema::Implementation;

use super::{ChildLink, ClientDriver, StreamLink};
use crate::{Command, RuntimeKind, StderrLine};

/// Options of a client: its name, its handlers and the eras it speaks.
///
/// ```no_run
/// use std::time::Duration;
///
/// use mcp_proto::front::{ClientHandlers, HandlerError};
/// use mcp_proto::peer::client::EraPolicy;
/// use mcp_proto::schema::{ListRootsResult, Root};
/// use mcp_smol::{ClientOptions, Command};
///
/// # fn main() {
/// let (client, driver) = ClientOptions::new("my-host", "1.0.0")
///     .era_policy(EraPolicy::LegacyOnly)
///     .request_timeout(Duration::from_secs(60))
///     .handlers(ClientHandlers::new().roots(async |_, _| {
///         Ok::<_, HandlerError>(ListRootsResult::new(vec![Root::new("file:///home/me/project")]))
///     }))
///     .on_stderr(|line| eprintln!("server: {}", line.text))
///     .connect(Command::new("my-server"));
/// # drop((client, driver));
/// # }
/// ```
#[must_use = "options do nothing until something is connected with them"]
pub struct ClientOptions<H: HandlerMode = SendHandlers> {
    pub(super) config: ClientConfig,
    pub(super) handlers: ClientHandlers<H>,
    pub(super) wire: Tap,
    pub(super) stderr: Option<StderrSink>,
    pub(super) runtime: RuntimeKind,
}

pub(super) type StderrSink = Box<dyn FnMut(StderrLine) + Send>;

/// Direction in which bytes were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireDirection {
    /// From this side to the peer.
    Sent,
    /// From the peer to this side.
    Received,
}

/// Observer of the bytes sent and received, if one is set.
#[derive(Default)]
pub(super) struct Tap(Option<Box<WireObserver>>);

type WireObserver = dyn FnMut(WireDirection, &[u8]) + Send;

impl Tap {
    pub(super) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn show(&mut self, direction: WireDirection, bytes: &[u8]) {
        if let Some(watch) = &mut self.0 {
            watch(direction, bytes);
        }
    }
}

impl Default for ClientOptions {
    /// A client with the name and version of this crate.
    fn default() -> Self {
        Self::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }
}

impl ClientOptions {
    /// A client of this name and version, which has no handlers for server requests and detects the server's era.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::from(ClientConfig::new(Implementation::new(name, version)))
    }
}

impl From<ClientConfig> for ClientOptions {
    /// The capabilities of the configuration are replaced by those of the [handlers](ClientOptions::handlers); the
    /// kind of link determines whether it can be reopened.
    fn from(config: ClientConfig) -> Self {
        let runtime = RuntimeKind::default();
        Self { config, handlers: ClientHandlers::new(), wire: Tap::default(), stderr: None, runtime }
    }
}

impl<H: HandlerMode> ClientOptions<H> {
    /// Which eras to speak. Default: detect the server's.
    pub fn era_policy(mut self, mode: client::EraPolicy) -> Self {
        self.config.era_policy = mode;
        self
    }

    /// The era that an [earlier connection](Client::known_era) to the same server detected, which saves the probe.
    pub fn known_era(mut self, verdict: Option<KnownEra>) -> Self {
        self.config.known_era = verdict;
        self
    }

    /// How long a request waits for its answer or for progress, unless it has a timeout of its own. Default 30 s.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.request_timeout = timeout;
        self
    }

    /// Time limit of connecting as a whole, until the server is ready: see [`ConnectTimeouts::within`]. Default 120 s.
    /// After it [`Client::ready`] fails, with the step under way and the outcomes of the steps before it.
    pub fn ready_timeout(mut self, timeout: Duration) -> Self {
        self.config.connect = ConnectTimeouts::within(timeout);
        self
    }

    /// Handlers for the server's requests; the client declares their capabilities. The driver is not `Send` if the
    /// handlers are [`LocalHandlers`](mcp_proto::front::LocalHandlers).
    pub fn handlers<T: HandlerMode>(self, handlers: ClientHandlers<T>) -> ClientOptions<T> {
        let Self { config, wire, stderr, runtime, .. } = self;
        ClientOptions { config, handlers, wire, stderr, runtime }
    }

    /// Sets the runtime of the child process, its pipes and the driver's timers. Default: [`RuntimeKind::default`].
    pub fn runtime(mut self, runtime: RuntimeKind) -> Self {
        self.runtime = runtime;
        self
    }

    /// Changes any other part of the configuration.
    pub fn configure(mut self, change: impl FnOnce(&mut ClientConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Passes every byte to `watch` as it is sent or received, for logs and debugging. A call holds neither whole
    /// messages nor whole lines; [`Lines`](mcp_proto::codec::Lines) splits them.
    ///
    /// The driver calls `watch`: it should be quick.
    pub fn on_wire(mut self, watch: impl FnMut(WireDirection, &[u8]) + Send + 'static) -> Self {
        self.wire = Tap(Some(Box::new(watch)));
        self
    }

    /// Passes every line that a child process writes to its standard error to `watch`. Without it the lines are only
    /// buffered, and quoted if the process fails.
    ///
    /// The driver calls `watch`: it should be quick.
    pub fn on_stderr(mut self, watch: impl FnMut(StderrLine) + Send + 'static) -> Self {
        self.stderr = Some(Box::new(watch));
        self
    }

    /// Starts a server as a child process and talks to it; see [`connect`](crate::connect).
    pub fn connect(mut self, command: Command) -> (Client, ClientDriver<ChildLink, H>) {
        let link = ChildLink::new(command, self.runtime, self.stderr.take());
        ClientDriver::start(self, link)
    }

    /// Talks to a server over a stream that is already open; see [`connect_stream`](crate::connect_stream).
    pub fn connect_stream<R, W>(self, reader: R, writer: W) -> (Client, ClientDriver<StreamLink<R, W>, H>)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        ClientDriver::start(self, StreamLink::new(reader, writer))
    }
}

impl<H: HandlerMode> fmt::Debug for ClientOptions<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, handlers, .. } = self;
        f.debug_struct("ClientOptions")
            .field("config", config)
            .field("handlers", handlers)
            .finish_non_exhaustive()
    }
}
