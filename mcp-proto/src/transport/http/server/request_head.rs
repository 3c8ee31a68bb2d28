//! The head of a request: as the adapter passes it, and the part that is needed once the body is complete.

use core::net::IpAddr;
use core::ops::Deref;
use core::time::Duration;

use super::response::{AcceptedTypes, HttpResponse};
use crate::peer::Principal;
use crate::prelude::*;
use crate::quota::{BytePermit, QuotaOwner};
use crate::rpc::{ErrorId, code};
use crate::schema::{Era, Revision};
#[cfg(feature = "trace-file")]
use crate::trace_file::MachineRecorder;
use crate::transport::http::{Fields, HeaderValues, header, read_headers};

/// The head of an HTTP request, borrowed from the adapter.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    /// The HTTP method, such as `POST`.
    pub method: &'a str,
    /// The path with the query, as written in the request.
    pub path: &'a str,
    /// The headers. They must include `host` in every HTTP version; `:authority` is the same.
    pub fields: &'a dyn Fields,
    /// The address of the client, if it has one.
    ///
    /// It is that of the connection, or the one reported by [trusted proxies](super::TrustedProxies).
    pub client: Option<IpAddr>,
}

impl RequestHead<'_> {
    /// Returns the quota owner of the request, given the principal verified for it.
    #[must_use]
    pub fn owner(&self, principal: Option<&Principal>) -> QuotaOwner {
        QuotaOwner::from_client(principal, self.client)
    }

    /// Returns the id of an error that answers the request without its body.
    pub(crate) fn error_id(&self) -> ErrorId<'static> {
        let [version] = read_headers(self.fields, [header::PROTOCOL_VERSION]);
        VersionHeader::read(&version).0.error_id()
    }
}

impl HttpResponse {
    /// Returns the refusal of a request, before its body is read, whose owner exceeds its rate. There is room again after
    /// `wait`, which `Retry-After` repeats in seconds.
    pub fn too_many_requests(head: &RequestHead<'_>, wait: Duration) -> Self {
        let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1);
        let what = format!("too many requests: try again in {seconds} s");
        Self::refusal(429, head.error_id(), code::INTERNAL_ERROR, what)
            .with_header("retry-after", format!("{seconds}"))
    }
}

#[cfg(feature = "std")]
impl HttpResponse {
    /// Returns the refusal of a request, before its body is read, by a server that closes. Its sessions end with it: 404
    /// makes their clients open new ones, at another instance.
    pub(crate) fn closing(head: &RequestHead<'_>) -> Self {
        let [session] = read_headers(head.fields, [header::SESSION_ID]);
        let has_session = session.iter().next().is_some();
        if has_session { Self::unknown_session(None) } else { Self::unavailable() }
    }
}

/// The part of the head that is needed once the body is complete.
#[derive(Debug)]
pub(super) struct RetainedHead {
    pub(super) accepts: AcceptedTypes,
    pub(super) version: VersionHeader,
    /// `version`, as written.
    pub(super) version_text: SingleHeader,
    pub(super) method: SingleHeader,
    pub(super) name: SingleHeader,
    /// The session id header: `None` without one, `Some(None)` if the id is invalid.
    pub(super) session: Option<Option<SessionId>>,
    /// Headers that mirror tool parameters.
    pub(super) params: Vec<(String, Vec<u8>)>,
    /// The permit for the body's bytes, if they count in a budget.
    pub(super) permit: Option<BytePermit>,
    /// The recorder of the exchange.
    #[cfg(feature = "trace-file")]
    pub(super) recorder: Option<MachineRecorder>,
}

/// The error message for a version header that cannot be served.
pub(super) const UNKNOWN_VERSION: &str = "mcp-protocol-version names no revision that is spoken here";

impl RetainedHead {
    /// Returns the session that the request names.
    pub(super) fn session(&self) -> Result<SessionId, HttpResponse> {
        match (self.version, self.session) {
            (VersionHeader::Unknown, _) => Err(self.version.refuse(400, UNKNOWN_VERSION)),
            (_, Some(Some(id))) => Ok(id),
            (_, Some(None)) => Err(HttpResponse::unknown_session(None)),
            (_, None) => Err(self.version.refuse(400, "mcp-session-id is missing")),
        }
    }
}

/// A header that allows a single value.
#[derive(Debug)]
pub(super) enum SingleHeader {
    Absent,
    Value(HeaderText),
    /// The header occurs with different values, so none of them counts.
    Conflicting,
}

impl SingleHeader {
    /// Reads the only value.
    pub(super) fn read(values: &HeaderValues<'_>) -> Self {
        let mut values = values.iter().map(<[u8]>::trim_ascii);
        let Some(first) = values.next() else { return Self::Absent };
        if values.any(|value| value != first) {
            return Self::Conflicting;
        }
        Self::Value(HeaderText::new(first))
    }
}

/// The value of a header that is kept until the body is complete. Short ones take no memory of their own.
#[derive(Debug)]
pub(super) enum HeaderText {
    Short { length: u8, bytes: [u8; HeaderText::SHORT] },
    Long(Box<[u8]>),
}

impl HeaderText {
    /// The length up to which a value is short: most methods and names of tools are.
    const SHORT: usize = 30;

