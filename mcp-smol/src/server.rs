//! Servers: a [`Router`](mcp_proto::front::Router) answers requests and a driver moves its bytes.

mod entropy;
mod options;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_io::Timer;
use futures_lite::{AsyncRead, AsyncWrite, Stream as _};
use mcp_proto::adapter::{self, Clock as _, SystemClock};
use mcp_proto::front::{Attachments, HandlerMode, RouterError, SendHandlers, ServedRouter, ServerHandle};
use mcp_proto::peer::Principal;
use mcp_proto::peer::server::{CloseReason, ServerConfig};
use mcp_proto::transport::StreamServer;

use crate::alarm::Alarm;
use crate::pump::{Pump, ReadEnd};
use crate::reactor::start_reactor;

pub use entropy::SystemEntropy;
pub use options::ServerOptions;

/// Rounds per poll before the driver yields to other tasks. Each round reads at most one block of 64 KiB.
const ROUNDS: usize = 4;
/// How long the driver waits for a client that does not read the last answers.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

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
/// fn main() -> std::io::Result<()> {
///     let router = Router::new("calculator", "1.0.0")
///         .tool("add", "Adds two numbers", async |Add { a, b }, _| format!("{}", a + b));
///     smol::block_on(mcp_smol::serve_stdio(router))
/// }
/// ```
///
/// (Input schemas from argument types are the feature `schemars`.)
///
/// Only messages reach standard output, even if other code prints; see [`stdio`](crate::stdio()). When the input ends,
/// handlers have [`ServerConfig::close_timeout`] to finish, and their answers are written before this returns.
///
/// # Errors
///
/// Those of [`ServerDriver`], and those of [`stdio`](crate::stdio()) if standard input and output cannot be taken.
pub async fn serve_stdio<H: HandlerMode>(router: impl Into<ServedRouter<H>>) -> io::Result<()> {
    let (_, driver) = ServerOptions::new(router).stdio()?;
    driver.await
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
/// - the error of [`start_reactor`] if no file descriptors are left;
/// - errors of reading and writing, among them [`io::ErrorKind::TimedOut`] if the client does not read its answers.
///
/// A client that disconnects without reading its answers is not an error.
///
/// # A client that reads slowly
///
/// While more than [`Limits::queued_bytes`](mcp_proto::Limits::queued_bytes) of answers are unread, no further handler
/// runs and further requests are held. Once those fill [`Limits::message_bytes`](mcp_proto::Limits::message_bytes), the
/// driver stops reading from the client. Responses and cancellations up to that point are handled. If the client reads
/// nothing at all for [`ServerConfig::write_timeout`], the driver ends the connection.
#[must_use = "nothing happens unless the driver is polled"]
pub struct ServerDriver<R, W, H: HandlerMode = SendHandlers> {
    front: adapter::ServerDriver<StreamServer, H>,
    pump: Pump<R, W>,
    alarm: Alarm,
    /// Error that kept the driver from serving anything.
    startup_error: Option<io::Error>,
    /// Why reading has ended.
    end: Option<ReadEnd>,
    /// Whether the machine accepts more input.
    wants_read: bool,
    /// Unwritten bytes of output at the last poll.
    unwritten: usize,
    final_writes: Option<FinalWrites>,
}

/// Progress of writing the last answers.
struct FinalWrites {
    unwritten: usize,
    /// Restarts whenever the client has read some of them.
    patience: Timer,
}

impl<R, W, H: HandlerMode> ServerDriver<R, W, H> {
    fn start(
        router: ServedRouter<H>,
        config: ServerConfig,
        principal: Option<Principal>,
        reader: R,
        writer: W,
    ) -> (ServerHandle, Self) {
        let invalid = |error: RouterError| io::Error::new(io::ErrorKind::InvalidInput, error);
        let problem = router.router().check().map_err(invalid).and_then(|()| start_reactor()).err();
        let clock = Arc::new(SystemClock::new());
        let mut machine = StreamServer::new(config);
        machine.at(clock.now()).set_principal(principal);
        let (handle, front) = adapter::server(machine, clock.clone(), Arc::new(SystemEntropy), router);
        let pump = Pump::new(reader, writer);
        let driver = Self {
            front,
            pump,
            alarm: Alarm::new(clock),
            startup_error: problem,
            end: None,
            wants_read: true,
            unwritten: 0,
            final_writes: None,
        };
        (handle, driver)
    }

    fn attach(&mut self, attachments: Attachments) {
        self.front.attach(attachments);
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, H: HandlerMode> ServerDriver<R, W, H> {
    /// Moves output from the machine to the stream. Ready if there was any.
    fn poll_machine(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { front, pump, wants_read, unwritten, .. } = self;
        front.poll(cx, |machine, now| {
            let left = pump.unwritten();
            if std::mem::replace(unwritten, left) > left {
                machine.handle_written(now);
            }
            machine.handle_timeout(now);
            *wants_read = machine.wants_read();
            let transmitted = pump.outgoing().is_some_and(|outgoing| machine.poll_transmit(outgoing));
            if transmitted {
                *unwritten = pump.unwritten();
            }
            if transmitted { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    /// Hands the client's input to the machine. Ready if there was any.
    fn poll_client(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.end.is_some() || self.final_writes.is_some() {
            return Poll::Pending;
        }
        // The window of held requests is full. A later read reports a failed write.
        if !self.wants_read && !self.pump.has_closed() {
            return Poll::Pending;
        }
        match ready!(self.pump.poll_read(cx)) {
            Ok(bytes) => self.front.lock(|machine, now| machine.handle_input(now, bytes)),
            Err(end) => {
                let detail = end.to_string();
                self.front.lock(|machine, now| machine.handle_eof(now, &detail));
                self.end = Some(end);
            }
        }
        Poll::Ready(())
    }

    /// The connection is over: writes the remaining output for as long as the client reads it, then closes.
    fn poll_final_writes(&mut self, closed: CloseReason, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let unwritten = self.pump.unwritten();
        let parting = self
            .final_writes
            .get_or_insert_with(|| FinalWrites { unwritten, patience: Timer::after(FINAL_WRITE_TIMEOUT) });
        if parting.unwritten != unwritten {
            parting.unwritten = unwritten;
            parting.patience.set_after(FINAL_WRITE_TIMEOUT);
        }
        if unwritten == 0 {
            self.pump.close_write();
            self.pump.poll_write(cx);
        }
        if !self.pump.has_closed() {
            ready!(Pin::new(&mut parting.patience).poll_next(cx));
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

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, H: HandlerMode> Future for ServerDriver<R, W, H> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(problem) = this.startup_error.take() {
            return Poll::Ready(Err(problem));
        }
        for _ in 0..ROUNDS {
            // All three in every round, so that reading waits neither for writing nor for the machine.
            this.pump.poll_write(cx);
            let acted = this.poll_machine(cx);
            let happened = this.poll_client(cx);
            if acted.is_ready() || happened.is_ready() {
                continue;
            }
            if let Some(closed) = this.front.closed() {
                return this.poll_final_writes(closed, cx);
            }
            if this.alarm.poll_until(this.front.next_timeout(), cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<R, W, H: HandlerMode> fmt::Debug for ServerDriver<R, W, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerDriver").field("front", &self.front).finish_non_exhaustive()
    }
}
