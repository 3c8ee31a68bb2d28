//! Trace files: `--trace-file` writes one, and `mcpio trace` shows it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use mcp_hyper::host::TraceFile;
use mcp_proto::HumanDuration;
use mcp_proto::trace_file::{
    Finding, RequestOutcome, Sender, Trace, TraceReport, TracedConnection, TracedRequest,
};
use serde_json::{Value, json};

use crate::error::{CommandError, Result};
use crate::options::{CommonOptions, TraceFormat};
use crate::show::{self, Table};
use crate::terminal::{BAD, GOOD, QUIET, Screen, Text, styled};
use crate::trace_page;

/// How many findings of a kind are shown.
const MOST_ALIKE: usize = 5;

/// Opens the file of `--trace-file`, with a warning if it is to have secrets.
pub(crate) fn open(common: &mut CommonOptions, messages: &mut Screen) -> Result {
    if let Some(path) = &common.trace_file {
        let failed = CommandError::server_of(format!("--trace-file {}", path.display()));
        let program = concat!("mcpio ", env!("CARGO_PKG_VERSION"));
        let create = if common.trace_raw { TraceFile::with_secrets } else { TraceFile::create };
        let file = create(path.clone(), program).map_err(failed)?;
        let own = file.path().unwrap_or(path);
        if own != path {
            let what =
                format_args!("another session writes {}: this trace is {}", path.display(), own.display());
            messages.line(styled(BAD, what))?;
        }
        if common.trace_raw {
            let what = "will have credentials and other secrets in it: keep it to yourself";
            messages.line(styled(BAD, format_args!("the trace {} {what}", own.display())))?;
        }
        common.traced = Some(file);
    }
    Ok(())
}

/// How long to wait in the end for a disk that is slow or stuck.
const WRITING_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until the file of `--trace-file` is written.
pub(crate) fn flush(common: &CommonOptions, messages: &mut Screen) {
    if let Some(file) = &common.traced
        && let Err(error) = file.flush_within(WRITING_TIMEOUT)
    {
        let path = file.path().unwrap_or(Path::new("")).display();
        let _ = messages.line(styled(BAD, format_args!("the trace {path} is not complete: {error}")));
    }
}

/// Reads what a trace file has without secrets.
pub(crate) fn read(file: &Path) -> Result<Trace> {
    Ok(read_with_secrets(file)?.without_machines())
}

/// Reads a trace file, and the steps of machines in it.
pub(crate) fn read_with_secrets(file: &Path) -> Result<Trace> {
    let bytes = fs::read(file).map_err(CommandError::server_of(file.display()))?;
    Trace::parse(&bytes).map_err(CommandError::server_of(file.display()))
}

/// Shows a trace: `mcpio trace FILE`.
pub(crate) fn show(file: &Path, format: &TraceFormat, screen: &mut Screen) -> Result {
    let trace = read(file)?;
    if format.har {
        return har(&trace, screen);
    }
    if format.otlp {
        return show::json(screen, &trace.to_otlp());
    }
    let report = trace.report();
    if let Some(page) = &format.html {
        return trace_page::write(page, &trace, &report).map_err(CommandError::server_of(page.display()));
    }
    if format.mermaid {
        screen.line(Text::block(&diagram(&report)))?;
    } else if screen.is_json() {
        show::json(screen, &as_json(&trace, &report))?;
    } else {
        in_words(&trace, &report, screen)?;
    }
    match report.findings.len() {
        0 => Ok(()),
        1 => Err(CommandError::in_result("a requirement was broken")),
        count => Err(CommandError::in_result(&format!("requirements were broken {count} times"))),
    }
}

/// Prints the archive, and on standard error what it lacks.
fn har(trace: &Trace, screen: &mut Screen) -> Result {
    let archive = trace.to_har();
    show::json(screen, &archive)?;
    match archive["log"]["comment"].as_str() {
        None | Some("") => Ok(()),
        Some(comment) => Ok(Screen::messages().warning(comment)?),
    }
}

