//! Builds the headers of outgoing requests.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata>

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::codec::header::encode;
use crate::peer::RequestError;
use crate::rpc::{Id, Raw, write};
use crate::schema::{CallTool, Direction, Era, Method, MethodInfo, Revision};
use crate::transport::http::header;
use crate::transport::http::param_headers::ParamHeaders;

pub(super) type RequestHeaders = Vec<(Cow<'static, str>, String)>;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const JSON_OR_EVENTS: &str = "application/json, text/event-stream";

/// The headers that every request of a legacy session carries.
pub(super) struct SessionHeaders<'a> {
    pub(super) session: Option<&'a str>,
    /// The negotiated version.
    pub(super) revision: Option<Revision>,
}

impl SessionHeaders<'_> {
    /// Appends the session's headers:
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header>
    fn append(&self, headers: &mut RequestHeaders) {
        if let Some(revision) = self.revision.filter(|&revision| revision >= Revision::V2025_06_18) {
            headers.push((header::PROTOCOL_VERSION.into(), revision.as_str().to_string()));
        }
        if let Some(session) = self.session {
            headers.push((header::SESSION_ID.into(), session.to_string()));
        }
    }

    /// Returns the headers of a POST.
    pub(super) fn post(&self) -> RequestHeaders {
        let mut headers = sessionless_headers();
        self.append(&mut headers);
        headers
    }

    /// Returns the headers of a GET for an event stream.
    pub(super) fn get(&self, last_event: Option<&str>) -> RequestHeaders {
        let mut headers = Vec::from([("accept".into(), EVENTS.to_string())]);
        self.append(&mut headers);
        if let Some(last_event) = last_event {
            headers.push((header::LAST_EVENT_ID.into(), last_event.to_string()));
        }
        headers
    }

    /// Returns the headers of the DELETE that ends the session.
    pub(super) fn delete(&self) -> RequestHeaders {
        let mut headers = Vec::new();
        self.append(&mut headers);
        headers
    }
}

/// Returns the headers of a message outside any session.
pub(super) fn sessionless_headers() -> RequestHeaders {
    /// The number of headers of a modern request with a few mirrored parameters.
    const TYPICAL_COUNT: usize = 8;
    let mut headers = Vec::with_capacity(TYPICAL_COUNT);
    headers.push(("content-type".into(), JSON.to_string()));
    headers.push(("accept".into(), JSON_OR_EVENTS.to_string()));
    headers
}

/// Returns the headers of a modern message.
pub(super) fn modern_headers(
    method: &str,
    revision: Revision,
    body: &Bytes,
    params: Option<&ParamHeaders>,
) -> Result<RequestHeaders, RequestError> {
    let mut headers = sessionless_headers();
    headers.push((header::PROTOCOL_VERSION.into(), revision.as_str().to_string()));
    headers.push((header::METHOD.into(), encode(method).into_owned()));
    let info = MethodInfo::find(method, Direction::ClientToServer, revision);
    let Some(subject) = info.and_then(|info| info.subject) else { return Ok(headers) };
    let Some(fields) = RequestSubject::read(body) else { return Ok(headers) };
    if let Some(name) = fields.text_member(subject) {
        headers.push((header::NAME.into(), encode(&name).into_owned()));
    }
    if method == CallTool::NAME
        && let Some(params) = params
    {
        let arguments =
            fields.arguments.map(|arguments| Raw::from_scan(body.slice_ref(arguments.get().as_bytes())));
        let mirrored = params.values(arguments.as_ref());
        let mirrored = mirrored.map_err(|error| RequestError::Encode(error.to_string()))?;
        headers.extend(mirrored.into_iter().map(|(name, value)| (Cow::Owned(name), value)));
    }
    Ok(headers)
}

/// Returns the length of the longest header, in bytes.
pub(super) fn longest_header(headers: &RequestHeaders) -> usize {
    headers.iter().map(|(name, value)| name.len().saturating_add(value.len())).max().unwrap_or(0)
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// The parameters that name the subject of a request.
#[derive(Deserialize)]
struct RequestSubject<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, rename = "taskId")]
    task_id: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl<'a> RequestSubject<'a> {
    fn read(body: &'a [u8]) -> Option<Self> {
        let envelope: Envelope<'a> = serde_json::from_slice(body).ok()?;
        serde_json::from_str(envelope.params?.get()).ok()
    }

    fn text_member(&self, field: &str) -> Option<Cow<'a, str>> {
        #[derive(Deserialize)]
        struct Text<'b>(#[serde(borrow)] Cow<'b, str>);
        let raw = match field {
            "name" => self.name,
            "uri" => self.uri,
            "taskId" => self.task_id,
            _ => None,
        };
        serde_json::from_str::<Text<'a>>(raw?.get()).ok().map(|text| text.0)
    }
}

/// Returns the tool named by a call.
pub(super) fn tool_name(body: &[u8]) -> Option<Cow<'_, str>> {
    RequestSubject::read(body)?.text_member("name")
}

/// Copies a request with another id.
pub(super) fn with_request_id(body: &Bytes, method: &str, wire: i64) -> Option<Bytes> {
    let envelope: Envelope<'_> = serde_json::from_slice(body).ok()?;
    let mut out = Vec::with_capacity(body.len().saturating_add(20));
    write::request(&mut out, &Id::Number(wire), method, |out| {
        if let Some(params) = envelope.params {
            out.extend_from_slice(params.get().as_bytes());
        }
        Ok(())
    })
    .ok()?;
    Some(Bytes::from(out))
}

/// Returns whether messages of this revision carry the modern headers.
pub(super) fn is_modern(revision: Revision) -> bool {
    revision.era() == Era::Modern
}
