//! Responses to the client: heads, each of which determines how the body is read, buffered bodies, event streams, and the
//! outcome of an exchange.

use alloc::sync::Arc;
use core::mem;
use core::time::Duration;

use bytes::Bytes;

use crate::Limits;
use crate::codec::{BYTE_ORDER_MARK, Sse, SseItem, media};
use crate::peer::{InvalidAnswerError, Leniency, RetryAdvice, Strictness, TransportError};
use crate::prelude::*;
use crate::rpc::{self, ErrorObject, Frame, Message, Raw};
use crate::transport::http::{Fields, HeaderValues, SentState, header, read_headers};

/// The type of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyType {
    Json,
    Events,
    /// The head names no type.
    Untyped,
    Unexpected,
}

pub(super) fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct AnswerHead {
    pub(super) status: u16,
    pub(super) content: BodyType,
    /// The headers that a plain answer lacks.
    pub(super) details: Option<Box<HeadDetails>>,
}

/// The headers of a response that most answers lack.
#[derive(Default)]
pub(super) struct HeadDetails {
    /// The content type, if it is neither JSON nor an event stream.
    unexpected_type: Option<String>,
    pub(super) session: Option<String>,
    pub(super) location: Option<String>,
    /// The content encoding, which the client did not ask for.
    pub(super) encoding: Option<String>,
    pub(super) dpop_nonce: Option<String>,
    challenge: Option<Box<str>>,
    retry_after: Option<Duration>,
}

impl AnswerHead {
    /// Reads a head. Values longer than `header_bytes` are omitted.
    pub(super) fn read(status: u16, fields: &dyn Fields, header_bytes: usize) -> Self {
        let [content_type, encoding, session, location, retry_after, date, dpop_nonce, challenges] =
            read_headers(
                fields,
                [
                    "content-type",
                    "content-encoding",
                    header::SESSION_ID,
                    "location",
                    "retry-after",
                    "date",
                    "dpop-nonce",
                    "www-authenticate",
                ],
            );
        let text = |values: &HeaderValues<'_>| {
            let value = values.first.filter(|value| value.len() <= header_bytes)?;
            core::str::from_utf8(value).ok().map(|value| value.trim().to_string())
        };
        let content = match content_type.first.filter(|value| !value.trim_ascii().is_empty()) {
            Some(value) if media::is_type(value, "application/json") => BodyType::Json,
            Some(value) if media::is_type(value, "text/event-stream") => BodyType::Events,
            Some(_) => BodyType::Unexpected,
            None => BodyType::Untyped,
        };
        let others = [&encoding, &session, &location, &retry_after, &dpop_nonce, &challenges];
        if content != BodyType::Unexpected && others.iter().all(|values| values.first.is_none()) {
            return Self { status, content, details: None };
        }
        let if_matching = |matches: bool, values| if matches { text(values) } else { None };
        let details = HeadDetails {
            unexpected_type: if_matching(content == BodyType::Unexpected, &content_type),
            session: text(&session)
                .filter(|id| !id.is_empty() && id.bytes().all(|byte| (0x21..=0x7e).contains(&byte))),
            location: if_matching((300..400).contains(&status), &location),
            encoding: if_matching(!matches!(status, 204 | 304), &encoding)
                .filter(|encoding| !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity")),
            dpop_nonce: text(&dpop_nonce),
            challenge: join(&challenges, header_bytes),
            retry_after: if_matching(!is_success(status), &retry_after)
                .and_then(|value| parse_retry_after(&value, text(&date).as_deref())),
        };
        Self { status, content, details: Some(Box::new(details)) }
    }

    pub(super) fn is_success(&self) -> bool {
        is_success(self.status)
    }
}

// Omits the session id and the redirect target, which may be secret.
debug_fields! { HeadDetails { encoding, retry_after } }

/// The error of a response, which is made only where it is reported.
pub(super) struct UnreportedError<'a> {
    pub(super) status: u16,
    details: Option<&'a HeadDetails>,
    /// The part of the body to quote.
    quoted: Bytes,
}

