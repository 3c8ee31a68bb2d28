//! Failures of a command: a message for the user, JSON for programs, the exit code for scripts, and the signals that
//! end it.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use std::{future, io, process, thread};

use async_signal::{Signal, Signals};
use mcp_proto::auth::{Requirement, Scopes};
use mcp_proto::consent::SafeText;
use mcp_proto::front;
use mcp_proto::peer::TransportError;
use mcp_proto::peer::client::{CloseReason, ConnectError};
use mcp_proto::rpc::ErrorObject;
use mcp_smol::Killer;
use serde_json::{Value, json};
use smol::Timer;
use smol::future::or;
use smol::stream::StreamExt as _;

use crate::terminal::{BAD, Screen, Text, login_hint, styled};

/// The result of a command, or of a part of one.
pub(crate) type Result<T = (), E = CommandError> = std::result::Result<T, E>;

/// A failure of a command.
#[derive(Debug)]
pub(crate) struct CommandError(Box<ErrorDetails>);

#[derive(Debug, Default)]
struct ErrorDetails {
    /// One of the error kinds that the help lists; `None` if programs get no object, because the result shows the failure
    /// or cannot be written.
    kind: Option<&'static str>,
    exit_code: u8,
    /// The message, which may quote the server.
    message: String,
    /// The server's error code: a JSON-RPC code or an HTTP status.
    code: Option<i64>,
    /// The `data` of the server's error.
    data: Option<Value>,
    /// This program's hints how to continue, each safe to paste.
    hints: Vec<String>,
    /// The scopes that the server requires, if it names them.
    scopes: Option<Scopes>,
}

impl CommandError {
    fn new(kind: Option<&'static str>, exit_code: u8, message: impl ToString) -> Self {
        let message = message.to_string();
        Self(Box::new(ErrorDetails { kind, exit_code, message, ..ErrorDetails::default() }))
    }

    /// The command line is invalid.
    pub(crate) fn usage(message: impl ToString) -> Self {
        Self::new(Some("usage"), 2, message)
    }

    /// The connection or the protocol failed, or the server returned an error.
    pub(crate) fn server(message: impl ToString) -> Self {
        Self::new(Some("failed"), 3, message)
    }

    /// A [usage](Self::usage) error about `what`.
    pub(crate) fn usage_of<E: Display>(what: impl Display) -> impl Fn(E) -> Self {
        move |error| Self::usage(format_args!("{what}: {error}"))
    }

    /// An error of the [server](Self::server) about `what`.
    pub(crate) fn server_of<E: Display>(what: impl Display) -> impl Fn(E) -> Self {
        move |error| Self::server(format_args!("{what}: {error}"))
    }

    /// The message, for a command that goes on after it.
    ///
    /// # Errors
    /// If the command cannot go on: a signal ends it, or its output fails.
    pub(crate) fn recover(self) -> Result<String> {
        match self.0.kind {
            None | Some("interrupted") => Err(self),
            Some(_) => Ok(self.0.message),
        }
    }

    /// The message of a usage error.
    #[cfg(test)]
    pub(crate) fn usage_message(&self) -> &str {
        assert_eq!(self.0.kind, Some("usage"));
        &self.0.message
    }

    /// The server ended with an exit code, which is this program's: the server says why.
    pub(crate) fn of_server(exit_code: u8) -> Self {
        Self::new(None, exit_code, "")
    }

    /// The result, which is already printed, shows the failure.
    pub(crate) fn in_result(message: &str) -> Self {
        Self::new(None, 1, message)
    }

    /// No configured server is connected, as the result, which is already printed, shows.
    pub(crate) fn no_server() -> Self {
        Self::new(None, 3, "no server is connected")
    }

    /// Sets the data, for programs.
    pub(crate) fn with_data(mut self, data: Value) -> Self {
        self.0.data = Some(data);
        self
    }

    /// Sets the kind, one that the help lists.
    pub(crate) fn with_kind(mut self, kind: &'static str) -> Self {
        self.0.kind = Some(kind);
        self
    }

