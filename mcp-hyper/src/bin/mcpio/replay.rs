//! Commands that read a trace file: `mcpio mock` plays its server, `mcpio replay` its client, `mcpio bundle` packs it for a
//! bug report.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::env::{self, consts};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use mcp_proto::front::{Replay, ReplayOutcome, ReplayReport, ReplayedCall};
use mcp_proto::redact::Redactor;
use mcp_proto::schema::Revision;
use mcp_proto::trace_file::{
    Difference, MachineRecord, Recording, Trace, TraceEvent, TraceRecord, TracedFrame,
};
use mcp_proto::transport::{MachineReplayError, replay_machines};
use serde_json::{Map, Value, json};

use crate::connect::{self, with_handlers};
use crate::demo::{ListenOptions, ProtectionOptions};
use crate::error::{CommandError, Result};
use crate::many::approve;
use crate::options::CommonOptions;
use crate::show::{self, Table};
use crate::terminal::{BAD, GOOD, QUIET, Screen, Text, styled};
use crate::{demo, tap, trace};

pub(crate) const MOCK: &str = "\
Be the server that a trace file recorded: on standard input and output, or over HTTP

For tests of clients: it describes itself as the server did, and answers each recorded request as the server did, with the \
progress, log messages and requests that came before the answer. Requests that mean the same get their answers in the \
recorded order, and then the last one again; one that is not recorded is refused, with the reason. The client may speak \
another revision of the protocol than the recorded one did:

    mcpio --trace-file session.trace tools -- npx -y @modelcontextprotocol/server-everything
    mcpio tools -- mcpio mock session.trace

What --trace-file hid is in the answers as [redacted].";

/// Options of `mcpio mock`.
#[derive(Debug, Args)]
pub(crate) struct MockOptions {
    /// The trace file
    file: PathBuf,
    /// The server to be, if the trace has several, by its name in the trace
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    #[command(flatten)]
    listen: ListenOptions,
}

/// Reads the recording of a server from a trace.
fn recording(file: &Path, server: Option<&str>) -> Result<Recording> {
    Recording::new(&trace::read(file)?, server).map_err(CommandError::usage_of(file.display()))
}

/// Serves a recorded server: `mcpio mock`.
pub(crate) async fn mock(options: &MockOptions, common: &CommonOptions) -> Result {
    let router = recording(&options.file, options.server.as_deref())?.router();
    match &options.listen.http {
        None => demo::serve_stdio(router, common).await,
        Some(address) => {
            let demands = ProtectionOptions::default();
            demo::serve_http(router, address, (&options.listen, &demands, common), async |_| {}).await
        }
    }
}

pub(crate) const REPLAY: &str = "\
Make the requests of a trace file again, and compare the answers

Of a server that is named, it only reads: lists, resources, prompts and completions. Tools are called if --calls names them. \
Values that the trace hides are never sent; requests with them are left out, and the reason is shown. Without a server the \
requests go to the recorded one, as `mcpio mock` plays it: a test of this client and of the file.

    mcpio replay session.trace -- npx -y @modelcontextprotocol/server-everything
    mcpio replay session.trace --calls get-sum --ignore /result/structuredContent/time https://example.com/mcp

What may differ: the order of members and of named items, _meta, cursors, ids that are made up, times, and what the trace \
hides. Exit code 1 says that an answer differs.

Without a server, the machines of a trace with secrets (--trace-raw) run again, bit for bit, with the version and features of \
this program that wrote it; the first difference is shown from both sides.";

/// Options of `mcpio replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayOptions {
    /// The trace file
    file: PathBuf,
    /// The recorded server, if the trace has several, by its name in the trace
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Call this tool too, or make the requests of this method that the protocol does not define; may be repeated
    #[arg(long, value_name = "NAME")]
    calls: Vec<String>,
    /// Call the tools that the server declares to be read-only
    #[arg(long)]
    read_only_calls: bool,
    /// A JSON pointer to a place of answers that may differ, such as /result/content/0/text; * is any member or item. May be repeated
    #[arg(long, value_name = "POINTER", value_parser = pointer)]
    ignore: Vec<String>,
    /// The command that starts the server to ask, or its URL, which needs no dashes
    #[arg(last = true, value_name = "COMMAND|URL")]
    pub(crate) command: Vec<OsString>,
}

