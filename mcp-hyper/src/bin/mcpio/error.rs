//! Failures of a command: a message for the user, JSON for programs, the exit code for scripts, and the signals that
//! end it.

use std::future;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use async_signal::{Signal, Signals};
use mcp_hyper::host::Host;
use mcp_proto::auth::{Requirement, Scopes};
use mcp_proto::consent::SafeText;
use mcp_proto::front::{self, Client};
use mcp_proto::peer::TransportError;
use mcp_proto::peer::client::{CloseReason, ConnectError};
use mcp_proto::rpc::ErrorObject;
use mcp_smol::Killer;
use serde_json::{Value, json};
use smol::future::or;
use smol::stream::StreamExt as _;
use smol::{Task, Timer};

use crate::terminal::Screen;
use crate::text::{BAD, Text, styled};

#[derive(Debug)]
pub(crate) enum CommandError {
    /// The tool reported a failure, which is already printed.
    Tool,
    /// `doctor` found something wrong, which is already printed.
    Unhealthy,
    /// The command line is invalid.
    Usage(String),
    /// The connection or the protocol failed, or the server returned an error.
    Server(ErrorReport),
    /// The server requires authorization, or more than was granted: these scopes, if it names them.
    Unauthorized { report: ErrorReport, scopes: Option<Scopes> },
    /// A signal ended the command.
    Interrupted(Interrupt),
    /// Standard output failed.
    Output(io::Error),
}

/// A report of an error of the server or of the connection.
#[derive(Debug)]
pub(crate) struct ErrorReport(Box<ErrorDetails>);

#[derive(Debug)]
struct ErrorDetails {
    /// One of the error kinds that the help lists.
    kind: &'static str,
    /// The message, which may quote the server.
    message: String,
    /// The server's error code: a JSON-RPC code or an HTTP status.
    code: Option<i64>,
    /// The `data` of the server's error.
    data: Option<Value>,
    /// This program's hints how to continue, each safe to paste.
    hints: Vec<String>,
}

impl ErrorReport {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(ErrorDetails { kind: "failed", message, code: None, data: None, hints: Vec::new() }))
    }

    /// Sets the kind, one that the help lists.
    pub(crate) fn with_kind(mut self, kind: &'static str) -> Self {
        self.0.kind = kind;
        self
    }

    /// Adds a hint, if there is one.
    pub(crate) fn with_hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.0.hints.extend(hint.into());
        self
    }

    fn with_sentence(mut self, sentence: &str) -> Self {
        self.0.message.push('\n');
        self.0.message.push_str(sentence);
        self
    }

    fn with_peer_error(mut self, error: &ErrorObject) -> Self {
        self.0.code = Some(error.code);
        self.0.data = error.data.as_ref().and_then(|data| data.decode().ok());
        // As the server wrote it: each output escapes it, JSON so that programs read the same text.
        let safe = SafeText::block(&error.message).to_string();
        if !safe.is_empty()
            && let Some(at) = self.0.message.rfind(&safe)
        {
            self.0.message.replace_range(at..at + safe.len(), &error.message);
        }
        self.with_kind("refused")
    }

    fn with_transport_error(mut self, error: &TransportError) -> Self {
        self.0.code = Some(error.status.into());
        self.with_kind("http")
    }
}

impl CommandError {
    /// An error of the server or of the connection with this message.
    pub(crate) fn server(message: impl Into<String>) -> Self {
        Self::Server(ErrorReport::new(message))
    }

    /// Adds a sentence to an error of the server; leaves other errors unchanged.
    pub(crate) fn with_sentence(self, sentence: &str) -> Self {
        match self {
            Self::Server(report) => Self::Server(report.with_sentence(sentence)),
            other => other,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit_number())
    }

    fn exit_number(&self) -> u8 {
        match self {
            Self::Tool | Self::Unhealthy => 1,
            Self::Usage(_) => 2,
            Self::Server(_) | Self::Unauthorized { .. } => 3,
            Self::Interrupted(interrupt) => interrupt.exit_code(),
            // The reader has closed the pipe on purpose.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Output(_) => 3,
        }
    }

