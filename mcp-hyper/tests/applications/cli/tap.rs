//! `mcpio tap` and `--trace-file` write what goes over the wire; `mcpio trace` shows it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use mcp_proto::redact::Redactor;
use mcp_proto::trace_file::{Sender, Trace, TraceEvent};
#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::cli::{Running, program};

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

/// Both traces are whole, and the second session says where its own is.
#[test]
fn second_session_writes_its_trace_beside_that_of_the_first() {
    let trace = TraceOf::new("sessions");
    let beside = TraceOf(trace.0.with_file_name(format!("mcp-cli-sessions-{}.2.trace", std::process::id())));
    let mut first = tap(&trace, "cat").spawn().unwrap();
    let mut input = first.stdin.take().unwrap();
    input.write_all(b"{\"first\":1}\n").unwrap();
    let mut begun = [0; 12];
    first.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
    let second = run(tap(&trace, "cat"), b"{\"second\":1}\n");
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains(beside.0.to_str().unwrap()) && second.status.success(), "{said}");
    drop(input);
    assert!(first.wait_with_output().unwrap().status.success());
    for (trace, message) in [(trace, "first"), (beside, "second")] {
        let written = fs::read_to_string(&trace.0).unwrap();
        assert!(written.contains(message) && written.contains("\"closed\""), "{written}");
    }
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
    assert!(shown["slow"].is_array());
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
#[cfg(unix)]
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
#[cfg(unix)]
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

/// A folder that is the home of a user.
struct HomeFolder(PathBuf);

impl HomeFolder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mcp-home-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join(".cursor")).unwrap();
        Self(if cfg!(windows) { folder } else { folder.canonicalize().unwrap() })
    }

    fn mcpio(&self, words: &[&str]) -> Output {
        let mut command = Command::new(program());
        command.args(words).current_dir(&self.0).env("HOME", &self.0).env_remove("XDG_CONFIG_HOME");
        command.env("USERPROFILE", &self.0).env("APPDATA", self.0.join(".config"));
        command.env("XDG_STATE_HOME", self.0.join("state")).stdin(Stdio::null()).output().unwrap()
    }
}

impl Drop for HomeFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn installed_tap_traces_the_server_and_its_removal_restores_each_byte() {
    let home = HomeFolder::new("install");
    let file = home.0.join(".cursor/mcp.json");
    let server = program().display().to_string();
    let before = format!(
        "{{\n  // mine\n  \"mcpServers\": {{\n    \"demo\": {{\n      \"command\": \"env\",\n      \"args\": [\n        \"{server}\", \"serve\", // here\n      ],\n      \"env\": {{ \"API_KEY\": \"hidden-4711\" }}\n    }},\n  }}\n}}\n"
    );
    fs::write(&file, &before).unwrap();
    let dry = home.mcpio(&["tap", "install", "--dry-run", "cursor", "demo"]);
    let shown = String::from_utf8(dry.stdout).unwrap();
    assert!(
        dry.status.success() && shown.contains("\n-       \"command\"") && shown.contains("\"tap\""),
        "{shown}"
    );
    assert!(!shown.contains("hidden-4711"), "{shown}");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);

    let installed = home.mcpio(&["tap", "install", "Cursor", "demo"]);
    assert!(installed.status.success(), "{installed:?}");
    let after = fs::read_to_string(&file).unwrap();
    assert!(
        after.contains("\"env\": { \"API_KEY\": \"hidden-4711\" }") && after.contains("// here"),
        "{after}"
    );
    assert_eq!(after.matches("hidden-4711").count(), 1);
    let again = home.mcpio(&["tap", "install", "cursor", "demo"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("already"), "{again:?}");
    let sum = home.mcpio(&["call", "demo", "add", "a=2", "b=3"]);
    assert!(String::from_utf8_lossy(&sum.stdout).contains('5'), "{sum:?}");
    let trace =
        Trace::parse(&fs::read(home.0.join("state/mcpio/traces/cursor-demo.trace")).unwrap()).unwrap();
    assert!(trace.report().requests.iter().any(|request| request.name.as_deref() == Some("add")));

    let removed = home.mcpio(&["tap", "remove", file.to_str().unwrap(), "demo"]);
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let again = home.mcpio(&["tap", "remove", "cursor", "demo"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("does not run under"), "{again:?}");
}

#[test]
fn tap_is_installed_nowhere_if_the_place_is_not_clear() {
    let home = HomeFolder::new("unclear");
    let one = r#"{"mcpServers":{"demo":{"command":"x"},"web":{"url":"https://a.example"}}}"#;
    fs::write(home.0.join(".cursor/mcp.json"), one).unwrap();
    fs::create_dir_all(home.0.join("work/.cursor")).unwrap();
    for (words, expected) in [
        (["cursor", "dmo"], "did you mean demo"),
        (["cursr", "demo"], "did you mean cursor"),
        (["cursor", "web"], "at a URL"),
    ] {
        let refused = home.mcpio(&[&["tap", "install"][..], &words].concat());
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(expected), "{refused:?}");
    }
    let twice = home.0.join("work/.cursor/mcp.json");
    fs::write(&twice, one.replace("\"web\"", "\"demo\"")).unwrap();
    let refused = home.mcpio(&["tap", "install", twice.to_str().unwrap(), "demo"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another server of this name"), "{refused:?}");
    fs::write(&twice, one).unwrap();
    let mut command = Command::new(program());
    command.args(["tap", "install", "cursor", "demo"]).current_dir(home.0.join("work")).env("HOME", &home.0);
    command.env("USERPROFILE", &home.0);
    let refused = command.output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("several files"), "{refused:?}");
    assert_eq!(fs::read_to_string(&twice).unwrap(), one);
}

/// The lines that a program prints, until one has this text.
fn lines_until(output: &mut impl std::io::BufRead, end: &str) -> Vec<String> {
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.contains(end)) {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "{lines:?} without {end}");
        lines.push(line);
    }
    lines
}

