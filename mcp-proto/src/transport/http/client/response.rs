//! Responses to the client: buffered bodies, event streams, and the outcome of an exchange.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use bytes::Bytes;

use crate::codec::{BYTE_ORDER_MARK, Sse, SseItem};
use crate::peer::{InvalidAnswerError, Leniency, Strictness, TransportError};
use crate::rpc::{self, ErrorObject, Frame, Message, Raw};
use crate::transport::http::SentState;

use super::head::{AnswerHead, BodyType};

/// How much is read of a body that cannot be a message, in bytes. Its beginning is quoted in errors.
const NON_MESSAGE_BYTES: usize = 64 * 1024;
/// How much of a body is decoded for an excerpt, in bytes. A UTF-8 character has at most four.
const EXCERPT_BYTES: usize = 4 * TransportError::MAX_DETAIL;

/// Returns the beginning of a body, for error messages.
fn excerpt(body: &[u8]) -> Box<str> {
    let head = body.get(..EXCERPT_BYTES).unwrap_or(body);
    TransportError::excerpt(&String::from_utf8_lossy(head))
}

/// A body that is parsed once it is complete.
#[derive(Debug)]
pub(super) struct BufferedBody {
    pub(super) head: AnswerHead,
    strictness: Strictness,
    body: BodyBuffer,
    bytes: usize,
    /// Whether the body begins like JSON; `None` before its first character.
    begins_as_json: Option<bool>,
    message_bytes: usize,
}

/// A complete body, parsed.
#[derive(Debug)]
pub(super) struct FinishedBody {
    /// The message in the body.
    pub(super) message: Result<Option<Frame>, InvalidAnswerError>,
    /// The error to report if the body holds no answer.
    pub(super) error: TransportError,
    /// The deviation that was tolerated in the body.
    pub(super) leniency: Option<Leniency>,
}

#[derive(Debug)]
enum BodyBuffer {
    Empty,
    /// A slice of the input, as long as the body lies in one.
    Slice(Bytes),
    Copied(Vec<u8>),
}

impl BufferedBody {
    pub(super) fn new(head: AnswerHead, message_bytes: usize, strictness: Strictness) -> Self {
        let body = BodyBuffer::Empty;
        Self { head, strictness, body, bytes: 0, begins_as_json: None, message_bytes }
    }

    /// Returns whether the body should be JSON: by its head or, without a content type, by its first character.
    fn is_json(&self) -> bool {
        match self.head.content {
            BodyType::Json => true,
            BodyType::Untyped => {
                self.strictness == Strictness::Lenient
                    && self.head.is_success()
                    && self.begins_as_json == Some(true)
            }
            BodyType::Events | BodyType::Unexpected => false,
        }
    }

    /// Returns how many bytes are kept.
    fn limit(&self) -> usize {
        if self.is_json() { self.message_bytes } else { self.message_bytes.min(NON_MESSAGE_BYTES) }
    }

    /// Appends a chunk; returns whether there is room for more.
    pub(super) fn add(&mut self, piece: Bytes) -> bool {
        if self.begins_as_json.is_none() {
            let rest = piece.trim_ascii_start();
            let at = self.bytes.saturating_add(piece.len().saturating_sub(rest.len()));
            let early = at < self.message_bytes.min(NON_MESSAGE_BYTES);
            self.begins_as_json = rest.first().map(|first| matches!(first, b'{' | b'[') && early);
        }
        let limit = self.limit();
        let room = limit.saturating_sub(self.bytes);
        self.bytes = self.bytes.saturating_add(piece.len());
        let kept = piece.slice(..piece.len().min(room));
        if !kept.is_empty() {
            match &mut self.body {
                BodyBuffer::Empty => self.body = BodyBuffer::Slice(kept),
                BodyBuffer::Slice(first) => {
                    let mut copied = Vec::with_capacity(first.len().saturating_add(kept.len()));
                    copied.extend_from_slice(first);
                    copied.extend_from_slice(&kept);
                    self.body = BodyBuffer::Copied(copied);
                }
                BodyBuffer::Copied(copied) => copied.extend_from_slice(&kept),
            }
        }
        self.bytes <= limit
    }

    /// Parses the body, which is complete or read as far as its limit.
    pub(super) fn finish(mut self, depth: usize) -> FinishedBody {
        let body = mem::replace(&mut self.body, BodyBuffer::Empty).join();
        if let Some(encoding) = self.head.encoding.take() {
            let what = format!("the server sent content-encoding: {encoding}, which was not asked for");
            self.head.error.detail = TransportError::excerpt(&what);
            let invalid = InvalidAnswerError::Malformed(self.head.error.detail.to_string());
            let found = if self.head.is_success() { Err(invalid) } else { Ok(None) };
            return FinishedBody { message: found, error: self.head.error, leniency: None };
        }
        let text = match body.strip_prefix(BYTE_ORDER_MARK) {
            Some(text) if self.strictness == Strictness::Lenient => body.slice_ref(text),
            _ => body.clone(),
        };
        let found = self.parse_body(&text, depth);
        // A success with an answer needs no excerpt.
        if !self.head.is_success() || !matches!(found, Ok(Some(Frame::Single(Message::Response(_))))) {
            self.head.error.detail = excerpt(&body);
        }
        let untyped = self.head.content != BodyType::Json && self.head.is_success();
        let leniency = match found {
            Ok(Some(_)) if untyped => Some(Leniency::ContentType { found: self.head.unexpected_type.take() }),
            Ok(Some(_)) if text.len() < body.len() => Some(Leniency::ByteOrderMark),
            _ => None,
        };
        FinishedBody { message: found, error: self.head.error, leniency }
    }

