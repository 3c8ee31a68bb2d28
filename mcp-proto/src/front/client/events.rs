//! Events of a client's connection.

use alloc::boxed::Box;

use crate::front::Notification;
use crate::front::events::ListenerEvent;
use crate::peer::client::{CloseReason, ConnectProgress, Diagnostic, State};
use crate::peer::{RequestId, TaskReport};
use crate::rpc::Raw;

/// An event that concerns the connection rather than one request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The state of the connection changed.
    State(State),
    /// A connection that is not ready yet reached another step: it waits for another answer, or retries. The `Display`
    /// form of the report is one line of text.
    Connecting(Box<ConnectProgress>),
    /// The server sent a notification that belongs to no request of the client.
    ///
    /// Notifications of a subscription arrive in its [`Subscription`](super::Subscription).
    Notification(Notification),
    /// A fragment of a result, from a server that sends results in fragments.
    ///
    /// Only with a transport that is configured to accept them, as the HTTP client can be. The request's own answer
    /// contains all fragments.
    PartialResult {
        /// The request: see [`Call::id`](crate::front::Call::id).
        request: RequestId,
        /// Members of the result, undecoded.
        fragment: Raw,
    },
    /// A request became a task, or the status of its task changed.
    TaskStatus {
        /// The request: see [`Call::id`](crate::front::Call::id).
        request: RequestId,
        /// The status of its task.
        report: Box<TaskReport>,
    },
    /// A problem that ended no request, for the log.
    Diagnostic(Diagnostic),
    /// This listener lost events, because it did not take them in time. Lists and resources may have changed.
    Missed {
        /// The number of lost events.
        count: u64,
    },
    /// The connection has ended. This is the last event.
    Closed(CloseReason),
}

impl Event {
    /// The approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Notification(notification) => notification.bytes(),
            Self::PartialResult { fragment, .. } => fragment.as_bytes().len(),
            Self::TaskStatus { report, .. } => report.bytes(),
            Self::Connecting(progress) => progress.bytes(),
            Self::Diagnostic(diagnostic) => diagnostic.bytes(),
            Self::State(_) | Self::Missed { .. } | Self::Closed(_) => 0,
        }
    }
}

impl ListenerEvent for Event {
    fn missed(count: u64) -> Self {
        Self::Missed { count }
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    fn make_owned(&mut self) {
        match self {
            Self::Notification(notification) => notification.make_owned(),
            Self::PartialResult { fragment, .. } => *fragment = fragment.detached(),
            Self::Diagnostic(diagnostic) => diagnostic.make_owned(),
            _ => {}
        }
    }
}