impl UnreportedError<'_> {
    pub(super) fn into_error(self) -> Box<TransportError> {
        let mut error = http_error(self.status, "");
        error.detail = excerpt(&self.quoted);
        if let Some(details) = self.details {
            error.challenge = details.challenge.clone();
            error.needs_authorization |= self.status == 403 && error.challenge.is_some();
            error.retry_after = details.retry_after;
            error.location = details.location.as_deref().map(TransportError::excerpt);
        }
        error
    }
}

/// Returns the error of an exchange that ended with this status and these headers, as an [`HttpClient`](super::HttpClient)
/// reports it: for exchanges that are not its own, such as the upgrade to a WebSocket.
///
/// Values longer than [`Limits::header_bytes`] are omitted.
pub fn exchange_error(status: u16, fields: &dyn Fields, limits: &Limits) -> TransportError {
    let AnswerHead { status, details, .. } = AnswerHead::read(status, fields, limits.header_bytes);
    *UnreportedError { status, details: details.as_deref(), quoted: Bytes::new() }.into_error()
}

/// Joins all challenges of a response.
fn join(challenges: &HeaderValues<'_>, header_bytes: usize) -> Option<Box<str>> {
    let mut joined = String::new();
    for value in challenges.iter().map(String::from_utf8_lossy) {
        if joined.len().saturating_add(value.len()) <= header_bytes {
            if !joined.is_empty() {
                joined.push_str(", ");
            }
            joined.push_str(value.trim());
        }
    }
    (!joined.is_empty()).then(|| joined.into())
}

/// Returns the error of an exchange that ended with a status, with the beginning of its body.
///
/// The status determines the advice on repeating the request:
///
/// | status | repeating the request |
/// |---|---|
/// | 408, 425, 429, 5xx | may help later |
/// | 400 to 404, 410 | never helps |
/// | any other | may help or not |
pub(super) fn http_error(status: u16, body: &str) -> Box<TransportError> {
    let mut error = Box::new(TransportError::new("HTTP", status, body));
    error.retry = match status {
        408 | 425 | 429 | 500.. => RetryAdvice::Later,
        400..=404 | 410 => RetryAdvice::Never,
        _ => RetryAdvice::Unknown,
    };
    error.needs_authorization = status == 401;
    error.is_unavailable = matches!(status, 429 | 500..=599);
    error
}

/// Parses `Retry-After`: seconds, or a date, which is relative to the `Date` of the same answer.
///
/// There is no other clock: a date without `Date` is ignored.
///
/// <https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7>
fn parse_retry_after(value: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let (until, now) = (parse_http_date(value)?, parse_http_date(date?)?);
    Some(Duration::from_secs(until.saturating_sub(now)))
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Parses a date in any of the three HTTP formats to seconds since 1970.
fn parse_http_date(date: &str) -> Option<u64> {
    let (mut day, mut month, mut year, mut time) = (None, None, None, None);
    for word in date.split([' ', ',', '-']).filter(|word| !word.is_empty()) {
        if word.contains(':') {
            time = Some(parse_time_of_day(word)?);
        } else if let Ok(number) = word.parse::<u64>() {
            match day {
                None => day = Some(number).filter(|day| (1..=31).contains(day)),
                Some(_) => year = Some(if word.len() > 2 { number } else { expand_two_digit_year(number) }),
            }
        } else if let Some(at) = MONTHS.iter().position(|name| word.eq_ignore_ascii_case(name)) {
            month = u64::try_from(at).ok().map(|at| at.saturating_add(1));
        }
    }
    let days = days_since_1970(year?, month?, day?)?;
    Some(days.saturating_mul(86_400).saturating_add(time?))
}

/// Expands a two-digit year to the years around 2000.
fn expand_two_digit_year(year: u64) -> u64 {
    year.saturating_add(if year < 70 { 2000 } else { 1900 })
}

fn parse_time_of_day(time: &str) -> Option<u64> {
    let mut parts = time.split(':').map(|part| part.parse::<u64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let within = hours < 24 && minutes < 60 && seconds <= 60 && parts.next().is_none();
    within.then(|| {
        hours.saturating_mul(3600).saturating_add(minutes.saturating_mul(60)).saturating_add(seconds)
    })
}

/// Counts days since 1970. Years are counted from March, so that the leap day is the last of its year.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = match month {
        1 | 2 => (year.checked_sub(1)?, month.saturating_add(9)),
        month => (year, month.checked_sub(3)?),
    };
    let leaps = (year / 4).saturating_sub(year / 100).saturating_add(year / 400);
    let days = year.checked_mul(365)?.saturating_add(leaps);
    let days = days.saturating_add(month.saturating_mul(153).saturating_add(2) / 5).saturating_add(day);
    // The count above starts with 1 on March 1 of the year 0.
    days.checked_sub(719_469)
}

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
    pub(super) status: u16,
    content: BodyType,
    strictness: Strictness,
    body: BodyBuffer,
    bytes: usize,
    /// Whether the body begins like JSON; `None` before its first character.
    begins_as_json: Option<bool>,
    message_bytes: usize,
}