    /// Writes the message to `messages`, and with `json` the object to `output`. A tool failure is in its result.
    pub(crate) fn print(&self, output: &mut Screen, messages: &mut Screen, json: bool) {
        if self.exit_number() == 0 {
            return;
        }
        let hints = match self {
            Self::Server(report) | Self::Unauthorized { report, .. } => report.0.hints.as_slice(),
            _ => &[],
        };
        // If this fails, nothing can be done about it.
        let _ = messages.labelled(styled(BAD, "mcpio:"), Text::block(self.message().trim_end()));
        for hint in hints {
            let _ = messages.line(hint);
        }
        if json && !matches!(self, Self::Tool | Self::Unhealthy | Self::Output(_)) {
            let _ = output.line(self.as_json());
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Tool => "the tool reports a failure".to_owned(),
            Self::Unhealthy => "something is wrong".to_owned(),
            Self::Usage(message) => message.clone(),
            Self::Server(report) | Self::Unauthorized { report, .. } => report.0.message.clone(),
            Self::Interrupted(interrupt) => format!("ended by {}", interrupt.name()),
            Self::Output(error) => format!("standard output: {error}"),
        }
    }

    /// The JSON object that the help describes, for programs.
    pub(crate) fn as_json(&self) -> Text {
        let (kind, report) = match self {
            Self::Usage(_) => ("usage", None),
            Self::Server(report) => (report.0.kind, Some(report)),
            Self::Unauthorized { report, .. } => ("unauthorized", Some(report)),
            Self::Interrupted(_) => ("interrupted", None),
            Self::Tool | Self::Unhealthy | Self::Output(_) => ("failed", None),
        };
        let code = report.and_then(|report| report.0.code);
        let data = report.and_then(|report| report.0.data.as_ref());
        let error = json!({ "kind": kind, "message": self.message(), "code": code, "data": data });
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
            let report = ErrorReport::new(format!("{summary}: {http}")).with_transport_error(http);
            return Self::Unauthorized { report, scopes };
        }
        let report = ErrorReport::new(error.to_string());
        Self::Server(match &error {
            front::Error::Peer(object) => report.with_peer_error(object),
            front::Error::Transport(http) => report.with_transport_error(http),
            front::Error::TimedOut { .. } => timeout(report),
            front::Error::Closed(CloseReason::Connect(error)) => connecting(report, error),
            error if error.is_disconnect() => report.with_kind("connection"),
            front::Error::Invalid(_) | front::Error::Decode { .. } | front::Error::Pages(_) => {
                report.with_kind("invalid")
            }
            _ => report,
        })
    }
}

/// The report for a server that did not become ready.
fn connecting(report: ErrorReport, error: &ConnectError) -> ErrorReport {
    match error {
        ConnectError::Refused { error, .. } | ConnectError::HeadersChanged { error } => {
            report.with_peer_error(error)
        }
        ConnectError::Transport { error, .. } => report.with_transport_error(error),
        error if error.is_timeout() => timeout(report),
        ConnectError::AllFailed(tried) => match tried.last() {
            Some(last) => connecting(report, last),
            None => report,
        },
        _ => report.with_kind("connection"),
    }
}

fn timeout(report: ErrorReport) -> ErrorReport {
    report.with_kind("timeout").with_hint("To wait longer: --timeout SECONDS".to_owned())
}

impl<T> From<front::ListError<T>> for CommandError {
    fn from(error: front::ListError<T>) -> Self {
        front::Error::from(error).into()
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        Self::Server(
            ErrorReport::new(format!("could not convert the result to JSON: {error}")).with_kind("invalid"),
        )
    }
}

/// A second signal within this time is the same one: the terminal sends it to the whole group, and wrappers forward it.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(200);

/// How long to wait for a killed server, which exits within milliseconds unless the kernel is stuck.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// A signal that ends the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupt(Signal);