    fn new(value: &[u8]) -> Self {
        let mut bytes = [0; Self::SHORT];
        match (bytes.get_mut(..value.len()), u8::try_from(value.len())) {
            (Some(start), Ok(length)) => {
                start.copy_from_slice(value);
                Self::Short { length, bytes }
            }
            _ => Self::Long(value.into()),
        }
    }
}

impl Deref for HeaderText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Long(value) => value,
        }
    }
}

/// The revision in the `mcp-protocol-version` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionHeader {
    Absent,
    Known(Revision),
    Unknown,
}

impl VersionHeader {
    /// Reads the `mcp-protocol-version` header, and its text.
    pub(super) fn read(values: &HeaderValues<'_>) -> (Self, SingleHeader) {
        let text = SingleHeader::read(values);
        let version = match &text {
            SingleHeader::Absent => Self::Absent,
            SingleHeader::Conflicting => Self::Unknown,
            SingleHeader::Value(value) => {
                let revision = Revision::ALL.iter().find(|known| known.as_str().as_bytes() == &**value);
                revision.map_or(Self::Unknown, |revision| Self::Known(*revision))
            }
        };
        (version, text)
    }

    /// Returns the refusal of a request that names no id, as this revision words it.
    pub(super) fn refuse(self, status: u16, what: impl Into<String>) -> HttpResponse {
        HttpResponse::refusal(status, self.error_id(), code::INVALID_REQUEST, what)
    }

    pub(super) fn era(self) -> Option<Era> {
        match self {
            Self::Known(revision) => Some(revision.era()),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Returns the id of an error without a readable request.
    pub(super) fn error_id(self) -> ErrorId<'static> {
        match self {
            Self::Known(revision) if revision.differences().error_without_id => ErrorId::Absent,
            _ => ErrorId::Null,
        }
    }
}

/// The id of a session: 128 random bits, written as 32 hexadecimal digits.
///
/// Every holder of the id can act in the session. `Debug` therefore shows only its beginning; `Display` writes all of
/// it.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Bytes, as the alignment of `u128` would leave gaps in the tables of sessions.
pub struct SessionId([u8; 16]);

impl SessionId {
    /// Creates an id from 16 bytes of a secure random source.
    ///
    /// ```
    /// use mcp_proto::transport::http::server::SessionId;
    ///
    /// let id = SessionId::from_entropy([0xAB; 16]);
    /// assert_eq!(id.to_string(), "abababababababababababababababab");
    /// assert_eq!(SessionId::parse(id.to_string().as_bytes()), Some(id));
    /// ```
    #[must_use]
    pub const fn from_entropy(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Parses an id in the form that `Display` writes.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = <&[u8; 32]>::try_from(text).ok()?;
        let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
        let id = text.iter().try_fold(0, |id, &byte| Some(id << 4 | u128::from(digit(byte)?)))?;
        Some(Self(u128::to_be_bytes(id)))
    }

    /// Writes the id behind the prefix of its instance, as clients know it.
    pub(super) fn to_text(self, prefix: Option<&SessionPrefix>) -> String {
        prefix.map_or_else(|| alloc::format!("{self}"), |prefix| alloc::format!("{}.{self}", prefix.0))
    }

    /// Parses an id of the instance with this prefix.
    pub(super) fn from_text(text: &[u8], prefix: Option<&SessionPrefix>) -> Option<Self> {
        let digits = match prefix {
            Some(prefix) => text.strip_prefix(prefix.0.as_bytes())?.strip_prefix(b".")?,
            None => text,
        };
        Self::parse(digits)
    }
}

/// Returns the text of the session id in the query of a 2024-11-05 client.
pub(super) fn session_of_query(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix(SESSION_QUERY))
}

/// The name of an instance, with which the ids of its sessions begin.
///
/// See [`HttpServerConfig::session_prefix`](super::HttpServerConfig::session_prefix).
///
/// ```
/// use mcp_proto::transport::http::server::{SessionPrefix, SessionPrefixError};
///
/// assert!(SessionPrefix::new("eu-1").is_ok());
/// assert_eq!(SessionPrefix::new("eu.1"), Err(SessionPrefixError));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub struct SessionPrefix(String);

impl SessionPrefix {
    /// Checks a name.
    ///
    /// # Errors
    /// If it is not 1 to 32 ASCII letters, digits, `-` and `_`: it is part of headers and of the URLs of 2024-11-05, and
    /// a balancer's rules quote it.
    pub fn new(name: impl Into<String>) -> Result<Self, SessionPrefixError> {
        let name = name.into();
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if (1..=32).contains(&name.len()) && name.bytes().all(is_allowed) {
            Ok(Self(name))
        } else {
            Err(SessionPrefixError)
        }
    }
}

/// The name of an instance is not 1 to 32 ASCII letters, digits, `-` and `_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPrefixError;

error_text! { SessionPrefixError => "a session prefix is 1 to 32 ASCII letters, digits, '-' and '_'" }

display_text! { SessionId(inner) => "{:032x}", u128::from_be_bytes(*inner) }

debug_fields! { SessionId(inner) => "session {:04x}…", u128::from_be_bytes(*inner) >> 112 }

/// The text before the session id in a query.
pub(super) const SESSION_QUERY: &str = "session=";