/// The message in a body, the error to report if that is no answer, and the deviation that was tolerated.
type FinishedBody<'a> = (Result<Option<Frame>, InvalidAnswerError>, UnreportedError<'a>, Option<Leniency>);

#[derive(Debug)]
enum BodyBuffer {
    /// A slice of the input, as long as the body lies in one.
    Slice(Bytes),
    Copied(Vec<u8>),
}

impl BufferedBody {
    pub(super) fn new(head: &AnswerHead, message_bytes: usize, strictness: Strictness) -> Self {
        let (status, content) = (head.status, head.content);
        let body = BodyBuffer::Slice(Bytes::new());
        Self { status, content, strictness, body, bytes: 0, begins_as_json: None, message_bytes }
    }

    fn is_success(&self) -> bool {
        is_success(self.status)
    }

    /// Returns whether the body should be JSON: by its head or, without a content type, by its first character.
    fn is_json(&self) -> bool {
        match self.content {
            BodyType::Json => true,
            BodyType::Untyped => {
                self.strictness == Strictness::Lenient
                    && self.is_success()
                    && self.begins_as_json == Some(true)
            }
            BodyType::Events | BodyType::Unexpected => false,
        }
    }

    /// Takes the body, if it should be JSON and is not empty, to be [put back](Self::put_back).
    pub(super) fn take_json(&mut self) -> Option<Bytes> {
        if !self.is_json() || self.bytes == 0 || self.bytes > self.message_bytes {
            return None;
        }
        Some(match mem::replace(&mut self.body, BodyBuffer::Slice(Bytes::new())) {
            BodyBuffer::Slice(slice) => slice,
            BodyBuffer::Copied(copied) => Bytes::from(copied),
        })
    }

