//! Commands that go on: sessions of `mcpio servers --watch`, in which a user types, and `mcpio watch`.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::LocalModes;
use serde_json::{Value, json};

use super::many::{Home, PATIENCE};
use super::signals::runs;
use crate::common::auth_testbed::{AuthTestbed, visit};
use crate::common::terminal::TerminalProgram;

/// A command over pipes.
struct Session {
    child: Child,
    lines: Receiver<String>,
    messages: Receiver<String>,
}

fn send_lines(stream: impl Read + Send + 'static, sender: Sender<String>) {
    thread::spawn(move || {
        // A question has no end of line, but this end.
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while let Ok(1..) = stream.read_until(b'\n', &mut line) {
            let _ = sender.send(String::from_utf8_lossy(&line).trim_end().to_owned());
            line.clear();
        }
    });
}

impl Session {
    fn start(home: &Home, args: &[&str]) -> Self {
        let mut command = home.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let ((sender, lines), (to_messages, messages)) = (channel(), channel());
        send_lines(child.stdout.take().unwrap(), sender);
        send_lines(child.stderr.take().unwrap(), to_messages);
        Self { child, lines, messages }
    }

    fn write(&mut self, line: &str) {
        writeln!(self.child.stdin.as_ref().unwrap(), "{line}").unwrap();
    }

    /// Waits for a line with this text; returns the lines until then.
    fn until(&self, text: &str) -> Vec<String> {
        until(&self.lines, text)
    }

