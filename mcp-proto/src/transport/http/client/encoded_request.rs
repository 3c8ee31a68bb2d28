//! Outgoing requests: as the peer encoded them, and their headers.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata>

use alloc::borrow::Cow;

use memchr::memchr2;

use crate::codec::header::encode;
use crate::peer::{EncodedRequest, RequestError};
use crate::prelude::*;
use crate::rpc::{Id, Raw, Text, first_member, unescape, write};
use crate::schema::{Era, Revision};
use crate::transport::http::header;
use crate::transport::http::param_headers::ParamHeaders;

impl EncodedRequest {
    fn params(&self) -> &[u8] {
        self.body.get(self.params.clone()).unwrap_or_default()
    }

    fn member(&self, name: &str) -> Option<&str> {
        first_member(core::str::from_utf8(self.params()).ok()?, name).ok()?
    }

    /// Returns the subject of the request: a name, a URI or a task id. `None` if its method has none.
    pub(super) fn subject(&self) -> Option<Text> {
        let name = self.subject.as_deref()?;
        self.leading_subject(name).or_else(|| Some(unescape(self.member(name)?)?.into_owned().into()))
    }

    /// Returns the subject where the parameters begin with it, and it has no escapes: the parameters of this crate.
    fn leading_subject(&self, name: &str) -> Option<Text> {
        let rest =
            self.params().strip_prefix(b"{\"")?.strip_prefix(name.as_bytes())?.strip_prefix(b"\":\"")?;
        let (value, end) = rest.split_at_checked(memchr2(b'"', b'\\', rest)?)?;
        if end.first() == Some(&b'"') { Text::try_from(self.body.slice_ref(value)).ok() } else { None }
    }

    /// Returns the arguments.
    fn arguments(&self) -> Option<Raw> {
        let arguments = self.body.slice_ref(self.member("arguments")?.as_bytes());
        Some(Raw::from_scan(Text::try_from(arguments).ok()?))
    }

    /// Copies the request with another id.
    pub(super) fn with_id(&self, id: i64, method: &str) -> Option<Self> {
        let mut body = Vec::with_capacity(self.body.len().saturating_add(20));
        let params = write::request(&mut body, &Id::Number(id), method, |out| {
            out.extend_from_slice(self.params());
            Ok(())
        });
        Some(Self { body: body.into(), params: params.ok()?, subject: self.subject.clone() })
    }
}

/// Names and values. Those that are the same in every request are static.
pub(super) type RequestHeaders = Vec<(Cow<'static, str>, Text)>;

const JSON: &str = "application/json";
const JSON_OR_EVENTS: &str = "application/json, text/event-stream";

/// Returns the headers of a message outside any session.
pub(super) fn sessionless_headers() -> RequestHeaders {
    /// The number of headers of a modern request with a few mirrored parameters.
    const TYPICAL_COUNT: usize = 8;
    let mut headers = Vec::with_capacity(TYPICAL_COUNT);
    headers.push(("content-type".into(), Text::from_static(JSON)));
    //= F38 "a POST of JSON that accepts JSON and event streams"
    //= C4.2 "`Accept: application/json, text/event-stream`"
    headers.push(("accept".into(), Text::from_static(JSON_OR_EVENTS)));
    headers
}

/// Returns the headers of a modern message, without those that repeat its parameters.
pub(super) fn modern_headers(method: Cow<'static, str>, revision: Revision) -> RequestHeaders {
    let mut headers = sessionless_headers();
    //= C4.4 "Header `MCP-Protocol-Version` = `_meta` version on every POST"
    headers.push((header::PROTOCOL_VERSION.into(), Text::from_static(revision.as_str())));
    //= C4.6 "Header `Mcp-Method` on every message"
    let method = match method {
        Cow::Owned(name) => encode_text(name.into()),
        // The protocol's names need no encoding.
        Cow::Borrowed(known) => Text::from_static(known),
    };
    headers.push((header::METHOD.into(), method));
    headers
}

/// Encodes the value of a header; one that a header can carry is not copied.
fn encode_text(value: Text) -> Text {
    let encoded = match encode(&value) {
        Cow::Borrowed(_) => None,
        Cow::Owned(encoded) => Some(encoded.into()),
    };
    encoded.unwrap_or(value)
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
        headers.push((header::NAME.into(), encode_text(subject)));
    }
    if let Some(params) = params {
        //= C4.9 "tools/call: mirror each `x-mcp-header` property into `Mcp-Param-{Name}`"
        let mirrored = params.values(request.arguments().as_ref());
        let mirrored = mirrored.map_err(|error| RequestError::Encode(error.to_string()))?;
        headers.extend(mirrored.into_iter().map(|(name, value)| (name.into(), value.into())));
    }
    Ok(headers)
}

/// Returns whether messages of this revision carry the modern headers.
pub(super) fn is_modern(revision: Revision) -> bool {
    revision.era() == Era::Modern
}