    /// Puts back a body that was taken.
    pub(super) fn put_back(&mut self, body: Bytes) {
        self.bytes = body.len();
        self.body = BodyBuffer::Slice(body);
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
        let kept = if piece.len() <= room { piece } else { piece.slice(..room) };
        if !kept.is_empty() {
            match &mut self.body {
                BodyBuffer::Slice(first) if first.is_empty() => *first = kept,
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
    pub(super) fn finish(mut self, details: Option<&HeadDetails>, depth: usize) -> FinishedBody<'_> {
        let body = mem::replace(&mut self.body, BodyBuffer::Slice(Bytes::new())).join();
        let mut error = UnreportedError { status: self.status, details, quoted: Bytes::new() };
        if let Some(encoding) = details.and_then(|details| details.encoding.as_deref()) {
            let what = format!("the server sent content-encoding: {encoding}, which was not asked for");
            let invalid = InvalidAnswerError::Malformed(TransportError::excerpt(&what).into());
            error.quoted = what.into();
            let found = if self.is_success() { Err(invalid) } else { Ok(None) };
            return (found, error, None);
        }
        let is_lenient = self.strictness == Strictness::Lenient;
        let text = body.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_lenient).map(|text| body.slice_ref(text));
        let found = self.parse_body(text.as_ref().unwrap_or(&body), depth);
        // A success with an answer needs no excerpt.
        let needs_excerpt =
            !self.is_success() || !matches!(found, Ok(Some(Frame::Single(Message::Response(_)))));
        let untyped = self.content != BodyType::Json && self.is_success();
        let leniency = match found {
            Ok(Some(_)) if untyped => {
                let found = details.and_then(|details| details.unexpected_type.clone());
                Some(Leniency::ContentType { found })
            }
            Ok(Some(_)) if text.is_some() => Some(Leniency::ByteOrderMark),
            _ => None,
        };
        if needs_excerpt {
            error.quoted = body;
        }
        (found, error, leniency)
    }

    fn parse_body(&self, body: &Bytes, depth: usize) -> Result<Option<Frame>, InvalidAnswerError> {
        let answers = self.is_json() && self.is_success();
        if self.bytes > self.limit() {
            let too_long = InvalidAnswerError::TooLong { bytes: self.limit().saturating_add(1) };
            return if answers { Err(too_long) } else { Ok(None) };
        }
        if self.is_success() && !answers && self.strictness == Strictness::Strict {
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
    pub(super) fn into_truncated_error(self, details: Option<&HeadDetails>) -> Option<Box<TransportError>> {
        let Self { status, body, .. } = self;
        let error = || UnreportedError { status, details, quoted: body.join() }.into_error();
        (!is_success(status)).then(error)
    }
}

impl BodyBuffer {
    fn join(self) -> Bytes {
        match self {
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
    /// The answer is a result, under this status.
    Result { status: u16, result: Raw },
    /// The answer is an error.
    Error {
        /// The error of the exchange, with the status.
        http: Box<TransportError>,
        error: ErrorObject,
        /// Whether the answer has the id of the request.
        has_request_id: bool,
    },
    /// A response without an answer.
    NoAnswer(Box<TransportError>),
    /// An answer that cannot be parsed.
    Invalid(InvalidAnswerError, Box<TransportError>),
    /// The stream ended orderly, without the answer.
    Unanswered(Box<TransportError>, ResumePoint),
    /// The connection failed.
    Broken { sent: SentState, detail: String, refused: Option<Box<TransportError>>, trail: ResumePoint },
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
            Self::Error { http, .. } | Self::NoAnswer(http) => Some(http),
            Self::Broken { refused, .. } => refused.as_deref_mut(),
            Self::Result { .. } | Self::Invalid(..) | Self::Unanswered(..) | Self::Unreachable { .. } => None,
        }
    }

    /// Converts the outcome of a GET: an error with an error status is about the stream, not about any request.
    pub(super) fn into_get_outcome(self) -> Self {
        match self {
            Self::Error { mut http, error, .. } if !is_success(http.status) => {
                http.detail = TransportError::excerpt(&error.to_string());
                Self::NoAnswer(http)
            }
            ended => ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_shows_the_body_on_one_line() {
        let error = http_error(404, "<html>\n  Not here</html>");
        assert_eq!(error.to_string(), "HTTP status 404: <html> Not here</html>");
    }

    #[test]
    fn parser_reads_all_three_forms_of_a_date() {
        for date in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_http_date(date), Some(784_111_777), "{date}");
        }
        assert_eq!(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse_http_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(parse_http_date("Sun, 22 Nov 2026 11:00:00 GMT"), Some(1_795_345_200));
    }

    #[test]
    fn parser_refuses_other_text() {
        for text in
            ["", "soon", "Sun, 06 Nov 1994", "06 Nov 1994 25:00:00", "1 2 3 4:5:6", "06 Nov 1994 8:49"]
        {
            assert_eq!(parse_http_date(text), None, "{text}");
        }
        let far = u64::MAX;
        assert_eq!(parse_http_date(&alloc::format!("1 Jan {far} 00:00:00")), None);
    }

    #[test]
    fn retry_after_counts_from_the_date_of_the_answer() {
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        let seconds = |count| Some(Duration::from_secs(count));
        assert_eq!(parse_retry_after("120", None), seconds(120));
        assert_eq!(parse_retry_after("Sun, 06 Nov 1994 08:51:37 GMT", date), seconds(120));
        assert_eq!(parse_retry_after("Sun, 06 Nov 1994 08:00:00 GMT", date), seconds(0), "it is in the past");
        assert_eq!(parse_retry_after("Sun, 06 Nov 1994 08:51:37 GMT", None), None);
        assert_eq!(parse_retry_after("-1", date), None);
    }
}
