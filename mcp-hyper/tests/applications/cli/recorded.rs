//! `mcpio mock`, `mcpio replay` and `mcpio bundle`: a trace file as a server, as a client, and for a report.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mcp_proto::trace_file::{Trace, TraceEvent};
use serde_json::Value;

use crate::common::cli::{CommandOutput, Running, program};

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Self(std::env::temp_dir().join(format!("mcp-recorded-{name}-{}", std::process::id())));
        fs::create_dir_all(&folder.0).unwrap();
        folder
    }

    /// The path of a file in it.
    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A trace of these words for the demo server.
    fn recorded(&self, name: &str, words: &[&str]) -> String {
        let file = self.file(name);
        let program = program();
        let server = ["--trace-file", &file, "--", program.to_str().unwrap(), "serve"];
        let output = mcpio(&[words, &server].concat());
        assert_eq!(output.code, 0, "{}", output.err);
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mcpio(words: &[&str]) -> CommandOutput {
    CommandOutput::of(Command::new(program()).args(words).output().unwrap())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn mock_answers_as_the_recorded_server_did() {
    let folder = Folder::new("mock");
    let file = folder.recorded("add.trace", &["call", "add", "a=2", "b=3"]);
    let program = program();
    let mock = ["--", program.to_str().unwrap(), "mock", &file];
    for era in ["modern", "legacy"] {
        let output = mcpio(&[&["--json", "--era", era, "call", "add", "b=3", "a=2"], &mock[..]].concat());
        assert_eq!(json(&output.out)["structuredContent"]["sum"], 5, "{era}: {}", output.err);
        let other = mcpio(&[&["--era", era, "call", "add", "a=2", "b=4"], &mock[..]].concat());
        assert_eq!(other.code, 3);
        assert!(other.err.contains("the recording lacks tools/call"), "{}", other.err);
    }
    let info = mcpio(&[&["info"], &mock[..]].concat());
    assert!(info.out.contains("mcp-demo") && info.out.contains("no side effects"), "{}", info.out);
    let wrong = mcpio(&["mock", &file, "--server", "other"]);
    assert!(
        wrong.code == 2 && wrong.err.contains("the trace has no server \"other\", but mcpio"),
        "{}",
        wrong.err
    );
    assert_eq!(mcpio(&["mock", Path::new("/nowhere").to_str().unwrap()]).code, 3);
}

/// A message of any usual length is recorded as a whole.
#[test]
fn large_messages_are_played_and_compared() {
    let folder = Folder::new("large");
    let call = ["call", "echo", &format!("text={}", "large ".repeat(20_000))];
    let file = folder.recorded("large.trace", &call);
    assert!(fs::metadata(&file).unwrap().len() > 2 * 120_000);
    let program = program();
    let program = program.to_str().unwrap();
    let played = mcpio(&[&["--json"], &call[..], &["--", program, "mock", &file]].concat());
    assert_eq!(played.code, 0, "{}", played.err);
    let compared = mcpio(&["--json", "replay", &file, "--calls", "echo", "--", program, "serve"]);
    let calls = json(&compared.out);
    let outcomes: Vec<_> = calls["calls"].as_array().unwrap().iter().map(|it| &it["outcome"]).collect();
    assert_eq!(outcomes, ["same", "same", "same"], "{}", compared.err);
}

/// The trace of a server is a trace as a client's is.
#[test]
fn server_writes_a_trace_of_its_own() {
    let folder = Folder::new("server");
    let (program, own) = (program(), folder.file("own.trace"));
    let program = program.to_str().unwrap();
    for (era, transport) in [("legacy", "--json"), ("modern", "--json"), ("modern", "--stdio-v2")] {
        let server = ["--", program, "serve", "--trace-file", &own, transport];
        let words = [&["--era", era, transport, "call", "add", "a=2", "b=3"], &server[..]].concat();
        let output = mcpio(&words);
        assert_eq!(output.code, 0, "{era} {transport}: {}", output.err);
        let report = json(&mcpio(&["--json", "trace", &own]).out);
        let requests = report["requests"].as_array().unwrap();
        let call = requests.iter().find(|it| it["method"] == "tools/call").unwrap();
        assert_eq!((&call["outcome"], &call["from"]), (&json("\"answered\""), &json("\"client\"")), "{call}");
        assert_eq!(report["findings"], json("[]"));
        let replayed = mcpio(&["replay", &own, "--calls", "add", "--", program, "serve"]);
        assert!(replayed.code == 0 && replayed.out.contains("add"), "{}{}", replayed.out, replayed.err);
    }
    let printed = mcpio(&["call", "add", "a=2", "b=3", "--trace", "--", program, "serve", "--trace"]);
    // The client prints what the server writes to its standard error, and the same itself.
    for arrow in ["→ {", "← {"] {
        let lines = |start: &str| printed.err.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!((lines(arrow), lines(&format!("! {arrow}"))), (3, 3), "{}", printed.err);
    }
}

/// A session is a connection of the trace, whichever sockets its requests come by; a request without one belongs to its socket.
#[test]
fn server_over_http_writes_a_connection_for_each_session() {
    let folder = Folder::new("sessions");
    let own = folder.file("own.trace");
    let words = ["serve", "--http", "127.0.0.1:0", "--websocket", "--legacy-sse", "--trace-file", &own];
    let server = Running::start(&words);
    let url = server.next_url();
    let (websocket, sse) = (url.replace("http:", "ws:"), url.replace("/mcp", "/sse"));
    for (era, url) in [("legacy", &url), ("modern", &url), ("legacy", &sse), ("modern", &websocket)] {
        let output = mcpio(&["--era", era, "call", "add", "a=2", "b=3", url]);
        assert_eq!(output.code, 0, "{era} {url}: {}", output.err);
    }
    drop(server);
    let report = json(&mcpio(&["--json", "trace", &own]).out);
    let calls = report["requests"].as_array().unwrap().iter().filter(|it| it["method"] == "tools/call");
    let calls: Vec<_> = calls.map(|it| (&it["connection"], &it["outcome"])).collect();
    let answered = &json("\"answered\"");
    assert_eq!(calls, [1, 2, 3, 4].map(|it| it.into()).each_ref().map(|it| (it, answered)));
    let transports: Vec<_> =
        report["connections"].as_array().unwrap().iter().map(|it| &it["transport"]).collect();
    assert_eq!(transports, ["http", "http", "http", "websocket"]);
    assert_eq!(report["findings"], json("[]"));
}

#[test]
fn replay_compares_a_live_server_with_the_recorded_one() {
    let folder = Folder::new("replay");
    let file = folder.recorded("add.trace", &["call", "add", "a=2", "b=3"]);
    let (program, other) = (program(), folder.file("other.trace"));
    let serve = ["--", program.to_str().unwrap(), "serve"];
    let read = mcpio(&[&["--json", "replay", &file], &serve[..]].concat());
    assert_eq!(read.code, 0, "{}{}", read.out, read.err);
    let outcomes: Vec<_> =
        json(&read.out)["calls"].as_array().unwrap().iter().map(|it| it["outcome"].clone()).collect();
    assert_eq!(outcomes, ["same", "same", "skipped"]);
    let called = mcpio(&[&["replay", &file, "--calls", "add"], &serve[..]].concat());
    assert!(called.code == 0 && called.out.contains("No answer differs."), "{}{}", called.out, called.err);

    // A server with a fault.
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&other, text.replace(r#"\"sum\":5"#, r#"\"sum\":6"#)).unwrap();
    let differs = mcpio(&[&["replay", &other, "--calls", "add"], &serve[..]].concat());
    assert_eq!(differs.code, 1, "{}", differs.err);
    let line = "tools/call add: /result/structuredContent/sum: recorded 6, now 5";
    assert!(differs.out.contains(line), "{}", differs.out);
    let ignored = ["--ignore", "/result/structuredContent", "--ignore", "/result/content/*/text"];
    let ignored = mcpio(&[&["replay", &other, "--calls", "add"], &ignored[..], &serve].concat());
    assert_eq!(ignored.code, 0, "{}", ignored.out);
    assert_eq!(mcpio(&[&["replay", &file, "--ignore", "sum"], &serve[..]].concat()).code, 2);
}

#[test]
fn replay_without_a_server_asks_the_recorded_one() {
    let folder = Folder::new("alone");
    for era in ["legacy", "modern"] {
        let file =
            folder.recorded(&format!("{era}.trace"), &["--era", era, "call", "count", "to=3", "delay_ms=1"]);
        let output = mcpio(&["replay", &file]);
        assert!(output.code == 0 && output.out.contains("tools/call count"), "{}{}", output.out, output.err);
    }
}

#[test]
fn bundle_is_a_trace_without_secrets_and_values_of_variables() {
    let folder = Folder::new("bundle");
    let file = folder.recorded("echo.trace", &["call", "echo", "text=it is bu77erfly"]);
    let output = folder.file("report.bundle");
    let bundle = |words: &[&str]| {
        let mut command = Command::new(program());
        command.arg("bundle").args(words).env("SOME_API_KEY", "bu77erfly").env("PLAIN", "seen-nowhere");
        CommandOutput::of(command.stdin(std::process::Stdio::null()).output().unwrap())
    };
    let asked = bundle(&[&file, &output]);
    assert!(asked.code == 2 && asked.err.contains("PLAIN") && !Path::new(&output).exists(), "{}", asked.err);
    let written = bundle(&[&file, &output, "--yes"]);
    assert_eq!(written.code, 0, "{}", written.err);
    let text = fs::read_to_string(&output).unwrap();
    assert!(!text.contains("bu77erfly") && !text.contains("seen-nowhere"), "{text}");
    assert!(text.contains("it is [redacted]"), "{text}");
    let about = &json(text.lines().next().unwrap())["bundle"];
    assert_eq!(about["mcpio"], env!("CARGO_PKG_VERSION"));
    assert!(about["variables"].as_array().unwrap().contains(&"SOME_API_KEY".into()), "{about}");
    assert_eq!(mcpio(&["trace", &output]).code, 0);
    assert_eq!(bundle(&[&file, &output, "--yes"]).code, 2, "a file that is there stays");
}

/// The machine of a trace with secrets does the same again; after a change of the trace it does not.
#[test]
fn raw_trace_runs_again_and_shows_the_first_difference() {
    let folder = Folder::new("raw");
    let (file, program) = (folder.file("raw.trace"), program());
    let words = ["call", "add", "a=2", "b=3", "--trace-raw", "--trace-file", &file];
    let called = mcpio(&[&words[..], &["--", program.to_str().unwrap(), "serve"]].concat());
    assert_eq!(called.code, 0, "{}", called.err);
    assert!(called.err.contains("secrets in it"), "{}", called.err);
    let same = mcpio(&["replay", &file]);
    // What is for others has none of the steps.
    let bundle = folder.file("raw.bundle");
    assert_eq!(mcpio(&["bundle", &file, &bundle, "--yes"]).code, 0);
    let bundled = Trace::parse(&fs::read(&bundle).unwrap()).unwrap();
    assert!(bundled.header.redacted && bundled.report().requests.len() > 1);
    assert!(bundled.records.iter().all(|record| !matches!(record.event, TraceEvent::Machine(_))));
    assert!(same.out.starts_with("1 machine did the same again"), "{}{}", same.out, same.err);
    assert_eq!(same.code, 0);
    let written = fs::read_to_string(&file).unwrap();
    let is_sent = |at: usize| written[..at].ends_with("\"transmit\":\"");
    let (at, _) = written.rmatch_indices("{\\\"jsonrpc").find(|(at, _)| is_sent(*at)).unwrap();
    fs::write(&file, [&written[..at], " ", &written[at..]].concat()).unwrap();
    let other = mcpio(&["replay", &file]);
    assert_eq!(other.code, 1);
    assert!(other.out.contains("then: Transmit(") && other.out.contains("here: Transmit("), "{}", other.out);
}
