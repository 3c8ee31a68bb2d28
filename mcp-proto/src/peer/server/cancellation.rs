//! Why the answer to a request is no longer awaited.

use alloc::string::{String, ToString};
use core::fmt;

use super::CloseReason;
use crate::consent::SafeText;
use crate::peer::LostReason;

/// The number of characters that are kept of a client's reason.
const REASON_CHARACTERS: usize = 1000;

/// Why the answer to a request is no longer awaited.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancellation {
    /// The client cancelled the request, or the task that it became.
    Client {
        /// The client's reason, for logs and displays: one line of at most 1,000 characters, in which unsafe characters
        /// are [escaped](crate::consent::SafeText::line). Clients of tasks give none.
        reason: Option<String>,
    },
    /// The client has disconnected. A client of 2026-07-28 over HTTP cancels a request in this way, without a reason.
    Disconnected,
    /// The connection or the session was closed, or failed.
    Closed(CloseReason),
    /// The request was answered, or its task has ended without being cancelled. Only
    /// the contexts of handlers report this.
    Answered,
}

impl Cancellation {
    /// A cancellation by the client, with its reason as received.
    pub(super) fn by_client(reason: Option<&str>) -> Self {
        let escape = |reason: &str| {
            let end = reason.char_indices().nth(REASON_CHARACTERS).map_or(reason.len(), |(end, _)| end);
            SafeText::line(reason.get(..end).unwrap_or_default()).to_string()
        };
        Self::Client { reason: reason.map(escape) }
    }

    /// The cancellation of all requests of a connection that has ended.
    pub(crate) fn by_close(closed: &CloseReason) -> Self {
        match closed {
            CloseReason::Lost(LostReason::Disconnected(_)) => Self::Disconnected,
            _ => Self::Closed(closed.clone()),
        }
    }

    /// The client's reason, if it gave one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Client { reason } => reason.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Display for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client { reason: Some(reason) } => write!(f, "the client cancelled the request: {reason}"),
            Self::Client { reason: None } => f.write_str("the client cancelled the request"),
            Self::Disconnected => f.write_str("the client has disconnected"),
            Self::Closed(closed) => closed.fmt(f),
            Self::Answered => f.write_str("the request was answered"),
        }
    }
}
