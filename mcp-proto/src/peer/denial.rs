//! Reasons for denying a request before it is processed.

use alloc::string::String;

/// Why a request is denied before it is processed. HTTP shows it by status and header, as long as no part of the answer
/// was sent; other transports show the JSON-RPC error alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// The client is not allowed to make the request. Status 403, with this challenge as `WWW-Authenticate`.
    Challenge(String),
    /// The server has no room for the state that the request would create. Status 503, with `Retry-After`.
    NoRoom,
}