    fn parse_body(&self, body: &Bytes, depth: usize) -> Result<Option<Frame>, InvalidAnswerError> {
        let answers = self.is_json() && self.head.is_success();
        if self.bytes > self.limit() {
            let too_long = InvalidAnswerError::TooLong { bytes: self.limit().saturating_add(1) };
            return if answers { Err(too_long) } else { Ok(None) };
        }
        if self.head.is_success() && !answers && self.strictness == Strictness::Strict {
            return Ok(None);
        }
        // Some servers send their errors as plain text, or without a content type.
        if !matches!(body.trim_ascii_start().first(), Some(b'{' | b'[')) {
            let what = "it is neither an object nor an array";
            let invalid = answers && !body.is_empty();
            return if invalid { Err(InvalidAnswerError::Malformed(what.into())) } else { Ok(None) };
        }
        match rpc::read(body, depth) {
            Ok(frame) => Ok(Some(frame)),
            Err(malformed) if answers => Err(InvalidAnswerError::Malformed(malformed.to_string())),
            Err(_) => Ok(None),
        }
    }

    /// Returns the error for a body whose rest never arrives: the status, if it is a refusal.
    pub(super) fn into_truncated_error(mut self) -> Option<TransportError> {
        if self.head.is_success() {
            return None;
        }
        self.head.error.detail = excerpt(&self.body.join());
        Some(self.head.error)
    }
}

impl BodyBuffer {
    fn join(self) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::Slice(slice) => slice,
            Self::Copied(copied) => Bytes::from(copied),
        }
    }
}

/// The body of an event stream.
#[derive(Debug)]
pub(super) struct EventBody {
    pub(super) sse: Sse,
    pub(super) status: u16,
    /// Whether any event has arrived on it.
    has_events: bool,
}

impl EventBody {
    pub(super) fn new(status: u16, message_bytes: usize) -> Self {
        Self { sse: Sse::new(message_bytes), status, has_events: false }
    }

    /// Returns the next event.
    pub(super) fn poll_item(&mut self) -> Option<SseItem> {
        let item = self.sse.poll_item()?;
        self.has_events = true;
        Some(item)
    }

    /// Returns where to resume if the stream breaks off.
    pub(super) fn resume_point(&self, header_bytes: usize) -> ResumePoint {
        let sendable =
            |id: &&str| !id.is_empty() && id.len() <= header_bytes && !id.contains(char::is_control);
        ResumePoint {
            last_event: self.sse.last_event_id().filter(sendable).map(Arc::from),
            retry: self.sse.retry(),
            has_events: self.has_events,
        }
    }
}

/// Where and when to resume a stream that has ended.
#[derive(Clone, Debug, Default)]
pub(super) struct ResumePoint {
    /// The id of the last event, if it can be sent to a server.
    pub(super) last_event: Option<Arc<str>>,
    /// The reconnection delay that the server asked for.
    pub(super) retry: Option<Duration>,
    /// Whether any event has arrived.
    pub(super) has_events: bool,
}

impl ResumePoint {
    /// Returns whether the stream has delivered an event, or at least a position to resume from.
    pub(super) fn has_advanced(&self) -> bool {
        self.has_events || self.last_event.is_some()
    }
}

/// The outcome of an exchange that should have carried an answer.
#[derive(Debug)]
pub(super) enum ExchangeOutcome {
    /// The answer.
    Answer {
        /// The status, and other details to report if the answer is an error.
        http: TransportError,
        answer: Result<Raw, ErrorObject>,
        /// Whether the answer has the id of the request.
        has_request_id: bool,
    },
    /// A response without an answer.
    NoAnswer(TransportError),
    /// An answer that cannot be parsed.
    Invalid(InvalidAnswerError, TransportError),
    /// The stream ended orderly, without the answer.
    Unanswered(TransportError, ResumePoint),
    /// The connection failed.
    Broken { sent: SentState, detail: String, refused: Option<TransportError>, trail: ResumePoint },
    /// No connection could be made, and none can be expected on a retry.
    Unreachable { detail: String },
}

impl ExchangeOutcome {
    /// Creates the outcome of an exchange that failed without a response to read.
    pub(super) fn broken(detail: &str) -> Self {
        let trail = ResumePoint::default();
        Self::Broken { sent: SentState::MaybeSent, detail: detail.into(), refused: None, trail }
    }

    /// Returns the HTTP error, if the status or the answer is a refusal.
    pub(super) fn http_error_mut(&mut self) -> Option<&mut TransportError> {
        match self {
            Self::Answer { http, answer: Err(_), .. } | Self::NoAnswer(http) => Some(http),
            Self::Broken { refused, .. } => refused.as_mut(),
            Self::Answer { answer: Ok(_), .. }
            | Self::Invalid(..)
            | Self::Unanswered(..)
            | Self::Unreachable { .. } => None,
        }
    }

    /// Converts the outcome of a GET: an error with an error status is about the stream, not about any request.
    pub(super) fn into_get_outcome(self) -> Self {
        match self {
            Self::Answer { http, answer: Err(error), .. } if !(200..300).contains(&http.status) => {
                Self::NoAnswer(TransportError { detail: TransportError::excerpt(&error.to_string()), ..http })
            }
            ended => ended,
        }
    }
}
