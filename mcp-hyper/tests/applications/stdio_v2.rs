//! HTTP/2 over the standard streams of real programs: `mcpio serve --stdio-v2`, and programs that speak something else.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use futures_lite::AsyncWriteExt as _;
use futures_lite::future::zip;
use mcp_hyper::ClientOptions;
use mcp_hyper::mcp_proto::front::{Client, ClientHandlers, Error};
use mcp_hyper::mcp_proto::host::control::{FailureKind, Status};
use mcp_hyper::mcp_proto::peer::LostReason;
use mcp_hyper::mcp_proto::peer::client::{CloseReason, EraPolicy};
use mcp_hyper::mcp_proto::schema::{ElicitParams, ElicitResult, ElicitValue};
use mcp_smol::{ChildStream, Command};
use serde_json::json;

use crate::common::cli::{self, CommandOutput};
use crate::common::server::{bounded, until};
use crate::host::testbed::{Folder, config, is_running, options, start, status, until_status};

fn sh(script: &str) -> Command {
    Command::new("sh").args(["-c", script])
}

/// The demo, which writes its process id into a file first.
fn demo(folder: &Folder, arguments: &str) -> Command {
    let (file, program) = (folder.path().join("demo"), cli::program());
    sh(&format!("echo $$ >> '{}'; exec '{}' {arguments}", file.display(), program.display()))
}

async fn echo(client: &Client, text: &str) {
    assert_eq!(client.call_tool("echo", json!({ "text": text })).await.unwrap().text_content(), text);
}

#[test]
fn calls_streams_and_requests_of_the_server_share_the_pipes_in_both_eras() {
    bounded(async {
        for era in [EraPolicy::ModernOnly, EraPolicy::LegacyOnly] {
            let folder = Folder::new();
            let handlers = ClientHandlers::new().elicitation(async |_: ElicitParams, _| {
                ElicitResult::accept([("name".to_owned(), ElicitValue::String("Ann".to_owned()))])
            });
            let options = ClientOptions::new("test", "1").era_policy(era).handlers(handlers);
            let (client, driver) = options.connect_command_v2(demo(&folder, "serve --stdio-v2")).unwrap();
            let driver = smol::spawn(driver);
            let reports = Arc::new(Mutex::new(Vec::new()));
            let reported = reports.clone();
            let count = client
                .call_tool("count", json!({ "to": 10, "delay_ms": 1 }))
                .on_progress(move |report| reported.lock().unwrap().push(report.progress.as_f64()));
            let introduce = client.call_tool("introduce", json!({}));
            let echoes = async {
                for number in 0..20 {
                    echo(&client, &number.to_string()).await;
                }
            };
            let ((counted, introduced), ()) =
                zip(zip(count.into_future(), introduce.into_future()), echoes).await;
            assert_eq!(counted.unwrap().text_content(), "Counted to 10.");
            assert_eq!(introduced.unwrap().text_content(), "Hello, Ann!");
            // Of the reports within 20 ms (`Limits::progress_out`) a server sends the first, and later the newest.
            let reports = reports.lock().unwrap().clone();
            assert_eq!((reports.first(), reports.last()), (Some(&1.0), Some(&10.0)), "{reports:?}");
            assert_eq!(client.close().await, CloseReason::Done);
            driver.await.unwrap();
            assert!(!is_running(folder.last_process("demo")), "the driver waits for the exit");
        }
    });
}

/// F35
#[test]
fn end_of_the_program_fails_its_requests_with_exit_status_and_standard_error() {
    bounded(async {
        let dying = sh("echo 'no module named mcp' >&2; exit 3");
        let (client, driver) = ClientOptions::new("test", "1").connect_command_v2(dying).unwrap();
        let (failed, ended) = zip(client.ready(), driver).await;
        let failed = failed.unwrap_err().to_string();
        assert!(failed.contains("exit status: 3") && failed.contains("no module named mcp"), "{failed}");
        assert_eq!(ended.unwrap_err().to_string(), failed);

        let child = Command::new(cli::program()).args(["serve", "--stdio-v2"]);
        let child = ChildStream::spawn(child, |_| {}).unwrap();
        let killer = child.killer();
        let (client, driver) = ClientOptions::new("test", "1").connect_stream(child).unwrap();
        let driver = smol::spawn(driver);
        client.ready().await.unwrap();
        let slow = client.call_tool("slow", json!({ "seconds": 60 })).start().unwrap();
        echo(&client, "running").await;
        killer.kill();
        let lost = slow.await.unwrap_err();
        assert!(
            matches!(&lost, Error::Lost(LostReason::Disconnected(why)) if why.contains("signal: ")),
            "{lost:?}"
        );
        driver.await.unwrap_err();
    });
}

