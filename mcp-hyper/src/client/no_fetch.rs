//! Stands in for `fetch` without the feature `auth`: no exchange with an authorization server is made.

/// The id of an exchange that is never made.
pub(super) type FetchId = u64;

/// The answer to an exchange that is never made.
pub(super) struct FetchResponse;
