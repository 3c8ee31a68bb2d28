//! The reply of an input round to its request.

use crate::peer::Denial;
use crate::rpc::ErrorObject;
use crate::schema::InputRequiredResult;

/// The reply that replaces the handler's, when a round ends before the handler does.
pub(in crate::front) enum RoundReply {
    /// The client must supply input and send its request again.
    InputRequired(InputRequiredResult),
    Error(ErrorObject),
    /// The server denies the request: the error, and the reason.
    Denied(ErrorObject, Denial),
}