impl Interrupt {
    /// The exit code of a program ended by the signal: 130 for SIGINT, 143 for SIGTERM.
    pub(crate) fn exit_code(self) -> u8 {
        match self.0 {
            #[cfg(unix)]
            Signal::Term => 143,
            #[cfg(unix)]
            Signal::Hup => 129,
            _ => 130,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Signal::Int => "an interrupt",
            #[cfg(unix)]
            Signal::Term => "a request to terminate",
            #[cfg(unix)]
            Signal::Hup => "the end of its terminal",
            _ => "a signal",
        }
    }
}

/// The signals that this process handles instead of ending.
struct Interrupts {
    signals: Option<Signals>,
    last: Option<Instant>,
}

impl Interrupts {
    /// Registers the signals. If the system refuses that, they end the process as usual.
    fn listen() -> Self {
        #[cfg(unix)]
        let signals = [Signal::Int, Signal::Term, Signal::Hup];
        #[cfg(not(unix))]
        let signals = [Signal::Int];
        Self { signals: Signals::new(signals).ok(), last: None }
    }

    async fn next(&mut self) -> Interrupt {
        while let Some(signals) = &mut self.signals
            && let Some(Ok(signal)) = signals.next().await
        {
            let now = Instant::now();
            if self.last.is_none_or(|last| now.duration_since(last) >= DUPLICATE_WINDOW) {
                self.last = Some(now);
                return Interrupt(signal);
            }
        }
        future::pending().await
    }
}

/// Runs `work` until a signal.
pub(crate) async fn until_signal<T>(
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let mut interrupts = Interrupts::listen();
    or(work, async { Err(CommandError::Interrupted(interrupts.next().await)) }).await
}

/// Runs `work` with a connection and closes it, which runs the shutdown steps of its server.
///
/// A signal cancels the work; the shutdown steps still run. A signal during the steps kills the server instead.
pub(crate) async fn run_until_signal<T>(
    client: &Client,
    driver: Task<()>,
    killer: Option<&Killer>,
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let close = async {
        client.close().await;
    };
    run_and_close(work, close, driver, async |driver| {
        if let Some(killer) = killer {
            killer.kill();
            let late = async {
                Timer::after(KILL_TIMEOUT).await;
            };
            or(driver, late).await;
        }
    })
    .await
}

/// Runs `work` with many servers and closes them, as [`run_until_signal`] does with one.
pub(crate) async fn run_host_until_signal<T>(
    host: &Host,
    driver: Task<()>,
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    // A driver that is dropped kills its servers.
    run_and_close(work, host.close(), driver, async |driver| _ = driver.cancel().await).await
}

async fn run_and_close<T>(
    work: impl Future<Output = Result<T, CommandError>>,
    close: impl Future<Output = ()>,
    mut driver: Task<()>,
    kill: impl AsyncFnOnce(Task<()>),
) -> Result<T, CommandError> {
    let mut interrupts = Interrupts::listen();
    let result = or(work, async { Err(CommandError::Interrupted(interrupts.next().await)) }).await;
    let ended = async {
        close.await;
        (&mut driver).await;
        None
    };
    let second = or(ended, async { Some(interrupts.next().await) }).await;
    let Some(interrupt) = second else { return result };
    kill(driver).await;
    match result {
        Err(failure @ CommandError::Interrupted(_)) => Err(failure),
        _ => Err(CommandError::Interrupted(interrupt)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(failure: &CommandError, json: bool) -> (String, String) {
        let ((mut output, out), (mut messages, err)) = (Screen::recorded(None), Screen::recorded(None));
        failure.print(&mut output, &mut messages, json);
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
        let (out, err) = rendered(&CommandError::Usage("which?".to_owned()), true);
        assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["error"]["kind"], "usage");
        assert_eq!(err, "mcpio: which?\n");
        assert_eq!(rendered(&CommandError::Tool, true).0, "");
    }
}
