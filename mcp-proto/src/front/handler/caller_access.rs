//! The access that tokens grant.

use alloc::sync::Arc;

use crate::UnixTime;
use crate::auth::Scopes;
use crate::auth::server::GrantedAccess;

/// The access that a caller's token grants; `None` where the server demands no tokens.
pub(in crate::front) type CallerAccess = Option<GrantedAccess>;

/// When the caller's token expires, if it has one and that is known.
pub(in crate::front) fn expiry(access: &CallerAccess) -> Option<UnixTime> {
    access.as_ref()?.access().expires
}

/// The scopes that a tool requires for all arguments.
pub(super) type DeclaredScopes = Option<Arc<Scopes>>;
