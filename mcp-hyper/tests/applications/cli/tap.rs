//! `mcpio tap` and `--trace-file` write what goes over the wire; `mcpio trace` shows it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use mcp_proto::trace_file::{Sender, Trace, TraceEvent};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::cli::program;

struct TraceOf(PathBuf);

impl TraceOf {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("mcp-cli-{name}-{}.trace", std::process::id())))
    }

    fn read(&self) -> Trace {
        Trace::parse(&fs::read(&self.0).unwrap()).unwrap()
    }

    /// What `mcpio trace` shows, as JSON.
    fn shown(&self) -> Value {
        let output = Command::new(program()).args(["trace", "--json"]).arg(&self.0).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for TraceOf {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn tap(trace: &TraceOf, script: &str) -> Command {
    let mut command = Command::new(program());
    command.arg("tap").arg("--trace-file").arg(&trace.0).args(["--", "sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn tap_passes_each_byte_on_and_ends_as_the_server_does() {
    let trace = TraceOf::new("bytes");
    let output = run(
        tap(&trace, "printf 'noise \\377\\r\\n'; echo problem >&2; cat; exit 7"),
        b"{\"a\":1}\n\xfe unfinished",
    );
    assert_eq!(output.stdout, b"noise \xff\r\n{\"a\":1}\n\xfe unfinished");
    assert_eq!(output.stderr, b"problem\n");
    assert_eq!(output.status.code(), Some(7));
    let records = trace.read().records;
    let frames = |side: Sender| {
        let frames = records.iter().filter_map(move |record| match &record.event {
            TraceEvent::Message { from, frame, .. } if *from == side => Some(frame.as_bytes().to_vec()),
            _ => None,
        });
        frames.collect::<Vec<_>>()
    };
    assert_eq!(frames(Sender::Client), [b"{\"a\":1}".to_vec(), b"\xfe unfinished".to_vec()]);
    assert_eq!(frames(Sender::Server).len(), 3);
    let errors =
        |event: &TraceEvent| matches!(event, TraceEvent::Stderr { frame } if frame.as_bytes() == b"problem");
    assert!(records.iter().any(|record| errors(&record.event)), "{records:?}");
    let Some(TraceEvent::Closed { reason: Some(reason) }) = records.last().map(|it| it.event.clone()) else {
        panic!("{records:?}")
    };
    assert!(reason.contains('7'), "{reason}");
}

#[test]
fn tap_passes_signals_on() {
    let trace = TraceOf::new("signals");
    let mut child =
        tap(&trace, "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done").spawn().unwrap();
    let start = Instant::now();
    while !fs::read_to_string(&trace.0).is_ok_and(|text| text.contains("ready\"")) {
        assert!(start.elapsed() < Duration::from_secs(15));
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn trace_of_a_session_has_each_request_and_what_was_wrong() {
    let trace = TraceOf::new("session");
    let server = program().display().to_string();
    let script = format!("echo 'Server is ready'; exec {server} serve");
    let mut command = Command::new(program());
    command.args(["call", "add", "a=2", "b=3", "--", program().to_str().unwrap()]);
    command.arg("tap").arg("--trace-file").arg(&trace.0).args(["--", "sh", "-c", &script]);
    assert!(command.output().unwrap().status.success());
    let shown = trace.shown();
    let methods: Vec<&Value> = shown["requests"].as_array().unwrap().iter().map(|it| &it["method"]).collect();
    assert_eq!(methods, ["server/discover", "tools/list", "tools/call"]);
    assert_eq!(shown["requests"][2]["name"], "add");
    assert_eq!(shown["requests"][2]["outcome"], "answered");
    assert_eq!(shown["connections"][0]["revision"], "2026-07-28");
    let findings = shown["findings"].as_array().unwrap();
    assert_eq!(findings.iter().map(|it| &it["requirement"]).collect::<Vec<_>>(), ["S2.1"], "{findings:?}");
    let words = Command::new(program()).arg("trace").arg(&trace.0).output().unwrap();
    assert_eq!(words.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&words.stdout).contains("tools/call add"), "{words:?}");
    let diagram = Command::new(program()).args(["trace", "--mermaid"]).arg(&trace.0).output().unwrap();
    let diagram = String::from_utf8(diagram.stdout).unwrap();
    assert!(diagram.starts_with("sequenceDiagram\n"), "{diagram}");
    assert!(
        diagram.contains("C->>S1: tools/call add\n") && diagram.contains("S1-->>C: answered, "),
        "{diagram}"
    );
}

#[test]
fn commands_trace_their_own_connection_without_secrets() {
    let trace = TraceOf::new("own");
    let mut command = Command::new(program());
    command.args(["call", "echo", "text=my-own-secret", "--env", "API_KEY=my-own-secret", "--trace-file"]);
    command.arg(&trace.0).args(["--", program().to_str().unwrap(), "serve"]);
    let output = command.output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("my-own-secret"), "{output:?}");
    let written = fs::read_to_string(&trace.0).unwrap();
    assert!(!written.contains("my-own-secret") && written.contains("[redacted]"), "{written}");
    assert_eq!(trace.shown()["findings"], json!([]));
}

#[test]
fn trace_is_exported_for_other_tools() {
    let trace = TraceOf::new("exports");
    let mut command = Command::new(program());
    command.args(["call", "add", "a=2", "b=3", "--trace-file"]).arg(&trace.0);
    command.args(["--", program().to_str().unwrap(), "serve"]);
    assert!(command.output().unwrap().status.success());
    let export =
        |format: &str| Command::new(program()).args(["trace", format]).arg(&trace.0).output().unwrap();
    let (har, otlp) = (export("--har"), export("--otlp"));
    assert!(har.status.success() && otlp.status.success(), "{har:?} {otlp:?}");
    let archive: Value = serde_json::from_slice(&har.stdout).unwrap();
    assert_eq!(archive["log"]["entries"], json!([]));
    assert!(
        String::from_utf8_lossy(&har.stderr).contains("left out, as they are not over HTTP: connection 1"),
        "{har:?}"
    );
    let exported: Value = serde_json::from_slice(&otlp.stdout).unwrap();
    let spans = exported["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    assert!(spans.iter().any(|span| span["name"] == "tools/call add"), "{spans:?}");
    assert_eq!(exported["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"], "mcpio");
}

#[test]
fn page_of_a_trace_replaces_no_other_file() {
    let (trace, page) = (TraceOf::new("shown"), TraceOf::new("page"));
    run(tap(&trace, "cat"), b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"my/method\"}\n");
    let write = |page: &TraceOf| {
        let mut command = Command::new(program());
        command.args(["trace", "--html"]).args([&page.0, &trace.0]).output().unwrap()
    };
    for _ in 0..2 {
        assert!(write(&page).status.success());
    }
    let html = fs::read_to_string(&page.0).unwrap();
    assert!(
        html.starts_with("<!doctype html>") && html.contains("default-src 'none'; script-src 'sha256-"),
        "{html}"
    );
    assert!(!html.contains("my/method"), "{html}");
    assert_eq!(write(&trace).status.code(), Some(3));
    assert_eq!(trace.read().unread, []);
}

#[test]
fn tap_needs_a_file_and_a_trace_is_one() {
    let tap = Command::new(program()).args(["tap", "--", "cat"]).output().unwrap();
    assert_eq!(tap.status.code(), Some(2), "{tap:?}");
    let trace = TraceOf::new("none");
    fs::write(&trace.0, "GET / HTTP/1.1\n").unwrap();
    let shown = Command::new(program()).arg("trace").arg(&trace.0).output().unwrap();
    assert_eq!(shown.status.code(), Some(3), "{shown:?}");
    assert!(String::from_utf8_lossy(&shown.stderr).contains("not the header of a trace"), "{shown:?}");
}

/// A client that reads one line and then goes away.
#[test]
fn closed_pipes_are_closed_on_the_other_side_too() {
    let trace = TraceOf::new("pipes");
    let start = Instant::now();
    let mut child = tap(&trace, "exec 1>&-; exec sleep 20").spawn().unwrap();
    let mut output = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    assert!(start.elapsed() < Duration::from_secs(15), "the end of the server's output is passed on");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap();

    let mut child = tap(&trace, "echo a; while echo b; do sleep 0.05; done; exit 3").spawn().unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    assert!(!status.success(), "the server notices that its reader is gone: {status}");

    let mut child = tap(&trace, "exec 0<&-; exec sleep 20").spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let start = Instant::now();
    while input.write_all(&[b'a'; 1000]).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(15), "the client notices that its reader is gone");
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap();
}

#[test]
fn server_that_writes_faster_than_is_recorded_still_ends_at_a_signal() {
    let trace = TraceOf::new("fast");
    let mut command = tap(&trace, "exec yes");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !fs::metadata(&trace.0).is_ok_and(|file| file.len() > 10_000) {
        assert!(start.elapsed() < Duration::from_secs(15));
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(5));
    }
    let records = trace.read().records;
    assert!(matches!(records.last().unwrap().event, TraceEvent::Closed { .. }));
}

#[test]
fn secrets_of_the_environment_and_of_the_command_are_hidden() {
    let trace = TraceOf::new("inherited");
    let mut command = Command::new(program());
    command.arg("tap").arg("--trace-file").arg(&trace.0);
    command.args([
        "--",
        "sh",
        "-c",
        "echo $MY_SECRET_TOKEN $2 $3; echo $2 >&2",
        "sh",
        "--api-key",
        "plain-987",
    ]);
    command.arg("--password=hunter-22").env("MY_SECRET_TOKEN", "from-the-environment");
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.stdout, b"from-the-environment plain-987 --password=hunter-22\n");
    let written = fs::read_to_string(&trace.0).unwrap();
    for secret in ["from-the", "plain-987", "hunter-22"] {
        assert!(!written.contains(secret), "{secret}: {written}");
    }
    assert!(written.contains("\"server\":\"sh\""), "{written}");
}

#[test]
fn full_disk_ends_the_trace_and_nothing_else() {
    let trace = TraceOf::new("full");
    let mut command = Command::new("sh");
    // No file grows beyond some kilobytes, and nobody dies of it.
    command.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\""]).arg(program());
    command.arg("tap").arg("--trace-file").arg(&trace.0).args(["--", "sh", "-c", "cat; exit 7"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input: String = (0..1000).map(|number| format!("{{\"number\":{number}}}\n")).collect();
    let output = run(command, input.as_bytes());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), input);
    assert_eq!(output.status.code(), Some(7));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("is not complete"), "{errors}");
    // What was written before is a trace.
    assert!(fs::metadata(&trace.0).unwrap().len() <= 8 * 1024);
    assert_eq!(trace.read().header.program, concat!("mcpio ", env!("CARGO_PKG_VERSION")));
}
