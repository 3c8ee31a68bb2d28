//! Events from a client to its application.

use core::time::Duration;

use crate::HumanDuration;
use crate::peer::UNPOLLED_DRIVER;
use crate::peer::event_queue::MakeOwned;
use crate::peer::{InboundId, Leniency, LostReason, Outcome, RequestId, TaskReport, TransportError};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Id, Malformed, Raw, Recovered, Text};
use crate::schema::{MethodInfo, ProgressParams};

use super::{Change, ChangeEvidence, ConnectError, ConnectProgress, State, WatchId, WatchState};

/// An event of a client's connection; events are in the order of the wire.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The connection has entered another state. At [`State::Ready`] the server is known (see
    /// [`Client::server`](super::Client::server)) and queued requests are sent.
    State(State),
    /// A client that is still connecting has entered another step, or retries one.
    Connecting(Box<ConnectProgress>),
    /// The server reports progress on a request. Always precedes the outcome of that request.
    Progress {
        /// The request.
        request: RequestId,
        /// The progress.
        params: ProgressParams,
    },
    /// A part of a result, from a server that sends results in parts: only with a transport configured to accept them,
    /// as the HTTP client can be. The outcome contains all parts.
    PartialResult {
        /// The request.
        request: RequestId,
        /// Members of the result, as received.
        fragment: Raw,
    },
    /// A request has become a task, or the status of its task has changed.
    TaskStatus {
        /// The request.
        request: RequestId,
        /// The report of its task.
        report: Box<TaskReport>,
    },
    /// A request has ended.
    Outcome {
        /// The request.
        request: RequestId,
        /// How it ended.
        outcome: Outcome,
    },
    /// The server sent a notification other than progress.
    Notification {
        /// Its method.
        method: Text,
        /// Its parameters, not decoded.
        params: Option<Raw>,
        /// The `subscriptions/listen` request that it belongs to, where it names one (2026-07-28).
        subscription: Option<RequestId>,
    },
    /// A topic of a [watch](super::ClientCommands::watch) has changed. While this event is queued it stands for all
    /// further changes of the same topic.
    Changed {
        /// The watch.
        watch: WatchId,
        /// The topic that has changed.
        change: Change,
        /// The evidence for the change.
        evidence: ChangeEvidence,
    },
    /// A watch has entered another state.
    Watch {
        /// The watch.
        watch: WatchId,
        /// Its new state.
        state: WatchState,
    },
    /// A request of the server (legacy revisions), or an input request from a result. Answer with
    /// [`respond`](super::ClientCommands::respond); [`Client::on_behalf_of`](super::Client::on_behalf_of) returns the
    /// request that needs the input.
    Request {
        /// The handle to answer it with.
        id: InboundId,
        /// The method; a capability that this client declared covers it.
        method: &'static MethodInfo,
        /// Its parameters, not decoded.
        params: Option<Raw>,
    },
    /// A request of a method that the protocol does not define, from a server of 2025-11-25 or earlier. Answer with
    /// [`respond`](super::ClientCommands::respond).
    ///
    /// Only for the methods that [`ClientConfig::custom_methods`](super::ClientConfig::custom_methods) names, or all of
    /// them with [`other_methods`](super::ClientConfig::other_methods).
    CustomRequest {
        /// The handle to answer it with.
        id: InboundId,
        /// Its method.
        method: Text,
        /// Its parameters, not decoded.
        params: Option<Raw>,
    },
    /// A request no longer needs an answer: the server has cancelled it, or the client request whose result contained
    /// it has ended.
    RequestCancelled {
        /// The request; an answer to it is dropped.
        id: InboundId,
        /// The reason, in the server's words.
        reason: Option<String>,
    },
    /// A problem that ended no request.
    Diagnostic(Diagnostic),
    /// The connection is over; no event follows.
    Closed(CloseReason),
}

impl MakeOwned for Event {
    fn make_owned(&mut self) {
        match self {
            Self::Notification { method, params, .. } | Self::CustomRequest { method, params, .. } => {
                *method = Text::from(&**method);
                *params = params.as_ref().map(Raw::detached);
            }
            Self::Request { params, .. } => *params = params.as_ref().map(Raw::detached),
            Self::Outcome { outcome, .. } => outcome.make_owned(),
            Self::PartialResult { fragment, .. } => *fragment = fragment.detached(),
            Self::Diagnostic(diagnostic) => diagnostic.make_owned(),
            _ => {}
        }
    }
}

