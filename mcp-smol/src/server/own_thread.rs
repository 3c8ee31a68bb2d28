//! A server that owns its thread, without a runtime.

#[cfg(unix)]
#[path = "own_thread/unix.rs"]
mod os;
#[cfg(windows)]
#[path = "own_thread/windows.rs"]
mod os;

use std::fmt;
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mcp_proto::Instant;
use mcp_proto::adapter::{Clock as _, ServeError, SystemClock};
use mcp_proto::front::{HandlerMode, SendHandlers, ServedRouter, ServerHandle};

use super::ServerOptions;
use super::connection::Connection;

/// Polls of work that has woken itself, before the thread looks for input again.
const POLLS: usize = 16;

/// Serves this process's standard input and output on this thread until the client closes them, without a runtime. This
/// is all of a server's `main`:
///
/// ```no_run
/// use mcp_proto::front::{NoArguments, Router};
/// use mcp_proto::schema::{Json, Tool};
///
/// fn main() -> Result<(), mcp_smol::ServeError> {
///     let tool = Tool::new("whoami", "Tells the name of the server", Json::empty_object());
///     mcp_smol::run_stdio(Router::new("host", "1.0.0").tool_with(tool, async |NoArguments {}, _| "host"))
/// }
/// ```
///
/// It behaves as [`serve_stdio`](crate::serve_stdio) does, and needs three system calls per request where that needs
/// eight: one wait, one read and one write. Handlers run on this thread. They may wait for whatever wakes them from
/// another thread, such as a channel, or async-io's timers and sockets, which use a thread of their own; those of tokio
/// work only inside of a tokio runtime.
///
/// # Errors
///
/// Those of [`ServerDriver`](crate::ServerDriver), and those of [`stdio`](crate::stdio()) if standard input and output
/// cannot be taken.
pub fn run_stdio<H: HandlerMode>(router: impl Into<ServedRouter<H>>) -> Result<(), ServeError> {
    let (_, server) = ServerOptions::new(router).blocking_stdio()?;
    server.run()
}

/// A server on this process's standard streams, made by
/// [`ServerOptions::blocking_stdio`](crate::ServerOptions::blocking_stdio). Dropping it ends the connection.
#[must_use = "nothing happens unless the server runs"]
pub struct StdioServer<H: HandlerMode = SendHandlers> {
    connection: Connection<os::Reader, os::Writer, H>,
    clock: SystemClock,
    /// Error that keeps it from serving anything.
    startup_error: Option<io::Error>,
}

impl<H: HandlerMode> StdioServer<H> {
    pub(super) fn start(options: ServerOptions<H>) -> io::Result<(ServerHandle, Self)> {
        let (reader, writer) = os::streams()?;
        let clock = SystemClock::new();
        let startup_error = options.check().err();
        let (handle, connection) = Connection::new(options, clock, reader, writer);
        Ok((handle, Self { connection, clock, startup_error }))
    }

    /// Serves until the client or the [`ServerHandle`] closes the connection; see [`run_stdio`].
    ///
    /// # Errors
    ///
    /// Those of [`ServerDriver`](crate::ServerDriver).
    pub fn run(self) -> Result<(), ServeError> {
        let Self { mut connection, clock, startup_error } = self;
        if let Some(error) = startup_error {
            return Err(error.into());
        }
        let sleeper = os::Sleeper::new()?;
        let waker = Waker::from(sleeper.clone());
        loop {
            for _ in 0..POLLS {
                sleeper.start_polling();
                if let Poll::Ready(result) = connection.poll(&mut Context::from_waker(&waker), &waker) {
                    return Ok(result?);
                }
                if !sleeper.is_woken() {
                    break;
                }
            }
            let deadline = connection.deadline();
            let left = deadline.map(|deadline: Instant| deadline.saturating_since(clock.now()));
            sleeper.sleep(connection.streams(), left)?;
        }
    }
}

impl<H: HandlerMode> fmt::Debug for StdioServer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioServer").field("front", &self.connection.front).finish_non_exhaustive()
    }
}

/// How long a sleep lasts at most, so that its length fits the system's types.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);
