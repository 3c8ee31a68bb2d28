//! `mcpio trace FILE --html OUT`: a trace as one page, which needs nothing besides.
//!
//! Nothing of a peer is in the HTML: the page has the trace compressed, as base64. `trace_page/` has its sources; `Trace` in
//! `data.js` reads what [`index`] writes.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcp_proto::schema::Era;
use mcp_proto::trace_file::{
    RequestOutcome, Sender, Trace, TraceEvent, TraceRecord, TraceReport, TracedFrame,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const PAGE: &str = include_str!("trace_page/page.html");
const STYLE: &str = include_str!("trace_page/page.css");
const SCRIPT: &str = concat!(include_str!("trace_page/data.js"), include_str!("trace_page/page.js"));

/// The beginning of every page.
const START: &str = "<!doctype html>\n<!-- A trace of MCP";

/// How many bytes of payloads are compressed together: the page inflates as much to show a message.
const PART: usize = 512 * 1024;

/// The most characters of a text in the index, which is on the screen in a line.
const LONGEST: usize = 160;

/// Writes the page, readable for its owner alone. A page that is there is replaced, and no other file.
pub(crate) fn write(path: &Path, trace: &Trace, report: &TraceReport) -> io::Result<()> {
    let mut start = [0; START.len()];
    match File::open(path).and_then(|mut file| file.read_exact(&mut start)) {
        Ok(()) if start == START.as_bytes() => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Ok(()) | Err(_) => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "it is there, and is no page of a trace",
            ));
        }
    }
    let page = page(trace, report)?;
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // The old page stays until the new one is whole.
    let new = path.with_added_extension(format!("{}.new", process::id()));
    let mut file = options.write(true).create_new(true).open(&new)?;
    let written = file.write_all(page.as_bytes()).and_then(|()| fs::rename(&new, path));
    written.inspect_err(|_| _ = fs::remove_file(&new))
}

fn page(trace: &Trace, report: &TraceReport) -> io::Result<String> {
    let (first_rows, payloads) = payloads(trace)?;
    let index = compressed(&index(trace, report, &first_rows).to_string());
    let page = PAGE.replace("@style-hash@", &hash(STYLE)).replace("@script-hash@", &hash(SCRIPT));
    let page = page.replace("@style@", STYLE).replace("@script@", SCRIPT);
    Ok(page.replace("@index@", &index).replace("@payloads@", &payloads))
}

/// The name of a text in the security policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

fn compressed(text: &str) -> String {
    BASE64_STANDARD.encode(miniz_oxide::deflate::compress_to_vec(text.as_bytes(), 6))
}

/// The payloads of the records, a line of JSON each, in parts; and the first record of each part.
fn payloads(trace: &Trace) -> io::Result<(Vec<usize>, String)> {
    let (mut first_rows, mut elements, mut part) = (vec![0], String::new(), String::new());
    let mut end = |part: &mut String| {
        elements += &format!("<script type=\"text/plain\" class=\"payload\">{}</script>\n", compressed(part));
        part.clear();
    };
    for (row, record) in trace.records.iter().enumerate() {
        if part.len() > PART {
            end(&mut part);
            first_rows.push(row);
        }
        part += &match &record.event {
            TraceEvent::Message { frame, .. } | TraceEvent::Stderr { frame } => serde_json::to_string(frame)?,
            event => serde_json::to_string(event)?,
        };
        part.push('\n');
    }
    end(&mut part);
    Ok((first_rows, elements))
}

/// What a row is: the page's `KINDS` has the same order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request,
    Answer,
    Notification,
    Http,
    Stderr,
    Text,
    Connection,
}

/// The texts of the index, each once.
#[derive(Default)]
struct Texts {
    places: HashMap<String, usize>,
    texts: Vec<String>,
}

