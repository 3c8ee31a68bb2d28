//! Runs the command-line client for tests.

use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

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
    CommandOutput::of(output(Command::new(program()).args(args).stdin(std::process::Stdio::null())))
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