#[test]
#[cfg(unix)]
fn followed_trace_is_shown_as_it_is_written_and_in_the_files_after_it() {
    let trace = TraceOf::new("followed");
    let second = TraceOf(format!("{}.1", trace.0.display()).into());
    let mut follower = Command::new(program());
    follower.args(["trace", "--follow"]).arg(&trace.0).stdout(Stdio::piped());
    let mut follower = follower.spawn().unwrap();
    let kill = Pid::from_child(&follower);
    // Bounds each wait below.
    let (done, waits) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if waits.recv_timeout(Duration::from_secs(30)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = kill_process(kill, Signal::KILL);
        }
    });
    let mut shown = std::io::BufReader::new(follower.stdout.take().unwrap());

    let file = mcp_hyper::host::TraceFile::with_max_bytes(&trace.0, "a program", 2000).unwrap();
    let connection = file.connection("demo\u{1b}[2J", "stdio", Redactor::new());
    let mut observer = connection.observer();
    observer.handle_bytes(mcp_smol::WireDirection::Sent, b"{\"id\":1}\n");
    let lines = lines_until(&mut shown, "{\"id\":1}");
    assert_eq!(lines[0], "a trace of a program\n");
    assert!(lines[1].contains("opened: demo\\u{1b}[2J over stdio"), "{lines:?}");
    assert!(lines[2].contains("s → {\"id\":1}"), "{lines:?}");
    for number in 0..40 {
        let line = format!("{{\"number\":{number}}}\n");
        observer.handle_bytes(mcp_smol::WireDirection::Received, line.as_bytes());
        // The follower looks again before the second file after this is the first.
        assert_eq!(lines_until(&mut shown, &format!("← {{\"number\":{number}}}")).len(), 1);
    }
    assert!(second.0.exists(), "the file began anew");
    drop(observer);
    connection.close("over");
    lines_until(&mut shown, "closed: over");

    // A further trace takes its place.
    drop(file);
    let file = mcp_hyper::host::TraceFile::create(&trace.0, "another").unwrap();
    file.connection("demo", "stdio", Redactor::new()).close("again");
    let lines = lines_until(&mut shown, "closed: again");
    assert_eq!(lines[0], "a trace of another\n");
    drop(done);
    watchdog.join().unwrap();
    kill_process(Pid::from_child(&follower), Signal::INT).unwrap();
    assert_eq!(follower.wait().unwrap().code(), Some(130));
}