fn pointer(text: &str) -> Result<String, String> {
    let begins = ["/result", "/error", "/failure"].iter().any(|start| text.starts_with(start));
    if begins {
        Ok(text.to_owned())
    } else {
        Err("write a pointer that begins with /result or /error".to_owned())
    }
}

/// Makes recorded requests again: `mcpio replay`.
pub(crate) async fn replay(options: &ReplayOptions, common: &CommonOptions, screen: &mut Screen) -> Result {
    if options.command.is_empty() {
        let trace = trace::read_with_secrets(&options.file)?;
        if !trace.header.redacted {
            return run_machines(&trace, screen);
        }
    }
    let recording = recording(&options.file, options.server.as_deref())?;
    let replay = options.ignore.iter().fold(recording.replay(), |replay, pointer| replay.ignore(pointer));
    let mut replay = options.calls.iter().fold(replay, Replay::call);
    if options.read_only_calls {
        replay = replay.read_only_calls();
    }
    let mut command = Cow::Borrowed(&options.command);
    if command.is_empty() {
        replay = replay.to_recorded_server();
        command = Cow::Owned(own_mock(options)?);
    }
    let run = async |connection: &connect::Connection| Ok(replay.run(&connection.client).await);
    let report = with_handlers(&command, common, recording.client_handlers(), run).await?;
    show::result(screen, &as_json(&report), |screen| in_words(&report, screen))?;
    let count = |is: fn(&ReplayOutcome) -> bool| report.calls.iter().filter(|call| is(&call.outcome)).count();
    match count(|outcome| matches!(outcome, ReplayOutcome::Differs(_))) {
        0 if report.is_same() => Ok(()),
        0 => Err(CommandError::in_result("no request was made")),
        1 => Err(CommandError::in_result("an answer differs")),
        count => Err(CommandError::in_result(&format!("{count} answers differ"))),
    }
}

/// The command of a process of this program that is the recorded server.
fn own_mock(options: &ReplayOptions) -> Result<Vec<OsString>> {
    let program =
        env::current_exe().map_err(CommandError::server_of("the path of this program is unknown"))?;
    let mut command = vec![program.into(), "mock".into(), options.file.clone().into()];
    command.extend(options.server.iter().flat_map(|name| ["--server".into(), name.into()]));
    Ok(command)
}

fn as_json(report: &ReplayReport) -> Value {
    let difference =
        |it: &Difference| json!({ "pointer": it.pointer, "recorded": it.recorded, "live": it.live });
    let calls = report.calls.iter().map(|ReplayedCall { method, name, outcome, .. }| {
        let mut call = json!({ "method": method, "name": name, "outcome": "same" });
        match outcome {
            ReplayOutcome::Differs(differences) => {
                call["outcome"] = json!("differs");
                call["differences"] = differences.iter().map(difference).collect();
            }
            ReplayOutcome::Skipped(reason) => {
                call["outcome"] = json!("skipped");
                call["reason"] = json!(reason);
            }
            _ => {}
        }
        call
    });
    json!({ "same": report.is_same(), "calls": calls.collect::<Vec<_>>() })
}

fn in_words(report: &ReplayReport, screen: &mut Screen) -> std::io::Result<()> {
    let mut table = Table::new(&["request", "answer"]);
    for ReplayedCall { method, name, outcome, .. } in &report.calls {
        let request = [method.as_str(), name.as_deref().unwrap_or_default()].join(" ");
        let answer = match outcome {
            ReplayOutcome::Differs(differences) if differences.len() == 1 => "differs".to_owned(),
            ReplayOutcome::Differs(differences) => format!("differs in {} places", differences.len()),
            ReplayOutcome::Skipped(reason) => format!("not asked for: {reason}"),
            _ => "the same".to_owned(),
        };
        table.row([request.trim_end(), &answer]);
    }
    table.print(screen)?;
    for ReplayedCall { method, name, outcome, .. } in &report.calls {
        let ReplayOutcome::Differs(differences) = outcome else { continue };
        let name = name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        for difference in differences {
            screen.line(styled(BAD, format_args!("{method}{name}: {difference}")))?;
        }
    }
    let is_left_out = |it: &ReplayedCall| matches!(it.outcome, ReplayOutcome::Skipped(_));
    if report.calls.iter().any(|call| call.method == "tools/call" && is_left_out(call)) {
        screen.line(styled(QUIET, "To call tools: --calls NAME, or --read-only-calls"))?;
    }
    if report.is_same() {
        screen.line(styled(GOOD, "No answer differs."))?;
    }
    Ok(())
}