fn is_wrong(error: &Error) -> bool {
    matches!(error, Error::Closed(CloseReason::Lost(LostReason::WrongTransport(why))) if why.contains("`stdio-v2`"))
}

#[test]
fn mismatch_of_transports_is_an_error_at_once_and_starts_no_second_process() {
    bounded(async {
        let folder = Folder::new();
        let (client, driver) =
            ClientOptions::new("test", "1").connect_command_v2(demo(&folder, "serve")).unwrap();
        let (failed, ended) = zip(client.ready(), driver).await;
        assert!(is_wrong(&failed.unwrap_err()) && is_wrong(&ended.unwrap_err()));
        assert_eq!(folder.processes("demo").len(), 1);

        let folder = Folder::new();
        let (client, driver) = mcp_smol::connect(demo(&folder, "serve --stdio-v2"));
        let (failed, ended) = zip(client.ready(), driver).await;
        let failed = failed.unwrap_err();
        assert!(is_wrong(&failed) && is_wrong(&ended.unwrap_err()), "{failed}");
        assert_eq!(folder.processes("demo").len(), 1);
    });
}

#[test]
fn server_ends_with_its_input_and_explains_a_client_of_lines() {
    let serve = || {
        let mut command = smol::process::Command::new(cli::program());
        command.args(["serve", "--stdio-v2"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).kill_on_drop(true);
        command.spawn().unwrap()
    };
    bounded(async {
        let ended = CommandOutput::of(serve().output().await.unwrap());
        assert_eq!((ended.code, &*ended.out), (0, ""), "{}", ended.err);

        let mut server = serve();
        server.stdin.as_mut().unwrap().write_all(b"{\"jsonrpc\":\"2.0\"}\n").await.unwrap();
        let refused = server.output().await.unwrap();
        assert_eq!(refused.stdout, [0, 0, 0, 4, 0, 0, 0, 0, 0]);
        let explained = String::from_utf8(refused.stderr).unwrap();
        assert!(explained.contains("expected HTTP/2 (`stdio-v2`)"), "{explained}");

        let mut server = serve();
        let garbage = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], b"no frame of HTTP/2"].concat();
        server.stdin.as_mut().unwrap().write_all(&garbage).await.unwrap();
        let failed = server.output().await.unwrap();
        let explained = String::from_utf8(failed.stderr).unwrap();
        assert!(explained.contains("frame with invalid size"), "{explained}");
    });
}

#[test]
fn host_uses_entries_of_the_type_and_does_not_repeat_a_mismatch() {
    bounded(async {
        let folder = Folder::new();
        let of_type = |kind: &str, arguments: &str| {
            let mut entry = folder.script(kind, &format!("exec '{}' {arguments}", cli::program().display()));
            entry["type"] = json!(kind);
            entry
        };
        let mut wrong = of_type("wrong", "serve");
        wrong["type"] = json!("stdio-v2");
        let mut old = of_type("old", "serve --stdio-v2");
        old["type"] = json!("stdio");
        let servers = json!({ "right": of_type("stdio-v2", "serve --stdio-v2"), "wrong": wrong, "old": old });
        let (host, driver) = start(options(config(servers)));
        until_status(&host, "right", Status::Connected).await;
        let sum = host.call_tool("mcp__right__add", json!({ "a": 2, "b": 3 })).await.unwrap();
        assert_eq!(sum.text_content(), r#"{"sum":5}"#);
        for name in ["wrong", "old"] {
            until("the mismatch is reported", || host.server(name).unwrap().failure.is_some()).await;
            let failure = host.server(name).unwrap().failure.unwrap();
            assert_eq!(failure.kind, FailureKind::Permanent, "{failure:?}");
            assert_eq!(folder.processes(name).len(), 1);
            assert_ne!(status(&host, name), Status::Connected);
        }
        host.close().await;
        driver.await.unwrap();
    });
}

#[test]
fn command_line_client_speaks_http2() {
    let program = cli::program();
    let command = [program.to_str().unwrap(), "serve", "--stdio-v2"];
    let called = cli::mcp(&[&["call", "add", "a=2", "b=3", "--stdio-v2", "--"][..], &command].concat());
    assert_eq!((called.code, &*called.err), (0, ""), "{}", called.out);
    assert!(called.out.contains('5'), "{}", called.out);
    let wrong = cli::mcp(&[&["info", "--stdio-v2", "--"][..], &command[..2]].concat());
    assert_eq!(wrong.code, 3);
    assert!(wrong.err.contains("configure the server as `stdio`"), "{}", wrong.err);
}