    /// Adds a hint, if there is one.
    pub(crate) fn with_hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.0.hints.extend(hint.into());
        self
    }

    /// Adds a hint to an error of usage, if there is one.
    pub(crate) fn with_usage_hint(self, hint: Option<String>) -> Self {
        if self.0.kind == Some("usage") { self.with_hint(hint) } else { self }
    }

    /// Adds a sentence, if there is one.
    pub(crate) fn with_sentence(mut self, sentence: Option<String>) -> Self {
        self.0.message.extend(sentence.iter().flat_map(|sentence| ["\n", sentence]));
        self
    }

    /// The server, or a call, took too long.
    pub(crate) fn timed_out(self) -> Self {
        self.with_kind("timeout").with_hint("To wait longer: --timeout SECONDS".to_owned())
    }

    /// Adds a hint how to log in at this URL, if that is missing.
    pub(crate) fn with_login_hint(self, url: &str) -> Self {
        if self.0.kind != Some("unauthorized") {
            return self;
        }
        let scopes = self.0.scopes.as_ref().map(ToString::to_string);
        self.with_hint(login_hint(url, scopes.as_deref()))
    }

    fn with_peer_error(mut self, error: &ErrorObject) -> Self {
        let ErrorDetails { message, code, data, .. } = &mut *self.0;
        *code = Some(error.code);
        *data = error.data.as_ref().and_then(|data| data.decode().ok());
        // As the server wrote it: each output escapes it, JSON so that programs read the same text.
        let safe = SafeText::block(&error.message).to_string();
        if !safe.is_empty()
            && let Some(at) = message.rfind(&safe)
        {
            message.replace_range(at..at + safe.len(), &error.message);
        }
        self.with_kind("refused")
    }

    fn with_transport_error(mut self, error: &TransportError) -> Self {
        self.0.code = Some(error.status.into());
        self.with_kind("http")
    }

    /// The message, as the server wrote its part.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.0.exit_code)
    }

    /// Writes the message to `messages`, and with JSON an object to `output`.
    pub(crate) fn print(&self, output: &mut Screen, messages: &mut Screen) {
        if self.0.exit_code == 0 || self.0.message.is_empty() {
            return;
        }
        // If this fails, nothing can be done about it.
        let _ = messages.labelled(styled(BAD, "mcpio:"), Text::block(self.0.message.trim_end()));
        for hint in &self.0.hints {
            let _ = messages.line(hint);
        }
        if output.is_json() && self.0.kind.is_some() {
            let _ = output.line(self.as_json());
        }
    }

    /// The JSON object that the help describes, for programs.
    pub(crate) fn as_json(&self) -> Text {
        let ErrorDetails { kind, message, code, data, .. } = &*self.0;
        let error = json!({ "kind": kind, "message": message, "code": code, "data": data });
        Text::json(&json!({ "error": error }).to_string())
    }
}

impl From<front::Error> for CommandError {
    fn from(error: front::Error) -> Self {
        if let Some(http) = error.unauthorized() {
            let demand = http.challenge.as_deref().and_then(Requirement::parse);
            let (summary, scopes) = match http.status {
                403 => (
                    "the server requires more scopes than were granted",
                    demand.and_then(|demand| demand.scope),
                ),
                _ => ("the server requires authorization", None),
            };
            let mut failure = Self::server(format_args!("{summary}: {http}")).with_transport_error(http);
            failure.0.scopes = scopes;
            return failure.with_kind("unauthorized");
        }
        let failure = Self::server(&error);
        match &error {
            front::Error::Peer(object) => failure.with_peer_error(object),
            front::Error::Transport(http) => failure.with_transport_error(http),
            front::Error::TimedOut { .. } => failure.timed_out(),
            front::Error::Closed(CloseReason::Connect(error)) => failure.connecting(error),
            error if error.is_disconnect() => failure.with_kind("connection"),
            front::Error::Invalid(_)
            | front::Error::Decode { .. }
            | front::Error::Pages(_)
            | front::Error::Skill(_) => failure.with_kind("invalid"),
            _ => failure,
        }
    }
}

impl CommandError {
    /// The server did not become ready.
    fn connecting(self, error: &ConnectError) -> Self {
        match error {
            ConnectError::Refused { error, .. } | ConnectError::HeadersChanged { error } => {
                self.with_peer_error(error)
            }
            ConnectError::Transport { error, .. } => self.with_transport_error(error),
            error if error.is_timeout() => self.timed_out(),
            ConnectError::AllFailed(tried) => match tried.last() {
                Some(last) => self.connecting(last),
                None => self,
            },
            _ => self.with_kind("connection"),
        }
    }
}

