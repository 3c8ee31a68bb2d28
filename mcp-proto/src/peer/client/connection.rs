//! The phase of the connection, its public state, and the actions for its link.

use alloc::collections::VecDeque;
use core::fmt;
use core::time::Duration;

use crate::peer::TransportError;
use crate::peer::event_queue::EventQueue;
use crate::prelude::*;
use crate::rpc::ErrorObject;
use crate::schema::ExtensionError;
use crate::{HumanDuration, Instant};

use super::Event;

/// The phase of a connection, which is finer than its public [`State`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// The first link has not been requested.
    Disconnected,
    /// A link was requested.
    Connecting,
    /// The link is open; detection is running.
    Detecting,
    /// The server is known.
    Ready,
    /// No further request is accepted; those in flight may finish until the deadline.
    Finishing { until: Instant },
    /// The sending half was closed; the other side has until the deadline to close its own.
    Ending { until: Instant },
    /// The connection is over.
    Closed,
}

impl Phase {
    /// Whether messages are still processed.
    pub(super) fn is_receiving(self) -> bool {
        matches!(self, Self::Detecting | Self::Ready | Self::Finishing { .. } | Self::Ending { .. })
    }

    /// The deadline of a connection that is closing.
    pub(super) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Finishing { until } | Self::Ending { until } => Some(until),
            _ => None,
        }
    }
}

/// The connection of a client, without its messages.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) phase: Phase,
    /// The public state, which [`set_state`](Self::set_state) changes.
    pub(super) state: State,
    actions: VecDeque<LinkAction>,
    /// The last progress report on connecting.
    pub(super) progress: Option<Box<ConnectProgress>>,
}

impl Connection {
    /// A connection whose link is still to be opened.
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Disconnected,
            state: State::Disconnected,
            actions: VecDeque::from([LinkAction::Open]),
            progress: None,
        }
    }

    /// Sets the public state, and reports it if it is another one.
    pub(super) fn set_state(&mut self, state: State, events: &mut EventQueue<Event>) {
        if self.state != state {
            if matches!(state, State::Ready | State::Disconnected) {
                self.progress = None;
            }
            self.state = state;
            events.push(Event::State(state), 0);
        }
    }

    /// Reports the progress of connecting, if it has changed.
    pub(super) fn report_progress(&mut self, progress: ConnectProgress, events: &mut EventQueue<Event>) {
        if progress.differs(self.progress.as_deref()) {
            let bytes = progress.bytes();
            events.push_or_drop(Event::Connecting(Box::new(progress.clone())), bytes);
            self.progress = Some(Box::new(progress));
        }
    }

    // --- The link ---

    pub(super) fn request(&mut self, action: LinkAction) {
        self.actions.push_back(action);
    }

    /// Drops the actions that were not taken.
    pub(super) fn clear_actions(&mut self) {
        self.actions.clear();
    }

    /// The next action; the sending half is closed only once all output is `flushed`.
    pub(super) fn poll_action(&mut self, flushed: bool) -> Option<LinkAction> {
        self.actions.pop_front_if(|action| flushed || *action != LinkAction::CloseWrite)
    }
}

//= F8 "States: disconnected, connecting, connected, initializing, initialized, ready"
/// The state of a client's connection. The [module's documentation](super) has the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No link is open.
    Disconnected,
    /// The link is being opened.
    Connecting,
    /// The link is open, and the client is detecting the server's era.
    Connected,
    /// `initialize` is in flight.
    Initializing,
    /// The server has answered `initialize`.
    Initialized,
    /// Requests are sent.
    Ready,
}
/// An action for the driver to perform on the link that carries the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkAction {
    /// Open a link: start the process, connect the socket. A link that is still open is ended first. Report the result
    /// with `handle_open` or `handle_open_failed`.
    Open,
    /// Close the sending half, once all queued output has been written. The other side then ends.
    CloseWrite,
    /// End the link at once.
    Abort,
}

/// A step of connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectStep {
    /// The link is being opened: the process starts, the socket connects.
    Open,
    /// The server was sent `server/discover`, which tells its era.
    Probe,
    /// The server was sent `initialize`.
    Initialize,
    /// The client has requested the event stream of HTTP+SSE (2024-11-05).
    EventStream,
    /// The server requires authorization first. The time for connecting is paused until that is finished.
    Authorization,
}

