//! The common part of the subscriptions of both eras: the requests that they need, and when to retry those.

use alloc::sync::Arc;
use core::time::Duration;

use crate::peer::{LostReason, Outcome, RequestError, RequestId, RetryAdvice, TransportError};
use crate::rpc::code;

use super::filter::WatchFilter;

/// The next action of the watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchAction {
    /// Send a listen request.
    Listen(WatchFilter),
    /// Subscribe to a resource.
    Subscribe(Arc<str>),
    /// Unsubscribe from a resource.
    Unsubscribe(Arc<str>),
    /// End a request.
    End(RequestId),
}

/// The retry class of an outcome.
#[derive(Debug)]
pub(super) enum RetryClass {
    /// The server has ended the request in an orderly way, or has fulfilled it.
    Done,
    /// A retry may succeed, after at least this long.
    Lost(Duration),
    /// The server has refused; with whether that is permanent.
    Refused(Outcome, RefusalKind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusalKind {
    Permanent,
    Transient,
}

impl From<Outcome> for RetryClass {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            // Both are the server's own decision: one page of the specification demands the result, another the
            // notification.
            Outcome::Result(_) | Outcome::Lost(LostReason::Ended) => Self::Done,
            Outcome::Transport(TransportError { retry: RetryAdvice::Later, retry_after, .. }) => {
                Self::Lost(retry_after.unwrap_or_default())
            }
            Outcome::Lost(_)
            | Outcome::TimedOut { .. }
            | Outcome::Cancelled
            | Outcome::Refused(
                RequestError::Connect(_) | RequestError::Overloaded { .. } | RequestError::InFlight { .. },
            ) => Self::Lost(Duration::ZERO),
            Outcome::Error(error) => {
                let made = matches!(
                    error.code,
                    code::METHOD_NOT_FOUND
                        | code::INVALID_PARAMS
                        | code::INVALID_REQUEST
                        | code::MISSING_REQUIRED_CLIENT_CAPABILITY
                        | code::UNSUPPORTED_PROTOCOL_VERSION
                        | code::HEADER_MISMATCH
                );
                Self::Refused(
                    Outcome::Error(error),
                    if made { RefusalKind::Permanent } else { RefusalKind::Transient },
                )
            }
            outcome @ Outcome::Invalid(_) => Self::Refused(outcome, RefusalKind::Transient),
            outcome => Self::Refused(outcome, RefusalKind::Permanent),
        }
    }
}
