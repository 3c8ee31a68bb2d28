//! How a request is getting on, and giving it up.

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
            /// The token that came with the request.
            progress_token: Id = "progressToken";
            /// How far it is: more each time.
            progress: Number = "progress";
        }
        optional {
            /// How far it will be at the end, if that is known.
            total: Option<Number> = "total";
            /// What is being done.
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
            /// The request that is given up. Only 2025-11-25 allows to leave it out.
            request_id: Option<Id> = "requestId" odd refused;
            /// Why, for people and logs.
            reason: Option<String> = "reason";
        }
    }
}

impl CancelledParams {
    /// Gives up `request`.
    pub fn request(request: impl Into<Id>) -> Self {
        Self { request_id: Some(request.into()), ..Self::new() }
    }
}
