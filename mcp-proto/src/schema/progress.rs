//! Progress and cancellation of a request.

use alloc::string::String;

use super::json::Number;
use super::object::object;
use crate::rpc::Id;

object! {
    /// The parameters of `notifications/progress`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress>
    pub params ProgressParams {
        required {
            /// The progress token of the request.
            progress_token: Id = "progressToken";
            /// Progress so far; it increases with each notification.
            progress: Number = "progress";
        }
        optional {
            /// Total that `progress` reaches at the end, if known.
            total: Option<Number> = "total";
            /// Description of the current step.
            message: Option<String> = "message" since V2025_03_26;
        }
    }
}

object! {
    /// The parameters of `notifications/cancelled`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>
    pub params CancelledParams {
        required {}
        optional {
            /// Id of the cancelled request. Only 2025-11-25 allows it to be absent.
            request_id: Option<Id> = "requestId" type strict;
            /// Reason for the cancellation, for display and logs.
            reason: Option<String> = "reason";
        }
    }
}

impl CancelledParams {
    /// Cancels the request with this id.
    pub fn request(request: impl Into<Id>) -> Self {
        Self { request_id: Some(request.into()), ..Self::new() }
    }
}
