//! Child processes on Windows: batch files, the job object that ends a tree, the console, and the client's driver.

use std::ffi::c_void;
use std::io::{Read as _, Write as _};
use std::process::{Command as Process, Stdio};
use std::time::Duration;
use std::{env, fs, io, thread};

use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _, future};
use mcp_proto::front::Error;
use mcp_proto::peer::client::{CloseReason, EraPolicy};
use mcp_proto::schema::Era;
use mcp_smol::{ClientOptions, Command, Environment, ShutdownStep, SpawnErrorKind};
use serde_json::json;

use crate::common::{self, Scratch, enter, line, run, times};
use crate::{ROLE, Test};

pub(crate) const TESTS: &[Test] = &[
    (
        "batch_file_is_found_by_its_name_and_gets_its_arguments",
        batch_file_is_found_by_its_name_and_gets_its_arguments,
    ),
    ("child_gets_listed_variables_and_its_directory", child_gets_listed_variables_and_its_directory),
    ("child_inherits_every_variable_or_none_on_request", child_inherits_every_variable_or_none_on_request),
    ("child_has_no_console_window", child_has_no_console_window),
    (
        "error_names_a_missing_program_and_the_searched_directories",
        error_names_a_missing_program_and_the_searched_directories,
    ),
    ("error_names_a_missing_file", error_names_a_missing_file),
    ("program_that_reads_to_the_end_exits_by_itself", program_that_reads_to_the_end_exits_by_itself),
    (
        "program_that_ignores_the_end_of_its_input_is_killed",
        program_that_ignores_the_end_of_its_input_is_killed,
    ),
    (
        "shutdown_reports_a_program_that_had_already_exited",
        shutdown_reports_a_program_that_had_already_exited,
    ),
    ("kill_ends_the_whole_tree", kill_ends_the_whole_tree),
    ("shutdown_ends_the_orphan_of_an_exited_wrapper", shutdown_ends_the_orphan_of_an_exited_wrapper),
    ("dropped_child_ends_with_its_tree", dropped_child_ends_with_its_tree),
    ("child_that_floods_both_streams_does_not_deadlock", child_that_floods_both_streams_does_not_deadlock),
    (
        "lines_of_standard_error_end_with_carriage_return_too",
        lines_of_standard_error_end_with_carriage_return_too,
    ),
    ("client_speaks_to_its_program_in_both_eras", client_speaks_to_its_program_in_both_eras),
    ("client_of_a_batch_file_ends_the_program_behind_it", client_of_a_batch_file_ends_the_program_behind_it),
    (
        "errors_quote_exit_code_and_standard_error_of_a_dead_server",
        errors_quote_exit_code_and_standard_error_of_a_dead_server,
    ),
    (
        "killer_ends_a_server_that_ignores_the_end_of_its_input",
        killer_ends_a_server_that_ignores_the_end_of_its_input,
    ),
];

pub(crate) fn run_role(role: &str) {
    match role {
        "read to the end" => {
            println!("ready");
            io::copy(&mut io::stdin(), &mut io::sink()).unwrap();
            std::process::exit(5);
        }
        "sleep" => {
            println!("ready");
            thread::sleep(Duration::from_secs(1000));
        }
        // The inner program inherits the standard output, which stays open while it runs.
        "wrap" => drop(sleeper().wait()),
        "leave" => drop(sleeper()),
        "die" => {
            sleeper();
            eprintln!("out of memory");
            std::process::exit(7);
        }
        "console" => println!("{}", if has_console_window() { "a window" } else { "no window" }),
        "flood" => {
            let zeros = vec![0; 3_000_000];
            io::stdout().write_all(&zeros).unwrap();
            io::stderr().write_all(&zeros).unwrap();
            let mut input = Vec::new();
            io::stdin().read_to_end(&mut input).unwrap();
            println!("{}", input.len());
        }
        role => panic!("no such role: {role}"),
    }
}

fn sleeper() -> std::process::Child {
    Process::new(env::current_exe().unwrap()).env(ROLE, "sleep").stdin(Stdio::null()).spawn().unwrap()
}

fn has_console_window() -> bool {
    unsafe extern "system" {
        fn GetConsoleWindow() -> *mut c_void;
    }
    // SAFETY: it has no arguments, and its result is only compared.
    !unsafe { GetConsoleWindow() }.is_null()
}

/// This program as a child with a role.
fn role(role: &str) -> Command {
    Command::new(env::current_exe().unwrap()).env(ROLE, role).shutdown(times(10_000, 200))
}

fn cmd(line: &str) -> Command {
    Command::new("cmd").args(["/D", "/C", line])
}

fn output(command: &Command) -> String {
    run(async {
        let mut child = command.spawn().unwrap();
        let mut text = String::new();
        child.stdout.read_to_string(&mut text).await.unwrap();
        child.shutdown().await;
        text
    })
}

