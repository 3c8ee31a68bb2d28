//! What the clients of a server over HTTP want to know.

use alloc::string::String;

use crate::front::events::ListenerEvent;

/// What the clients of a server over HTTP want to know, all of them together: listening clients of 2026-07-28 and
/// sessions of earlier revisions. A server that watches files, say, learns here which.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpServerEvent {
    /// A client wants to be told of changes of a resource that no other did, by
    /// [`HttpHandle::resource_updated`](super::HttpHandle::resource_updated).
    Subscribed {
        /// The resource.
        uri: String,
    },
    /// No client wants to be told of changes of a resource any more.
    Unsubscribed {
        /// The resource.
        uri: String,
    },
    /// So many events were lost here, because they were not taken in time: see
    /// [`HttpHandle::subscribed_resources`](super::HttpHandle::subscribed_resources) for what they have come to.
    Missed {
        /// How many.
        count: u64,
    },
    /// The server was closed; nothing follows.
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