impl Texts {
    fn place(&mut self, text: &str) -> usize {
        let text: String = text.chars().take(LONGEST).collect();
        *self.places.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            self.texts.len() - 1
        })
    }

    fn place_or_none(&mut self, text: Option<&str>) -> i64 {
        text.and_then(|text| i64::try_from(self.place(text)).ok()).unwrap_or(-1)
    }
}

/// What the page shows in lists, in columns: of each record, and of each request.
fn index(trace: &Trace, report: &TraceReport, first_rows: &[usize]) -> Value {
    let mut texts = Texts::default();
    let kinds = kinds(trace, report);
    let methods: HashMap<usize, &str> =
        report.notifications.iter().map(|it| (it.record, &*it.method)).collect();
    let lines = trace.records.iter().zip(&kinds).enumerate().map(|(row, (record, kind))| match kind {
        Kind::Request | Kind::Answer => texts.place(""),
        Kind::Notification => texts.place(methods.get(&row).copied().unwrap_or_default()),
        _ => texts.place(&caption(&record.event)),
    });
    let lines: Vec<usize> = lines.collect();
    let requests = requests(report, &mut texts);
    let places: HashMap<u64, usize> =
        report.connections.iter().zip(0..).map(|(it, place)| (it.number, place)).collect();
    let connection = |record: &TraceRecord| places.get(&record.connection).copied().unwrap_or_default();
    json!({
        "program": trace.header.program,
        "started": trace.header.started().since_epoch().as_millis(),
        "redacted": trace.header.redacted,
        "unread": trace.unread.len(),
        "connections": connections(report),
        "at": steps(trace),
        "connection": trace.records.iter().map(connection).collect::<Vec<_>>(),
        "kind": kinds.iter().map(|kind| *kind as u8).collect::<Vec<_>>(),
        "from": trace.records.iter().map(|it| sender(&it.event)).collect::<Vec<_>>(),
        "text": lines,
        "requests": requests,
        "findings": findings(report),
        "parts": first_rows,
        "texts": texts.texts,
    })
}

fn kinds(trace: &Trace, report: &TraceReport) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = trace.records.iter().map(|it| kind(&it.event)).collect();
    let mut set = |row: usize, kind| kinds[row] = kind;
    report.notifications.iter().for_each(|it| set(it.record, Kind::Notification));
    let is_answer = |outcome: &RequestOutcome| *outcome != RequestOutcome::Cancelled;
    let answered = report.requests.iter().filter(|it| is_answer(&it.outcome));
    answered.filter_map(|it| it.end_record).for_each(|row| set(row, Kind::Answer));
    report.requests.iter().for_each(|it| set(it.record, Kind::Request));
    kinds
}

fn kind(event: &TraceEvent) -> Kind {
    match event {
        TraceEvent::Request { .. } | TraceEvent::Response { .. } | TraceEvent::Ended { .. } => Kind::Http,
        // A line of a stream of events, or the body of a login.
        TraceEvent::Message { exchange: Some(_), .. } => Kind::Http,
        TraceEvent::Stderr { .. } => Kind::Stderr,
        TraceEvent::Message { .. } => Kind::Text,
        _ => Kind::Connection,
    }
}

/// The sender of a record: 0 is the client, 1 the server, 2 nobody.
fn sender(event: &TraceEvent) -> u8 {
    match event {
        TraceEvent::Message { from, .. } => side(*from),
        TraceEvent::Request { .. } => side(Sender::Client),
        TraceEvent::Response { .. } | TraceEvent::Stderr { .. } => side(Sender::Server),
        _ => 2,
    }
}

fn side(sender: Sender) -> u8 {
    match sender {
        Sender::Client => 0,
        Sender::Server => 1,
    }
}

