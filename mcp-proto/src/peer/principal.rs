//! The principal of a request.

use alloc::sync::Arc;

use crate::prelude::*;

/// The principal of a request, as verified by the transport: the subject of an access token, or the user at the other
/// end of a socket. A name that the client claims for itself is not a principal.
///
/// It is an opaque text, compared as a whole. State issued to one principal (a request state, a task, a session) is
/// refused to every other. The text should therefore include the issuer where there are several, and must never be a
/// credential: [`Debug`](core::fmt::Debug) does not show it, but stores may keep it.
///
/// ```
/// use mcp_proto::peer::Principal;
///
/// let principal = Principal::new("https://login.example#248289761001");
/// assert_eq!(format!("{principal:?}"), "Principal(…)");
/// ```
///
/// <https://modelcontextprotocol.io/docs/2026-07-28/tutorials/security/security_best_practices>
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
    /// Creates the principal of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

debug_fields! { Principal => "Principal(…)" }

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
