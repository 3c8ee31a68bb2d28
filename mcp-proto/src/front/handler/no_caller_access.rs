//! Stands in for `caller_access` without the feature `auth`: there are no tokens.

#[derive(Clone, Default)]
pub(in crate::front) struct CallerAccess;

#[derive(Clone, Default)]
pub(super) struct DeclaredScopes;