/// What a record that is no message says, in a line.
fn caption(event: &TraceEvent) -> String {
    match event {
        TraceEvent::Opened { server, transport } => format!("opened: {server} over {transport}"),
        TraceEvent::Message { frame, .. } | TraceEvent::Stderr { frame } => beginning(frame),
        TraceEvent::Request { method, url, .. } => format!("{method} {url}"),
        TraceEvent::Response { status, headers, .. } => {
            let kind = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            format!("HTTP {status} {}", kind.map(|(_, value)| &**value).unwrap_or_default())
        }
        TraceEvent::Ended { failure: None, .. } => "exchange complete".to_owned(),
        TraceEvent::Ended { failure: Some(failure), .. } => format!("exchange failed: {failure}"),
        TraceEvent::Closed { reason: None } => "closed".to_owned(),
        TraceEvent::Closed { reason: Some(reason) } => format!("closed: {reason}"),
        TraceEvent::Lost { records } => format!("{records} records were lost here"),
        _ => "an event of a later version".to_owned(),
    }
}

fn beginning(frame: &TracedFrame) -> String {
    let bytes = frame.as_bytes();
    match &bytes[..bytes.len().min(LONGEST * 4)] {
        [] => "(an empty line)".to_owned(),
        start => String::from_utf8_lossy(start).into_owned(),
    }
}

/// The time of each record since the one before it, in microseconds: small numbers compress well.
fn steps(trace: &Trace) -> Vec<i128> {
    let mut before = 0;
    let micros =
        trace.records.iter().map(|record| i128::try_from(record.at().as_micros()).unwrap_or(i128::MAX));
    micros.map(|now| now - std::mem::replace(&mut before, now)).collect()
}

fn connections(report: &TraceReport) -> Vec<Value> {
    let connections = report.connections.iter().map(|it| {
        let era = it.revision.map(|revision| match revision.era() {
            Era::Modern => "modern",
            Era::Legacy => "legacy",
        });
        json!({
            "number": it.number,
            "server": it.server,
            "transport": it.transport,
            "revision": it.revision.map(|revision| revision.as_str()),
            "era": era,
            "closed": it.is_closed,
        })
    });
    connections.collect()
}

fn requests(report: &TraceReport, texts: &mut Texts) -> Value {
    let all = &report.requests;
    let end = |row: Option<usize>| row.and_then(|row| i64::try_from(row).ok()).unwrap_or(-1);
    let error = |outcome: &RequestOutcome| {
        matches!(outcome, RequestOutcome::Refused { .. }).then(|| outcome.to_string())
    };
    json!({
        "first": all.iter().map(|it| it.record).collect::<Vec<_>>(),
        "last": all.iter().map(|it| end(it.end_record)).collect::<Vec<_>>(),
        "method": all.iter().map(|it| texts.place(&it.method)).collect::<Vec<_>>(),
        "name": all.iter().map(|it| texts.place_or_none(it.name.as_deref())).collect::<Vec<_>>(),
        "progress": all.iter().map(|it| it.progress).collect::<Vec<_>>(),
        "outcome": all.iter().map(|it| outcome(&it.outcome)).collect::<Vec<_>>(),
        "error": all.iter().map(|it| texts.place_or_none(error(&it.outcome).as_deref())).collect::<Vec<_>>(),
    })
}

/// The place of an outcome in the page's `OUTCOMES`.
fn outcome(outcome: &RequestOutcome) -> u8 {
    match outcome {
        RequestOutcome::Answered => 0,
        RequestOutcome::ToolFailed => 1,
        RequestOutcome::InputRequired => 2,
        RequestOutcome::Refused { .. } => 3,
        RequestOutcome::Cancelled => 4,
        _ => 5,
    }
}

fn findings(report: &TraceReport) -> Vec<Value> {
    let findings = report.findings.iter().map(|it| {
        json!({
            "row": it.record,
            "sender": side(it.sender),
            "requirement": it.breach.row(it.sender),
            "page": it.breach.page(),
            "message": it.breach.to_string(),
            "detail": it.detail.chars().take(500).collect::<String>(),
        })
    });
    findings.collect()
}
