//! Progress reports of a client that is not ready yet.

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use crate::HumanDuration;

use super::ConnectError;

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
