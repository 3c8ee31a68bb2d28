//! The part of a request's head that decides where its body goes.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::rpc::{ErrorId, code};
use crate::schema::{Era, MethodInfo, Revision};
use crate::transport::http::{Fields, header};

use super::SessionId;
use super::response::HttpResponse;

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
    /// Reads the header `name`; `known` finds a value among those that the protocol defines.
    fn read(fields: &dyn Fields, name: &str, known: fn(&str) -> Option<&'static str>) -> Self {
        let mut read = Self::Absent;
        fields.each(name, &mut |value| {
            let value = value.trim_ascii();
            match &read {
                Self::Absent => {
                    let known = core::str::from_utf8(value).ok().and_then(known);
                    read = Self::Value(
                        known.map_or_else(|| Cow::Owned(value.to_vec()), |known| known.as_bytes().into()),
                    );
                }
                Self::Value(first) if **first == *value => {}
                Self::Value(_) | Self::Conflicting => read = Self::Conflicting,
            }
        });
        read
    }

    /// Reads the `mcp-protocol-version` header.
    pub(super) fn read_version(fields: &dyn Fields) -> Self {
        Self::read(fields, header::PROTOCOL_VERSION, |value| Some(Revision::parse(value)?.as_str()))
    }

    /// Reads the `mcp-method` header.
    pub(super) fn read_method(fields: &dyn Fields) -> Self {
        let known = |value: &str| Some(MethodInfo::all().find(|info| info.name == value)?.name);
        Self::read(fields, header::METHOD, known)
    }

    /// Reads the `mcp-name` header.
    pub(super) fn read_name(fields: &dyn Fields) -> Self {
        Self::read(fields, header::NAME, |_| None)
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

/// Returns the id of an error that answers a request whose body was not read.
pub(crate) fn unknown_request_id(fields: &dyn Fields) -> ErrorId<'static> {
    SingleHeader::read_version(fields).version().error_id()
}
