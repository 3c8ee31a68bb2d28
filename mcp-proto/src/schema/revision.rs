//! The five revisions of the protocol and their differences.

use super::object::names;
use crate::rpc::code;

names! {
    /// A revision of the protocol, ordered by age.
    ///
    /// ```
    /// use mcp_proto::schema::{Era, Revision};
    ///
    /// let revision = Revision::parse("2025-11-25").unwrap();
    /// assert!(revision < Revision::LATEST);
    /// assert_eq!(revision.era(), Era::Legacy);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>
    pub enum Revision {
        /// The first revision.
        V2024_11_05 = "2024-11-05",
        /// Adds audio, tool annotations, completions as a capability, and batches.
        V2025_03_26 = "2025-03-26",
        /// Adds structured results, elicitation, resource links and titles; removes batches.
        V2025_06_18 = "2025-06-18",
        /// Adds icons, tasks (experimental), elicitation by URL, and tools in sampling.
        V2025_11_25 = "2025-11-25",
        /// Adds stateless requests, discovery, `subscriptions/listen` and input-required results.
        V2026_07_28 = "2026-07-28",
    }
}

/// How a client and a server agree on a revision: by a handshake, or with every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum Era {
    /// The `initialize` handshake: 2025-11-25 and earlier.
    Legacy,
    /// `_meta` in every request, and `server/discover`: since 2026-07-28.
    Modern,
}

impl Revision {
    /// The revisions of the modern era, newest first.
    pub const MODERN: &'static [Self] = &[Self::V2026_07_28];
    /// The revisions of the legacy era, newest first.
    pub const LEGACY: &'static [Self] =
        &[Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];
    /// All revisions, newest first.
    pub const ALL: &'static [Self] =
        &[Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];
    /// The newest revision.
    pub const LATEST: Self = Self::V2026_07_28;
    /// The newest revision with the `initialize` handshake.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// The oldest revision.
    pub const OLDEST: Self = Self::V2024_11_05;

    /// The era of the revision.
    pub const fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
            Self::V2026_07_28 => Era::Modern,
        }
    }

    /// Properties of the revision other than its fields and methods.
    pub const fn differences(self) -> &'static Differences {
        match self {
            Self::V2024_11_05 => &V2024_11_05,
            Self::V2025_03_26 => &V2025_03_26,
            Self::V2025_06_18 => &V2025_06_18,
            Self::V2025_11_25 => &V2025_11_25,
            Self::V2026_07_28 => &V2026_07_28,
        }
    }
}

/// Error: the text is not one of the five revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRevisionError;

error_text! { UnknownRevisionError =>
    "unknown protocol revision: the known ones are {} to {}", Revision::OLDEST, Revision::LATEST
}

impl core::str::FromStr for Revision {
    type Err = UnknownRevisionError;

    fn from_str(text: &str) -> Result<Self, UnknownRevisionError> {
        Self::parse(text).ok_or(UnknownRevisionError)
    }
}

/// A range of consecutive revisions; both ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revisions {
    /// The oldest revision in the range.
    pub first: Revision,
    /// The newest revision in the range.
    pub last: Revision,
}

impl Revisions {
    /// Every revision.
    pub const ALL: Self = Self { first: Revision::OLDEST, last: Revision::LATEST };
    /// The revisions with the `initialize` handshake.
    pub const LEGACY: Self = Self { first: Revision::OLDEST, last: Revision::LATEST_LEGACY };
    /// The revisions with stateless requests.
    pub const MODERN: Self = Self { first: Revision::V2026_07_28, last: Revision::LATEST };

    /// `first` and all newer revisions.
    pub const fn since(first: Revision) -> Self {
        Self { first, last: Revision::LATEST }
    }

    /// `last` and all older revisions.
    pub const fn until(last: Revision) -> Self {
        Self { first: Revision::OLDEST, last }
    }

    /// A single revision.
    pub const fn only(one: Revision) -> Self {
        Self { first: one, last: one }
    }

    /// Whether `revision` is in the range.
    pub const fn contains(self, revision: Revision) -> bool {
        self.first as u8 <= revision as u8 && revision as u8 <= self.last as u8
    }
}

/// Properties of a revision other than the presence of fields and methods.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Differences {
    /// Error code for a resource that does not exist. Receivers accept both codes at any revision.
    pub resource_not_found_code: i64,
    /// Error code for a protocol version that the receiver does not support.
    pub unsupported_version_code: i64,
    /// Whether a receiver accepts and answers an array of messages.
    pub batches: bool,
    /// Whether an error response may lack an id.
    pub error_without_id: bool,
    /// Whether invalid tool arguments give a result with `isError` rather than an error.
    pub invalid_arguments_are_results: bool,
    /// Whether a request may fail with `URL_ELICITATION_REQUIRED`.
    pub url_elicitation_error: bool,
    /// Whether the sender may reuse a request id after the request was answered.
    pub reusable_request_ids: bool,
    /// Whether the server sends requests of its own rather than asking for input in its results.
    pub server_requests: bool,
    /// Whether an SSE stream begins with an event that has only an id, so that the server can close the stream and the
    /// client can resume it.
    pub primed_streams: bool,
    /// Whether requests carry version, identity and capabilities, and results carry kind, identity and cache hints.
    pub stateless: bool,
    /// Whether the server sends change notifications and log messages only on request, by `subscriptions/listen` and
    /// `_meta`.
    pub opt_in_notifications: bool,
    /// Whether a server declares completion as a capability; otherwise clients may always request it.
    pub completion_capability: bool,
    /// Whether a server may request the context of servers only if the client declares `sampling.context`.
    pub context_capability: bool,
    /// Whether the requestor, rather than the server, decides that a call runs as a task.
    pub tasks_by_requestor: bool,
    /// Whether tool names should have at most 128 characters of `[A-Za-z0-9_.-]`.
    pub restricted_tool_names: bool,
    /// JSON Schema dialect of a schema without `$schema`, if the revision defines it.
    pub schema_dialect: Option<&'static str>,
}

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

const V2024_11_05: Differences = Differences {
    resource_not_found_code: code::RESOURCE_NOT_FOUND,
    unsupported_version_code: code::INVALID_PARAMS,
    batches: false,
    error_without_id: false,
    invalid_arguments_are_results: false,
    url_elicitation_error: false,
    reusable_request_ids: false,
    server_requests: true,
    primed_streams: false,
    stateless: false,
    opt_in_notifications: false,
    completion_capability: false,
    context_capability: false,
    tasks_by_requestor: false,
    restricted_tool_names: false,
    schema_dialect: None,
};

const V2025_03_26: Differences = Differences { batches: true, completion_capability: true, ..V2024_11_05 };

const V2025_06_18: Differences = Differences { batches: false, ..V2025_03_26 };

const V2025_11_25: Differences = Differences {
    error_without_id: true,
    primed_streams: true,
    invalid_arguments_are_results: true,
    url_elicitation_error: true,
    context_capability: true,
    tasks_by_requestor: true,
    restricted_tool_names: true,
    schema_dialect: Some(DIALECT),
    ..V2025_06_18
};

const V2026_07_28: Differences = Differences {
    resource_not_found_code: code::INVALID_PARAMS,
    unsupported_version_code: code::UNSUPPORTED_PROTOCOL_VERSION,
    url_elicitation_error: false,
    reusable_request_ids: true,
    server_requests: false,
    primed_streams: false,
    stateless: true,
    opt_in_notifications: true,
    context_capability: false,
    tasks_by_requestor: false,
    ..V2025_11_25
};
