//! Errors of connecting.

use core::time::Duration;

use crate::HumanDuration;
use crate::peer::TransportError;
use crate::prelude::*;
use crate::rpc::ErrorObject;

/// Why a connection never became ready.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
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
            Self::TimedOut { .. } | Self::BothErasAnswered => 0,
        }
    }
}

error_text! { ConnectError:
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
