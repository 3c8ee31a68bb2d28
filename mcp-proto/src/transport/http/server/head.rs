//! The head of a request, and the part of it that decides where its body goes.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::peer::Principal;
use crate::quota::QuotaOwner;
use crate::rpc::{ErrorId, code};
use crate::schema::{Era, Revision};
use crate::transport::http::{Fields, HeaderValues, header, read_headers};

use super::SessionId;
use super::response::HttpResponse;

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
        SingleHeader::read_version(&version).version().error_id()
    }
}

/// The part of the head that is needed once the body is complete.
#[derive(Debug)]
pub(super) struct RetainedHead {
    pub(super) accepts: AcceptedTypes,
    pub(super) version: SingleHeader,
    pub(super) method: SingleHeader,
    pub(super) name: SingleHeader,
    /// The session id header: `None` without one, `Some(None)` if the id is invalid.
    pub(super) session: Option<Option<SessionId>>,
    /// Headers that mirror tool parameters.
    pub(super) params: Vec<(String, Vec<u8>)>,
}

/// The response types that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcceptedTypes {
    Either,
    /// Only one JSON value: messages before the response are dropped.
    Json,
    /// Only event streams.
    Events,
}

/// A header that allows a single value.
#[derive(Debug)]
pub(super) enum SingleHeader {
    Absent,
    /// The value; static if it is one that the protocol defines.
    Value(Cow<'static, [u8]>),
    /// The header occurs with different values, so none of them counts.
    Conflicting,
}

/// The revision in the `mcp-protocol-version` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionHeader {
    Absent,
    Known(Revision),
    Unknown,
}

impl SingleHeader {
    /// Reads the only value; `known` finds it among those that the protocol defines.
    pub(super) fn read(values: &HeaderValues<'_>, known: fn(&[u8]) -> Option<&'static str>) -> Self {
        let mut values = values.iter().map(<[u8]>::trim_ascii);
        let Some(first) = values.next() else { return Self::Absent };
        if values.any(|value| value != first) {
            return Self::Conflicting;
        }
        Self::Value(known(first).map_or_else(|| Cow::Owned(first.to_vec()), |known| known.as_bytes().into()))
    }

    /// Reads the `mcp-protocol-version` header.
    pub(super) fn read_version(values: &HeaderValues<'_>) -> Self {
        Self::read(values, |value| Some(Revision::parse(core::str::from_utf8(value).ok()?)?.as_str()))
    }

    /// Parses the value as a protocol revision.
    pub(super) fn version(&self) -> VersionHeader {
        match self {
            Self::Absent => VersionHeader::Absent,
            Self::Conflicting => VersionHeader::Unknown,
            Self::Value(value) => {
                let revision = core::str::from_utf8(value).ok().and_then(Revision::parse);
                revision.map_or(VersionHeader::Unknown, VersionHeader::Known)
            }
        }
    }
}

impl VersionHeader {
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

impl RetainedHead {
    /// Returns the session that the request names.
    pub(super) fn session(&self) -> Result<SessionId, HttpResponse> {
        let version = self.version.version();
        let refuse = |what| Err(HttpResponse::refusal(400, version.error_id(), code::INVALID_REQUEST, what));
        match (version, self.session) {
            (VersionHeader::Unknown, _) => {
                refuse("mcp-protocol-version names no revision that is spoken here")
            }
            (_, Some(Some(id))) => Ok(id),
            (_, Some(None)) => Err(HttpResponse::unknown_session(None)),
            (_, None) => refuse("mcp-session-id is missing"),
        }
    }
}
