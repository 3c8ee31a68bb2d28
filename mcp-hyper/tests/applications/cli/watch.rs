//! `mcpio servers --watch`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::many::{Home, PATIENCE};
use super::signals::runs;

/// `mcpio servers --watch --json`, line by line.
struct Watch {
    child: Child,
    lines: Receiver<Value>,
}

impl Watch {
    fn start(home: &Home, file: &str) -> Self {
        let mut command = home.command(&["servers", "--watch", "--json", "--user-config", file]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        Self { child, lines }
    }

    /// Waits for a line about this server with this status.
    fn until(&self, server: &str, status: &str) -> Value {
        let start = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("{server} is never {status}"));
            if line["server"] == server && line["status"] == status {
                return line;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// F75
#[test]
fn watch_reports_the_recovery_of_a_killed_server_and_leaves_no_process() {
    let home = Home::new("watch");
    let file = home.servers("mcp.json", json!({ "one": home.demo("one"), "two": home.demo("two") }));
    let mut watch = Watch::start(&home, &file);
    // In whichever order they are ready.
    let first = watch.lines.recv_timeout(PATIENCE).unwrap();
    assert!(first["startMs"].is_null() || first["status"] == "connected", "{first}");
    let start = Instant::now();
    while home.processes("one").is_empty() || home.processes("two").is_empty() {
        assert!(start.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(5));
    }
    watch_connected(&watch, &first);
    let before = home.processes("one")[0];
    kill_process(Pid::from_raw(before).unwrap(), Signal::KILL).unwrap();
    let lost = watch.until("one", "reconnecting");
    assert!(lost["reason"].as_str().unwrap().contains("signal"), "{lost}");
    let again = watch.until("one", "connected");
    assert_eq!((&again["tools"], &again["current"]), (&json!(7), &json!(true)));
    assert_ne!(*home.processes("one").last().unwrap(), before);

    kill_process(Pid::from_child(&watch.child), Signal::TERM).unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = watch.child.try_wait().unwrap() {
            break status;
        }
        assert!(start.elapsed() < PATIENCE, "it does not end");
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(143));
    for process in [home.processes("one"), home.processes("two")].concat() {
        assert!(!runs(process), "{process} outlives the command");
    }
}

/// Waits until both servers are connected.
fn watch_connected(watch: &Watch, first: &Value) {
    let mut connected = std::collections::BTreeSet::new();
    let mut line = first.clone();
    loop {
        if line["status"] == "connected" {
            connected.insert(line["server"].as_str().unwrap().to_owned());
        }
        if connected.len() == 2 {
            return;
        }
        line = watch.lines.recv_timeout(PATIENCE).expect("both servers connect");
    }
}
