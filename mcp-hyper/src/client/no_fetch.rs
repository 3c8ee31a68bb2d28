//! Stands in for `fetch` without the feature `auth`, where the client never fetches from an authorization server.

/// The id of a fetch that never happens.
pub(super) type FetchId = u64;

/// The response to a fetch that never happens.
pub(super) struct FetchResponse;
