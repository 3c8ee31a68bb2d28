//! What goes back: heads and whole answers.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::peer::Denial;
use crate::rpc::{ErrorId, ErrorObject, Id, Kind, Malformed, code, write};
use crate::transport::http::header;

use crate::quota::OverBudgetError;

use super::Post;

/// The headers of an answer.
pub type ResponseHeaders = Vec<(&'static str, Cow<'static, str>)>;

/// Headers as they are shown: the id of a session is a secret.
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

/// The head of an answer. [`Debug`](fmt::Debug) does not show the id of a session.
#[derive(Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status.
    pub status: u16,
    /// The headers but for those that say how long the body is.
    pub headers: ResponseHeaders,
    /// What body follows.
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

/// What body an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// None.
    Empty,
    /// One of so many bytes.
    Sized(usize),
    /// One whose length is not known, to be passed on as it comes.
    Stream,
}

/// The next part of a body. [`Debug`](fmt::Debug) shows its length alone: it may name a session.
#[derive(Clone, PartialEq, Eq)]
pub enum Chunk {
    /// These bytes, never none.
    Bytes(Bytes),
    /// Nothing yet.
    Pending,
    /// Nothing more.
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

/// A whole answer. [`Debug`](fmt::Debug) shows neither the id of a session nor the body.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The headers but for the length of the body.
    pub headers: ResponseHeaders,
    /// The body, perhaps none.
    pub body: Bytes,
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("headers", &RedactedHeaders(&self.headers))
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";
/// How long clients are asked to wait before they ask again for what was refused for want of room, in seconds.
pub(crate) const RETRY_AFTER_SECS: &str = "5";
/// The header that says what a client is to show.
pub(crate) const WWW_AUTHENTICATE: &str = "www-authenticate";

/// Answers up to this many bytes are sent even if the byte budget is used up.
pub(super) const UNBUDGETED_BYTES: usize = 1024;

/// The error of a request that the byte budget has no room for.
pub(super) fn over_budget() -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, format!("{OverBudgetError}"))
}

impl HttpResponse {
    /// One without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// The answer to what was asked in a session that there is none of, or none any more: the client opens a new one.
    #[must_use]
    pub fn unknown_session(post: Option<&Post>) -> Self {
        let id = post.and_then(Post::request_id);
        Self::refusal(404, error_id(id), code::INVALID_REQUEST, "there is no session of this id")
    }

    /// The answer to a client that asks for a session when there are too many, or when the server is closing.
    #[must_use]
    pub fn too_many_sessions(post: Option<&Post>) -> Self {
        let id = post.and_then(Post::request_id);
        Self::refusal(503, error_id(id), code::INTERNAL_ERROR, "no more sessions can be opened")
            .with_header("retry-after", RETRY_AFTER_SECS)
    }

    /// The answer to a request for which the byte budget has no room.
    pub(super) fn over_budget(id: ErrorId<'_>) -> Self {
        Self::error(503, id, &over_budget()).with_header("retry-after", RETRY_AFTER_SECS)
    }

    /// The answer to what is no message. `unnamed` is the id of an error whose request could not be read.
    pub(super) fn malformed(malformed: &Malformed, unnamed: ErrorId<'_>) -> Self {
        let id = malformed.recovered.id.as_ref().filter(|_| malformed.recovered.kind != Some(Kind::Response));
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
        // It has no data but what was encoded here.
        let _ = write::error(&mut body, id, error);
        Self::json(status, Bytes::from(body))
    }

    #[must_use]
    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The head of it.
    #[must_use]
    pub fn head(&self) -> ResponseHead {
        let body = if self.body.is_empty() { BodyKind::Empty } else { BodyKind::Sized(self.body.len()) };
        ResponseHead { status: self.status, headers: self.headers.clone(), body }
    }
}

fn error_id(id: Option<&Id>) -> ErrorId<'_> {
    id.map_or(ErrorId::Null, ErrorId::Known)
}

/// Shrinks the buffer of a complete message if much of it is unused: the message may wait for long.
pub(super) fn shrink(message: &mut Vec<u8>) {
    const SLACK: usize = 4096;
    let most = message.len().saturating_add(message.len() / 4).saturating_add(SLACK);
    if message.capacity() > most {
        message.shrink_to_fit();
    }
}

/// The head of a stream of events.
pub(super) fn stream_head() -> ResponseHead {
    let headers = [
        ("content-type", Cow::Borrowed(EVENTS)),
        // Neither kept nor gathered on its way: events are for now.
        ("cache-control", Cow::Borrowed("no-store, no-transform")),
        ("x-accel-buffering", Cow::Borrowed("no")),
    ];
    ResponseHead { status: 200, headers: headers.to_vec(), body: BodyKind::Stream }
}

/// The head of one value: of a request that is denied, if it is for this reason; of one with this status otherwise.
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

/// The header that names a session.
pub(super) fn session_header(id: super::SessionId) -> (&'static str, Cow<'static, str>) {
    (header::SESSION_ID, Cow::Owned(id.to_hex()))
}