impl ConnectStep {
    /// The step in words, to follow "waiting for" or "retrying".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "the opening of the connection",
            Self::Probe => "the era probe (server/discover)",
            Self::Initialize => "the handshake (initialize)",
            Self::EventStream => "the request for the event stream (GET)",
            Self::Authorization => "authorization",
        }
    }
}

impl fmt::Display for ConnectStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The progress of a client that is still connecting.
///
/// It is meant for a line such as "retrying … in 2 s (retry 1): connection refused".
///
/// [`Event::Connecting`](super::Event::Connecting) reports each change, and
/// [`Client::connecting`](super::Client::connecting) has the last report. Its `Display` form is such a line, without a
/// line break of its own; `reason` may quote the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectProgress {
    /// The step that is under way, or is retried next.
    pub step: ConnectStep,
    /// How often this step has been retried; 0 for its first attempt.
    pub retry: u32,
    /// The pause before the next attempt, counted from this report; `None` while the client waits for an answer.
    pub pause: Option<Duration>,
    /// How the previous attempt or step ended; `None` at the start.
    pub reason: Option<Box<ConnectError>>,
    /// The time left for connecting, counted from this report ([`ConnectTimeouts::total`]); `None` while the time is
    /// paused.
    ///
    /// [`ConnectTimeouts::total`]: super::ConnectTimeouts::total
    pub remaining: Option<Duration>,
}

impl ConnectProgress {
    /// A report on the first attempt at `step`.
    pub(crate) fn new(step: ConnectStep) -> Self {
        Self { step, retry: 0, pause: None, reason: None, remaining: None }
    }

    /// Whether this report differs from `before`, apart from the time that has passed.
    pub(crate) fn differs(&self, before: Option<&Self>) -> bool {
        before.is_none_or(|before| {
            (before.step, before.retry, before.pause.is_some())
                != (self.step, self.retry, self.pause.is_some())
                || before.reason != self.reason
        })
    }

    /// The approximate size in bytes of its server-supplied content.
    pub(crate) fn bytes(&self) -> usize {
        self.reason.as_ref().map_or(0, |reason| reason.bytes())
    }
}

impl fmt::Display for ConnectProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, retry, pause, reason, .. } = self;
        match pause {
            Some(pause) => write!(f, "retrying {step} in {}", HumanDuration(*pause))?,
            None if matches!(step, ConnectStep::Open | ConnectStep::Authorization) => {
                write!(f, "waiting for {step}")?;
            }
            None => write!(f, "waiting for the answer to {step}")?,
        }
        if *retry > 0 {
            write!(f, " (retry {retry})")?;
        }
        match reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

// Errors of connecting.

/// Why a connection never became ready.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The extensions of this client cannot be used together. Nothing was sent.
    Extensions(ExtensionError),
    /// The link could not be opened; with details from the transport.
    Open(String),
    /// The server ended the connection before it was ready.
    Ended {
        /// The step that was under way.
        during: &'static str,
        /// Details from the transport: an exit status, the last lines of standard error.
        detail: String,
    },
    /// The server rejected a step of connecting.
    Refused {
        /// The step that was under way.
        during: &'static str,
        /// Its answer.
        error: ErrorObject,
    },
    /// The server's answer is not a valid answer to the handshake.
    Unexpected {
        /// The step that was under way.
        during: &'static str,
        /// Why the answer is invalid.
        reason: String,
    },
    /// The transport's exchange ended with a status instead of an answer to the handshake (HTTP), or instead of opening
    /// the connection (WebSocket).
    Transport {
        /// The step that was under way.
        during: &'static str,
        /// The status, and the start of the body.
        error: Box<TransportError>,
    },
    /// The server cannot be reached, and a retry would not help: its host is unknown, it refuses connections, or its
    /// certificate is not accepted. With a message that names host and port.
    Unreachable(String),
    /// The HTTP exchange yielded no answer: there was no connection, or it broke off.
    Failed {
        /// The step that was under way.
        during: &'static str,
        /// Details from the transport.
        detail: String,
    },
    /// A modern server reports twice that the headers of the request do not match its body: an intermediary changes or
    /// removes them.
    HeadersChanged {
        /// The server's error.
        error: ErrorObject,
    },
    /// A step of connecting got no answer in time.
    TimedOut {
        /// The step that was under way.
        during: &'static str,
        /// How long the client waited.
        after: Duration,
    },
    /// The total time for connecting is over ([`ConnectTimeouts::total`](super::ConnectTimeouts::total)).
    NotReady {
        /// The step that was under way.
        during: &'static str,
        /// The total time allowed.
        within: Duration,
        /// How the last attempt at this step ended, if there was one.
        last: Option<Box<ConnectError>>,
    },
    /// Client and server have no version in common.
    NoCommonVersion {
        /// The versions that this side supports.
        ours: Vec<&'static str>,
        /// The versions that the server reports.
        theirs: Vec<String>,
    },
    /// The server requires capabilities that this client does not have.
    MissingCapabilities {
        /// Their JSON, as the server wrote it.
        required: String,
    },
    /// The client accepts only modern servers, and this is a legacy one.
    LegacyServer {
        /// The evidence for that.
        evidence: String,
    },
    /// Every attempt to connect failed.
    AllFailed(
        /// The errors in order; the last one was decisive.
        Vec<ConnectError>,
    ),
    /// The server answered the era probe as a modern one and accepted `initialize` as well: this process now serves the
    /// legacy era, and the client starts another one for the modern era. The connection fails with this error only as a
    /// part of [`AllFailed`](Self::AllFailed).
    BothErasAnswered,
    /// The server exited on the era probe, and the link cannot be opened a second time.
    ProbeBrokeServer {
        /// Details from the transport.
        detail: String,
    },
}

