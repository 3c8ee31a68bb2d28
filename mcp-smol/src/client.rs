//! Clients: each connection has a handle for the application and a driver that moves its bytes.

mod child_stream;
mod link;

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::adapter::{self, Repoll, SystemClock};
use mcp_proto::front::layer::IntoLayer;
use mcp_proto::front::{Client, ClientHandlers, Error, HandlerMode, SendHandlers};
use mcp_proto::peer::LostReason;
use mcp_proto::peer::client::{
    ClientConfig, CloseReason, ConnectTimeouts, EraPolicy, Keepalive, KnownEra, LinkAction,
};
use mcp_proto::schema::Implementation;
use mcp_proto::transport::StreamClient;

use crate::io::{Pump, WireDirection, WireObserver};
use crate::reactor::{Alarm, sleep};
use crate::{Command, Killer, RuntimeKind, SpawnError, StderrLine};

pub use child_stream::ChildStream;
pub use link::{ChildLink, StreamLink};
use link::{Link, LinkEvent};

/// Rounds per poll before the driver yields to other tasks. Each round reads at most one block of 64 KiB, beside
/// which the detour through the executor costs nothing.
const ROUNDS: usize = 4;

/// Error of a server of the other transport over standard streams.
const SPEAKS_HTTP2: &str = "the server speaks HTTP/2 (`stdio-v2`), and this client expects one JSON message per line \
                            (`stdio`): configure the server as `stdio-v2`";

/// Whether a server sent HTTP/2's first frame, SETTINGS (RFC 9113, section 3.4). No line of JSON has zeros.
fn is_http2(input: &[u8]) -> bool {
    matches!(input, [0, 0, _, 4, 0, 0, 0, 0, 0, ..])
}

/// Starts a server as a child process and talks to it, with default [options](ClientOptions).
///
/// The process starts when the driver is first polled. Dropping the last [`Client`] ends it: in an orderly way while
/// the driver runs, at once if the driver is dropped.
///
/// ```no_run
/// use mcp_smol::Command;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// smol::block_on(async {
///     let server = Command::new("npx").arg("-y").arg("@modelcontextprotocol/server-everything");
///     let (client, driver) = mcp_smol::connect(server);
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
/// The driver is an ordinary future. Without an executor to spawn it on, run it beside the code that uses the client: see
/// [`ClientDriver::run_until`].
pub fn connect(command: Command) -> (Client, ClientDriver<ChildLink>) {
    ClientOptions::default().connect(command)
}

/// Talks to a server over a stream that is open already, such as both halves of a socket, with default
/// [options](ClientOptions).
///
/// The application opens the stream. The first message on it is the client's: nothing else is exchanged before. As on
/// the standard streams of a process, there is one message per line.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// smol::block_on(async {
///     let stream = smol::net::unix::UnixStream::connect("/run/server.sock").await?;
///     let (client, driver) = mcp_smol::connect_stream(stream.clone(), stream);
///     smol::spawn(driver).detach();
///     println!("{:?}", client.ready().await?.implementation);
///     Ok(())
/// })
/// # }
/// ```
pub fn connect_stream<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    reader: R,
    writer: W,
) -> (Client, ClientDriver<StreamLink<R, W>>) {
    ClientOptions::default().connect_stream(reader, writer)
}

/// The future that moves a client's messages, fires its timers and runs its [handlers](mcp_proto::front::ClientHandlers).
///
/// Spawn it on any executor, or poll it beside the work. A driver that is only kept in a variable does nothing: calls then
/// report [`Diagnostic::DriverNotPolled`](mcp_proto::peer::client::Diagnostic::DriverNotPolled) after a second, and end at
/// their timeouts with that reason. It is `Send` unless the handlers
/// are [`LocalHandlers`](mcp_proto::front::LocalHandlers). It ends once the connection is over and the child process has exited:
/// with an error unless this side closed the connection, the same error that the client's requests got.
///
/// Dropping it ends the connection at once, and the child process as described at [`Process`](crate::Process).
#[must_use = "the client's calls wait until the driver is polled: spawn it on an executor"]
pub struct ClientDriver<L, H: HandlerMode = SendHandlers> {
    connection: Connection<L, H>,
    repoll: Repoll,
    /// The runtime, until the driver is polled.
    unstarted: Option<RuntimeKind>,
}