fn names(set: &str) -> Vec<String> {
    set.lines().filter_map(|line| Some(line.split_once('=')?.0.to_ascii_uppercase())).collect()
}

/// F32: like `npx`, which is `npx.cmd`.
fn batch_file_is_found_by_its_name_and_gets_its_arguments() {
    let scratch = Scratch::new("batch file");
    scratch.file("server.cmd", "@echo off\r\necho [%1] [%2] [%3]\r\n", 0o755);
    let path = env::join_paths([scratch.0.clone(), r"C:\windows\system32".into()]).unwrap();
    let command = Command::new("server").args(["a b", "", "c&d"]).env("PATH", path);
    assert_eq!(output(&command), "[\"a b\"] [\"\"] [\"c&d\"]\r\n");
}

/// F25, F31, K10
fn child_gets_listed_variables_and_its_directory() {
    assert!(env::var_os("CARGO_MANIFEST_DIR").is_some());
    let scratch = Scratch::new("directory");
    let command = cmd("set").env("ADDED", "1").env("path", r"C:\windows\system32").current_dir(&scratch.0);
    let names = names(&output(&command));
    for name in ["ADDED", "PATH", "SYSTEMROOT"] {
        assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
    let directory = output(&cmd("cd").current_dir(&scratch.0));
    assert_eq!(fs::canonicalize(directory.trim_end()).unwrap(), fs::canonicalize(&scratch.0).unwrap());
}

/// F31, K10
fn child_inherits_every_variable_or_none_on_request() {
    let whole = names(&output(&cmd("set").environment(Environment::Inherited)));
    assert!(whole.iter().any(|name| name == "CARGO_MANIFEST_DIR"), "{whole:?}");
    let shell = Command::new(env::var_os("COMSPEC").unwrap()).args(["/D", "/C", "set"]);
    let none = names(&output(&shell.environment(Environment::Empty).env("ADDED", "1")));
    assert!(none.iter().any(|name| name == "ADDED"), "{none:?}");
    assert!(!none.iter().any(|name| name.starts_with("CARGO") || name == "USERPROFILE"), "{none:?}");
}

/// F32
fn child_has_no_console_window() {
    assert_eq!(output(&role("console")), "no window\n");
}

/// F25
fn error_names_a_missing_program_and_the_searched_directories() {
    let _entered = enter();
    let error = Command::new("no-such-server").arg("-y").env("PATH", r"C:\none;D:\none").spawn().unwrap_err();
    let shown = error.to_string();
    assert!(
        shown.starts_with("could not start `no-such-server -y`: no program of that name in PATH"),
        "{shown}"
    );
    assert!(shown.contains(r"C:\none") && shown.contains(r"D:\none"), "{shown}");
    assert_eq!(error.io_error().kind(), io::ErrorKind::NotFound);
}

/// F25
fn error_names_a_missing_file() {
    let _entered = enter();
    let scratch = Scratch::new("missing");
    let error = Command::new(r"bin\server").current_dir(&scratch.0).spawn().unwrap_err();
    assert_eq!(error.kind(), &SpawnErrorKind::NoSuchFile(scratch.0.join(r"bin\server")));
}

/// C3.5, F34, K11
fn program_that_reads_to_the_end_exits_by_itself() {
    run(async {
        let mut child = role("read to the end").spawn().unwrap();
        assert_eq!(line(&mut child.stdout).await, "ready");
        let exit = child.shutdown().await;
        assert_eq!((exit.step, exit.status.unwrap().code()), (ShutdownStep::InputClosed, Some(5)));
    });
}

/// C3.5, F34, K11
fn program_that_ignores_the_end_of_its_input_is_killed() {
    run(async {
        let mut child = role("sleep").shutdown(times(100, 100)).spawn().unwrap();
        assert_eq!(line(&mut child.stdout).await, "ready");
        let exit = child.shutdown().await;
        assert_eq!((exit.step, exit.success()), (ShutdownStep::Killed, false));
    });
}

/// F35
fn shutdown_reports_a_program_that_had_already_exited() {
    run(async {
        let mut child = cmd("exit 9").spawn().unwrap();
        assert_eq!(child.process.wait().await.unwrap().code(), Some(9));
        let exit = child.shutdown().await;
        assert_eq!((exit.step, exit.status.unwrap().code()), (ShutdownStep::AlreadyExited, Some(9)));
    });
}

/// Reads to the end of a tree's output, which is open until its last process has ended.
async fn tree_ends(mut output: mcp_smol::ChildStdout) {
    output.read_to_end(&mut Vec::new()).await.unwrap();
}

/// C3.5
fn kill_ends_the_whole_tree() {
    run(async {
        let mut child = role("wrap").spawn().unwrap();
        assert_eq!(line(&mut child.stdout).await, "ready");
        child.process.kill();
        child.process.wait().await.unwrap();
        tree_ends(child.stdout).await;
    });
}

/// C3.5
fn shutdown_ends_the_orphan_of_an_exited_wrapper() {
    run(async {
        let mut child = role("leave").spawn().unwrap();
        assert_eq!(line(&mut child.stdout).await, "ready");
        child.process.wait().await.unwrap();
        let mut byte = [0];
        assert!(
            future::poll_once(child.stdout.read(&mut byte)).await.is_none(),
            "waiting only watches: the orphan runs"
        );
        let exit = child.process.shutdown().await;
        assert_eq!((exit.step, exit.success()), (ShutdownStep::AlreadyExited, true));
        tree_ends(child.stdout).await;
    });
}

/// C3.5: no executor runs when the handle is dropped.
fn dropped_child_ends_with_its_tree() {
    for kind in ["read to the end", "sleep", "wrap", "leave"] {
        let (child, ()) = run(async {
            let mut child = role(kind).spawn().unwrap();
            assert_eq!(line(&mut child.stdout).await, "ready");
            (child, ())
        });
        let mcp_smol::Child { stdin, stdout, process, .. } = child;
        drop(process);
        run(tree_ends(stdout));
        drop(stdin);
    }
}

/// F37
fn child_that_floods_both_streams_does_not_deadlock() {
    run(async {
        let mut child = role("flood").spawn().unwrap();
        let (mut stdin, input) = (child.stdin, vec![b'x'; 3_000_000]);
        let write = async {
            stdin.write_all(&input).await.unwrap();
            stdin.close().await.unwrap();
        };
        let mut received = Vec::new();
        let (read, ()) = future::zip(child.stdout.read_to_end(&mut received), write).await;
        read.unwrap();
        let (flood, count) = received.split_at(3_000_000);
        assert!(flood.iter().all(|byte| *byte == 0));
        assert_eq!(count, b"3000000\n");
        assert!(child.process.shutdown().await.success());
    });
}

/// K8, F30
fn lines_of_standard_error_end_with_carriage_return_too() {
    run(async {
        let mut child = cmd("echo one>&2&echo two>&2&exit 1").spawn().unwrap();
        let lines: Vec<_> = child.process.stderr().lines().map(|line| line.text).collect().await;
        assert_eq!(lines, ["one", "two"]);
        child.process.wait().await.unwrap();
        assert_eq!(
            child.shutdown().await.to_string(),
            "the program ended (exit code: 1) by itself; its standard error ended with:\none\ntwo"
        );
    });
}

/// C3.9
fn client_speaks_to_its_program_in_both_eras() {
    for server in ["server", "server on its own thread"] {
        for (policy, era) in [(EraPolicy::ModernOnly, Era::Modern), (EraPolicy::LegacyOnly, Era::Legacy)] {
            run(async {
                let options = ClientOptions::new("test", "1").era_policy(policy);
                let (client, driver) = options.connect(role(server));
                let driver = common::spawn(driver);
                assert_eq!(client.ready().await.unwrap().era, era);
                let said = client.call_tool("echo", json!({ "text": "a\r\nb" })).await.unwrap();
                assert_eq!(said.text_content(), "a\r\nb");
                assert_eq!(client.close().await, CloseReason::Done);
                driver.await.unwrap();
            });
        }
    }
}

/// F32
fn client_of_a_batch_file_ends_the_program_behind_it() {
    let scratch = Scratch::new("client");
    let program = env::current_exe().unwrap();
    let script = scratch.file("server.cmd", &format!("@\"{}\" %*\r\n", program.display()), 0o755);
    run(async {
        let server = Command::new(script).env(ROLE, "server");
        let (client, driver) = ClientOptions::new("test", "1").connect(server);
        let driver = common::spawn(driver);
        let said = client.call_tool("echo", json!({ "text": "hello" })).await.unwrap();
        assert_eq!(said.text_content(), "hello");
        assert_eq!(client.close().await, CloseReason::Done);
        driver.await.unwrap();
    });
}

/// C3.6, F35: a descendant of the server keeps its output open.
fn errors_quote_exit_code_and_standard_error_of_a_dead_server() {
    run(async {
        let (client, driver) = mcp_smol::connect(role("die"));
        let driver = common::spawn(driver);
        let error = client.call_tool("tool", json!({})).await.unwrap_err().to_string();
        for part in ["exit code: 7", "by itself", "out of memory"] {
            assert!(error.contains(part), "{part:?} is missing in: {error}");
        }
        assert!(driver.await.is_err());
    });
}

/// F33
fn killer_ends_a_server_that_ignores_the_end_of_its_input() {
    run(async {
        let (client, driver) = mcp_smol::connect(role("sleep").shutdown(times(60_000, 60_000)));
        let killer = driver.killer();
        let driver = common::spawn(driver);
        let call = client.call_tool("tool", json!({})).start().unwrap();
        smol::Timer::after(Duration::from_millis(200)).await;
        killer.kill();
        assert!(matches!(call.await, Err(Error::Lost(_) | Error::Closed(_))));
        assert!(driver.await.is_err());
    });
}
