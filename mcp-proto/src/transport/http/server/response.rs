//! HTTP responses: heads, whole answers and body chunks; and the output of an exchange, which becomes one.

use alloc::borrow::Cow;
use core::{fmt, mem};

use bytes::Bytes;

#[cfg(feature = "std")]
use crate::Instant;
use crate::codec::sse::write as sse;
use crate::peer::{Denial, MessageKind, Outbox};
use crate::prelude::*;
use crate::quota::{ByteAccount, BytePermit, BytePurpose, OverBudgetError};
use crate::redact::is_secret_header;
use crate::rpc::{EnvelopeKind, ErrorId, ErrorObject, Id, Malformed, code, write};
use crate::transport::http::header;

/// The headers of an HTTP response: names and values. Those of most responses are constants.
pub type ResponseHeaders = Cow<'static, [(&'static str, Cow<'static, str>)]>;

/// The headers of a JSON answer.
static JSON_HEADERS: [(&str, Cow<'static, str>); 1] = [("content-type", Cow::Borrowed(JSON))];

/// The headers of an event stream. Proxies must neither cache nor buffer the events.
static EVENT_HEADERS: [(&str, Cow<'static, str>); 3] = [
    ("content-type", Cow::Borrowed(EVENTS)),
    ("cache-control", Cow::Borrowed("no-store, no-transform")),
    //= F57 "The server disables the buffering of proxies"
    ("x-accel-buffering", Cow::Borrowed("no")),
];

/// Headers for `Debug` output, without secret values such as the session id.
struct RedactedHeaders<'a>(&'a ResponseHeaders);

impl fmt::Debug for RedactedHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): &'_ (&'static str, Cow<'static, str>)| {
            let hidden = is_secret_header(name);
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

debug_fields! { ResponseHead(self) { status = self.status, headers = RedactedHeaders(&self.headers), body = self.body } }

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

/// The response types that a client accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AcceptedTypes {
    #[default]
    Either,
    /// Only one JSON value: messages before the response are dropped.
    Json,
    /// Only event streams.
    Events,
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

debug_fields! { HttpResponse(self) {
    status = self.status,
    headers = RedactedHeaders(&self.headers),
    body_bytes = self.body.len(),
} }

pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";
/// The `Retry-After` of requests that the server cannot serve now, in seconds.
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
        Self { status, headers: Cow::Borrowed(&[]), body: Bytes::new() }
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

    /// Returns the refusal of a request by a server that drains or closes: another instance may serve it.
    #[cfg(feature = "std")]
    pub(crate) fn unavailable() -> Self {
        Self::empty(503).with_header("retry-after", RETRY_AFTER_SECS)
    }

    /// Returns the answer to a request that needs a driver which was never polled.
    #[cfg(feature = "std")]
    pub(crate) fn unpolled_driver() -> Self {
        let what = "nothing polls the server's `driver`, which runs legacy sessions and embedded WebSockets: spawn it on an executor";
        Self::refusal(503, ErrorId::Null, code::INTERNAL_ERROR, what)
    }

    /// Returns the answer to a request at which a layer panicked.
    #[cfg(feature = "std")]
    pub(crate) fn layer_panicked() -> Self {
        Self::refusal(500, ErrorId::Null, code::INTERNAL_ERROR, "the server failed")
    }

    /// Returns the answer to a request for which the byte budget has no room.
    pub(super) fn over_budget(id: ErrorId<'_>) -> Self {
        Self::error(503, id, &over_budget()).with_header("retry-after", RETRY_AFTER_SECS)
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
        Self { status, headers: Cow::Borrowed(&JSON_HEADERS), body }
    }

    pub(crate) fn refusal(status: u16, id: ErrorId<'_>, code: i64, message: impl Into<String>) -> Self {
        Self::error(status, id, &ErrorObject::new(code, message))
    }

    /// Returns the refusal of a request whose id is not known.
    pub(super) fn bad_request(what: impl Into<String>) -> Self {
        Self::refusal(400, ErrorId::Null, code::INVALID_REQUEST, what)
    }

    pub(super) fn error(status: u16, id: ErrorId<'_>, error: &ErrorObject) -> Self {
        let mut body = Vec::new();
        // The error's only data was encoded here.
        let _ = write::error(&mut body, id, error);
        Self::json(status, Bytes::from(body))
    }

    #[must_use]
    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.to_mut().push((name, value.into()));
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
    ResponseHead { status: 200, headers: Cow::Borrowed(&EVENT_HEADERS), body: BodyKind::Stream }
}

