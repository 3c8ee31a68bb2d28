//! How a client's connection ended, as the error of its calls.

use crate::peer::TransportError;
pub(super) use crate::peer::client::CloseReason;
use crate::peer::client::ConnectError;

/// Whether the connection was not ready in time.
pub(super) fn is_timeout(closed: &CloseReason) -> bool {
    matches!(closed, CloseReason::Connect(error) if error.is_timeout())
}

/// The error of the transport that kept the client from connecting.
pub(super) fn transport_error(closed: &CloseReason) -> Option<&TransportError> {
    fn last(error: &ConnectError) -> Option<&TransportError> {
        match error {
            ConnectError::Transport { error, .. } => Some(error),
            ConnectError::AllFailed(tried) => tried.last().and_then(last),
            _ => None,
        }
    }
    match closed {
        CloseReason::Connect(error) => last(error),
        _ => None,
    }
}
