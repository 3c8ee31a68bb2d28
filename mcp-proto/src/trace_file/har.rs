//! The exchanges of a trace as an HTTP Archive.

use core::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{Trace, TraceEvent, TracedFrame};
use crate::UnixTime;
use crate::ordered_map::OrderedMap;
use crate::prelude::*;

/// Writes the archive: see [`Trace::to_har`].
pub(super) fn archive(trace: &Trace) -> Value {
    let mut exchanges: OrderedMap<(u64, u64), Exchange<'_>> = OrderedMap::new();
    for record in &trace.records {
        let key = |exchange: &u64| (record.connection, *exchange);
        match &record.event {
            TraceEvent::Request { exchange, .. } => {
                let exchange = exchanges.entry(key(exchange)).or_default();
                (exchange.start, exchange.request) = (record.at(), Some(&record.event));
            }
            TraceEvent::Response { exchange, .. } => {
                let exchange = exchanges.entry(key(exchange)).or_default();
                (exchange.head, exchange.response) = (Some(record.at()), Some(&record.event));
            }
            TraceEvent::Message { exchange: Some(exchange), frame, .. } => {
                let exchange = exchanges.entry(key(exchange)).or_default();
                exchange.end = Some(record.at());
                exchange.body.push(frame);
            }
            TraceEvent::Ended { exchange, failure } => {
                let exchange = exchanges.entry(key(exchange)).or_default();
                (exchange.end, exchange.failure) = (Some(record.at()), failure.as_deref());
            }
            _ => {}
        }
    }
    let mut exchanges: Vec<_> = exchanges.into_iter().collect();
    exchanges.sort_by_key(|(_, exchange)| exchange.start);
    let started = trace.header.started();
    let entries = exchanges.iter().filter_map(|((connection, _), it)| it.entry(*connection, started));
    let (name, version) = trace.header.program_and_version();
    json!({ "log": {
        "version": "1.2",
        "creator": { "name": name, "version": version },
        "entries": entries.collect::<Vec<_>>(),
        "comment": left_out(trace),
    }})
}

/// Names the connections that are not in the archive.
fn left_out(trace: &Trace) -> String {
    let other = trace.records.iter().filter_map(|record| match &record.event {
        TraceEvent::Opened { server, transport } if transport != "http" => {
            Some(format!("connection {} to {server} over {transport}", record.connection))
        }
        _ => None,
    });
    let other: Vec<_> = other.collect();
    match other.is_empty() {
        true => String::new(),
        false => format!("left out, as they are not over HTTP: {}", other.join(", ")),
    }
}

/// What the trace has of an exchange.
#[derive(Default)]
struct Exchange<'a> {
    start: Duration,
    head: Option<Duration>,
    end: Option<Duration>,
    request: Option<&'a TraceEvent>,
    response: Option<&'a TraceEvent>,
    body: Vec<&'a TracedFrame>,
    failure: Option<&'a str>,
}

