//! Builds the headers of outgoing requests.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata>

use alloc::borrow::Cow;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::codec::header::encode;
use crate::peer::RequestError;
use crate::schema::{Era, Revision};
use crate::transport::http::header;
use crate::transport::http::param_headers::ParamHeaders;

use super::encoded_request::EncodedRequest;

/// Names and values; those that are the same in every request are static.
pub(super) type RequestHeaders = Vec<(Cow<'static, str>, Cow<'static, str>)>;

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
            //= C4.5 "Header `MCP-Protocol-Version` (negotiated) on every request after initialize"
            headers.push((header::PROTOCOL_VERSION.into(), revision.as_str().into()));
        }
        if let Some(session) = self.session {
            //= C4.18 "send it on all later requests"
            headers.push((header::SESSION_ID.into(), session.to_string().into()));
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
        //= C4.21 "GET stream: `Accept: text/event-stream`"
        let mut headers = Vec::from([("accept".into(), EVENTS.into())]);
        self.append(&mut headers);
        if let Some(last_event) = last_event {
            headers.push((header::LAST_EVENT_ID.into(), last_event.to_string().into()));
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
    headers.push(("content-type".into(), JSON.into()));
    //= C4.2 "`Accept: application/json, text/event-stream`"
    headers.push(("accept".into(), JSON_OR_EVENTS.into()));
    headers
}

/// Returns the headers of a modern message, without those that repeat its parameters.
pub(super) fn modern_headers(method: Cow<'static, str>, revision: Revision) -> RequestHeaders {
    let mut headers = sessionless_headers();
    //= C4.4 "Header `MCP-Protocol-Version` = `_meta` version on every POST"
    headers.push((header::PROTOCOL_VERSION.into(), revision.as_str().into()));
    //= C4.6 "Header `Mcp-Method` on every message"
    let method = match encode(&method) {
        Cow::Borrowed(_) => method,
        Cow::Owned(encoded) => encoded.into(),
    };
    headers.push((header::METHOD.into(), method));
    headers
}

/// Returns the headers of a modern request; `params` are the mirrored parameters of the tool that it calls.
pub(super) fn modern_request_headers(
    method: Cow<'static, str>,
    revision: Revision,
    request: &EncodedRequest,
    params: Option<&ParamHeaders>,
) -> Result<RequestHeaders, RequestError> {
    let mut headers = modern_headers(method, revision);
    if let Some(subject) = request.subject() {
        //= C4.7 "Header `Mcp-Name` for tools/call + prompts/get (`params.name`), resources/read (`params.uri`)"
        //= C14.2 "Header `Mcp-Name` = taskId on tasks/get, update, cancel"
        headers.push((header::NAME.into(), encode(&subject).into_owned().into()));
    }
    if let Some(params) = params {
        //= C4.9 "tools/call: mirror each `x-mcp-header` property into `Mcp-Param-{Name}`"
        let mirrored = params.values(request.arguments().as_ref());
        let mirrored = mirrored.map_err(|error| RequestError::Encode(error.to_string()))?;
        headers.extend(mirrored.into_iter().map(|(name, value)| (name.into(), value.into())));
    }
    Ok(headers)
}

/// Returns the length of the longest header, in bytes.
pub(super) fn longest_header(headers: &RequestHeaders) -> usize {
    headers.iter().map(|(name, value)| name.len().saturating_add(value.len())).max().unwrap_or(0)
}

/// Returns whether messages of this revision carry the modern headers.
pub(super) fn is_modern(revision: Revision) -> bool {
    revision.era() == Era::Modern
}
