//! Links to servers: open streams, and child processes that opening starts.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_lite::future::or;
use futures_lite::{AsyncRead, AsyncWrite, Stream as _};
use mcp_proto::Instant;
use mcp_proto::adapter::{Clock as _, SystemClock};

use super::StderrSink;
use crate::io::{Pump, ReadEnd};
use crate::reactor::sleep;
use crate::{ChildStdin, ChildStdout, Command, Exit, Killer, Process, RuntimeKind, SpawnError, StderrLines};

/// A connection to a server that can be opened, written to, read from and closed.
pub trait Link {
    /// Reads from the server.
    type Reader: AsyncRead + Unpin;
    /// Writes to the server.
    type Writer: AsyncWrite + Unpin;

    /// Whether it can be opened more than once.
    fn can_reopen(&self) -> bool;

    /// Opens it; reopens it if it is open. [`LinkEvent::Opened`] or [`LinkEvent::OpenFailed`] reports the result.
    fn open(&mut self);

    /// Closes it, without further events.
    fn abort(&mut self);

    /// Its streams while it is open. [`LinkEvent::Ended`] reports a failure to write once reading has ended.
    fn pump(&mut self) -> Option<&mut Pump<Self::Reader, Self::Writer>>;

    /// The next event. To be polled at the [deadline](Self::deadline) too.
    fn poll_event(&mut self, cx: &mut Context<'_>, clock: &SystemClock) -> Poll<LinkEvent>;

    /// When an event is due, whatever else happens.
    fn deadline(&self) -> Option<Instant>;

    /// Whether it is closed and its process, if any, is gone.
    fn is_closed(&self) -> bool;
}

/// An event on a link.
#[derive(Debug)]
pub enum LinkEvent {
    /// The link is open.
    Opened,
    /// The link could not be opened, with the reason as text.
    OpenFailed(String),
    /// Bytes were received.
    Input(Bytes),
    /// The link has ended, with the reason as text.
    Ended(String),
}

/// A client's link over a reader and a writer, which is open from the beginning and cannot be reopened.
#[derive(Debug)]
pub struct StreamLink<R, W> {
    /// `None` once it is closed.
    pump: Option<Pump<R, W>>,
    is_open: bool,
    /// The result of `open`, until it is reported.
    opened: Option<LinkEvent>,
}

impl<R, W> StreamLink<R, W> {
    pub(super) fn new(reader: R, writer: W) -> Self {
        Self { pump: Some(Pump::new(reader, writer)), is_open: false, opened: None }
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Link for StreamLink<R, W> {
    type Reader = R;
    type Writer = W;

    fn can_reopen(&self) -> bool {
        false
    }

    fn open(&mut self) {
        self.pump.take_if(|_| self.is_open);
        self.is_open = true;
        self.opened = Some(match self.pump {
            Some(_) => LinkEvent::Opened,
            None => {
                let reason = "a stream cannot be reopened: connect again with a new stream";
                LinkEvent::OpenFailed(reason.to_owned())
            }
        });
    }

    fn abort(&mut self) {
        (self.pump, self.opened) = (None, None);
    }

    fn pump(&mut self) -> Option<&mut Pump<R, W>> {
        self.pump.as_mut().filter(|_| self.is_open)
    }

    fn deadline(&self) -> Option<Instant> {
        self.pump.as_ref().and_then(Pump::deadline)
    }

    fn poll_event(&mut self, cx: &mut Context<'_>, clock: &SystemClock) -> Poll<LinkEvent> {
        if let Some(opened) = self.opened.take() {
            return Poll::Ready(opened);
        }
        let Some(pump) = self.pump() else { return Poll::Pending };
        Poll::Ready(match ready!(pump.poll_read(cx, clock)) {
            Ok(bytes) => LinkEvent::Input(bytes),
            Err(end) => {
                self.abort();
                LinkEvent::Ended(end.to_string())
            }
        })
    }

    fn is_closed(&self) -> bool {
        self.pump.is_none()
    }
}

/// How long an exiting process may take between the end of its output and its exit.
const EXIT_FOLLOWS: Duration = Duration::from_millis(500);
/// After the exit, how long its descendants may leave its output silent before the output counts as ended.
const SILENCE: Duration = Duration::from_secs(1);
/// Lines of standard error to show before the driver yields to other tasks.
const LINES: usize = 256;
/// Reason reported for a server that the application killed.
const KILLED: &str = "the server was killed by this program";
/// Bytes of standard error to quote.
const QUOTED: usize = 2048;

/// A client's link to a child process.
pub struct ChildLink {
    command: Command,
    runtime: RuntimeKind,
    state: State,
    stderr: Option<StderrSink>,
    lines: Option<StderrLines>,
    pub(super) killer: Killer,
    /// Why the last attempt to start the program failed.
    pub(super) spawn_error: Option<SpawnError>,
}

enum State {
    Closed,
    /// The spawn has succeeded or failed; the driver has not yet polled the result.
    Opening(Result<OpenChild, String>),
    Open(OpenChild),
    /// Its input is closed: it is being shut down, and may still write output.
    Closing(Pump<ChildStdout, ChildStdin>, Ending),
    Ending(Ending, ExitAction),
}

type Ending = Pin<Box<dyn Future<Output = Exit> + Send>>;

struct OpenChild {
    pump: Pump<ChildStdout, ChildStdin>,
    process: Process,
    /// When its output counts as ended, once the process has exited and no more output arrives.
    silence: Option<Instant>,
}

/// What to do after a process has exited.
enum ExitAction {
    Nothing,
    /// It ended by itself; the reason is reported together with its exit status.
    Report(ReadEnd),
    /// Start another process.
    Reopen,
}

impl ChildLink {
    pub(super) fn new(command: Command, runtime: RuntimeKind, stderr: Option<StderrSink>) -> Self {
        let killer = Killer::default();
        Self { command, runtime, state: State::Closed, stderr, lines: None, killer, spawn_error: None }
    }

    fn spawn(&mut self) {
        if self.killer.0.is_set() {
            self.state = State::Opening(Err(KILLED.to_owned()));
            return;
        }
        self.state = State::Opening(match self.command.spawn_on(self.runtime) {
            Ok(mut child) => {
                child.process.killer = self.killer.0.clone();
                self.lines = self.stderr.is_some().then(|| child.process.stderr().lines());
                let pump = Pump::new(child.stdout, child.stdin);
                Ok(OpenChild { pump, process: child.process, silence: None })
            }
            Err(error) => Err(self.spawn_error.insert(error).to_string()),
        });
    }

    /// Starts the shutdown steps, with SIGTERM at once unless an orderly close has begun; a process that is already shutting
    /// down keeps its time limits.
    fn begin_ending(&mut self, next: ExitAction) {
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Open(open) | State::Opening(Ok(open)) => {
                let OpenChild { pump, mut process, .. } = open;
                if !pump.is_closing() {
                    process.terminate();
                }
                drop(pump);
                State::Ending(Box::pin(process.shutdown()), next)
            }
            State::Closing(_, ending) | State::Ending(ending, _) => State::Ending(ending, next),
            State::Closed | State::Opening(Err(_)) => State::Closed,
        };
    }

    fn show_stderr(&mut self, cx: &mut Context<'_>) {
        let (Some(lines), Some(sink)) = (&mut self.lines, &mut self.stderr) else { return };
        for _ in 0..LINES {
            match Pin::new(&mut *lines).poll_next(cx) {
                Poll::Ready(Some(line)) => sink(line),
                Poll::Ready(None) => return self.lines = None,
                Poll::Pending => return,
            }
        }
        cx.waker().wake_by_ref();
    }
}

//= F35 "The program's exit ends every request in the same way"
/// Waits for the exit of a process whose output has ended.
async fn await_exit(open: OpenChild) -> Exit {
    let OpenChild { pump, mut process, .. } = open;
    let reactor = process.reactor();
    let exit = async {
        let _ = process.wait().await;
    };
    or(exit, sleep(reactor, EXIT_FOLLOWS)).await;
    drop(pump);
    process.shutdown().await
}

impl Link for ChildLink {
    type Reader = ChildStdout;
    type Writer = ChildStdin;