struct Connection<L, H: HandlerMode> {
    front: adapter::ClientDriver<StreamClient, H>,
    link: L,
    clock: SystemClock,
    alarm: Alarm,
    wire: Option<WireObserver>,
}

impl<H: HandlerMode> ClientDriver<ChildLink, H> {
    /// A handle that kills the server at once, for programs that cannot wait for the shutdown steps.
    pub fn killer(&self) -> Killer {
        self.connection.link.killer.clone()
    }

    /// Why the program could not be started, once an attempt has failed. Most reasons stay until the user acts.
    pub fn spawn_error(&self) -> Option<&SpawnError> {
        self.connection.link.spawn_error.as_ref()
    }
}

impl<L: Link, H: HandlerMode> ClientDriver<L, H> {
    fn start(options: ClientOptions<H>, link: L) -> (Client, Self) {
        let ClientOptions { mut config, handlers, wire, runtime, .. } = options;
        config.capabilities = handlers.capabilities().clone();
        config.can_reopen = link.can_reopen();
        let clock = SystemClock::new();
        let (client, mut front) = adapter::client(StreamClient::new(config), Arc::new(clock), handlers);
        front.set_handle_timer(move |time| {
            Box::pin(async move {
                // Outside of its runtime, a timer may panic.
                match runtime.start() {
                    Ok(()) => sleep(runtime.into(), time).await,
                    Err(_) => pending().await,
                }
            })
        });
        let alarm = Alarm::new(runtime.into(), clock);
        let connection = Connection { front, link, clock, alarm, wire };
        (client, Self { connection, repoll: Repoll::default(), unstarted: Some(runtime) })
    }
}

impl<L: Link, H: HandlerMode> Connection<L, H> {
    /// Carries out the machine's actions on the link. Ready if there were any, as more may follow.
    fn poll_machine(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { front, link, wire, .. } = self;
        let mut sent = None;
        let polled = front.poll(cx, |machine, now| {
            if link.pump().is_some_and(Pump::take_progress) {
                machine.handle_written(now);
            }
            // A driver that runs late closes the input before the time for closing is over.
            let action = machine.poll_link().or_else(|| {
                machine.handle_timeout(now);
                machine.poll_link()
            });
            let transmitted = link
                .pump()
                .and_then(Pump::outgoing)
                .and_then(|outgoing| machine.poll_transmit(outgoing).then_some(outgoing));
            sent = transmitted.as_ref().and_then(|outgoing| wire.is_some().then(|| outgoing.to_vec()));
            if action.is_some() || transmitted.is_some() { Poll::Ready(action) } else { Poll::Pending }
        });
        // Slow or foreign code runs only after the lock is released.
        if let (Some(sent), Some(watch)) = (sent, wire) {
            watch(WireDirection::Sent, &sent);
        }
        polled.map(|action| match action {
            Some(LinkAction::Open) => link.open(),
            Some(LinkAction::CloseWrite) => link.pump().into_iter().for_each(Pump::close_write),
            Some(LinkAction::Abort) => link.abort(),
            None => {}
        })
    }

    /// Hands the link's input to the machine. Ready if there was any.
    fn poll_link(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.link.poll_event(cx, &self.clock).map(|event| {
            if let (LinkEvent::Input(bytes), Some(watch)) = (&event, &mut self.wire) {
                watch(WireDirection::Received, bytes);
            }
            self.front.lock(|machine, now| match event {
                LinkEvent::Input(bytes) if is_http2(&bytes) => {
                    machine.at(now).abort(LostReason::WrongTransport(SPEAKS_HTTP2.to_owned()));
                }
                LinkEvent::Opened => machine.handle_open(now),
                LinkEvent::OpenFailed(detail) => machine.handle_open_failed(&detail),
                LinkEvent::Input(bytes) => machine.handle_input(now, bytes),
                LinkEvent::Ended(detail) => machine.handle_eof(now, &detail),
            });
        })
    }

