//! HTTP responses: heads, whole answers and body chunks.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;

use crate::peer::Denial;
use crate::rpc::{EnvelopeKind, ErrorId, ErrorObject, Id, Malformed, code, write};
use crate::transport::http::header;

use super::head::RequestHead;
use crate::quota::OverBudgetError;

/// The headers of an HTTP response.
pub type ResponseHeaders = Vec<(&'static str, Cow<'static, str>)>;

/// Headers for `Debug` output, without the session id, which is a secret.
struct RedactedHeaders<'a>(&'a ResponseHeaders);

impl fmt::Debug for RedactedHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): &'_ (&'static str, Cow<'static, str>)| {
            let hidden = name.eq_ignore_ascii_case(header::SESSION_ID);
            (*name, if hidden { Cow::Borrowed("…") } else { value.clone() })
        };
        f.debug_map().entries(self.0.iter().map(shown)).finish()
    }
}

/// The head of an HTTP response. [`Debug`](fmt::Debug) omits the session id.
#[derive(Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// The HTTP status.
    pub status: u16,
    /// The headers, except those for the length of the body.
    pub headers: ResponseHeaders,
    /// The kind of body that follows.
    pub body: BodyKind,
}

impl fmt::Debug for ResponseHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseHead")
            .field("status", &self.status)
            .field("headers", &RedactedHeaders(&self.headers))
            .field("body", &self.body)
            .finish()
    }
}

/// The kind of body that an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// No body.
    Empty,
    /// A body of this many bytes.
    Sized(usize),
    /// A body of unknown length, to be forwarded as it is produced.
    Stream,
}

/// The next part of a body. [`Debug`](fmt::Debug) shows only its length: the bytes may contain a session id.
#[derive(Clone, PartialEq, Eq)]
pub enum Chunk {
    /// These bytes; never empty.
    Bytes(Bytes),
    /// No bytes yet.
    Pending,
    /// The end of the body.
    End,
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Self::Pending => f.write_str("Pending"),
            Self::End => f.write_str("End"),
        }
    }
}

/// A whole HTTP response. [`Debug`](fmt::Debug) shows neither the session id nor the body.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers, except those for the length of the body.
    pub headers: ResponseHeaders,
    /// The body; may be empty.
    pub body: Bytes,
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse")
            .field("status", &self.status)
            .field("headers", &RedactedHeaders(&self.headers))
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";
/// The `Retry-After` of requests refused for lack of room, in seconds.
pub(crate) const RETRY_AFTER_SECS: &str = "5";
/// The header that carries an authentication challenge.
pub(crate) const WWW_AUTHENTICATE: &str = "www-authenticate";

/// Answers up to this many bytes are sent even if the byte budget is used up.
pub(super) const UNBUDGETED_BYTES: usize = 1024;

/// Returns the error for a request for which the byte budget has no room.
pub(super) fn over_budget() -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, format!("{OverBudgetError}"))
}

impl HttpResponse {
    /// Creates a response without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// Returns the answer to a request in a session that does not exist or has ended: the client opens a new one.
    #[must_use]
    pub fn unknown_session(request: Option<&Id>) -> Self {
        Self::refusal(404, error_id(request), code::INVALID_REQUEST, "there is no session of this id")
    }

    /// Returns the refusal of a new session, because there are too many or the server is closing.
    #[must_use]
    pub fn too_many_sessions(request: Option<&Id>) -> Self {
        Self::refusal(503, error_id(request), code::INTERNAL_ERROR, "no more sessions can be opened")
            .with_header("retry-after", RETRY_AFTER_SECS)
    }

    /// Returns the answer to a request that needs a driver which was never polled.
    #[cfg(feature = "std")]
    pub(crate) fn unpolled_driver() -> Self {
        let what = "nothing polls the server's `driver`, which runs legacy sessions and embedded WebSockets: spawn it on an executor";
        Self::refusal(503, ErrorId::Null, code::INTERNAL_ERROR, what)
    }

