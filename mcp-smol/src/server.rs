//! Servers: a [`Router`](mcp_proto::front::Router) answers requests and a driver moves its bytes.

mod own_thread;

use std::any::Any;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::Instant;
use mcp_proto::adapter::{self, Clock as _, Entropy, Repoll, ServeError, SystemClock};
use mcp_proto::front::{Attachments, HandlerMode, SendHandlers, ServedRouter, ServerHandle};
use mcp_proto::peer::server::{CloseReason, ServerConfig};
use mcp_proto::peer::{LostReason, Principal};
use mcp_proto::transport::StreamServer;

use crate::io::{Pump, ReadEnd, WireDirection, WireObserver};
use crate::reactor::Alarm;
use crate::stdio::stdio_on;
use crate::{RuntimeKind, Stdin, Stdout};

pub use own_thread::{StdioServer, run_stdio};

/// Serves this process's standard input and output until the client closes them. This is all of a server's `main`:
///
/// ```no_run
/// use mcp_smol::mcp_proto::front::Router;
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
/// handlers have [`ServerConfig::close_timeout`](mcp_proto::peer::server::ServerConfig::close_timeout) to finish, and
/// their answers are written before this returns.
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
/// use mcp_smol::mcp_proto::front::Router;
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
pub fn serve<H: HandlerMode, R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    router: impl Into<ServedRouter<H>>,
    reader: R,
    writer: W,
) -> ServerDriver<R, W, H> {
    ServerOptions::new(router).stream(reader, writer).1
}

/// The future that moves a server's messages, fires its timers and runs its handlers.
///
/// Spawn it on any executor, or await it; nothing happens otherwise. It is `Send` unless the router's handlers are
/// [`LocalHandlers`](mcp_proto::front::LocalHandlers). When the client has ended its side, or the [`ServerHandle`] has
/// closed the connection, it answers the requests in flight, closes its writer and ends.
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
/// nothing at all for [`ServerConfig::write_timeout`](mcp_proto::peer::server::ServerConfig::write_timeout), the driver
/// ends the connection.
#[must_use = "no request is answered until the driver is polled: await it, or spawn it on an executor"]
pub struct ServerDriver<R, W, H: HandlerMode = SendHandlers> {
    connection: Connection<R, W, H>,
    alarm: Alarm,
    repoll: Repoll,
    /// The runtime, until the driver is polled.
    unstarted: Option<RuntimeKind>,
}

impl<R, W, H: HandlerMode> ServerDriver<R, W, H> {
    fn start(options: ServerOptions<H>, reader: R, writer: W) -> (ServerHandle, Self) {
        let runtime = options.runtime;
        let (handle, connection) = Connection::new(options, reader, writer);
        let alarm = Alarm::new(runtime.into(), connection.clock);
        (handle, Self { connection, alarm, repoll: Repoll::default(), unstarted: Some(runtime) })
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, H: HandlerMode> Future for ServerDriver<R, W, H> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { connection, alarm, repoll, unstarted } = &mut *self;
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

debug_fields! { [R, W, H: HandlerMode] ServerDriver<R, W, H>(self) { front = self.connection.front } }

/// Options for serving a router: configuration beyond the router's own, and a handle for the application.
///
/// ```no_run
/// use mcp_smol::mcp_proto::front::Router;
/// use mcp_smol::mcp_proto::peer::server::ListKind;
/// use mcp_smol::mcp_proto::schema::ServerCapability;
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
    router: ServedRouter<H>,
    config: ServerConfig,
    principal: Option<Principal>,
    attachments: Attachments,
    wire: Option<WireObserver>,
    runtime: RuntimeKind,
}

impl<H: HandlerMode> ServerOptions<H> {
    /// Options with the router's own [configuration](mcp_proto::front::Router::config).
    pub fn new(router: impl Into<ServedRouter<H>>) -> Self {
        let router = router.into();
        let (config, attachments) = (router.router().config(), Attachments::new());
        Self { config, router, principal: None, attachments, wire: None, runtime: RuntimeKind::default() }
    }