#[test]
fn standard_error_of_configured_servers_is_in_the_trace_without_secrets() {
    let home = HomeFolder::new("errors");
    let trace = TraceOf::new("errors");
    let script = format!("echo \"problem $API_KEY\" >&2; exec {} serve", program().display());
    let config = json!({ "mcpServers": { "demo": { "command": "sh", "args": ["-c", script], "env": { "API_KEY": "hidden-4711" } } } });
    fs::write(home.0.join(".cursor/mcp.json"), config.to_string()).unwrap();
    let called =
        home.mcpio(&["call", "demo", "add", "a=2", "b=3", "--trace-file", trace.0.to_str().unwrap()]);
    assert!(called.status.success(), "{called:?}");
    let records = trace.read().records;
    let errors = records.iter().filter_map(|record| match &record.event {
        TraceEvent::Stderr { frame } => Some(String::from_utf8_lossy(frame.as_bytes())),
        _ => None,
    });
    assert_eq!(errors.collect::<Vec<_>>(), ["problem [redacted]"], "{records:?}");
}

/// Sends a request, and returns the socket to read the response from.
fn send(authority: &str, request: &str) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(authority).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

#[test]
fn requests_to_a_url_are_passed_on_and_traced() {
    let trace = TraceOf::new("proxy");
    let server = Running::start(&["serve", "--http", "127.0.0.1:0"]);
    let url = server.next_url();
    let words = ["tap", "--trace-file", trace.0.to_str().unwrap(), "--header", "X-Api-Key: plain-987", &url];
    let tap = Running::start(&words);
    let to_use = tap.next_url();
    let called = Command::new(program()).args(["call", "add", "a=2", "b=3", &to_use]).output().unwrap();
    assert!(called.status.success() && String::from_utf8_lossy(&called.stdout).contains('5'), "{called:?}");
    let watched =
        Command::new(program()).args(["watch", "--changes", "1", "demo://clock", &to_use]).output().unwrap();
    assert!(watched.status.success(), "{watched:?}");

    let rest = to_use.strip_prefix("http://").unwrap();
    let (authority, path) = rest.split_once('/').unwrap();
    let status = |method: &str, path: &str, headers: &str| {
        let request = format!("{method} /{path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        let answer = std::io::read_to_string(send(authority, &request)).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    let host = format!("Host: {authority}\r\n");
    for (method, path, headers, expected) in [
        ("DELETE", path, host.clone(), "400"),
        ("PUT", path, host.clone(), "405"),
        ("POST", "mcp", host.clone(), "404"),
        ("POST", &path.replace(|c: char| c.is_ascii_digit(), "x"), host.clone(), "404"),
        ("POST", path, "Host: evil.example\r\n".to_owned(), "403"),
        ("POST", path, "Host: localhost:1\r\n".to_owned(), "403"),
        ("POST", path, format!("{host}Origin: https://evil.example\r\n"), "403"),
        ("POST", path, format!("{host}Origin: null\r\n"), "403"),
    ] {
        assert_eq!(status(method, path, &headers), expected, "{method} {path} {headers}");
    }
    drop(tap);
    let shown = trace.shown();
    let requests = shown["requests"].as_array().unwrap();
    let call = requests.iter().find(|request| request["method"] == "tools/call").unwrap();
    assert_eq!((&call["name"], &call["outcome"]), (&json!("add"), &json!("answered")));
    assert_eq!(shown["findings"], json!([]));
    let written = fs::read_to_string(&trace.0).unwrap();
    assert!(written.contains("x-api-key") && !written.contains("plain-987"), "{written}");
}

/// A program that opens connections without end leaves descriptors for others.
#[test]
fn connections_beyond_the_limit_are_refused_at_once() {
    let trace = TraceOf::new("connections");
    let tap = Running::start(&["tap", "--trace-file", trace.0.to_str().unwrap(), "http://127.0.0.1:9/mcp"]);
    let url = tap.next_url();
    let authority = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    let served = || {
        let (mut stream, mut answer) = (send(authority, &request), [0; 12]);
        stream.read_exact(&mut answer).map(|()| (stream, answer))
    };
    // An answer shows that a connection is open on the other side too.
    let mut open: Vec<_> = (0..256).map(|_| served().unwrap()).collect();
    assert!(open.iter().all(|(_, answer)| answer == b"HTTP/1.1 404"));
    let refused = std::io::read_to_string(send(authority, "")).unwrap();
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.ends_with("close some\n"), "{refused}");
    drop(open.pop());
    let end = Instant::now() + Duration::from_secs(20);
    // The refusal may come before the request, which then fails.
    while !served().is_ok_and(|(_, answer)| answer == *b"HTTP/1.1 404") {
        assert!(Instant::now() < end, "there is room again");
    }
}

/// A server that writes an event whenever it is told to, and tells when the connection is closed.
#[test]
fn event_streams_pass_piece_by_piece_and_end_with_the_client() {
    let trace = TraceOf::new("stream");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (go, next) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let start =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        socket.write_all(start.as_bytes()).unwrap();
        for number in 0..3 {
            socket.write_all(format!("8\r\ndata: {number}\n\r\n").as_bytes()).unwrap();
            next.recv_timeout(Duration::from_secs(20)).unwrap();
        }
        let mut rest = Vec::new();
        // The end of the connection.
        let _ = socket.read_to_end(&mut rest);
        String::from_utf8(head).unwrap()
    });
    let tap = Running::start(&["tap", "--trace-file", trace.0.to_str().unwrap(), &url]);
    let to_use = tap.next_url();
    let rest = to_use.strip_prefix("http://").unwrap();
    let (authority, path) = rest.split_once('/').unwrap();
    let request = format!(
        "GET /{path} HTTP/1.1\r\nHost: {authority}\r\nAccept: text/event-stream\r\nAccept-Encoding: gzip\r\n\
         Last-Event-ID: 7\r\nAuthorization: Bearer own\r\nOrigin: http://localhost:3000\r\n\r\n"
    );
    let mut client = send(authority, &request);
    let mut answer = Vec::new();
    for number in 0..3 {
        let end = format!("data: {number}\n\r\n");
        while !answer.ends_with(end.as_bytes()) {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
        go.send(()).unwrap();
    }
    drop(client);
    let head = server.join().unwrap().to_lowercase();
    for passed in ["accept: text/event-stream", "last-event-id: 7", "authorization: bearer own"] {
        assert!(head.contains(passed), "{head}");
    }
    for left_out in ["gzip", "origin", "localhost:3000", authority] {
        assert!(!head.contains(left_out), "{head}");
    }
    assert!(String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn tap_of_a_url_logs_in_by_itself() {
    use crate::common::auth_testbed::{AuthTestbed, agree};

    let (home, trace) = (HomeFolder::new("login"), TraceOf::new("login"));
    let town = smol::block_on(AuthTestbed::new());
    let tokens = home.0.join("tokens").display().to_string();
    let words = ["--no-browser", "--private-networks", "--tokens", &tokens, &town.url()];
    let tap = Running::start(&[&["tap", "--trace-file", trace.0.to_str().unwrap()][..], &words].concat());
    let to_use = tap.next_url();
    let client =
        std::thread::spawn(move || Command::new(program()).args(["info", &to_use]).output().unwrap());
    let page = tap.next_url();
    assert_eq!(smol::block_on(agree(&page)).status, 200);
    let shown = client.join().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    // At its end everything is written.
    drop(tap);
    let written = fs::read_to_string(&trace.0).unwrap();
    assert!(written.contains("\"status\":401") && written.contains("\"status\":200"), "{written}");
    let tokens = written.split("\"authorization\",\"").skip(1);
    assert!(
        tokens.clone().count() > 0 && tokens.into_iter().all(|text| text.contains("[redacted]")),
        "{written}"
    );
}