impl<T> From<front::ListError<T>> for CommandError {
    fn from(error: front::ListError<T>) -> Self {
        front::Error::from(error).into()
    }
}

impl From<io::Error> for CommandError {
    /// Standard output failed.
    fn from(error: io::Error) -> Self {
        // A reader may close the pipe on purpose.
        let exit_code = if error.kind() == io::ErrorKind::BrokenPipe { 0 } else { 3 };
        Self::new(None, exit_code, format_args!("standard output: {error}"))
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        Self::server(format_args!("could not convert the result to JSON: {error}")).with_kind("invalid")
    }
}

/// The same signal within this time is a copy: the terminal sends it to the whole group, and wrappers forward it.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(200);

/// How long to wait for a killed server, which exits within milliseconds unless the kernel is stuck.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// The failure of a command that a signal has ended. Its exit code is that of a program which the signal ends.
fn interrupted(signal: Signal) -> CommandError {
    let (exit_code, name) = match signal {
        Signal::Int => (130, "an interrupt"),
        #[cfg(unix)]
        Signal::Term => (143, "a request to terminate"),
        #[cfg(unix)]
        Signal::Hup => (129, "the end of its terminal"),
        _ => (130, "a signal"),
    };
    CommandError::new(Some("interrupted"), exit_code, format_args!("ended by {name}"))
}

fn signals() -> Option<Signals> {
    #[cfg(unix)]
    let signals = [Signal::Int, Signal::Term, Signal::Hup];
    #[cfg(not(unix))]
    let signals = [Signal::Int];
    Signals::new(signals).ok()
}

/// When [`Interrupts`] last received a signal.
static LAST_SEEN: Mutex<Option<Instant>> = Mutex::new(None);

/// How long a signal may take until [`Interrupts`] receives it.
const STUCK: Duration = Duration::from_secs(2);

/// How long the shutdown steps of servers may take after a signal: they kill a server after four seconds.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// How long the program may take to print what is left, once a signal has ended its work.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Ends the process at a signal that nothing else receives: it waits for a reader of its output.
fn exit_if_stuck(mut signals: Signals) {
    while let Some(Ok(signal)) = smol::block_on(signals.next()) {
        // The others may have been faster.
        let sent = Instant::now().checked_sub(DUPLICATE_WINDOW);
        thread::sleep(STUCK);
        if *LAST_SEEN.lock().unwrap_or_else(PoisonError::into_inner) < sent {
            process::exit(interrupted(signal).0.exit_code.into());
        }
    }
}

/// The signals that this process handles instead of ending.
pub(crate) struct Interrupts {
    signals: Option<Signals>,
    /// The last signal, and when it arrived.
    last: Option<(Signal, Instant)>,
}

