//! Why a request is denied before it is worked on.

use alloc::string::String;

/// Why a request is denied before it is worked on, as far as its transport can tell: HTTP by its status and a header, as
/// long as nothing was sent. Elsewhere the JSON-RPC error is all there is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// The client is not allowed to make it. Status 403, with this challenge as `WWW-Authenticate`.
    Challenge(String),
    /// There is no room for what it would make the server keep. Status 503, with `Retry-After`.
    NoRoom,
}