    setters! {
        /// Changes the configuration.
        pub fn configure(self, change: impl FnOnce(&mut ServerConfig)) { change(&mut self.config) }

        /// Sets the principal on whose behalf the client acts, as identified by the code that accepted the connection:
        /// the user at the other end of a Unix socket, for example. Handlers can read it, and the server refuses one
        /// principal's tasks and states to all others.
        pub fn principal(self, principal: Principal) { self.principal = Some(principal) }
    }

    /// Attaches a value to each request, in place of one of the same type. Handlers read it with
    /// [`Context::attachments`](mcp_proto::front::Context::attachments). A stream of this crate knows nothing about its
    /// other end; the code that accepted the connection attaches what it knows:
    ///
    /// ```no_run
    /// use std::net::SocketAddr;
    ///
    /// use mcp_smol::mcp_proto::front::{Context, NoArguments, Router};
    /// use mcp_smol::mcp_proto::schema::{Json, Tool};
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

    setters! {
        /// Sets the runtime of the driver's timers, and of standard input and output. Default:
        /// [`RuntimeKind::default`].
        pub fn runtime(self, runtime: RuntimeKind) { self.runtime = runtime }

        /// Passes every byte to `watch` as it is sent or received, for logs and debugging. A call holds neither whole
        /// messages nor whole lines; [`Lines`](mcp_proto::codec::Lines) splits them, and a
        /// [`Redactor`](mcp_proto::redact::Redactor) hides the secrets in a line.
        ///
        /// The driver calls `watch`: it should be quick.
        pub fn on_wire(self, watch: impl FnMut(WireDirection, &[u8]) + Send + 'static) {
            self.wire = Some(Box::new(watch))
        }
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
    /// use mcp_smol::mcp_proto::front::Router;
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

    /// Serves one client over a stream.
    pub fn stream<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        self,
        reader: R,
        writer: W,
    ) -> (ServerHandle, ServerDriver<R, W, H>) {
        ServerDriver::start(self, reader, writer)
    }
}

debug_fields! { [H: HandlerMode] ServerOptions<H> { router, config } }

/// Rounds per poll before the driver yields to other tasks. Each round reads at most one block of 64 KiB.
const ROUNDS: usize = 4;
/// How long the driver waits for a client that does not read the last answers.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

struct Connection<R, W, H: HandlerMode> {
    front: adapter::ServerDriver<StreamServer, H>,
    pump: Pump<R, W>,
    clock: SystemClock,
    wire: Option<WireObserver>,
    /// Why reading has ended.
    end: Option<ReadEnd>,
    /// Whether the machine accepts more input.
    wants_read: bool,
    /// The end of the wait for the client to read more of the last answers. Moves whenever it has read some.
    final_deadline: Option<Instant>,
    /// Error that keeps it from serving anything: an invalid router.
    startup_error: Option<io::Error>,
}

impl<R, W, H: HandlerMode> Connection<R, W, H> {
    fn new(options: ServerOptions<H>, reader: R, writer: W) -> (ServerHandle, Self) {
        let ServerOptions { router, config, principal, attachments, wire, .. } = options;
        let clock = SystemClock::new();
        let error = router.router().check().err();
        let mut machine = StreamServer::new(config);
        machine.at(clock.now()).set_principal(principal);
        let (handle, mut front) = adapter::server(machine, Arc::new(clock), Arc::new(SystemEntropy), router);
        front.attach(attachments);
        let connection = Self {
            front,
            pump: Pump::new(reader, writer),
            clock,
            wire,
            end: None,
            wants_read: true,
            final_deadline: None,
            startup_error: error.map(|error| io::Error::new(io::ErrorKind::InvalidInput, error)),
        };
        (handle, connection)
    }

