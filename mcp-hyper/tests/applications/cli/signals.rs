//! The command-line client at signals: it ends its server before it exits, and drains as a server.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mcp_hyper::host::TraceFile;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};

use crate::common::cli::program;

/// Longer than all shutdown steps.
const PATIENCE: Duration = Duration::from_secs(15);

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the end of a program.
fn end_of(child: &mut Child) -> ExitStatus {
    let mut status = None;
    eventually("the program has ended", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Whether a process runs; a zombie does not.
pub(super) fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    let is_zombie =
        stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim().starts_with('Z')));
    !is_zombie && test_kill_process(Pid::from_raw(pid).unwrap()).is_ok()
}

/// A command that waits for a server. Server and its child ignore closed input and SIGTERM.
struct BlockedCommand {
    child: Child,
    file: PathBuf,
    server: Vec<i32>,
}

impl BlockedCommand {
    fn start(name: &str) -> Self {
        let file = std::env::temp_dir().join(format!("mcp-cli-signals-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&file);
        let script = format!(
            "trap '' TERM INT HUP; sleep 100 & echo $$ $! done > {}; while :; do sleep 1; done",
            file.display()
        );
        let mut command = Command::new(program());
        command.args(["info", "--", "sh", "-c", &script]);
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let pids = |file: &Path| fs::read_to_string(file).ok().filter(|text| text.contains("done"));
        eventually("the server has started", || pids(&file).is_some());
        let server = pids(&file).unwrap().split(' ').filter_map(|pid| pid.parse().ok()).collect();
        Self { child, file, server }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        let status = end_of(&mut self.child);
        assert_eq!(self.server.len(), 2);
        // The command has killed them; the kernel may end them a moment after it.
        eventually("the server and its child have ended", || !self.server.iter().any(|pid| runs(*pid)));
        status
    }
}

impl Drop for BlockedCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = fs::remove_file(&self.file);
        for pid in self.server.iter().filter(|pid| runs(**pid)) {
            let _ = kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL);
        }
    }
}

#[test]
fn signals_run_the_shutdown_steps_and_set_the_exit_code() {
    thread::scope(|scope| {
        for (name, signal, code) in
            [("int", Signal::INT, 130), ("term", Signal::TERM, 143), ("hup", Signal::HUP, 129)]
        {
            scope.spawn(move || {
                let mut waiting = BlockedCommand::start(name);
                let start = Instant::now();
                waiting.signal(signal);
                // Wrappers forward the signal a second time.
                waiting.signal(signal);
                assert_eq!(waiting.end().code(), Some(code), "{name}");
                assert!(start.elapsed() > Duration::from_secs(1), "{name}: the server had no time to exit");
            });
        }
    });
}

#[test]
fn second_signal_kills_the_server_at_once() {
    let mut waiting = BlockedCommand::start("second");
    waiting.signal(Signal::TERM);
    thread::sleep(Duration::from_millis(300));
    assert!(waiting.child.try_wait().unwrap().is_none(), "the shutdown steps take longer");
    let start = Instant::now();
    waiting.signal(Signal::INT);
    assert_eq!(waiting.end().code(), Some(143), "the first signal determines the exit code");
    assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
}

/// `mcpio serve` over HTTP, and the address that it listens at.
struct HttpServer {
    child: Child,
    address: String,
}

impl HttpServer {
    fn start(drain: &str) -> Self {
        let mut command = Command::new(program());
        command.args(["serve", "--http", "127.0.0.1:0", "--drain", drain]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split('/').nth(2).unwrap().to_owned();
        Self { child, address }
    }

    /// The status of a health check, unless the server accepts no connections.
    fn health(&self) -> Option<String> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split(' ').nth(1).map(str::to_owned)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn exit_code(&mut self) -> Option<i32> {
        end_of(&mut self.child).code()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn server_drains_at_a_signal() {
    let mut server = HttpServer::start("0");
    assert_eq!(server.health().as_deref(), Some("200"));
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    // A signal may follow the first line at once.
    let mut server = HttpServer::start("60");
    server.signal(Signal::TERM);
    eventually("the balancer learns of it", || server.health().as_deref() == Some("503"));
    // Another signal is no copy of the first, even if it follows at once.
    server.signal(Signal::INT);
    assert_eq!(server.exit_code(), Some(130));
}

/// `mcpio tap` with a server, in a group of its own, to which no terminal sends signals.
struct TappedServer {
    child: Child,
    trace: PathBuf,
}

impl TappedServer {
    /// Starts it and waits until the server has written `ready`.
    fn start(trace: &Path, server: &[&str], ready: &str) -> Self {
        let mut command = Command::new(program());
        command.arg("tap").arg("--trace-file").arg(trace).arg("--").args(server).process_group(0);
        // The server's input stays open as long as this has the other end.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = Self { child: command.spawn().unwrap(), trace: trace.to_owned() };
        eventually("the server is ready", || {
            fs::read_to_string(&started.trace).is_ok_and(|text| text.contains(ready))
        });
        started
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn exit_code(&mut self) -> Option<i32> {
        end_of(&mut self.child).code()
    }
}

impl Drop for TappedServer {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            // The server is in it too.
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
        let _ = fs::remove_file(&self.trace);
    }
}

fn temporary_file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("mcp-cli-tap-{name}-{}.trace", std::process::id()))
}

#[test]
fn tap_passes_a_request_to_terminate_on() {
    let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let mut tapped = TappedServer::start(&temporary_file("term"), &["sh", "-c", script], "ready\"");
    tapped.signal(Signal::TERM);
    assert_eq!(tapped.exit_code(), Some(9));
}

/// The server is no shell, which cannot trap a signal that was ignored when it started.
#[test]
fn tap_passes_an_interrupt_on_that_no_terminal_sends() {
    let followed = temporary_file("followed");
    drop(TraceFile::create(&followed, "a program").unwrap());
    let server = [program().into_os_string().into_string().unwrap(), followed.display().to_string()];
    let server = [&server[0], "trace", "--follow", &server[1]];
    let mut tapped = TappedServer::start(&temporary_file("int"), &server, "a trace of a program");
    tapped.signal(Signal::INT);
    assert_eq!(tapped.exit_code(), Some(130));
    fs::remove_file(followed).unwrap();
}

#[test]
fn tap_passes_different_signals_on_that_follow_each_other_at_once() {
    let program = program().into_os_string().into_string().unwrap();
    // The first signal lets it wait for its clients, and the second ends it.
    let server = [&program, "serve", "--http", "127.0.0.1:0", "--drain", "60"];
    let mut tapped = TappedServer::start(&temporary_file("both"), &server, "Serving http");
    tapped.signal(Signal::INT);
    tapped.signal(Signal::TERM);
    let code = tapped.exit_code();
    // The system may deliver either of them first.
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
}