    /// Returns the answer to a request for which the byte budget has no room.
    pub(super) fn over_budget(id: ErrorId<'_>) -> Self {
        Self::error(503, id, &over_budget()).with_header("retry-after", RETRY_AFTER_SECS)
    }

    /// Returns the refusal of a request, before its body is read, whose owner exceeds its rate. There is room again after
    /// `wait`, which `Retry-After` repeats in seconds.
    pub fn too_many_requests(head: &RequestHead<'_>, wait: Duration) -> Self {
        let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1);
        let what = format!("too many requests: try again in {seconds} s");
        Self::refusal(429, head.error_id(), code::INTERNAL_ERROR, what)
            .with_header("retry-after", format!("{seconds}"))
    }

    /// Returns the answer to a malformed message. `unnamed` is the id of an error whose request could not be read.
    pub(super) fn malformed(malformed: &Malformed, unnamed: ErrorId<'_>) -> Self {
        let id = malformed
            .recovered
            .id
            .as_ref()
            .filter(|_| malformed.recovered.kind != Some(EnvelopeKind::Response));
        Self::refusal(400, id.map_or(unnamed, ErrorId::Known), malformed.code(), format!("{malformed}"))
    }

    pub(crate) fn json(status: u16, body: Bytes) -> Self {
        Self { status, headers: [("content-type", Cow::Borrowed(JSON))].to_vec(), body }
    }

    pub(crate) fn refusal(status: u16, id: ErrorId<'_>, code: i64, message: impl Into<String>) -> Self {
        Self::error(status, id, &ErrorObject::new(code, message))
    }

    pub(super) fn error(status: u16, id: ErrorId<'_>, error: &ErrorObject) -> Self {
        let mut body = Vec::new();
        // The error's only data was encoded here.
        let _ = write::error(&mut body, id, error);
        Self::json(status, Bytes::from(body))
    }

    #[must_use]
    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Returns the head of the response.
    #[must_use]
    pub fn head(&self) -> ResponseHead {
        let body = if self.body.is_empty() { BodyKind::Empty } else { BodyKind::Sized(self.body.len()) };
        ResponseHead { status: self.status, headers: self.headers.clone(), body }
    }
}

fn error_id(id: Option<&Id>) -> ErrorId<'_> {
    id.map_or(ErrorId::Null, ErrorId::Known)
}

/// Shrinks the buffer of a complete message if much of it is unused: the message may be queued for long.
pub(super) fn shrink(message: &mut Vec<u8>) {
    const SLACK: usize = 4096;
    let most = message.len().saturating_add(message.len() / 4).saturating_add(SLACK);
    if message.capacity() > most {
        message.shrink_to_fit();
    }
}

/// Returns the head of an event stream.
pub(super) fn stream_head() -> ResponseHead {
    let headers = [
        ("content-type", Cow::Borrowed(EVENTS)),
        // Proxies must neither cache nor buffer the events.
        ("cache-control", Cow::Borrowed("no-store, no-transform")),
        ("x-accel-buffering", Cow::Borrowed("no")),
    ];
    ResponseHead { status: 200, headers: headers.to_vec(), body: BodyKind::Stream }
}

/// Returns the head of a JSON answer, with the status of `denial` if the request was denied, otherwise with `status`.
pub(super) fn json_head(status: u16, bytes: usize, denial: Option<&Denial>) -> ResponseHead {
    let mut headers = [("content-type", Cow::Borrowed(JSON))].to_vec();
    let status = match denial {
        Some(Denial::Challenge(challenge)) => {
            headers.push((WWW_AUTHENTICATE, Cow::Owned(challenge.clone())));
            403
        }
        Some(Denial::NoRoom) => 503,
        None => status,
    };
    if status == 503 {
        headers.push(("retry-after", Cow::Borrowed(RETRY_AFTER_SECS)));
    }
    ResponseHead { status, headers, body: BodyKind::Sized(bytes) }
}

/// Returns the header that carries the session id.
pub(super) fn session_header(id: super::SessionId) -> (&'static str, Cow<'static, str>) {
    (header::SESSION_ID, Cow::Owned(id.to_hex()))
}
