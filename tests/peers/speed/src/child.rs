//! A `tools/call` to a child process over pipes. This program starts itself as the child.
//!
//! The limit is a blocking echo of lines of the same size, which parses nothing; with 64 in flight it writes 64 lines
//! at once, and reads them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, ExitCode, Stdio};

use mcp_smol::{RuntimeKind, ServerOptions};
use rmcp::ServiceExt as _;
use rmcp::transport::TokioChildProcess;
use smol::LocalExecutor;

use crate::measure::{Mode, Row, Table, Unit};
use crate::memory::{call, router};
use crate::official::{Client, Era, IN_FLIGHT, Load, Server, tokio_runtime};

/// The size of a request of `tools/call` with about 100 bytes of arguments.
const LINE: usize = 220;

pub(crate) fn run(mode: &Mode) {
    for era in Era::BOTH {
        for load in Load::BOTH {
            table(era, load).run(mode);
        }
    }
}

fn table(era: Era, load: Load) -> Table {
    let requests = load.requests();
    let rows = vec![
        Row::new("limit: echo of lines", requests, move || raw(load)),
        Row::new("rmcp, stdio()", requests, move || rmcp("rmcp", era, load)),
        Row::new("rmcp, stdio_pipes()", requests, move || rmcp("rmcp-pipes", era, load)),
        Row::new("ours", requests, move || ours("ours", era, load)),
        Row::new("ours, run_stdio()", requests, move || ours("ours-thread", era, load)),
        Row::new("ours on tokio", requests, move || ours_on_tokio("ours-tokio", era, load)),
        Row::new("ours on tokio, run_stdio()", requests, move || ours_on_tokio("ours-thread", era, load)),
    ];
    let title = format!("child process, {}, {}", era.revision(), load.name());
    Table { title, unit: Unit::Each, peer: "rmcp, stdio_pipes()", rows }
}

fn this_program() -> std::path::PathBuf {
    std::env::current_exe().expect("this program's path")
}

fn raw(load: Load) -> impl FnMut() {
    let mut child = Command::new(this_program())
        .args(["serve", "raw"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut up = child.stdin.take().expect("its input");
    let mut down = BufReader::with_capacity(64 * 1024, child.stdout.take().expect("its output"));
    let at_once = if load == Load::Concurrent { IN_FLIGHT } else { 1 };
    let lines = [vec![b'a'; LINE - 1], vec![b'\n']].concat().repeat(at_once as usize);
    let mut line = Vec::new();
    move || {
        for _ in 0..load.requests() / at_once {
            up.write_all(&lines).expect("it reads");
            for _ in 0..at_once {
                line.clear();
                down.read_until(b'\n', &mut line).expect("it answers");
                assert_eq!(line.len(), LINE);
            }
        }
    }
}

fn rmcp(server: &'static str, era: Era, load: Load) -> impl FnMut() {
    let runtime = tokio_runtime();
    let client = runtime.block_on(async {
        let mut command = tokio::process::Command::new(this_program());
        command.args(["serve", server]);
        Client::connect(TokioChildProcess::new(command).expect("a child"), era).await
    });
    move || runtime.block_on(load.run(|| client.call()))
}

fn ours(server: &'static str, era: Era, load: Load) -> impl FnMut() {
    let executor = LocalExecutor::new();
    let command = mcp_smol::Command::new(this_program()).args(["serve", server]);
    let options = mcp_smol::ClientOptions::new("benchmark", "1.0.0").era_policy(era.policy());
    let (client, driver) = options.connect(command);
    executor.spawn(driver).detach();
    smol::block_on(executor.run(client.ready())).expect("it connects");
    move || smol::block_on(executor.run(load.run(|| call(&client))))
}

fn ours_on_tokio(server: &'static str, era: Era, load: Load) -> impl FnMut() {
    let runtime = tokio_runtime();
    let command = mcp_smol::Command::new(this_program()).args(["serve", server]);
    let client = runtime.block_on(async {
        let options = mcp_smol::ClientOptions::new("benchmark", "1.0.0");
        let (client, driver) = options.era_policy(era.policy()).runtime(RuntimeKind::Tokio).connect(command);
        tokio::spawn(driver);
        client.ready().await.expect("it connects");
        client
    });
    move || runtime.block_on(load.run(|| call(&client)))
}

/// Serves as the child process.
pub(crate) fn serve(server: &str) -> ExitCode {
    match server {
        "raw" => echo(),
        "rmcp" => tokio_runtime().block_on(async {
            let service = Server::new().serve(rmcp::transport::stdio()).await.expect("a client");
            let _ = service.waiting().await;
        }),
        "rmcp-pipes" => tokio_runtime().block_on(async {
            let service = Server::new().serve(rmcp::transport::io::stdio_pipes()).await.expect("a client");
            let _ = service.waiting().await;
        }),
        "ours" => {
            let (_, driver) = ServerOptions::new(router()).stdio().expect("standard streams");
            smol::block_on(driver).expect("a client");
        }
        "ours-tokio" => tokio_runtime().block_on(async {
            let options = ServerOptions::new(router()).runtime(RuntimeKind::Tokio);
            let (_, driver) = options.stdio().expect("standard streams");
            driver.await.expect("a client");
        }),
        "ours-thread" => mcp_smol::run_stdio(router()).expect("a client"),
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}

/// Copies its input to its output.
fn echo() {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = input.read(&mut buffer) {
        // The line may end before the buffer of the standard output is flushed.
        if output.write_all(&buffer[..read]).and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}