impl Interrupts {
    /// Registers the signals. If the system refuses that, they end the process as usual.
    pub(crate) fn listen() -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(|| {
            if let Some(signals) = signals() {
                _ = thread::Builder::new().spawn(|| exit_if_stuck(signals));
            }
        });
        Self { signals: signals(), last: None }
    }

    async fn next(&mut self) -> CommandError {
        interrupted(self.next_signal().await)
    }

    /// The next signal. The same one again at once is a copy, and is left out.
    pub(crate) async fn next_signal(&mut self) -> Signal {
        while let Some(signals) = &mut self.signals
            && let Some(Ok(signal)) = signals.next().await
        {
            let now = Instant::now();
            *LAST_SEEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
            let is_copy = self
                .last
                .is_some_and(|(last, at)| last == signal && now.duration_since(at) < DUPLICATE_WINDOW);
            if !is_copy {
                self.last = Some((signal, now));
                return signal;
            }
        }
        future::pending().await
    }

    /// Runs `work` until a signal, after which the program ends.
    pub(crate) async fn until<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.race(work).await.inspect_err(|failure| exit_after(LAST_WORDS, failure))
    }

    async fn race<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        or(work, async { Err(self.next().await) }).await
    }

    /// Runs `work` with a client or a host and closes it, which runs the shutdown steps of its servers.
    ///
    /// A signal cancels the work; the shutdown steps still run. A signal during the steps kills the servers instead: by
    /// the killer, or by dropping the driver. Listen before a server is started: a signal would leave it behind.
    pub(crate) async fn run<T>(
        self,
        work: impl Future<Output = Result<T>>,
        close: impl Future,
        driver: impl Future + Send + 'static,
        killer: Option<&Killer>,
    ) -> Result<T> {
        self.run_and_close(work, close, driver, killer)
            .await
            .inspect_err(|failure| exit_after(LAST_WORDS, failure))
    }

    async fn run_and_close<T>(
        mut self,
        work: impl Future<Output = Result<T>>,
        close: impl Future,
        driver: impl Future + Send + 'static,
        killer: Option<&Killer>,
    ) -> Result<T> {
        // Requests report its error; nothing else depends on it.
        let mut driver = smol::spawn(async move { drop(driver.await) });
        let result = self.race(work).await.inspect_err(|failure| exit_after(SHUTDOWN, failure));
        let ended = async {
            close.await;
            (&mut driver).await;
            None
        };
        let second = or(ended, async { Some(self.next().await) }).await;
        let Some(interrupt) = second else { return result };
        match killer {
            Some(killer) => {
                killer.kill();
                let late = async {
                    Timer::after(KILL_TIMEOUT).await;
                };
                or(driver, late).await;
            }
            None => _ = driver.cancel().await,
        }
        match result {
            Err(failure) if failure.0.kind == Some("interrupted") => Err(failure),
            _ => Err(interrupt),
        }
    }

    /// Serves until a signal, at which `drain` lets the server end. A second signal ends it at once.
    pub(crate) async fn drain(
        mut self,
        serving: impl Future<Output = Result>,
        drain: impl FnOnce(),
    ) -> Result {
        let interrupted = async {
            self.next_signal().await;
            drain();
            Err(self.next().await)
        };
        or(serving, interrupted).await.inspect_err(|failure| exit_after(LAST_WORDS, failure))
    }
}

/// Ends the process after this time in any case, if a signal has ended its work: its output may wait for a reader.
fn exit_after(time: Duration, failure: &CommandError) {
    if failure.0.kind == Some("interrupted") {
        let exit_code = failure.0.exit_code.into();
        _ = thread::Builder::new().spawn(move || {
            thread::sleep(time);
            process::exit(exit_code)
        });
    }
}

/// Runs `work` until a signal.
pub(crate) async fn until_signal<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    Interrupts::listen().until(work).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(failure: &CommandError, json: bool) -> (String, String) {
        let ((mut output, out), (mut messages, err)) = (Screen::recorded(None), Screen::recorded(None));
        if json {
            output.use_json();
        }
        failure.print(&mut output, &mut messages);
        (out.plain(), err.plain())
    }

    #[test]
    fn server_errors_are_quoted_without_unsafe_characters_or_forged_lines() {
        let error = ErrorObject::new(-32000, "no\x1b[2J\nmcp: \u{202e}run this");
        let failure = CommandError::from(front::Error::Peer(error));
        let (_, err) = rendered(&failure, false);
        assert!(err.starts_with("mcpio: "), "{err}");
        assert!(err.ends_with("no\\u{1b}[2J\n    mcp: \\u{202e}run this (-32000)\n"), "{err}");
    }

    #[test]
    fn errors_are_json_objects_for_programs() {
        let data = mcp_proto::rpc::Raw::encode(&json!({ "hint": "\u{9b}" })).unwrap();
        let error = ErrorObject::new(-32602, "wrong\u{202e}").with_data(data);
        let (out, _) = rendered(&CommandError::from(front::Error::Peer(error)), true);
        assert!(out.contains("\\u202e") && out.contains("\\u009b"), "{out}");
        let error = &serde_json::from_str::<Value>(&out).unwrap()["error"];
        assert_eq!((&error["kind"], &error["code"]), (&json!("refused"), &json!(-32602)));
        assert_eq!(error["data"], json!({ "hint": "\u{9b}" }));
        assert!(error["message"].as_str().unwrap().contains("wrong\u{202e}"), "{error}");
        let (out, err) = rendered(&CommandError::usage("which?"), true);
        assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["error"]["kind"], "usage");
        assert_eq!(err, "mcpio: which?\n");
        assert_eq!(rendered(&CommandError::in_result("the tool reports a failure"), true).0, "");
    }
}
