//! Throughput of `mcpio tap` beside `cat` in its place, in both directions.
//!
//! `cargo bench -p mcp-hyper --bench tap`. The other end is this program again, which writes messages of half a kilobyte, or
//! reads them. A run lasts from the first byte to the last at the reader. Runs of both alternate, and the median counts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a benchmark")]

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use mcp_hyper::mcp_proto::trace_file::{Trace, TraceEvent};

/// The bytes of a run.
const BYTES: usize = 48 * 1024 * 1024;
const RUNS: usize = 7;

fn main() {
    match env::args().nth(1).as_deref() {
        Some("--write") => write_all(io::stdout()),
        Some("--read") => println!("{}", read_all(io::stdin()).as_nanos()),
        _ => compare(),
    }
}

/// The messages of a run.
fn messages() -> Vec<u8> {
    let mut messages = Vec::with_capacity(BYTES);
    for number in 0.. {
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(9);
        let message = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{number},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n"
        );
        if messages.len() + message.len() > BYTES {
            return messages;
        }
        messages.extend_from_slice(message.as_bytes());
    }
    messages
}

/// Writes as a server does: many messages at a time.
fn write_all(mut to: impl Write) {
    for piece in messages().chunks(64 * 1024) {
        to.write_all(piece).unwrap();
    }
}

/// Reads to the end; returns the time since the first byte.
fn read_all(mut from: impl Read) -> Duration {
    let mut buffer = vec![0; 64 * 1024];
    assert!(from.read(&mut buffer).unwrap() > 0);
    let start = Instant::now();
    while from.read(&mut buffer).unwrap() > 0 {}
    start.elapsed()
}

fn itself(word: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg(word);
    command
}

fn tap(word: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcpio"));
    command
        .arg("tap")
        .arg("--trace-file")
        .arg(trace_file())
        .arg("--")
        .arg(env::current_exe().unwrap())
        .arg(word);
    command
}

fn trace_file() -> std::path::PathBuf {
    env::temp_dir().join(format!("mcp-bench-{}.trace", std::process::id()))
}

fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// From the server to the client.
fn to_client(is_tap: bool) -> Duration {
    if is_tap {
        let mut server = tap("--write").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let time = read_all(server.stdout.take().unwrap());
        assert!(server.wait().unwrap().success());
        return time;
    }
    let mut server = itself("--write").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut cat =
        Command::new("cat").stdin(server.stdout.take().unwrap()).stdout(Stdio::piped()).spawn().unwrap();
    let time = read_all(cat.stdout.take().unwrap());
    assert!(server.wait().unwrap().success() && cat.wait().unwrap().success());
    time
}

/// From the client to the server.
fn to_server(is_tap: bool) -> Duration {
    let (first, mut last) = if is_tap {
        (spawn(&mut tap("--read")), None)
    } else {
        let mut cat = spawn(&mut Command::new("cat"));
        let server =
            itself("--read").stdin(cat.stdout.take().unwrap()).stdout(Stdio::piped()).spawn().unwrap();
        (cat, Some(server))
    };
    let mut first = first;
    write_all(first.stdin.take().unwrap());
    let reader = last.as_mut().unwrap_or(&mut first);
    let time = io::read_to_string(reader.stdout.take().unwrap()).unwrap();
    assert!(first.wait().unwrap().success() && last.is_none_or(|mut last| last.wait().unwrap().success()));
    Duration::from_nanos(time.trim().parse().unwrap())
}

/// The number of records that the last trace lacks, of this number of messages.
fn lost() -> (u64, usize) {
    let mut records = Vec::new();
    for name in [format!("{}.1", trace_file().display()), trace_file().display().to_string()] {
        if let Ok(file) = fs::read(&name) {
            records.extend(Trace::parse(&file).unwrap().records);
            fs::remove_file(&name).unwrap();
        }
    }
    let lost = records.iter().map(|record| match record.event {
        TraceEvent::Lost { records } => records,
        _ => 0,
    });
    (lost.sum(), records.len())
}

fn compare() {
    println!("{:12} {:>14} {:>14} {:>7} {:>22}", "", "cat, MB/s", "tap, MB/s", "ratio", "lost of last trace");
    let rows = [("to client", to_client as fn(bool) -> Duration), ("to server", to_server)];
    for (name, run) in rows {
        let mut times = [Vec::new(), Vec::new()];
        let mut missing = (0, 0);
        for _ in 0..RUNS {
            times[0].push(run(false));
            times[1].push(run(true));
            missing = lost();
        }
        let [cat, tap] = times.map(|mut times| {
            times.sort();
            times[times.len() / 2].as_secs_f64()
        });
        let speed = |time: f64| BYTES as f64 / 1e6 / time;
        let missing = format!("{} of {}", missing.0, missing.1);
        println!("{name:12} {:14.0} {:14.0} {:7.2} {missing:>22}", speed(cat), speed(tap), cat / tap);
    }
}