/// Returns the head of a JSON answer, with the status of `denial` if the request was denied, otherwise with `status`.
pub(super) fn json_head(status: u16, bytes: usize, denial: Option<&Denial>) -> ResponseHead {
    let mut headers = Cow::Borrowed(&JSON_HEADERS[..]);
    let status = match denial {
        Some(Denial::Challenge(challenge)) => {
            headers.to_mut().push((WWW_AUTHENTICATE, Cow::Owned(challenge.clone())));
            403
        }
        Some(Denial::Unavailable) => 503,
        None => status,
    };
    if status == 503 {
        headers.to_mut().push(("retry-after", Cow::Borrowed(RETRY_AFTER_SECS)));
    }
    ResponseHead { status, headers, body: BodyKind::Sized(bytes) }
}

/// Returns the header that carries the session id.
pub(super) fn session_header(id: String) -> (&'static str, Cow<'static, str>) {
    (header::SESSION_ID, Cow::Owned(id))
}

/// The body of a whole answer.
#[cfg(feature = "std")]
pub(crate) struct AnswerBody {
    pub(crate) bytes: Bytes,
    /// The time until which the client must take it, if it has one.
    pub(crate) deadline: Option<Instant>,
    /// The permit for its bytes, until they are written.
    _permit: Option<BytePermit>,
}

#[cfg(feature = "std")]
impl AnswerBody {
    /// Creates a body that must be taken by `deadline`, and charges it to `permit` until it is written.
    pub(super) fn new(bytes: Bytes, deadline: Option<Instant>, mut permit: Option<BytePermit>) -> Self {
        if let Some(permit) = &mut permit {
            permit.set(bytes.len());
        }
        Self { bytes, deadline, _permit: permit }
    }
}

#[cfg(feature = "std")]
impl From<Bytes> for AnswerBody {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, deadline: None, _permit: None }
    }
}

/// Collects the peer's output for one exchange.
///
/// The first output decides the form of the answer: the response makes it one JSON value with a status, any other
/// message an event stream with status 200.
#[derive(Debug)]
pub(super) struct ExchangeOutput {
    accepts: AcceptedTypes,
    pub(super) stage: Stage,
    form: ResponseForm,
    /// Complete messages, followed by the one being written.
    buffer: Vec<u8>,
    complete_bytes: usize,
    /// Whether the response was written; nothing follows it.
    has_replied: bool,
    /// Whether results are also sent in parts.
    pub(super) has_parts: bool,
    /// Why the request is denied, if it is.
    denial: Option<Box<Denial>>,
    /// The permit for the queued bytes and for the part taken last, which may still be unwritten.
    permit: Option<BytePermit>,
    taken_bytes: usize,
}

/// Which side handles the request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The peer, which checks whether to dispatch the request.
    Admission,
    /// The application.
    Handling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseForm {
    Undecided,
    Json { status: u16, bytes: usize },
    Events,
}

/// The initial capacity of the buffer in bytes, enough for small answers.
const INITIAL_CAPACITY: usize = 512;

/// The names of the events of a client that reads results in parts.
pub(super) const RESULT: &str = "result";
pub(super) const COMPLETE: &str = "complete";
pub(super) const ERROR: &str = "error";

/// Written before each message, so that the message need not be moved to become an event.
const EVENT_PREFIX: &[u8] = b"data: ";

impl ExchangeOutput {
    pub(super) fn new(accepts: AcceptedTypes, account: Option<&ByteAccount>) -> Self {
        Self {
            permit: account.map(ByteAccount::permit),
            taken_bytes: 0,
            accepts,
            stage: Stage::Admission,
            form: ResponseForm::Undecided,
            buffer: Vec::new(),
            complete_bytes: 0,
            has_replied: false,
            has_parts: false,
            denial: None,
        }
    }

    /// Returns whether the response was written or never will be.
    pub(super) fn is_over(&self) -> bool {
        self.has_replied
    }

