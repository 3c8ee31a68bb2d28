//! Clients: each connection has a handle for the application and a driver that moves its bytes.

mod child;
mod link;
mod options;
mod stream;

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::adapter::{self, Repoll, SystemClock};
use mcp_proto::front::{Client, Error, HandlerMode, SendHandlers};
use mcp_proto::peer::LostReason;
use mcp_proto::peer::client::{CloseReason, LinkAction};
use mcp_proto::transport::StreamClient;

use crate::alarm::Alarm;
use crate::reactor::sleep;
use crate::{Command, Killer, RuntimeKind, SpawnError};

pub use child::ChildLink;
use link::{Link, LinkEvent};
pub use options::{ClientOptions, WireDirection};
pub use stream::StreamLink;

/// Rounds per poll before the driver yields to other tasks. Each round reads at most one block of 64 KiB, beside
/// which the detour through the executor costs nothing.
const ROUNDS: usize = 4;

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
pub fn connect_stream<R, W>(reader: R, writer: W) -> (Client, ClientDriver<StreamLink<R, W>>)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
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
    wire: options::Tap,
    /// Unwritten bytes of output at the last poll.
    unwritten: usize,
}

impl<H: HandlerMode> ClientDriver<ChildLink, H> {
    /// A handle that kills the server at once, for programs that cannot wait for the shutdown steps.
    pub fn killer(&self) -> Killer {
        self.connection.link.killer()
    }

    /// Why the program could not be started, once an attempt has failed. Most reasons stay until the user acts.
    pub fn spawn_error(&self) -> Option<&SpawnError> {
        self.connection.link.spawn_error()
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
        let connection = Connection { front, link, clock, alarm, wire, unwritten: 0 };
        (client, Self { connection, repoll: Repoll::default(), unstarted: Some(runtime) })
    }
}

impl<L: Link, H: HandlerMode> Connection<L, H> {
    /// Carries out the machine's actions on the link. Ready if there were any, as more may follow.
    fn poll_machine(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { front, link, wire, unwritten, .. } = self;
        let mut sent = None;
        let polled = front.poll(cx, |machine, now| {
            let left = link.unwritten();
            if std::mem::replace(unwritten, left) > left {
                machine.handle_written(now);
            }
            machine.handle_timeout(now);
            let action = machine.poll_link();
            let transmitted =
                link.outgoing().and_then(|outgoing| machine.poll_transmit(outgoing).then_some(outgoing));
            *unwritten = transmitted.as_ref().map_or(*unwritten, |outgoing| outgoing.len());
            sent = transmitted.as_ref().and_then(|outgoing| wire.is_on().then(|| outgoing.to_vec()));
            if action.is_some() || transmitted.is_some() { Poll::Ready(action) } else { Poll::Pending }
        });
        // Slow or foreign code runs only after the lock is released.
        if let Some(sent) = sent {
            wire.show(WireDirection::Sent, &sent);
        }
        polled.map(|action| match action {
            Some(LinkAction::Open) => link.open(),
            Some(LinkAction::CloseWrite) => link.close_write(),
            Some(LinkAction::Abort) => link.abort(),
            None => {}
        })
    }

    /// Hands the link's input to the machine. Ready if there was any.
    fn poll_link(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.link.poll_event(cx, &self.clock).map(|event| {
            if let LinkEvent::Input(bytes) = &event {
                self.wire.show(WireDirection::Received, bytes);
            }
            self.front.lock(|machine, now| match event {
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
            self.link.poll_write(cx, &self.clock);
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

impl<L, H: HandlerMode> fmt::Debug for ClientDriver<L, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientDriver").finish_non_exhaustive()
    }
}