    fn end(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(start.elapsed() < PATIENCE, "it does not end");
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

fn until(lines: &Receiver<String>, text: &str) -> Vec<String> {
    let start = Instant::now();
    let mut seen = Vec::new();
    while !seen.last().is_some_and(|line: &String| line.contains(text)) {
        let left = PATIENCE.saturating_sub(start.elapsed());
        let line = lines.recv_timeout(left);
        seen.push(line.unwrap_or_else(|_| panic!("{text:?} is not in {seen:#?}")));
    }
    seen
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The demo server, which writes this to its standard error first.
fn noisy(home: &Home, name: &str, text: &str) -> Value {
    let mut server = home.demo(name);
    let script = server["args"][1].as_str().unwrap();
    server["args"][1] = format!("printf '{text}\\n' >&2; {script}").into();
    server
}

/// F89
#[test]
fn session_over_pipes_reloads_approves_and_shows_servers() {
    let home = Home::new("session");
    let one = noisy(&home, "one", "hello\\033[2J");
    let own = home.servers("mcp.json", json!({ "one": one }));
    let project = home.servers("project/.mcp.json", json!({ "theirs": home.demo("theirs") }));
    let files = ["--user-config", &own, "--config", &project];
    let mut session = Session::start(&home, &[&["servers", "--watch"], &files[..]].concat());
    session.until("one: connected, tools: 7");
    session.write("table");
    session.until("theirs: not approved: a project's server: [a]pprove shows it");

    // A changed file is read again, also one that is broken meanwhile.
    home.servers("mcp.json", json!({ "one": one, "two": home.demo("two") }));
    session.until("The files were read again: added two");
    session.until("two: connected");
    std::fs::write(&own, "{ \"mcpServers\": {").unwrap();
    session.until("The files were read again: no server has changed");
    session.until("mcp.json: line 1");
    std::fs::remove_file(&own).unwrap();
    session.until("mcp.json: the file cannot be read");
    home.servers("mcp.json", json!({ "one": one, "two": home.demo("two") }));
    session.until("The files were read again: no server has changed");
    assert_eq!(home.processes("one").len(), 1, "no server is restarted");

    // Only a program that has read the request approves it.
    session.write("approve theirs");
    session.write("yes");
    session.until("Not approved theirs");
    until(&session.messages, "To agree, write: ");
    session.write("approve theirs");
    let asked = until(&session.messages, "To agree, write: ");
    assert!(asked.iter().any(|line| line.contains("starts the program: sh")), "{asked:?}");
    session.write(asked.last().unwrap().split_once("write: ").unwrap().1);
    session.until("Approved theirs");
    session.until("theirs: connected");

    session.write("show one");
    let shown = session.until("| hello");
    for part in ["mcp-demo", "handshake ", "mcp.json:1"] {
        assert!(shown.iter().any(|line| line.contains(part)), "{part}: {shown:?}");
    }
    assert!(shown.last().unwrap().contains("hello\\u{1b}[2J"), "{shown:?}");
    session.write("disable two");
    session.until("two: disabled");
    session.write("e two");
    session.until("two: connected");
    session.write("connect one");
    session.until("one: connected");
    assert_eq!(home.processes("one").len(), 2);
    for (line, said) in [
        ("show nothing", "no server \"nothing\""),
        ("show", "name a server"),
        ("approve one", "needs no approval"),
        ("login one", "takes no login"),
        ("jump", "[r]eload"),
        ("reload", "no server has changed"),
    ] {
        session.write(line);
        session.until(said);
    }
    session.write("quit");
    assert_eq!(session.end(), 0);
    let all = ["one", "two", "theirs"].map(|name| home.processes(name)).concat();
    assert!(all.into_iter().all(|process| !runs(process)));
    // The approval is stored once, and can be revoked.
    let status = || home.json(&[&["servers"], &files[..]].concat())["servers"][1]["status"].clone();
    assert_eq!(status(), "connected");
    home.run(&["approve", "--revoke", "theirs", "--config", &project]);
    assert_eq!(status(), "not approved");
}

/// F89
#[test]
fn session_of_a_program_is_json_and_goes_on_after_its_input() {
    let home = Home::new("sessionjson");
    let own = home.servers("mcp.json", json!({ "one": noisy(&home, "one", "hello") }));
    let mut session = Session::start(&home, &["servers", "--watch", "--json", "--user-config", &own]);
    session.until("\"status\":\"connected\"");
    session.write("show");
    let shown = session.until("\"stderr\":\"hello\"");
    let shown: Value = serde_json::from_str(shown.last().unwrap()).unwrap();
    assert_eq!((&shown["line"], &shown["serverInfo"]["name"]), (&json!(1), &json!("mcp-demo")));
    session.write("jump");
    session.until("{\"notice\":");
    drop(session.child.stdin.take());
    home.servers("mcp.json", json!({}));
    session.until("{\"server\":\"one\",\"status\":\"removed\"}");
}

/// F89
#[test]
fn session_logs_in_with_the_url_that_is_pasted() {
    let home = Home::new("sessionlogin");
    let town = smol::block_on(AuthTestbed::new());
    let file = home.servers("servers.json", json!({ "web": { "url": town.url() } }));
    let tokens = home.path("tokens");
    let words = ["servers", "--watch", "--user-config", &file, "--tokens", &tokens];
    let mut session = Session::start(&home, &words);
    session.until("web: needs login");
    session.write("login web");
    until(&session.messages, "Any other line ends the login");
    session.write("table");
    session.until("The login was ended.");
    session.until("web: needs login");
    session.write("login");
    let shown = until(&session.messages, "Any other line ends the login");
    let page = shown.iter().find(|line| line.trim().starts_with("http://")).unwrap();
    let left = smol::block_on(visit("GET", page.trim()));
    session.write("http://127.0.0.1/callback?code=code-1&state=other");
    until(&session.messages, "mcpio: ");
    session.write(left.location().unwrap());
    session.until("Logged in at web");
    session.until("web: connected");
}

/// F74
#[test]
fn watch_of_a_configured_server_lives_until_the_server_is_given_up() {
    let home = Home::new("watchone");
    let (server, program) = (home.demo("one"), home.path("server"));
    std::fs::write(&program, format!("#!/bin/sh\n{}", server["args"][1].as_str().unwrap())).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let own = home.servers("mcp.json", json!({ "one": { "command": program } }));
    let mut watch = Session::start(&home, &["watch", "one", "--json", "--user-config", &own]);
    let kill = || {
        let process = *home.processes("one").last().unwrap();
        kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    };
    watch.until("\"update\":\"on\"");
    kill();
    watch.until("\"update\":\"interrupted\"");
    watch.until("\"update\":\"on\"");
    assert_eq!(home.processes("one").len(), 2);
    std::fs::remove_file(&program).unwrap();
    kill();
    watch.until("\"kind\":\"connection\"");
    assert_eq!(watch.end(), 3);
    until(&watch.messages, "no such file");
}

/// F89
#[test]
fn keys_act_on_a_terminal_of_40_columns_which_is_restored() {
    let home = Home::new("keys");
    let servers = json!({ "one": noisy(&home, "one", "hello"), "two": home.demo("two") });
    let own = home.servers("mcp.json", servers);
    let start = || {
        let mut command = home.command(&["servers", "--watch", "--user-config", &own]);
        command.env("TERM", "xterm");
        TerminalProgram::start_whole(&mut command, 40)
    };
    let mut terminal = start();
    // Down to the second server and up again; then its details.
    terminal.answer("> one", 1, "\x1b[B");
    assert!(!terminal.modes().intersects(LocalModes::ICANON | LocalModes::ECHO));
    terminal.answer("> two", 1, "k");
    terminal.answer("connected", 2, "\r");
    terminal.answer("| hello", 1, "d");
    terminal.answer("disabled", 1, "t");
    terminal.answer("> one     disabled", 1, "q");
    assert_eq!(terminal.exit_code(), 0);
    assert!(terminal.modes().contains(LocalModes::ICANON | LocalModes::ECHO));
    let shown = terminal.shown();
    let plain = shown.replace("\x1b[J", "");
    let lines = plain.split(['\r', '\n']).map(|line| match line.strip_prefix("\x1b[") {
        Some(up) => up.split_once('A').unwrap().1,
        None => line,
    });
    for line in lines {
        assert!(line.chars().count() < 40 && !line.contains('\x1b'), "{line:?} in {shown:?}");
    }

    let mut ended = start();
    ended.answer("> one", 1, "");
    ended.signal(Signal::TERM);
    assert_eq!(ended.exit_code(), 143);
    assert!(ended.modes().contains(LocalModes::ICANON | LocalModes::ECHO));
}

/// F89
#[test]
fn key_asks_for_the_inputs_of_a_server_that_came_with_a_reload() {
    let home = Home::new("keyinputs");
    let (one, mut two) = (home.demo("one"), home.demo("two"));
    let script = two["args"][1].as_str().unwrap();
    two["args"][1] = format!("test \"$KEY\" = hunter2 || exit 1; {script}").into();
    two["env"] = json!({ "KEY": "${input:key}" });
    let file = home.write("mcp.json", &json!({ "servers": { "one": one } }));
    let mut command = home.command(&["servers", "--watch", "--user-config", &file]);
    let mut terminal = TerminalProgram::start_whole(command.env("TERM", "xterm"), 80);
    terminal.answer("> one     connected", 1, "");
    let inputs = json!([{ "type": "promptString", "id": "key", "password": true }]);
    home.write("mcp.json", &json!({ "servers": { "one": one, "two": two }, "inputs": inputs }));
    terminal.answer("added two", 1, "\x1b[B");
    terminal.answer("> two     failed", 1, "c");
    terminal.answer("key: ", 1, "hunter2\n");
    terminal.answer("> two     connected", 1, "r");
    // It is not asked for twice.
    terminal.answer("no server has changed", 1, "q");
    assert_eq!(terminal.exit_code(), 0);
    let shown = terminal.shown();
    assert!(!shown.contains("hunter2") && shown.matches("key: ").count() == 1, "{shown}");
}
