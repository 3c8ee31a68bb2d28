//! On whose behalf a request is made.

use alloc::sync::Arc;
use core::fmt;

/// On whose behalf a request is made, as the transport has verified it: the subject of an access token, the user at the
/// other end of a socket. What the client says of itself is none.
///
/// It is an opaque text that is compared as a whole. What is given out for one principal (a request state, a task, a
/// session) is refused to every other. It should therefore name the issuer as well, where there are several, and never be
/// a credential: it is not shown by [`Debug`](fmt::Debug), but stores may keep it.
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
    /// The principal of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Principal(…)")
    }
}