fn as_json(trace: &Trace, report: &TraceReport) -> Value {
    let connections = report.connections.iter().map(|it| {
        let revision = it.revision.map(|revision| revision.as_str());
        json!({
            "number": it.number,
            "server": it.server,
            "transport": it.transport,
            "revision": revision,
            "closed": it.is_closed,
        })
    });
    let requests = report.requests.iter().map(|it| {
        let error = match &it.outcome {
            RequestOutcome::Refused { code, message } => json!({ "code": code, "message": message }),
            _ => Value::Null,
        };
        json!({
            "connection": it.connection,
            "from": sender(it.sender),
            "id": it.id,
            "method": it.method,
            "name": it.name,
            "startMs": milliseconds(it.start),
            "durationMs": it.duration().map(milliseconds),
            "progress": it.progress,
            "outcome": outcome_name(&it.outcome),
            "error": error,
        })
    });
    let slow =
        report.slow_requests().into_iter().map(|it| json!({ "connection": it.connection, "id": it.id }));
    let findings = report.findings.iter().map(|it| {
        json!({
            "atMs": milliseconds(it.at),
            "connection": it.connection,
            "from": sender(it.sender),
            "requirement": it.breach.row(it.sender),
            "page": it.breach.page(),
            "message": it.breach.to_string(),
            "detail": it.detail,
        })
    });
    json!({
        "program": trace.header.program,
        "connections": connections.collect::<Vec<_>>(),
        "requests": requests.collect::<Vec<_>>(),
        "slow": slow.collect::<Vec<_>>(),
        "findings": findings.collect::<Vec<_>>(),
        "unread": trace.unread.iter().map(|line| line.number).collect::<Vec<_>>(),
    })
}

fn sender(sender: Sender) -> &'static str {
    match sender {
        Sender::Client => "client",
        Sender::Server => "server",
    }
}

fn outcome_name(outcome: &RequestOutcome) -> &'static str {
    match outcome {
        RequestOutcome::Answered => "answered",
        RequestOutcome::ToolFailed => "tool_failed",
        RequestOutcome::InputRequired => "input_required",
        RequestOutcome::Refused { .. } => "refused",
        RequestOutcome::Cancelled => "cancelled",
        _ => "unanswered",
    }
}

#[expect(clippy::cast_precision_loss, reason = "of a time that a trace has, no digit is lost")]
fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

fn in_words(trace: &Trace, report: &TraceReport, screen: &mut Screen) -> Result {
    for connection in &report.connections {
        let revision = connection.revision.map_or("no known revision", |revision| revision.as_str());
        let server = if connection.server.is_empty() { "a server" } else { &connection.server };
        let open =
            if connection.is_closed { "" } else { ", without an end: it goes on, or its program was killed" };
        let TracedConnection { number, transport, .. } = connection;
        let text = format!("connection {number}: {server} over {transport}, {revision}{open}");
        screen.line(styled(QUIET, text))?;
    }
    let mut table = Table::new(&["at", "request", "took", "outcome"]);
    for request in &report.requests {
        let took = request.duration().map_or_else(String::new, took);
        let at = format!("{:.3} s", request.start.as_secs_f64());
        table.row([&at, &named(request, report.connections.len()), &took, &outcome(request)]);
    }
    table.print(screen)?;
    let slow = report.slow_requests();
    for request in slow.iter().take(MOST_ALIKE) {
        let time = request.duration().map_or_else(String::new, took);
        let text = format!("slow: {} took {time}", named(request, report.connections.len()));
        screen.line(styled(BAD, text))?;
    }
    if let Some(more @ 1..) = slow.len().checked_sub(MOST_ALIKE) {
        screen.line(styled(BAD, format_args!("{more} more are slow")))?;
    }
    let unanswered = report.requests.iter().filter(|it| it.outcome == RequestOutcome::Unanswered).count();
    if unanswered > 0 {
        screen.line(styled(
            BAD,
            format_args!("{unanswered} of {} requests have no answer", report.requests.len()),
        ))?;
    }
    for line in &trace.unread {
        screen.line(styled(BAD, format_args!("line {} cannot be read: {}", line.number, line.reason)))?;
    }
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for finding in &report.findings {
        let count = counts.entry((finding.connection, finding.sender, finding.breach)).or_default();
        *count += 1;
        if *count <= MOST_ALIKE {
            screen.line(styled(BAD, in_a_line(finding)))?;
            screen.line(styled(
                QUIET,
                format_args!("    {} {}", finding.breach.row(finding.sender), finding.breach.page()),
            ))?;
        }
    }
    for ((_, side, breach), count) in counts.iter().filter(|(_, count)| **count > MOST_ALIKE) {
        let more = count - MOST_ALIKE;
        screen.line(styled(BAD, format_args!("{more} times more the {} sent {breach}", sender(*side))))?;
    }
    if report.findings.is_empty() {
        screen.line(styled(GOOD, "No broken requirement is visible."))?;
    }
    Ok(())
}

