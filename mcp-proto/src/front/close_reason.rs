//! How a client's connection ended, as the error of its calls.

pub(super) use crate::peer::client::CloseReason;
use crate::peer::client::ConnectError;
use crate::peer::{LostReason, TransportError};

/// Whether the connection was not ready in time.
pub(super) fn is_timeout(closed: &CloseReason) -> bool {
    match closed {
        CloseReason::Connect(error) => error.is_timeout(),
        CloseReason::Lost(lost) => *lost == LostReason::DriverNotPolled,
        CloseReason::Done => false,
    }
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
