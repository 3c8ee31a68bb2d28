//! Events of a server's connection.

use alloc::string::String;

use crate::front::events::ListenerEvent;
use crate::front::{BlockedHandler, Notification};
use crate::peer::InboundId;
use crate::peer::server::{CloseReason, Diagnostic};
use crate::schema::LoggingLevel;

/// An event that concerns the connection rather than one request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A legacy client finished its handshake.
    Initialized,
    /// A legacy client set its log level.
    LevelSet(LoggingLevel),
    /// The client subscribed to a resource: report its changes with [`ServerHandle::resource_updated`].
    ///
    /// [`ServerHandle::resource_updated`]: super::ServerHandle::resource_updated
    Subscribed {
        /// The resource.
        uri: String,
    },
    /// The client unsubscribed from a resource.
    Unsubscribed {
        /// The resource.
        uri: String,
    },
    /// The client cancelled a request, for the log. The handler learns of it from its context.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation#implementation-notes>
    RequestCancelled {
        /// The request, as in the [`id`](crate::front::Context::id) of its context.
        request: InboundId,
        /// The client's reason, as in [`Cancellation::Client`](crate::peer::server::Cancellation::Client).
        reason: Option<String>,
    },
    /// The client sent a notification that belongs to no request of the server.
    Notification(Notification),
    /// A problem that ended no request, for the log.
    Diagnostic(Diagnostic),
    /// A handler blocked the driver, for the log.
    HandlerBlocked(BlockedHandler),
    /// This listener lost events, because it did not take them in time.
    Missed {
        /// The number of lost events.
        count: u64,
    },
    /// The connection has ended. This is the last event.
    Closed(CloseReason),
}

impl ServerEvent {
    /// The approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Notification(notification) => notification.bytes(),
            Self::Diagnostic(diagnostic) => diagnostic.bytes(),
            Self::HandlerBlocked(blocked) => blocked.bytes(),
            Self::Subscribed { uri } | Self::Unsubscribed { uri } => uri.len(),
            Self::RequestCancelled { reason, .. } => reason.as_ref().map_or(0, String::len),
            _ => 0,
        }
    }
}

impl ListenerEvent for ServerEvent {
    fn missed(count: u64) -> Self {
        Self::Missed { count }
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    fn make_owned(&mut self) {
        match self {
            Self::Notification(notification) => notification.make_owned(),
            Self::Diagnostic(diagnostic) => diagnostic.make_owned(),
            _ => {}
        }
    }
}