/// A problem to log that ended no request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Diagnostic {
    /// A line that is not a message: noise on the server's standard output, a malformed message, or one that is too
    /// long.
    Malformed(Box<Malformed>),
    /// A tolerated deviation of the server from the specification: see
    /// [`ClientConfig::strictness`](super::ClientConfig::strictness).
    Tolerated(Leniency),
    /// An answer to a request that was never made.
    UnknownAnswer(Id),
    /// An error without an id, which answers no request in particular. Requests that time out later quote it.
    Error(ErrorObject),
    /// A request that a modern server must not send; it is not answered.
    ForbiddenRequest {
        /// Its id.
        id: Id,
        /// Its method.
        method: Text,
    },
    /// A request whose id is that of another one that this side has not answered yet. It gets no answer, which the
    /// server would take for the answer to the other one.
    DuplicateRequest {
        /// Its id.
        id: Id,
        /// Its method.
        method: Text,
    },
    /// A batch of messages, which the revision in use does not allow.
    ForbiddenBatch,
    /// A notification whose parameters could not be read.
    InvalidNotification {
        /// Its method.
        method: Text,
        /// Why they could not be read.
        error: String,
    },
    /// More progress reports on a request arrived than [`Limits::progress_in`](crate::Limits::progress_in) allows, and
    /// newer ones replaced some of them. Reported once, before the outcome of the request.
    ProgressSkipped {
        /// The request.
        request: RequestId,
        /// How many.
        count: u64,
    },
    /// Notifications were dropped because the application did not take its events.
    NotificationsDropped {
        /// How many.
        count: u64,
    },
    /// The server did not answer a ping in time.
    PingMissed {
        /// How many in a row.
        misses: u32,
    },
    /// The configured `KnownEra` of the server proved wrong; detection started over.
    KnownEraWrong,
    /// A request was answered from the cache with an expired answer, because the server gave none
    /// ([`CacheConfig::stale_if_error`](super::CacheConfig::stale_if_error)).
    AnsweredStale {
        /// Its method.
        method: &'static str,
        /// How the request would have ended.
        reason: String,
    },
    /// The server has lost the session; the client opens a new one (legacy revisions over HTTP). The server's state for
    /// this client is gone: subscriptions, log level.
    SessionLost,
    /// A tool was left out of the list, because it cannot be called over HTTP (2026-07-28).
    ToolExcluded {
        /// Its name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The server did not accept a notification or a reply (HTTP).
    MessageRejected {
        /// The notification's method, or a note that it is a reply.
        message: String,
        /// The server's error.
        error: TransportError,
    },
    /// The server refused a request for now and named a time to retry; the client sends it again then (HTTP).
    RequestDelayed {
        /// Its method.
        method: String,
        /// How long the client waits, as the server asked.
        pause: Duration,
        /// The server's error.
        error: TransportError,
    },
    /// A request has waited for a second, and nothing has polled the connection's driver. Only with adapters that set a
    /// timer for their handles.
    DriverNotPolled,
    /// A layer wanted to drop a message that is no notification, or one on which others depend. It was not dropped.
    LayerDropIgnored {
        /// Its method, or a note that it is an answer.
        message: String,
    },
    /// Messages outside of any request cannot be received, or no longer (legacy revisions over HTTP).
    EventStreamUnavailable {
        /// The reason.
        detail: String,
    },
}

impl Diagnostic {
    /// Copies slices of the input into memory of its own.
    pub(crate) fn make_owned(&mut self) {
        match self {
            Self::ForbiddenRequest { method, .. }
            | Self::DuplicateRequest { method, .. }
            | Self::InvalidNotification { method, .. } => *method = Text::from(&**method),
            Self::Tolerated(leniency) => leniency.make_owned(),
            Self::Malformed(malformed) => malformed.make_owned(),
            Self::Error(error) => error.make_owned(),
            _ => {}
        }
    }