impl ConnectError {
    /// Whether the server might have become ready with more time.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::NotReady { .. } => true,
            Self::AllFailed(tried) => tried.last().is_some_and(Self::is_timeout),
            _ => false,
        }
    }

    /// The approximate size in bytes of its server-supplied content.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Open(text)
            | Self::Unreachable(text)
            | Self::Ended { detail: text, .. }
            | Self::Unexpected { reason: text, .. }
            | Self::Failed { detail: text, .. }
            | Self::MissingCapabilities { required: text }
            | Self::LegacyServer { evidence: text }
            | Self::ProbeBrokeServer { detail: text } => text.len(),
            Self::Refused { error, .. } | Self::HeadersChanged { error } => error.bytes(),
            Self::Transport { error, .. } => error.bytes(),
            Self::NotReady { last, .. } => last.as_ref().map_or(0, |last| last.bytes()),
            Self::NoCommonVersion { theirs, .. } => {
                theirs.iter().fold(0, |sum, version| sum.saturating_add(version.len()))
            }
            Self::AllFailed(tried) => tried.iter().fold(0, |sum, error| sum.saturating_add(error.bytes())),
            Self::TimedOut { .. } | Self::BothErasAnswered | Self::Extensions(_) => 0,
        }
    }
}

error_text! { ConnectError:
    Extensions(error) => "{error}";
    Open(detail) => "the connection could not be opened: {detail}";
    Ended { during, detail } if detail.is_empty() => "the server ended the connection during {during}";
    Ended { during, detail } => "the server ended the connection during {during}: {detail}";
    Refused { during, error } => "the server refused {during}: {error}";
    Unexpected { during, reason: what } => "the server's answer to {during} is not valid: {what}";
    Transport { during, error } => "the server answered {during} with {error}";
    Unreachable(detail) => "{detail}";
    Failed { during, detail } => "{during} failed: {detail}";
    HeadersChanged { error } =>
        "a proxy on the way to the server changes or removes headers of requests: {error}";
    AllFailed(tried) =>
        |f| {
            tried.iter().enumerate().try_for_each(|(number, error)| {
                write!(f, "{}{error}", if number == 0 { "" } else { "; then " })
            })
        };
    TimedOut { during, after } => "the server did not answer {during} within {}", HumanDuration(*after);
    NotReady { during, within, last: None } =>
        "not ready within {}, while waiting for {during}", HumanDuration(*within);
    NotReady { during, within, last: Some(last) } =>
        "not ready within {}, while waiting for {during} again: {last}", HumanDuration(*within);
    NoCommonVersion { ours, theirs } =>
        "no protocol version in common: the server speaks {}, this client {}", theirs.join(", "), ours.join(", ");
    MissingCapabilities { required } =>
        "the server requires capabilities that this client does not have: {required}";
    LegacyServer { evidence } =>
        //= C2.6 "shows an actionable error"
        "this is a legacy server and only modern ones are allowed: set `EraPolicy::Auto` or update the server \
         ({evidence})";
    BothErasAnswered =>
        "the server answered the era probe after initialize had been sent, and is started again for the modern era";
    ProbeBrokeServer { detail } if detail.is_empty() =>
        "the server ended on the era probe; use the legacy-only mode for it";
    ProbeBrokeServer { detail } =>
        "the server ended on the era probe; use the legacy-only mode for it: {detail}";
}