impl Exchange<'_> {
    /// The entry of the exchange, if the trace has its request.
    fn entry(&self, connection: u64, started: UnixTime) -> Option<Value> {
        let wait = self.head.or(self.end).unwrap_or(self.start).saturating_sub(self.start);
        let receive = self.head.zip(self.end).map(|(head, end)| end.saturating_sub(head)).unwrap_or_default();
        Some(json!({
            "startedDateTime": iso_8601(started + self.start),
            "time": millis(wait.saturating_add(receive)),
            "request": self.request()?,
            "response": self.response(),
            "cache": {},
            "timings": { "send": 0, "wait": millis(wait), "receive": millis(receive) },
            "connection": connection.to_string(),
            "comment": self.failure.unwrap_or_default(),
        }))
    }

    fn request(&self) -> Option<Value> {
        let TraceEvent::Request { method, url, headers, frame, .. } = self.request? else { return None };
        let query = url.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let query = query.split('#').next().unwrap_or_default();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let mut request = json!({
            "method": method,
            "url": url,
            "httpVersion": "unknown",
            "cookies": [],
            "headers": fields(headers.iter().map(|(name, value)| (&**name, &**value))),
            "queryString": fields(pairs),
            "headersSize": -1,
            "bodySize": frame.length(),
        });
        if let Some(request) = request.as_object_mut().filter(|_| frame.length() > 0) {
            let text = String::from_utf8_lossy(frame.as_bytes());
            let comment = if frame.is_cut() { CUT } else { "" };
            let body =
                json!({ "mimeType": header(headers, "content-type"), "text": text, "comment": comment });
            request.insert("postData".to_owned(), body);
        }
        Some(request)
    }

    /// The response; of status 0 if there is none.
    fn response(&self) -> Value {
        let (status, headers) = match self.response {
            Some(TraceEvent::Response { status, headers, .. }) => (*status, &**headers),
            _ => (0, [].as_slice()),
        };
        let content = self.content(header(headers, "content-type"));
        json!({
            "status": status,
            "statusText": "",
            "httpVersion": "unknown",
            "cookies": [],
            "headers": fields(headers.iter().map(|(name, value)| (&**name, &**value))),
            "redirectURL": header(headers, "location"),
            "headersSize": -1,
            "bodySize": content.get("size"),
            "content": content,
        })
    }

    /// The body: of an event stream its lines.
    fn content(&self, mime: &str) -> Value {
        let breaks = self.body.len().saturating_sub(1);
        let size = self.body.iter().fold(breaks, |size, frame| size.saturating_add(frame.length()));
        let body = self.body.iter().map(|frame| frame.as_bytes()).collect::<Vec<_>>().join(&b'\n');
        let comment = if self.body.iter().any(|frame| frame.is_cut()) { CUT } else { "" };
        let mut content = json!({ "size": size, "mimeType": mime, "comment": comment });
        if let Some(content) = content.as_object_mut() {
            let (text, is_text) = match String::from_utf8(body) {
                Ok(text) => (text, true),
                Err(error) => (BASE64_STANDARD.encode(error.as_bytes()), false),
            };
            content.insert("text".to_owned(), text.into());
            if !is_text {
                content.insert("encoding".to_owned(), "base64".into());
            }
        }
        content
    }
}

const CUT: &str = "the trace has the beginning of it alone";

fn header<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    let found = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| &**value).unwrap_or_default()
}

