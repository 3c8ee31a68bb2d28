//! The five revisions of the protocol, and what differs between them.

use core::fmt;

use crate::rpc::code;

/// A revision of the protocol, ordered by age.
///
/// ```
/// use mcp_proto::schema::{Era, Revision};
///
/// let revision = Revision::parse("2025-11-25").unwrap();
/// assert!(revision < Revision::LATEST);
/// assert_eq!(revision.era(), Era::LegacyDiscovery);
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// The first revision.
    V2024_11_05,
    /// Audio, tool annotations, completions as a capability, batches.
    V2025_03_26,
    /// Structured results, elicitation, resource links, titles; batches gone.
    V2025_06_18,
    /// Icons, tasks (experimental), elicitation by URL, tools in sampling.
    V2025_11_25,
    /// Stateless requests, discovery, subscriptions by listening, input-required results.
    V2026_07_28,
}

/// How a revision begins: by a handshake, or with every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Era {
    /// The `initialize` handshake: 2025-11-25 and earlier.
    Legacy,
    /// `_meta` on every request and `server/discover`: since 2026-07-28.
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
    /// The newest revision that begins with `initialize`.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// The oldest revision.
    pub const OLDEST: Self = Self::V2024_11_05;

    /// The revision as it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision that is written `text`, if it is one of the five.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|revision| revision.as_str() == text)
    }

    /// The era it belongs to.
    pub const fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
            Self::V2026_07_28 => Era::Modern,
        }
    }

    /// What this revision does in its own way, beyond the fields and methods that it has.
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

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names none of the five revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRevisionError;

impl fmt::Display for UnknownRevisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is no revision of the protocol known here")
    }
}

impl core::error::Error for UnknownRevisionError {}

impl core::str::FromStr for Revision {
    type Err = UnknownRevisionError;

    fn from_str(text: &str) -> Result<Self, UnknownRevisionError> {
        Self::parse(text).ok_or(UnknownRevisionError)
    }
}

/// A run of consecutive revisions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revisions {
    /// The oldest of them.
    pub first: Revision,
    /// The newest of them.
    pub last: Revision,
}

impl Revisions {
    /// Every revision.
    pub const ALL: Self = Self { first: Revision::OLDEST, last: Revision::LATEST };
    /// Those that begin with `initialize`.
    pub const LEGACY: Self = Self { first: Revision::OLDEST, last: Revision::LATEST_LEGACY };
    /// Those in which each request stands alone.
    pub const MODERN: Self = Self { first: Revision::V2026_07_28, last: Revision::LATEST };

    /// `first` and all newer ones.
    pub const fn since(first: Revision) -> Self {
        Self { first, last: Revision::LATEST }
    }

    /// `last` and all older ones.
    pub const fn until(last: Revision) -> Self {
        Self { first: Revision::OLDEST, last }
    }

    /// One alone.
    pub const fn only(one: Revision) -> Self {
        Self { first: one, last: one }
    }

    /// Whether `revision` is one of them.
    pub const fn contains(self, revision: Revision) -> bool {
        self.first as u8 <= revision as u8 && revision as u8 <= self.last as u8
    }
}

/// What a revision does in its own way, where that is not the mere presence of a field or a method.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Differences {
    /// The error of a resource that does not exist. Receivers accept both codes at any revision.
    pub missing_resource: i64,
    /// The error of a version that the receiver does not speak.
    pub unsupported_version: i64,
    /// Whether an array of messages is received and answered.
    pub batches: bool,
    /// Whether an error may come without an id.
    pub error_without_id: bool,
    /// Whether arguments that do not fit a tool's schema are its result with `isError` rather than an error.
    pub invalid_arguments_are_results: bool,
    /// Whether a request may fail with `URL_ELICITATION_REQUIRED`.
    pub url_elicitation_error: bool,
    /// Whether an id may be used again once it has been answered.
    pub ids_return: bool,
    /// Whether the server sends requests of its own, rather than asking in its results.
    pub server_requests: bool,
    /// Whether a stream of events over HTTP begins with an event that has only an id, so that it can be released and
    /// resumed.
    pub primed_streams: bool,
    /// Whether requests carry version, identity and capabilities, and results their kind, identity and cache hints.
    pub stateless: bool,
    /// Whether change notifications and log messages come only when asked for by `subscriptions/listen` and `_meta`.
    pub notifications_on_request: bool,
    /// Whether completion is a capability that a server declares; otherwise it may always be asked for.
    pub completion_capability: bool,
    /// Whether context of other servers is only asked for with the capability `sampling.context`.
    pub context_capability: bool,
    /// Whether the requestor, rather than the server, decides that a call becomes a task.
    pub tasks_by_requestor: bool,
    /// Whether the names of tools should keep to 128 characters of `[A-Za-z0-9_.-]`.
    pub tool_name_rule: bool,
    /// The dialect of a schema that names none, if the revision settles it.
    pub schema_dialect: Option<&'static str>,
}

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

const V2024_11_05: Differences = Differences {
    missing_resource: code::RESOURCE_NOT_FOUND,
    unsupported_version: code::INVALID_PARAMS,
    batches: false,
    error_without_id: false,
    invalid_arguments_are_results: false,
    url_elicitation_error: false,
    ids_return: false,
    server_requests: true,
    primed_streams: false,
    stateless: false,
    notifications_on_request: false,
    completion_capability: false,
    context_capability: false,
    tasks_by_requestor: false,
    tool_name_rule: false,
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
    tool_name_rule: true,
    schema_dialect: Some(DIALECT),
    ..V2025_06_18
};

const V2026_07_28: Differences = Differences {
    missing_resource: code::INVALID_PARAMS,
    unsupported_version: code::UNSUPPORTED_PROTOCOL_VERSION,
    url_elicitation_error: false,
    ids_return: true,
    server_requests: false,
    primed_streams: false,
    stateless: true,
    notifications_on_request: true,
    context_capability: false,
    tasks_by_requestor: false,
    ..V2025_11_25
};
