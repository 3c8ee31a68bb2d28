//! Runs the command-line client for tests.

use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{self, Child, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process};
use smol::Timer;
use smol::future::{FutureExt as _, block_on};
use smol::process::Command;

/// The program `mcpio`.
pub fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_mcpio").into()
}

pub struct CommandOutput {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Runs a program to its end, for twenty seconds at most.
pub fn output(command: &mut Command) -> Output {
    let late = async {
        Timer::after(Duration::from_secs(20)).await;
        panic!("still not done after twenty seconds")
    };
    block_on(command.kill_on_drop(true).output().or(late)).unwrap()
}

pub fn mcp(args: &[&str]) -> CommandOutput {
    CommandOutput::of(output(Command::new(program()).args(args).stdin(Stdio::null())))
}

/// A server as a shell script: `ask` reads a message and takes its id, the others write.
pub fn script(body: &str) -> String {
    let prelude = r#"
    ask() { IFS= read -r line || return 1; id=${line#*\"id\":}; id=${id%%[,\}]*}; }
    answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
    note() { printf '{"jsonrpc":"2.0","method":"notifications/message","params":%s}\n' "$1"; }
    refuse() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"%s"}}\n' "$id" "$1"; }
    "#;
    format!("{prelude}{body}")
}

/// A program that is ended with the test.
pub struct Running {
    child: Child,
    /// What it prints.
    lines: mpsc::Receiver<String>,
}

impl Running {
    pub fn start(words: &[&str]) -> Self {
        let mut command = process::Command::new(program());
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        let streams: [Box<dyn Read + Send>; 2] = [Box::new(out), Box::new(err)];
        for stream in streams {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines() {
                    let _ = sender.send(line.unwrap());
                }
            });
        }
        Self { child, lines }
    }

    /// The next URL that it prints on a line of its own, or of which it says that it serves it.
    pub fn next_url(&self) -> String {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(20)).unwrap();
            let line = line.trim();
            let line = line.strip_prefix("Serving ").unwrap_or(line);
            if let Some(url) = line.split(' ').next().filter(|word| word.starts_with("http://127.")) {
                return url.to_owned();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        #[cfg(unix)]
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        #[cfg(windows)]
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
