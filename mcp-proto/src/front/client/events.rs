//! What a server says on its own account.

use alloc::boxed::Box;

use crate::front::Notification;
use crate::front::events::ListenerEvent;
use crate::peer::client::{CloseReason, ConnectProgress, Diagnostic, State};
use crate::peer::{RequestId, TaskReport};
use crate::rpc::Raw;

/// Something that concerns the connection rather than one request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The connection has come further.
    State(State),
    /// A connection that is not ready yet has entered another step: it waits for another answer, or retries. The
    /// `Display` form of the report is one line of text.
    Connecting(Box<ConnectProgress>),
    /// The server sent a notification that belongs to no request and no [`Subscription`](super::Subscription) of this
    /// side.
    Notification(Notification),
    /// A part of a result, of a server that sends results in parts: only of a transport that is configured to accept
    /// them, as the HTTP client can be. The request's own answer has all parts.
    PartialResult {
        /// The request: see [`Call::id`](crate::front::Call::id).
        request: RequestId,
        /// Members of the result, as they came.
        fragment: Raw,
    },
    /// A request has become a task, or that task is doing something else than before.
    TaskStatus {
        /// The request: see [`Call::id`](crate::front::Call::id).
        request: RequestId,
        /// How its task is doing.
        report: Box<TaskReport>,
    },
    /// Something was wrong that ended no request; it is worth a line in a log.
    Diagnostic(Diagnostic),
    /// So many events were lost here, because they were not taken in time. Lists and resources may have changed.
    Missed {
        /// How many.
        count: u64,
    },
    /// The connection is over; nothing follows.
    Closed(CloseReason),
}

impl Event {
    /// About how many bytes it holds.
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