    /// When to poll again, whatever else happens.
    fn deadline(&self) -> Option<Instant> {
        self.final_deadline.or_else(|| {
            let of_pump = self.pump.deadline().filter(|_| self.end.is_none());
            [self.front.next_timeout(), of_pump].into_iter().flatten().min()
        })
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, H: HandlerMode> Connection<R, W, H> {
    /// Does the work that can be done now. Ready once the connection is over and everything is written. Wakes `task`
    /// instead of its own waker if there is more to do than fits into one poll.
    fn poll(&mut self, cx: &mut Context<'_>, task: &Waker) -> Poll<io::Result<()>> {
        if let Some(error) = self.startup_error.take() {
            return Poll::Ready(Err(error));
        }
        for _ in 0..ROUNDS {
            // All three in every round, so that reading waits neither for writing nor for the machine.
            self.pump.poll_write(cx, &self.clock);
            let acted = self.poll_machine(cx);
            let happened = self.poll_client(cx);
            if acted.is_ready() || happened.is_ready() {
                continue;
            }
            return match self.front.closed() {
                Some(closed) => self.poll_final_writes(closed, cx),
                None => Poll::Pending,
            };
        }
        task.wake_by_ref();
        Poll::Pending
    }

    /// Moves output from the machine to the stream. Ready if there was any.
    fn poll_machine(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { front, pump, wire, wants_read, final_deadline, .. } = self;
        let mut sent = None;
        let polled = front.poll(cx, |machine, now| {
            if pump.take_progress() {
                machine.handle_written(now);
                *final_deadline = final_deadline.map(|_| now + FINAL_WRITE_TIMEOUT);
            }
            machine.handle_timeout(now);
            *wants_read = machine.wants_read();
            let outgoing = pump.outgoing();
            let transmitted =
                outgoing.and_then(|outgoing| machine.poll_transmit(outgoing).then_some(outgoing));
            sent = transmitted.as_ref().and_then(|outgoing| wire.is_some().then(|| outgoing.to_vec()));
            if transmitted.is_some() { Poll::Ready(()) } else { Poll::Pending }
        });
        // Foreign code runs only after the lock is released.
        if let (Some(sent), Some(watch)) = (sent, wire) {
            watch(WireDirection::Sent, &sent);
        }
        polled
    }

    /// Hands the client's input to the machine. Ready if there was any.
    fn poll_client(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.end.is_some() || self.final_deadline.is_some() {
            return Poll::Pending;
        }
        // The window of held requests is full. A later read reports a failed write.
        if !self.wants_read && !self.pump.has_closed() {
            return Poll::Pending;
        }
        match ready!(self.pump.poll_read(cx, &self.clock)) {
            Ok(bytes) => {
                if let Some(watch) = &mut self.wire {
                    watch(WireDirection::Received, &bytes);
                }
                self.front.lock(|machine, now| machine.handle_input(now, bytes));
            }
            Err(end) => {
                let detail = end.to_string();
                self.front.lock(|machine, now| match &end {
                    // Nobody takes the answers to requests that still wait.
                    ReadEnd::Write(_) => machine.at(now).abort(LostReason::Disconnected(detail)),
                    ReadEnd::Eof | ReadEnd::Read(_) => machine.handle_eof(now, &detail),
                });
                self.end = Some(end);
            }
        }
        Poll::Ready(())
    }

    /// The connection is over: writes the remaining output for as long as the client reads it, then closes.
    fn poll_final_writes(&mut self, closed: CloseReason, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let now = self.clock.now();
        let deadline = *self.final_deadline.get_or_insert(now + FINAL_WRITE_TIMEOUT);
        if self.pump.unwritten() == 0 {
            self.pump.close_write();
            self.pump.poll_write(cx, &self.clock);
        }
        if !self.pump.has_closed() {
            if now < deadline {
                return Poll::Pending;
            }
            let error = io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answers");
            return Poll::Ready(Err(error));
        }
        Poll::Ready(match (self.end.take(), closed) {
            (Some(ReadEnd::Read(error)), _) => Err(error),
            (Some(ReadEnd::Write(_)), _) => Ok(()),
            (_, CloseReason::Lost(lost)) => Err(io::Error::other(lost)),
            (_, _) => Ok(()),
        })
    }
}

/// The random number generator of the operating system: the source of ids and keys in servers of this crate, for those
/// that an application makes itself.
///
/// ```
/// use mcp_smol::SystemEntropy;
/// use mcp_smol::mcp_proto::adapter::Entropy;
///
/// let mut key = [0; 32];
/// SystemEntropy.fill(&mut key);
/// assert_ne!(key, [0; 32]);
/// ```
///
/// # Panics
/// `fill` panics if the generator fails, which happens on no supported system: guessable ids would be insecure.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::panic, reason = "guessable ids would be insecure")]
    fn fill(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the system's random number generator failed: {error}");
        }
    }
}
