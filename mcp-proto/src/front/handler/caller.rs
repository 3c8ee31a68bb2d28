//! The caller of a request, as far as the transport knows it.

#[cfg(feature = "auth")]
use crate::auth::server::GrantedAccess;
use crate::quota::QuotaOwner;

/// The caller of a request: its quota owner and access. The peer knows its principal.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    /// The owner of requests without a principal.
    pub(crate) owner: QuotaOwner,
    /// The access that the token grants.
    #[cfg_attr(not(feature = "auth"), allow(dead_code, reason = "there are no tokens"))]
    pub(crate) access: CallerAccess,
}

/// The access that a caller's token grants; `None` where the server demands no tokens.
#[cfg(feature = "auth")]
pub(in crate::front) type CallerAccess = Option<GrantedAccess>;

/// The access of callers without the feature `auth`: there are no tokens.
#[cfg(not(feature = "auth"))]
#[derive(Clone, Default)]
pub(in crate::front) struct CallerAccess;