/// Below a millisecond in microseconds.
fn took(time: Duration) -> String {
    match time.as_micros() {
        micros if micros < 1000 => format!("{micros} µs"),
        _ => HumanDuration(time).to_string(),
    }
}

fn named(request: &TracedRequest, connections: usize) -> String {
    let arrow = match request.sender {
        Sender::Client => "→",
        Sender::Server => "←",
    };
    let number = if connections > 1 { format!("{} ", request.connection) } else { String::new() };
    let name = request.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    format!("{number}{arrow} {}{name}", request.method)
}

fn outcome(request: &TracedRequest) -> String {
    match request.progress {
        0 => request.outcome.to_string(),
        1 => format!("{}, after 1 report of progress", request.outcome),
        reports => format!("{}, after {reports} reports of progress", request.outcome),
    }
}

fn in_a_line(finding: &Finding) -> String {
    let at = finding.at.as_secs_f64();
    format!("{at:.3} s, the {} sent {}: {}", sender(finding.sender), finding.breach, finding.detail)
}

/// How many findings a diagram shows.
const MOST_NOTES: usize = 50;

/// The requests and their ends as a sequence diagram of Mermaid.
fn diagram(report: &TraceReport) -> String {
    let mut arrows = Vec::new();
    for request in &report.requests {
        let server = format!("S{}", request.connection);
        let (from, to) = match request.sender {
            Sender::Client => ("C", &*server),
            Sender::Server => (&*server, "C"),
        };
        let named = request.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        let asked = label(&format!("{}{named}", request.method));
        arrows.push((request.start, format!("    {from}->>{to}: {asked}")));
        if let (Some(end), Some(time)) = (request.end, request.duration()) {
            let (from, to) =
                if request.outcome == RequestOutcome::Cancelled { (from, to) } else { (to, from) };
            let ended = label(&format!("{}, {}", outcome(request), took(time)));
            arrows.push((end, format!("    {from}-->>{to}: {ended}")));
        }
    }
    for finding in report.findings.iter().take(MOST_NOTES) {
        let note =
            label(&format!("the {} sent {}: {}", sender(finding.sender), finding.breach, finding.detail));
        arrows.push((finding.at, format!("    Note over C,S{}: {note}", finding.connection)));
    }
    // Of those at one time the order stays.
    arrows.sort_by_key(|(at, _)| *at);
    let servers = report.connections.iter().map(|it| {
        let name = if it.server.is_empty() { "server" } else { &it.server };
        format!("    participant S{} as {}", it.number, label(name))
    });
    let client = ["sequenceDiagram".to_owned(), "    participant C as client".to_owned()];
    client
        .into_iter()
        .chain(servers)
        .chain(arrows.into_iter().map(|(_, arrow)| arrow))
        .collect::<Vec<_>>()
        .join("\n")
}

/// A text without the characters that mean something in a diagram.
fn label(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " _-./:,()µ".contains(c);
    text.chars().take(80).map(|c| if is_plain(c) { c } else { ' ' }).collect()
}