fn fields<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Value> {
    pairs.map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// A trace has microseconds: three digits.
#[expect(clippy::cast_precision_loss, reason = "of a time that a trace has, no digit is lost")]
fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

/// Formats a time as ISO 8601, in UTC, to the millisecond.
fn iso_8601(time: UnixTime) -> String {
    /// The days of 400 years, after which the calendar repeats.
    const CYCLE: u64 = 146_097;
    let elapsed = time.since_epoch();
    let seconds = elapsed.as_secs();
    let mut year = 1970_u64.saturating_add((seconds / 86_400 / CYCLE).saturating_mul(400));
    let mut days = seconds / 86_400 % CYCLE;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_of = |year| if is_leap(year) { 366 } else { 365 };
    while let Some(rest) = days.checked_sub(days_of(year)) {
        (days, year) = (rest, year.saturating_add(1));
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1_u64;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        let Some(rest) = days.checked_sub(length) else { break };
        (days, month) = (rest, month.saturating_add(1));
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let (day, millis) = (days.saturating_add(1), elapsed.subsec_millis());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_file::{Sender, TraceHeader, TraceRecord};

    fn trace(events: impl IntoIterator<Item = (u64, TraceEvent)>) -> Trace {
        let record =
            |((connection, event), at)| TraceRecord::new(Duration::from_micros(at * 500), connection, event);
        let header = TraceHeader::new(
            "mcpio 1.2.3",
            UnixTime::from_epoch(Duration::from_millis(1_764_169_200_123)),
            true,
        );
        Trace { header, records: events.into_iter().zip(0_u64..).map(record).collect(), unread: Vec::new() }
    }

    fn opened(transport: &str) -> TraceEvent {
        TraceEvent::Opened { server: "demo".into(), transport: transport.into() }
    }

    fn frame(bytes: &[u8]) -> TracedFrame {
        TracedFrame::new(bytes, bytes.len())
    }

    fn part(exchange: u64, bytes: &[u8]) -> TraceEvent {
        TraceEvent::Message { from: Sender::Server, exchange: Some(exchange), frame: frame(bytes) }
    }

    fn request(exchange: u64, url: &str, body: &[u8]) -> TraceEvent {
        let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        TraceEvent::Request { exchange, method: "POST".into(), url: url.into(), headers, frame: frame(body) }
    }

    #[test]
    fn each_exchange_is_an_entry() {
        let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        let archive = trace([
            (1, opened("http")),
            (1, request(7, "http://localhost/mcp?a=1&b", b"{\"id\":1}")),
            (1, TraceEvent::Response { exchange: 7, status: 200, headers }),
            (1, part(7, b"data: {}")),
            (1, part(7, b"")),
            (1, TraceEvent::Ended { exchange: 7, failure: None }),
        ])
        .to_har();
        let log = &archive["log"];
        assert_eq!((&log["version"], &log["comment"]), (&json!("1.2"), &json!("")));
        assert_eq!(log["creator"], json!({ "name": "mcpio", "version": "1.2.3" }));
        let entry = &log["entries"][0];
        assert_eq!(entry["startedDateTime"], "2025-11-26T15:00:00.123Z");
        assert_eq!(entry["timings"], json!({ "send": 0, "wait": 0.5, "receive": 1.5 }));
        assert_eq!(entry["time"], 2.0);
        assert_eq!(millis(Duration::from_secs(5 * 60 * 60)), 18_000_000.0);
        assert_eq!(entry["request"]["postData"]["mimeType"], "application/json");
        assert_eq!(entry["request"]["postData"]["text"], "{\"id\":1}");
        let query = json!([{ "name": "a", "value": "1" }, { "name": "b", "value": "" }]);
        assert_eq!(entry["request"]["queryString"], query);
        assert_eq!(entry["response"]["status"], 200);
        assert_eq!(entry["response"]["content"]["text"], "data: {}\n");
        assert_eq!(entry["response"]["content"]["size"], 9);
        assert_eq!(entry["response"]["content"]["mimeType"], "text/event-stream");
    }

    #[test]
    fn failed_cut_and_binary_exchanges_are_told_apart() {
        let cut = TraceEvent::Message {
            from: Sender::Server,
            exchange: Some(2),
            frame: TracedFrame::new(*b"{", 9),
        };
        let archive = trace([
            (1, request(1, "http://localhost/mcp", b"")),
            (1, TraceEvent::Ended { exchange: 1, failure: Some("reset".into()) }),
            (2, request(1, "http://localhost/other", b"{}")),
            (2, part(1, b"\xff")),
            (2, request(2, "http://localhost/other", b"{}")),
            (2, cut),
            (2, part(3, b"of a request that the trace lacks")),
        ])
        .to_har();
        let entries = archive["log"]["entries"].as_array().unwrap();
        assert_eq!(entries.len(), 3);
        assert_eq!((&entries[0]["comment"], &entries[0]["response"]["status"]), (&json!("reset"), &json!(0)));
        assert_eq!(entries[0]["request"].get("postData"), None);
        let content = &entries[1]["response"]["content"];
        assert_eq!((&content["text"], &content["encoding"]), (&json!("/w=="), &json!("base64")));
        let content = &entries[2]["response"]["content"];
        assert_eq!((&content["size"], &content["comment"]), (&json!(9), &json!(CUT)));
    }

    #[test]
    fn connections_without_http_are_named() {
        let archive = trace([(1, opened("stdio")), (2, opened("http")), (3, opened("websocket"))]).to_har();
        let comment = "left out, as they are not over HTTP: connection 1 to demo over stdio, connection 3 to demo over websocket";
        assert_eq!(archive["log"]["comment"], comment);
        assert_eq!(archive["log"]["entries"], json!([]));
    }

    #[test]
    fn dates_follow_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (1_767_225_599_001, "2025-12-31T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (13_569_465_600_000, "2400-01-01T00:00:00.000Z"),
        ];
        for (millis, expected) in cases {
            assert_eq!(iso_8601(UnixTime::from_epoch(Duration::from_millis(millis))), expected);
        }
        let last = iso_8601(UnixTime::from_epoch(Duration::MAX));
        assert!(last.ends_with("Z"), "{last}");
    }
}