    /// Wakes `task` instead of its own waker if there is more to do than fits into one poll.
    fn poll(&mut self, cx: &mut Context<'_>, task: &Waker) -> Poll<Result<(), Error>> {
        for _ in 0..ROUNDS {
            // All three in every round, so that reading waits neither for writing nor for the machine.
            if let Some(pump) = self.link.pump() {
                pump.poll_write(cx, &self.clock);
            }
            let acted = self.poll_machine(cx);
            let event = self.poll_link(cx);
            if acted.is_ready() || event.is_ready() {
                continue;
            }
            if let Some(closed) = self.front.closed()
                && self.link.is_closed()
            {
                self.front.handle_link_down();
                return Poll::Ready(match closed {
                    CloseReason::Done => Ok(()),
                    closed => Err(Error::Closed(closed)),
                });
            }
            let deadline = [self.front.next_timeout(), self.link.deadline()].into_iter().flatten().min();
            if self.alarm.poll_until(deadline, cx).is_pending() {
                return Poll::Pending;
            }
        }
        task.wake_by_ref();
        Poll::Pending
    }
}

impl<L: Link + Unpin, H: HandlerMode> Future for ClientDriver<L, H> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { connection, repoll, unstarted } = &mut *self;
        if let Some(runtime) = unstarted.take()
            && let Err(error) = runtime.start()
        {
            let reason = format!("could not start the I/O reactor: {error}");
            connection.front.lock(|machine, now| machine.at(now).abort(LostReason::Failed(reason)));
        }
        let task = cx.waker();
        repoll.poll(cx, |cx| connection.poll(cx, task))
    }
}

impl<L: Link + Unpin, H: HandlerMode> ClientDriver<L, H> {
    /// Runs the driver beside `work` on the task that awaits this, until `work` is done; then drops the driver, which
    /// ends the connection unless `work` has closed it.
    ///
    /// It saves system calls where `work` and the driver would otherwise be tasks of one thread: a request of `work` is
    /// sent, and an answer is passed on, before the executor next looks for I/O.
    ///
    /// ```no_run
    /// use mcp_smol::Command;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (client, driver) = mcp_smol::connect(Command::new("my-server"));
    /// let tools = smol::block_on(driver.run_until(async {
    ///     let tools = client.list_tools().await;
    ///     client.close().await;
    ///     tools
    /// }));
    /// println!("{} tools", tools?.len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_until<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut driver = Some(self);
        let mut repoll = Repoll::default();
        poll_fn(|cx| {
            repoll.poll(cx, |cx| {
                if let Some(running) = &mut driver
                    && Pin::new(running).poll(cx).is_ready()
                {
                    // The requests of `work` have failed, or will.
                    driver = None;
                }
                work.as_mut().poll(cx)
            })
        })
        .await
    }
}

debug_fields! { [L, H: HandlerMode] ClientDriver<L, H> {} }

/// Options of a client: its name, its handlers and the eras it speaks.
///
/// ```no_run
/// use std::time::Duration;
///
/// use mcp_smol::mcp_proto::front::{ClientHandlers, HandlerError};
/// use mcp_smol::mcp_proto::peer::client::EraPolicy;
/// use mcp_smol::mcp_proto::schema::{ListRootsResult, Root};
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
    config: ClientConfig,
    handlers: ClientHandlers<H>,
    wire: Option<WireObserver>,
    stderr: Option<StderrSink>,
    runtime: RuntimeKind,
}

type StderrSink = Box<dyn FnMut(StderrLine) + Send>;

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
        Self { config, handlers: ClientHandlers::new(), wire: None, stderr: None, runtime }
    }
}