// The machines of a trace with secrets.

/// The most characters of a step that are shown.
const MOST_SHOWN: usize = 2000;

/// Runs the machines of a trace with secrets again.
fn run_machines(trace: &Trace, screen: &mut Screen) -> Result {
    let report = match replay_machines(trace) {
        Ok(report) => report,
        Err(MachineReplayError::Different(difference)) => {
            let (then, here) = (Some(&difference.recorded), difference.replayed.as_ref());
            let place = difference.record;
            if screen.is_json() {
                show::json(screen, &json!({ "record": place, "then": side(then), "here": side(here) }))?;
            } else {
                screen.line(styled(BAD, format_args!("record {place} differs")))?;
                screen.line(Text::block(&format!("then: {}\nhere: {}", side(then), side(here))))?;
            }
            return Err(CommandError::in_result("a machine did something else"));
        }
        Err(error) => return Err(CommandError::usage(error)),
    };
    let (machines, steps) = (report.machines, report.steps);
    if screen.is_json() {
        show::json(
            screen,
            &json!({ "machines": machines, "steps": steps, "unfinished": report.unfinished }),
        )?;
    } else {
        let them = if machines == 1 { "machine" } else { "machines" };
        screen.line(styled(GOOD, format_args!("{machines} {them} did the same again, in {steps} steps")))?;
    }
    match report.unfinished.first() {
        None => Ok(()),
        Some((connection, _, what)) => Err(CommandError::in_result(&format!(
            "connection {connection} was not run to its end: the trace does not have {what}"
        ))),
    }
}

/// What a machine did, on one side.
fn side(record: Option<&MachineRecord>) -> String {
    let Some(record) = record else { return "nothing".into() };
    let text = format!("{:?}", record.step);
    let shown: String = text.chars().take(MOST_SHOWN).collect();
    let rest = if shown.len() < text.len() { "…" } else { "" };
    let time = |nanos: Option<u64>| nanos.map_or("never".into(), |nanos| format!("{nanos} ns"));
    let now = record.now.map(|now| format!(", at {now} ns")).unwrap_or_default();
    format!("{shown}{rest}{now}, with the next timeout due before: {}", time(record.due))
}

pub(crate) const BUNDLE: &str = "\
Write one file for a bug report: a trace without secrets, and the versions and names of variables here

The trace is redacted again, also by the values of variables here that are named like secrets. What the file will hold is \
shown first, and is written once you agree, or at once with --yes. The file is a trace: mcpio trace, replay and mock read it.";

/// Options of `mcpio bundle`.
#[derive(Debug, Args)]
pub(crate) struct BundleOptions {
    /// The trace file
    file: PathBuf,
    /// The file to write; one that is there stays [default: that of the trace, with the extension `bundle`]
    output: Option<PathBuf>,
    /// Write it without asking
    #[arg(long)]
    yes: bool,
}

/// Packs a trace for a bug report: `mcpio bundle`.
pub(crate) async fn bundle(options: &BundleOptions, common: &CommonOptions, screen: &mut Screen) -> Result {
    let trace = trace::read(&options.file)?;
    let about = about();
    let redactor = tap::with_own_secrets(connect::redactor(common)?);
    let (lines, changed) = bundled(&trace, &about, &redactor);
    let output = options.output.clone().unwrap_or_else(|| options.file.with_extension("bundle"));
    let mut messages = Screen::messages();
    show::facts(&mut messages, &contents(&trace, &about, lines.len(), changed))?;
    if !options.yes && !approve::is_agreed("Write this?").await? {
        return Err(CommandError::usage("nothing is written: agree to it, or give --yes"));
    }
    let failed = CommandError::usage_of(output.display());
    let mut file = File::create_new(&output).map_err(&failed)?;
    // A part would be in the way of the next attempt.
    file.write_all(&lines).inspect_err(|_| _ = fs::remove_file(&output)).map_err(&failed)?;
    let result = json!({ "file": output, "bytes": lines.len(), "about": about });
    show::result(screen, &result, |screen| {
        screen.line(Text::from("Written: ").and(output.display().to_string()))
    })
}