    fn can_reopen(&self) -> bool {
        true
    }

    fn open(&mut self) {
        self.begin_ending(ExitAction::Reopen);
        if let State::Closed = self.state {
            self.spawn();
        }
    }

    fn abort(&mut self) {
        self.begin_ending(ExitAction::Nothing);
    }

    fn pump(&mut self) -> Option<&mut Pump<ChildStdout, ChildStdin>> {
        match &mut self.state {
            State::Open(open) | State::Opening(Ok(open)) => Some(&mut open.pump),
            State::Closed | State::Opening(Err(_)) | State::Closing(..) | State::Ending(..) => None,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Open(open) => [open.pump.deadline(), open.silence].into_iter().flatten().min(),
            State::Closing(pump, _) => pump.deadline(),
            State::Closed | State::Opening(_) | State::Ending(..) => None,
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>, clock: &SystemClock) -> Poll<LinkEvent> {
        self.show_stderr(cx);
        let is_over = matches!(
            self.state,
            State::Closed
                | State::Opening(Err(_))
                | State::Ending(_, ExitAction::Nothing | ExitAction::Report(_))
        );
        if self.killer.0.poll(cx).is_ready() && !is_over {
            self.begin_ending(ExitAction::Report(ReadEnd::Eof));
        }
        loop {
            match &mut self.state {
                State::Closed => return Poll::Pending,
                State::Opening(_) => {
                    let State::Opening(opened) = std::mem::replace(&mut self.state, State::Closed) else {
                        return Poll::Pending;
                    };
                    return Poll::Ready(match opened {
                        Ok(open) => {
                            self.state = State::Open(open);
                            LinkEvent::Opened
                        }
                        Err(detail) => LinkEvent::OpenFailed(detail),
                    });
                }
                State::Open(open) if open.pump.is_half_closed() => {
                    if let State::Open(open) = std::mem::replace(&mut self.state, State::Closed) {
                        self.state = State::Closing(open.pump, Box::pin(open.process.shutdown()));
                    }
                }
                State::Closing(pump, ending) => {
                    if let Poll::Ready(Ok(bytes)) = pump.poll_read(cx, clock) {
                        return Poll::Ready(LinkEvent::Input(bytes));
                    }
                    let exit = ready!(ending.as_mut().poll(cx));
                    self.state = State::Closed;
                    self.show_stderr(cx);
                    return Poll::Ready(LinkEvent::Ended(describe(exit, &ReadEnd::Eof)));
                }
                State::Open(open) => {
                    let end = match ready!(open.poll_read(cx, clock)) {
                        Ok(bytes) => return Poll::Ready(LinkEvent::Input(bytes)),
                        Err(end) => end,
                    };
                    if let State::Open(open) = std::mem::replace(&mut self.state, State::Closed) {
                        self.state = State::Ending(Box::pin(await_exit(open)), ExitAction::Report(end));
                    }
                }
                State::Ending(ending, next) => {
                    let exit = ready!(ending.as_mut().poll(cx));
                    let next = std::mem::replace(next, ExitAction::Nothing);
                    self.state = State::Closed;
                    match next {
                        ExitAction::Nothing => {}
                        ExitAction::Report(end) => {
                            self.show_stderr(cx);
                            return Poll::Ready(LinkEvent::Ended(describe(exit, &end)));
                        }
                        ExitAction::Reopen => self.spawn(),
                    }
                }
            }
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }
}

impl OpenChild {
    fn poll_read(&mut self, cx: &mut Context<'_>, clock: &SystemClock) -> Poll<Result<Bytes, ReadEnd>> {
        let read = self.pump.poll_read(cx, clock);
        if read.is_ready() {
            if let Some(silence) = &mut self.silence {
                *silence = clock.now() + SILENCE;
            }
            return read;
        }
        // Other processes may hold its output open without writing to it.
        if self.silence.is_none() && matches!(self.process.poll_wait(cx), Poll::Ready(Ok(_))) {
            self.silence = Some(clock.now() + SILENCE);
        }
        match self.silence {
            Some(silence) if silence <= clock.now() => Poll::Ready(Err(ReadEnd::Eof)),
            Some(_) | None => Poll::Pending,
        }
    }
}

//= K8 "quoted in errors"
fn describe(mut exit: Exit, end: &ReadEnd) -> String {
    exit.stderr = last_lines(&exit.stderr);
    match end {
        ReadEnd::Eof => exit.to_string(),
        ReadEnd::Read(_) | ReadEnd::Write(_) => format!("{end}; {exit}"),
    }
}

/// The end of a text, from the beginning of a line if one begins there.
fn last_lines(text: &str) -> String {
    let text = text.trim_end();
    let Some(start) = text.len().checked_sub(QUOTED) else { return text.to_owned() };
    let tail =
        text.char_indices().find(|(index, _)| *index >= start).and_then(|(index, _)| text.get(index..));
    let tail = tail.unwrap_or_default();
    format!("…\n{}", tail.split_once('\n').map_or(tail, |(_, whole)| whole))
}

debug_fields! { ChildLink { command } }

#[cfg(test)]
mod tests {
    use super::last_lines;

    #[test]
    fn quote_of_a_long_standard_error_begins_with_a_line() {
        let text = "é".repeat(3000) + "\nlast\n";
        assert_eq!(last_lines(&text), "…\nlast");
        assert_eq!(last_lines("short\n"), "short");
        assert!(last_lines(&"é".repeat(3000)).len() <= 2048 + "…\n".len());
    }
}
