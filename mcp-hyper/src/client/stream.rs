//! A client's only connection, over a stream that the application opened: how it is taken, and how it ended.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures_lite::{AsyncRead, AsyncWrite};
#[cfg(feature = "stdio-v2")]
use mcp_proto::front::{Client, HandlerMode};
use mcp_proto::peer::LostReason;

#[cfg(feature = "stdio-v2")]
use super::{ClientDriver, ClientOptions, ConnectError};
#[cfg(feature = "stdio-v2")]
use crate::runtime::Runtime;
use crate::runtime::Stream;

/// Maximum bytes of a server's first output in an error.
const QUOTED: usize = 80;

/// The stream of a client that has one connection. Default: none, and the client opens connections as needed.
#[derive(Clone, Default)]
pub(super) struct OnlyStream(Option<Arc<Mutex<State>>>);

struct State {
    /// The stream, until it is taken.
    stream: Option<Box<dyn Stream>>,
    /// Whether the connection has ended, and the reason as far as it is known.
    has_ended: bool,
    reason: Option<LostReason>,
    is_reported: bool,
}

impl OnlyStream {
    pub(super) fn new(stream: impl Stream) -> Self {
        let stream: Option<Box<dyn Stream>> = Some(Box::new(stream));
        let state = State { stream, has_ended: false, reason: None, is_reported: false };
        Self(Some(Arc::new(Mutex::new(state))))
    }

    pub(super) fn is_given(&self) -> bool {
        self.0.is_some()
    }

    fn state(&self) -> Option<MutexGuard<'_, State>> {
        Some(lock(self.0.as_ref()?))
    }

    /// Takes the stream, of which there is one; `None` if the client opens connections.
    pub(super) fn take(&self) -> Option<io::Result<Box<dyn Stream>>> {
        let state = self.0.as_ref()?;
        let Some(stream) = lock(state).stream.take() else {
            return Some(Err(super::error::definite_error("its only connection has ended")));
        };
        Some(Ok(Box::new(WatchedStream { stream, state: state.clone(), has_begun: false })))
    }

    /// Whether the connection has ended: requests in flight then fail with the client.
    pub(super) fn has_ended(&self) -> bool {
        self.state().is_some_and(|state| state.has_ended)
    }

    /// Notes the error of the connection, unless the stream has told more.
    pub(super) fn note_error(&self, detail: String) {
        if let Some(mut state) = self.state() {
            state.note_end(LostReason::Disconnected(detail));
        }
    }

    /// Returns why the connection has ended, once.
    pub(super) fn take_end(&self) -> Option<LostReason> {
        let mut state = self.state().filter(|state| state.has_ended && !state.is_reported)?;
        state.is_reported = true;
        let unknown = || LostReason::Disconnected("its HTTP/2 connection has ended".to_owned());
        Some(state.reason.take().unwrap_or_else(unknown))
    }
}

/// Locks a mutex under which no code runs that can panic.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn note_end(&mut self, reason: LostReason) {
        self.has_ended = true;
        self.reason.get_or_insert(reason);
    }
}

/// A stream that notes how it ends. Dropping it ends the connection.
struct WatchedStream {
    stream: Box<dyn Stream>,
    state: Arc<Mutex<State>>,
    /// Whether the server has sent anything.
    has_begun: bool,
}

impl AsyncRead for WatchedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf)).inspect_err(|error| {
            lock(&self.state).note_end(LostReason::Disconnected(error.to_string()));
        });
        let count = read?;
        if count == 0 && !buf.is_empty() {
            lock(&self.state).note_end(LostReason::Disconnected(String::new()));
        } else if count > 0 && !std::mem::replace(&mut self.has_begun, true) {
            let first = buf.get(..count).unwrap_or_default();
            if let Some(mismatch) = mismatch(first) {
                lock(&self.state).note_end(LostReason::WrongTransport(mismatch.clone()));
                return Poll::Ready(Err(io::Error::other(mismatch)));
            }
        }
        Poll::Ready(Ok(count))
    }
}

/// What a server speaks that does not begin with HTTP/2's SETTINGS frame, whose length begins with zero.
fn mismatch(first: &[u8]) -> Option<String> {
    match first.iter().find(|byte| !byte.is_ascii_whitespace())? {
        0 => None,
        b'{' | b'[' => Some(
            "the server speaks newline-delimited JSON (`stdio`), and this client expects HTTP/2 (`stdio-v2`): \
             configure the server as `stdio`"
                .to_owned(),
        ),
        _ => {
            let first = String::from_utf8_lossy(first.get(..QUOTED).unwrap_or(first));
            Some(format!("the server does not speak HTTP/2 (`stdio-v2`): its output begins with {first:?}"))
        }
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

impl Drop for WatchedStream {
    fn drop(&mut self) {
        lock(&self.state).has_ended = true;
    }
}

#[cfg(feature = "stdio-v2")]
impl<H: HandlerMode, R: Runtime> ClientOptions<H, R> {
    /// Starts a server as a child process and speaks HTTP/2 over its standard input and output: experimental, the
    /// transport `stdio-v2`. As [`connect_stream`](Self::connect_stream) on a [`mcp_smol::ChildStream`]: the reason of
    /// its end has the exit status and the last lines of standard error.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcp_hyper::ClientOptions;
    /// use mcp_smol::Command;
    ///
    /// let server = Command::new("mcpio").args(["serve", "--stdio-v2"]);
    /// let (client, driver) = ClientOptions::new("my-host", "1.0.0").connect_command_v2(server)?;
    /// smol::spawn(driver).detach();
    /// println!("{} tools", client.list_tools().await?.len());
    /// client.close().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the program cannot be started, or one of the options is invalid.
    pub fn connect_command_v2(
        self,
        command: mcp_smol::Command,
    ) -> Result<(Client, ClientDriver<H, R>), ConnectError> {
        let child = mcp_smol::ChildStream::spawn(command, |_| {});
        self.connect_stream(child.map_err(|error| ConnectError::Spawn(Arc::new(error)))?)
    }
}