    //= F56 "heartbeats as comments"
    /// Writes a comment. An answer whose form is undecided becomes an event stream.
    pub(super) fn keep_alive(&mut self) {
        if self.has_replied || self.accepts == AcceptedTypes::Json {
            return;
        }
        self.form = ResponseForm::Events;
        self.buffer.truncate(self.complete_bytes);
        sse::comment(&mut self.buffer);
        self.complete_bytes = self.buffer.len();
    }

    /// Ends the output. A request without an answer is answered with an error if the form of the answer is undecided.
    pub(super) fn end(&mut self) {
        if !self.has_replied {
            self.has_replied = true;
            if self.form == ResponseForm::Undecided {
                let error =
                    ErrorObject::new(code::INTERNAL_ERROR, "the server has ended before it could answer");
                // The error has no data that could fail to encode.
                let _ = write::error(self.buffer(), ErrorId::Absent, &error);
                self.complete_bytes = self.buffer.len();
                self.form = self.json_form(503);
            }
        }
    }

    //= S3.16 "nothing more sent"
    /// Discards all output after the client has disconnected.
    pub(super) fn clear(&mut self) {
        self.end();
        self.buffer = Vec::new();
        (self.complete_bytes, self.taken_bytes) = (0, 0);
    }

    //= S3.7 "Request → application/json or text/event-stream"
    pub(super) fn head(&self) -> Option<ResponseHead> {
        match self.form {
            ResponseForm::Undecided => None,
            ResponseForm::Json { status, bytes } => Some(json_head(status, bytes, self.denial.as_deref())),
            ResponseForm::Events => Some(stream_head()),
        }
    }

    pub(super) fn update_permit(&mut self) {
        if let Some(permit) = &mut self.permit {
            permit.set(self.buffer.len().saturating_add(self.taken_bytes));
        }
    }

    fn has_room(&self, usage: BytePurpose) -> bool {
        self.permit.as_ref().is_none_or(|permit| permit.account().has_room(usage))
    }

    pub(super) fn take(&mut self) -> Chunk {
        let chunk = self.next_chunk();
        self.taken_bytes = match &chunk {
            Chunk::Bytes(bytes) => bytes.len(),
            Chunk::Pending | Chunk::End => 0,
        };
        self.update_permit();
        chunk
    }

    /// Takes the body of a JSON answer, with the permit for its bytes. It must be written by `deadline`.
    #[cfg(feature = "std")]
    pub(super) fn take_body(&mut self, deadline: Option<Instant>) -> Option<AnswerBody> {
        if !matches!(self.form, ResponseForm::Json { .. }) {
            return None;
        }
        match self.next_chunk() {
            Chunk::Bytes(bytes) => Some(AnswerBody { bytes, deadline, _permit: self.permit.take() }),
            Chunk::Pending | Chunk::End => None,
        }
    }

    fn next_chunk(&mut self) -> Chunk {
        self.buffer.truncate(self.complete_bytes);
        if self.form == ResponseForm::Undecided {
            return Chunk::Pending;
        }
        let mut bytes = Bytes::from(mem::take(&mut self.buffer));
        self.complete_bytes = 0;
        if self.form != ResponseForm::Events {
            let _ = bytes.split_to(EVENT_PREFIX.len().min(bytes.len()));
        }
        match bytes.is_empty() {
            false => Chunk::Bytes(bytes),
            true if self.has_replied => Chunk::End,
            true => Chunk::Pending,
        }
    }

    /// Returns the JSON form of the buffered answer, with its length at this moment.
    fn json_form(&self, status: u16) -> ResponseForm {
        ResponseForm::Json { status, bytes: self.complete_bytes.saturating_sub(EVENT_PREFIX.len()) }
    }

    /// Gives the event that was appended last a name.
    fn name_event(&mut self, name: &str) {
        let start = self.complete_bytes.min(self.buffer.len());
        let event = self.buffer.split_off(start);
        sse::name(&mut self.buffer, name);
        self.buffer.extend_from_slice(&event);
    }

