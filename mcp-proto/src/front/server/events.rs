//! What a client says on its own account.

use alloc::string::String;

use crate::front::Notification;
use crate::front::events::ListenerEvent;
use crate::peer::server::{CloseReason, Diagnostic};
use crate::schema::LoggingLevel;

/// Something that concerns the connection rather than one request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A legacy client has finished its handshake.
    Initialized,
    /// A legacy client says how much it wants logged.
    LevelSet(LoggingLevel),
    /// The client wants to be told of changes of a resource, by [`ServerHandle::resource_updated`].
    ///
    /// [`ServerHandle::resource_updated`]: super::ServerHandle::resource_updated
    Subscribed {
        /// The resource.
        uri: String,
    },
    /// The client does not want to be told of changes of a resource any more.
    Unsubscribed {
        /// The resource.
        uri: String,
    },
    /// The client sent a notification that belongs to no request of this side.
    Notification(Notification),
    /// Something was wrong that ended no request; it is worth a line in a log.
    Diagnostic(Diagnostic),
    /// So many events were lost here, because they were not taken in time.
    Missed {
        /// How many.
        count: u64,
    },
    /// The connection is over; nothing follows.
    Closed(CloseReason),
}

impl ServerEvent {
    /// About how many bytes it holds.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Notification(notification) => notification.bytes(),
            Self::Diagnostic(diagnostic) => diagnostic.bytes(),
            Self::Subscribed { uri } | Self::Unsubscribed { uri } => uri.len(),
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