/// This program and where it runs: of variables the names alone.
fn about() -> Value {
    let features = [
        ("bundled-roots", cfg!(feature = "bundled-roots")),
        ("schema-validate", cfg!(feature = "schema-validate")),
        ("tokio", cfg!(feature = "tokio")),
        ("tracing", cfg!(feature = "tracing")),
    ];
    let mut variables: Vec<String> =
        env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    variables.sort();
    json!({
        "mcpio": env!("CARGO_PKG_VERSION"),
        "protocol": Revision::ALL.iter().map(|revision| revision.as_str()).collect::<Vec<_>>(),
        "system": format!("{} {}", consts::OS, consts::ARCH),
        "features": features.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect::<Vec<_>>(),
        "variables": variables,
    })
}

/// The contents of a bundle, line by line.
fn contents(trace: &Trace, about: &Value, bytes: usize, changed: usize) -> Vec<(&'static str, String)> {
    let list = |name: &str| {
        let values = about[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        values.collect::<Vec<_>>().join(", ")
    };
    let text = |name: &str| about[name].as_str().unwrap_or_default().to_owned();
    let connections = trace.report().connections;
    let servers = connections.iter().map(|it| format!("{} over {}", it.server, it.transport));
    vec![
        ("program", format!("mcpio {}", text("mcpio"))),
        ("protocol", list("protocol")),
        ("system", text("system")),
        ("features", list("features")),
        ("variables", list("variables")),
        ("servers", servers.collect::<Vec<_>>().join(", ")),
        ("records", format!("{} of {}, {bytes} bytes in all", trace.records.len(), trace.header.program)),
        ("redacted again", format!("{changed} records")),
    ]
}

/// The lines of a trace without secrets, and how many records of it had any.
fn bundled(trace: &Trace, about: &Value, redactor: &Redactor) -> (Vec<u8>, usize) {
    let mut header: Map<String, Value> = serde_json::from_slice(&trace.header.to_line()).unwrap_or_default();
    header.insert("redacted".to_owned(), json!(true));
    header.insert("bundle".to_owned(), about.clone());
    let mut lines = format!("{}\n", Value::Object(header)).into_bytes();
    let (mut redactors, mut changed) = (BTreeMap::new(), 0);
    for record in &trace.records {
        let redactor = redactors.entry(record.connection).or_insert_with(|| redactor.clone());
        let Some(event) = redacted(record.event.clone(), redactor) else { continue };
        changed += usize::from(event != record.event);
        lines.extend(TraceRecord::new(record.at(), record.connection, event).to_line());
    }
    (lines, changed)
}

/// An event without secrets; `None` for one of another kind, in which they may be anywhere.
fn redacted(event: TraceEvent, redactor: &mut Redactor) -> Option<TraceEvent> {
    let text = |redactor: &Redactor, text: String| redactor.text(&text).into_owned();
    Some(match event {
        TraceEvent::Opened { server, transport } => {
            TraceEvent::Opened { server: text(redactor, server), transport }
        }
        TraceEvent::Message { from, exchange, frame: message } => {
            TraceEvent::Message { from, exchange, frame: frame(&message, redactor) }
        }
        TraceEvent::Request { exchange, method, url, headers, frame: body } => TraceEvent::Request {
            exchange,
            method,
            url: text(redactor, url),
            headers: hidden(headers, redactor),
            frame: frame(&body, redactor),
        },
        TraceEvent::Response { exchange, status, headers } => {
            TraceEvent::Response { exchange, status, headers: hidden(headers, redactor) }
        }
        TraceEvent::Ended { exchange, failure } => {
            TraceEvent::Ended { exchange, failure: failure.map(|failure| text(redactor, failure)) }
        }
        TraceEvent::Stderr { frame: line } => TraceEvent::Stderr { frame: frame(&line, redactor) },
        TraceEvent::Closed { reason } => {
            TraceEvent::Closed { reason: reason.map(|reason| text(redactor, reason)) }
        }
        TraceEvent::Lost { records } => TraceEvent::Lost { records },
        _ => return None,
    })
}

fn hidden(headers: Vec<(String, String)>, redactor: &Redactor) -> Vec<(String, String)> {
    let hide = |(name, value): (String, String)| (redactor.header(&name, &value).into_owned(), name);
    headers.into_iter().map(hide).map(|(value, name)| (name, value)).collect()
}

fn frame(frame: &TracedFrame, redactor: &mut Redactor) -> TracedFrame {
    if frame.is_cut() {
        let text = String::from_utf8_lossy(frame.as_bytes());
        return TracedFrame::new(redactor.cut_text(&text).as_bytes(), frame.length());
    }
    let shown = redactor.frame(frame.as_bytes());
    TracedFrame::new(&*shown, shown.len())
}
