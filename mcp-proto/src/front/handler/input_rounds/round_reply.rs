//! The reply of an input round to its request.

use crate::peer::Denial;
use crate::rpc::ErrorObject;
use crate::schema::InputRequiredResult;

/// The reply that replaces the handler's, when a round ends before the handler does.
#[cfg_attr(not(feature = "seal"), allow(dead_code, reason = "without sealed states there are no rounds"))]
pub(in crate::front) enum RoundReply {
    /// The client must supply input and send its request again.
    InputRequired(InputRequiredResult),
    Error(ErrorObject),
    /// The server denies the request: the error, and the reason.
    Denied(ErrorObject, Denial),
}
