//! When something that failed is tried again.

use core::time::Duration;

use crate::peer::{LostReason, Outcome, RequestError, RetryAdvice, TransportError};
use crate::rpc::code;

/// What an outcome means for somebody who wants to go on.
#[derive(Debug)]
pub(super) enum RetryClass {
    /// The server has ended it of its own accord, or has done what it was asked.
    Done,
    /// It may work the next time, after at least this long.
    Lost(Duration),
    /// The server answered that it will not; whether it might change its mind.
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
            // Either is the server's own doing: one page wants the result, another the notification.
            Outcome::Result(_) | Outcome::Lost(LostReason::Ended) => Self::Done,
            Outcome::Transport(TransportError { retry: RetryAdvice::Later, retry_after, .. }) => {
                Self::Lost(retry_after.unwrap_or_default())
            }
            Outcome::Lost(_)
            | Outcome::TimedOut { .. }
            | Outcome::Cancelled
            | Outcome::Refused(RequestError::Overloaded { .. } | RequestError::InFlight { .. }) => {
                Self::Lost(Duration::ZERO)
            }
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
