//! A client's only connection, over a stream that the application opened: how it is taken, and how it ended.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::Instant;
#[cfg(feature = "stdio-v2")]
use mcp_proto::front::{Client, HandlerMode};
use mcp_proto::peer::LostReason;
#[cfg(feature = "stdio-v2")]
use mcp_proto::peer::client::ClientConfig;

#[cfg(feature = "stdio-v2")]
use super::{ClientDriver, ClientOptions, ConnectError};
#[cfg(feature = "stdio-v2")]
use crate::runtime::Runtime;
use crate::runtime::Stream;

/// Maximum bytes of a server's first output in an error.
const QUOTED: usize = 80;

/// Advice about a server that sent invalid frames.
#[cfg(feature = "http2")]
const NOT_ONLY_HTTP2: &str = "a server of `stdio-v2` must write nothing else to its standard output";

/// Error of a server that has never sent anything.
const SILENT: &str = "the server has sent nothing: it may speak another transport than HTTP/2 (`stdio-v2`)";

/// The stream of a client that has one connection. Default: none, and the client opens connections as needed.
#[derive(Clone, Default)]
pub(super) struct OnlyStream(Option<Arc<Mutex<State>>>);

#[derive(Default)]
struct State {
    /// The stream, until it is taken.
    stream: Option<Box<dyn Stream>>,
    /// When the first request was sent, and how long the server may be silent then.
    opened_at: Option<Instant>,
    start_timeout: Duration,
    close_timeout: Duration,
    /// Whether the server has sent anything.
    has_begun: bool,
    /// Whether the connection is done with the stream, which closes by itself.
    is_closing: bool,
    /// Whether the connection has ended, and the reason as far as it is known.
    has_ended: bool,
    reason: Option<LostReason>,
    is_reported: bool,
}

impl OnlyStream {
    #[cfg(feature = "stdio-v2")]
    pub(super) fn new(stream: impl Stream, config: &ClientConfig) -> Self {
        let stream: Option<Box<dyn Stream>> = Some(Box::new(stream));
        let (start_timeout, close_timeout) = (config.connect.initialize, config.close_timeout);
        Self(Some(Arc::new(Mutex::new(State { stream, start_timeout, close_timeout, ..State::default() }))))
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
            return Some(Err(super::error::definite_error("its only connection accepts no more requests")));
        };
        Some(Ok(Box::new(WatchedStream { stream, state: state.clone() })))
    }

    /// Whether the connection has ended: requests in flight then fail with the client.
    pub(super) fn has_ended(&self) -> bool {
        self.state().is_some_and(|state| state.has_ended)
    }

    /// Whether the connection is done with the stream, which closes by itself.
    pub(super) fn is_closing(&self) -> bool {
        self.state().is_some_and(|state| state.is_closing)
    }

    /// How long its last frames may take once the client is closed, unless the server reads them.
    pub(super) fn close_timeout(&self) -> Duration {
        self.state().map_or(Duration::ZERO, |state| state.close_timeout)
    }

    /// Notes the error of the connection, unless the stream has told more.
    #[cfg(feature = "http2")]
    pub(super) fn note_error(&self, error: &hyper::Error) {
        if let Some(mut state) = self.state() {
            let detail = super::error::error_chain(error);
            state.note_end(match super::error::is_invalid_http2(error) {
                true => LostReason::Failed(format!("{detail}: {NOT_ONLY_HTTP2}")),
                false => LostReason::Disconnected(detail),
            });
        }
    }

    /// Notes a request. It ends the connection if the server has sent nothing for as long as it may take to start.
    pub(super) fn note_opened(&self, now: Instant) {
        if let Some(mut state) = self.state()
            && !state.has_begun
            && *state.opened_at.get_or_insert(now) + state.start_timeout <= now
        {
            state.note_end(LostReason::Failed(SILENT.to_owned()));
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
}

impl AsyncRead for WatchedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        let mut state = lock(&self.state);
        let count = read.inspect_err(|error| state.note_end(LostReason::Disconnected(error.to_string())))?;
        if count == 0 && !buf.is_empty() {
            state.note_end(LostReason::Disconnected(String::new()));
        } else if count > 0
            && !std::mem::replace(&mut state.has_begun, true)
            && let Some(mismatch) = mismatch(buf.get(..count).unwrap_or_default())
        {
            state.note_end(LostReason::WrongTransport(mismatch.clone()));
            return Poll::Ready(Err(io::Error::other(mismatch)));
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
        lock(&self.state).is_closing = true;
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