impl<H: HandlerMode> ClientOptions<H> {
    setters! {
        /// Which eras to speak. Default: detect the server's.
        pub fn era_policy(self, mode: EraPolicy) { self.config.era_policy = mode }

        /// The era that an [earlier connection](Client::known_era) to the same server detected, which saves the probe.
        pub fn known_era(self, verdict: Option<KnownEra>) { self.config.known_era = verdict }

        /// How long a request waits for its answer or for progress, unless it has a timeout of its own. Default 30 s.
        pub fn request_timeout(self, timeout: Duration) { self.config.request_timeout = timeout }

        /// Pings the server, if it is one of 2025-11-25 or earlier, and ends the connection once it answers no more: requests in
        /// flight then fail with [`LostReason::KeepaliveFailed`](mcp_proto::peer::LostReason::KeepaliveFailed). Default: no pings.
        ///
        /// ```
        /// use mcp_smol::ClientOptions;
        /// use mcp_smol::mcp_proto::peer::client::Keepalive;
        ///
        /// let options = ClientOptions::new("my-host", "1.0.0").keepalive(Keepalive::BUSY_TOLERANT);
        /// # drop(options);
        /// ```
        ///
        /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/ping>
        pub fn keepalive(self, keepalive: Keepalive) { self.config.keepalive = Some(keepalive) }

        /// Time limit of connecting as a whole, until the server is ready: see [`ConnectTimeouts::within`]. Default 120 s.
        /// After it [`Client::ready`] fails, with the step under way and the outcomes of the steps before it.
        pub fn ready_timeout(self, timeout: Duration) {
            self.config.connect = ConnectTimeouts::within(timeout)
        }
    }

    /// Handlers for the server's requests; the client declares their capabilities. The driver is not `Send` if the
    /// handlers are [`LocalHandlers`](mcp_proto::front::LocalHandlers).
    pub fn handlers<T: HandlerMode>(self, handlers: ClientHandlers<T>) -> ClientOptions<T> {
        let Self { config, handlers: replaced, wire, stderr, runtime } = self;
        let handlers = handlers.within_layers(replaced.layers());
        ClientOptions { config, handlers, wire, stderr, runtime }
    }

    setters! {
        /// Adds a [layer](mcp_proto::front::layer) around the calls of the application and the requests of the server that handlers
        /// answer, inside of those added before: to log, change, answer or deny them.
        pub fn layer(self, layer: impl IntoLayer<SendHandlers>) { self.handlers = self.handlers.layer(layer) }

        /// Sets the runtime of the child process, its pipes and the driver's timers. Default: [`RuntimeKind::default`].
        pub fn runtime(self, runtime: RuntimeKind) { self.runtime = runtime }

        /// Changes any other part of the configuration.
        pub fn configure(self, change: impl FnOnce(&mut ClientConfig)) { change(&mut self.config) }

        /// Passes every byte to `watch` as it is sent or received, for logs and debugging. A call holds neither whole
        /// messages nor whole lines; [`Lines`](mcp_proto::codec::Lines) splits them, and a
        /// [`Redactor`](mcp_proto::redact::Redactor) hides the secrets in a line.
        ///
        /// The driver calls `watch`: it should be quick.
        pub fn on_wire(self, watch: impl FnMut(WireDirection, &[u8]) + Send + 'static) {
            self.wire = Some(Box::new(watch))
        }

        /// Passes every line that a child process writes to its standard error to `watch`. Without it the lines are only
        /// buffered, and quoted if the process fails.
        ///
        /// The driver calls `watch`: it should be quick.
        pub fn on_stderr(self, watch: impl FnMut(StderrLine) + Send + 'static) {
            self.stderr = Some(Box::new(watch))
        }
    }

    /// Starts a server as a child process and talks to it; see [`connect`](crate::connect).
    pub fn connect(mut self, command: Command) -> (Client, ClientDriver<ChildLink, H>) {
        let link = ChildLink::new(command, self.runtime, self.stderr.take());
        ClientDriver::start(self, link)
    }

    /// Talks to a server over a stream that is already open; see [`connect_stream`](crate::connect_stream).
    pub fn connect_stream<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        self,
        reader: R,
        writer: W,
    ) -> (Client, ClientDriver<StreamLink<R, W>, H>) {
        ClientDriver::start(self, StreamLink::new(reader, writer))
    }
}

debug_fields! { [H: HandlerMode] ClientOptions<H> { config, handlers } }