    /// Returns the approximate size in bytes of its server-supplied content.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Malformed(malformed) => {
                let Recovered { id, method, .. } = &malformed.recovered;
                let method = method.as_ref().map_or(0, |method| method.len());
                id.as_ref().map_or(0, id_bytes).saturating_add(method)
            }
            Self::UnknownAnswer(id) => id_bytes(id),
            Self::Error(error) => error.bytes(),
            Self::Tolerated(leniency) => leniency.bytes(),
            Self::ForbiddenRequest { id, method } | Self::DuplicateRequest { id, method } => {
                id_bytes(id).saturating_add(method.len())
            }
            Self::InvalidNotification { method, error } => method.len().saturating_add(error.len()),
            Self::ToolExcluded { name, reason } => name.len().saturating_add(reason.len()),
            Self::RequestDelayed { method, error, .. } => method.len().saturating_add(error.bytes()),
            Self::MessageRejected { message: what, error } => what.len().saturating_add(error.detail.len()),
            Self::EventStreamUnavailable { detail } => detail.len(),
            Self::LayerDropIgnored { message } => message.len(),
            Self::AnsweredStale { reason: why, .. } => why.len(),
            Self::ForbiddenBatch
            | Self::SessionLost
            | Self::NotificationsDropped { .. }
            | Self::ProgressSkipped { .. }
            | Self::PingMissed { .. }
            | Self::DriverNotPolled
            | Self::KnownEraWrong => 0,
        }
    }
}

/// The heap size in bytes of an id.
pub(super) fn id_bytes(id: &Id) -> usize {
    match id {
        Id::Number(_) => 0,
        Id::String(text) => text.len(),
    }
}

display_text! { Diagnostic:
    Malformed(malformed) => "not a message: {malformed}";
    LayerDropIgnored { message } => "a layer wanted to drop {message}, which only notifications that nothing depends on can be";
    UnknownAnswer(id) => "an answer to request {id}, which was never made";
    Error(error) => "an error that answers no request: {error}";
    ForbiddenRequest { id, method } =>
        "the server sent the request {id} ({}), which its revision forbids", &**method;
    DuplicateRequest { id, method } =>
        "the request {id} ({}) has the id of an unanswered request: not answered", &**method;
    Tolerated(leniency) => "{leniency}";
    ForbiddenBatch => "a batch, which the revision in use does not have";
    InvalidNotification { method, error } => "the notification {} could not be read: {error}", &**method;
    ProgressSkipped { request, count } =>
        "{count} progress reports on {request:?} came too fast: newer ones replaced them";
    NotificationsDropped { count } =>
        "{count} notifications were dropped: the application does not take its events";
    PingMissed { misses } => "the server did not answer a ping ({misses} in a row)";
    KnownEraWrong => "the remembered era of the server was wrong; detecting it again";
    AnsweredStale { method, reason: why } => "{method} was answered by an expired entry of the cache: {why}";
    SessionLost => "the server has forgotten the session; opening a new one";
    ToolExcluded { name, reason } => "the tool {name:?} cannot be called over HTTP and is left out: {reason}";
    RequestDelayed { method, pause, error } => "{method} is sent again in {}: {error}", HumanDuration(*pause);
    DriverNotPolled => "{UNPOLLED_DRIVER}";
    MessageRejected { message: what, error } => "the server did not accept {what}: {error}";
    EventStreamUnavailable { detail } => "the stream of the server's own messages is not open: {detail}";
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// This side closed the connection.
    Done,
    /// The connection never became ready, or not again after its session was lost.
    Connect(ConnectError),
    /// The connection was ready, and was lost.
    Lost(LostReason),
}

#[cfg(feature = "std")]
impl CloseReason {
    /// Whether the connection was not ready in time.
    pub(crate) fn is_timeout(&self) -> bool {
        match self {
            Self::Connect(error) => error.is_timeout(),
            Self::Lost(lost) => *lost == LostReason::DriverNotPolled,
            Self::Done => false,
        }
    }

    /// The error of the transport that kept the client from connecting.
    pub(crate) fn transport_error(&self) -> Option<&TransportError> {
        let Self::Connect(error) = self else { return None };
        let mut error = error;
        while let ConnectError::AllFailed(tried) = error {
            error = tried.last()?;
        }
        match error {
            ConnectError::Transport { error, .. } => Some(error),
            _ => None,
        }
    }
}

display_text! { CloseReason:
    Done => "the connection was closed";
    Connect(error) => "{error}";
    Lost(lost) => "{lost}";
}
