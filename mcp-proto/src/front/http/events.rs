//! Events of a server over HTTP.

use alloc::string::String;

use crate::front::BlockedHandler;
use crate::front::events::ListenerEvent;

/// An event of a server over HTTP: mostly a change in the resource subscriptions of all its clients.
///
/// Its clients are listening clients of 2026-07-28 and sessions of earlier revisions. A server that watches files, for
/// example, learns here which files to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpServerEvent {
    /// A client subscribed to a resource that no other client was subscribed to. The application reports its changes
    /// with [`HttpHandle::resource_updated`](super::HttpHandle::resource_updated).
    Subscribed {
        /// The resource.
        uri: String,
    },
    /// The last subscription to a resource ended.
    Unsubscribed {
        /// The resource.
        uri: String,
    },
    /// A handler blocked the driver or the task of its request, for the log.
    HandlerBlocked(BlockedHandler),
    /// A handler logged, and the server does not declare `logging`: its messages are dropped. Reported once. Declare the
    /// capability ([`Router::declare`](crate::front::Router::declare)).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>
    UndeclaredLogging,
    /// This listener lost events, because it did not take them in time.
    ///
    /// [`HttpHandle::subscribed_resources`](super::HttpHandle::subscribed_resources) returns the current subscriptions.
    Missed {
        /// The number of lost events.
        count: u64,
    },
    /// Nothing has polled the [driver](super::HttpServerDriver): a request of a legacy session, or a call that becomes a
    /// task, has waited for a second, or a WebSocket was requested that the driver would serve. Such a request of a
    /// session or for a WebSocket is answered with 503; the task does not begin.
    DriverNotPolled,
    /// The server was closed. This is the last event.
    Closed,
}

impl ListenerEvent for HttpServerEvent {
    fn missed(count: u64) -> Self {
        Self::Missed { count }
    }

    fn is_last(&self) -> bool {
        *self == Self::Closed
    }
}
