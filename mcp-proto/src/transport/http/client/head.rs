//! Response heads, each of which determines how the body is read.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

use crate::codec::media;
use crate::peer::{RetryAdvice, TransportError};
use crate::transport::http::{ExchangeEnd, ExchangeId, Fields, HeaderValues, header, read_headers};
use crate::{Instant, Limits};

use super::HttpClient;
use super::client_session::POST_RESPONSE_TIMEOUT;
use super::exchange::{ExchangeKind, ResponseState};
use super::response::{BufferedBody, EventBody};
use super::timers::Timer;

/// The type of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyType {
    Json,
    Events,
    /// The head names no type.
    Untyped,
    Unexpected,
}

/// The head of a response.
pub(super) struct AnswerHead {
    pub(super) status: u16,
    pub(super) content: BodyType,
    /// The content type, if it is neither JSON nor an event stream.
    pub(super) unexpected_type: Option<String>,
    pub(super) session: Option<String>,
    pub(super) location: Option<String>,
    /// The content encoding, which the client did not ask for.
    pub(super) encoding: Option<String>,
    pub(super) dpop_nonce: Option<String>,
    /// The error to report if the response turns out to be one; the body is still to come.
    pub(super) error: TransportError,
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
        let unexpected_type = if content == BodyType::Unexpected { text(&content_type) } else { None };
        let session = text(&session)
            .filter(|id| !id.is_empty() && id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
        let mut error = http_error(status, "");
        error.challenge = join(&challenges, header_bytes);
        error.needs_authorization |= status == 403 && error.challenge.is_some();
        if !(200..300).contains(&status) {
            error.retry_after =
                text(&retry_after).and_then(|value| parse_retry_after(&value, text(&date).as_deref()));
        }
        let location = if (300..400).contains(&status) { text(&location) } else { None };
        error.location = location.as_deref().map(TransportError::excerpt);
        let encoding = text(&encoding).filter(|encoding| {
            !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") && !matches!(status, 204 | 304)
        });
        let dpop_nonce = text(&dpop_nonce);
        Self { status, content, unexpected_type, session, location, encoding, dpop_nonce, error }
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl fmt::Debug for AnswerHead {
    /// Omits the session id and the redirect target, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerHead")
            .field("status", &self.status)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

/// Returns the error of an exchange that ended with this status and these headers, as an [`HttpClient`](super::HttpClient)
/// reports it: for exchanges that are not its own, such as the upgrade to a WebSocket.
///
/// Values longer than [`Limits::header_bytes`] are omitted.
pub fn exchange_error(status: u16, fields: &dyn Fields, limits: &Limits) -> TransportError {
    AnswerHead::read(status, fields, limits.header_bytes).error
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

impl HttpClient {
    pub(super) fn take_head(&mut self, now: Instant, id: ExchangeId, status: u16, fields: &dyn Fields) {
        let limits = *self.limits();
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        if status < 200 || !matches!(exchange.response, ResponseState::AwaitingHead) {
            return;
        }
        let strictness = self.config.client.strictness;
        let mut head = AnswerHead::read(status, fields, limits.header_bytes);
        let redirected = self.follow_redirect(now, id, &head);
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        if redirected {
            exchange.response =
                ResponseState::Buffered(Box::new(BufferedBody::new(head, limits.message_bytes, strictness)));
            return;
        }
        let success = head.is_success();
        let encoded = head.encoding.is_some();
        exchange.take_head(&mut head);
        let purpose = exchange.kind.clone();
        let streams =
            success && !encoded && head.content == BodyType::Events && status != 202 && status != 204;
        if streams {
            exchange.response = ResponseState::Events(Box::new(EventBody::new(status, limits.message_bytes)));
        } else {
            exchange.response =
                ResponseState::Buffered(Box::new(BufferedBody::new(head, limits.message_bytes, strictness)));
        }
        if encoded {
            // The client cannot read an encoded body.
            self.outbox.abort(id);
            return self.handle_exchange_end(now, id, ExchangeEnd::Complete);
        }
        match purpose {
            ExchangeKind::Call(number) if success => self.note_success(number),
            ExchangeKind::Post(_) => {
                // The response to a one-way message is not needed.
                self.timers.set(Timer::Drain(id), now + POST_RESPONSE_TIMEOUT);
                if success {
                    self.handle_post_accepted(id);
                }
            }
            ExchangeKind::Events if streams => self.handle_events_head(now),
            ExchangeKind::Listen { .. } | ExchangeKind::Resume { .. } if streams => {
                self.note_stream(now, &purpose)
            }
            _ => {}
        }
    }
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
pub(super) fn http_error(status: u16, body: &str) -> TransportError {
    let mut error = TransportError::new("HTTP", status, body);
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
