//! Stands in for `caller_access` without the feature `auth`: there are no tokens.

use crate::UnixTime;

#[derive(Clone, Default)]
pub(in crate::front) struct CallerAccess;

pub(in crate::front) fn expiry(_: &CallerAccess) -> Option<UnixTime> {
    None
}

#[derive(Clone, Default)]
pub(super) struct DeclaredScopes;