    //= F56 "`complete` and `error` end the request"
    /// Appends the answer under a name before itself, for clients that read results in parts.
    fn add_named_answer(&mut self, name: &str) {
        let start = self.complete_bytes.min(self.buffer.len());
        let answer = self.buffer.get(start..).unwrap_or_default().to_vec();
        self.name_event(name);
        self.commit_event();
        self.buffer.extend_from_slice(&answer);
    }

    fn commit_event(&mut self) {
        self.form = ResponseForm::Events;
        self.buffer.extend_from_slice(b"\n\n");
        self.complete_bytes = self.buffer.len();
    }

    //= S3.13 "then the response, then ends (SHOULD)"
    fn commit_reply(&mut self, status: u16, name: &str) {
        if self.has_replied {
            return;
        }
        self.has_replied = true;
        let is_plain = status == 200 && self.denial.is_none();
        if self.form == ResponseForm::Undecided && (self.accepts != AcceptedTypes::Events || !is_plain) {
            self.complete_bytes = self.buffer.len();
            self.form = self.json_form(status);
        } else {
            if self.has_parts {
                self.add_named_answer(name);
            }
            self.commit_event();
        }
    }
}

impl Outbox for ExchangeOutput {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer.truncate(self.complete_bytes);
        if self.buffer.capacity() == 0 {
            self.buffer.reserve(INITIAL_CAPACITY);
        }
        self.buffer.extend_from_slice(EVENT_PREFIX);
        &mut self.buffer
    }

    fn commit(&mut self, about: MessageKind<'_>) {
        match about {
            MessageKind::Reply(id) => {
                let bytes = self.buffer.len().saturating_sub(self.complete_bytes);
                if bytes <= UNBUDGETED_BYTES || self.has_replied || self.has_room(BytePurpose::Answer) {
                    self.commit_reply(200, COMPLETE);
                    return shrink(&mut self.buffer);
                }
                let id = id.map_or(ErrorId::Null, ErrorId::Known);
                // The error has no data that could fail to encode.
                let _ = write::error(self.buffer(), id, &over_budget());
                self.buffer.shrink_to_fit();
                self.commit_reply(503, ERROR);
            }
            // The client does not read what follows the response, such as the cancellation of a subscription that has
            // ended.
            //= R11 "its result ends the stream; no `notifications/cancelled` follows it"
            MessageKind::Notification { .. } if !self.has_replied && self.accepts != AcceptedTypes::Json => {
                self.commit_event()
            }
            MessageKind::PartialResult(_) if !self.has_replied => {
                self.name_event(RESULT);
                self.commit_event();
            }
            //= S1.9 "Never send JSON-RPC requests"
            MessageKind::Notification { .. }
            | MessageKind::Request { .. }
            | MessageKind::PartialResult(_) => {}
        }
    }

    fn commit_error(&mut self, _: Option<&Id>, error: i64) {
        //= S1.5 "HTTP 400"
        //= S1.6 "HTTP 400"
        //= S3.12 "Unsupported version → 400 + -32022"
        let status = match (error, self.stage) {
            (
                code::HEADER_MISMATCH
                | code::MISSING_REQUIRED_CLIENT_CAPABILITY
                | code::UNSUPPORTED_PROTOCOL_VERSION,
                _,
            ) => 400,
            (_, Stage::Handling) => 200,
            //= S3.11 "Unknown method → 404 + -32601"
            (code::METHOD_NOT_FOUND, Stage::Admission) => 404,
            (code::INTERNAL_ERROR, Stage::Admission) => 503,
            //= S1.4 "HTTP 400"
            (_, Stage::Admission) => 400,
        };
        self.commit_reply(status, ERROR);
    }

    fn takes_parts(&self, _: &Id) -> bool {
        self.has_parts && self.accepts != AcceptedTypes::Json && !self.has_replied
    }

    fn queued(&self) -> usize {
        self.complete_bytes
    }

    fn is_full(&self, limit: usize) -> bool {
        self.queued() > limit || !self.has_room(BytePurpose::Request)
    }

    /// A modern server sends no requests, so none can be cancelled.
    fn cancel(&mut self, _: i64, _: Option<&str>) {}

    fn deny(&mut self, denial: Option<&Denial>) {
        if !self.has_replied {
            self.denial = denial.cloned().map(Box::new);
        }
    }
}
