//! Runs each adapter against a peer in another process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::pin::Pin;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mcp_proto::front::Client;
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::testing::{check_transport, check_transport_failure};
use mcp_smol::RuntimeKind;
use serde_json::json;
use smol::future::{or, pending};

const PEER: &str = env!("CARGO_BIN_EXE_peer");

/// More than any program here needs.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits for the program, and returns what it has printed.
fn output(program: Child) -> Output {
    let id = program.id().to_string();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(program.wait_with_output()));
    match receiver.recv_timeout(LIMIT) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            Command::new("kill").args(["-9", &id]).status().unwrap();
            panic!("the program runs for more than {LIMIT:?}");
        }
    }
}

/// A server over HTTP that prints its URL, and ends with its standard input.
struct HttpServer {
    url: String,
    program: Child,
}

impl HttpServer {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        let mut program =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        Self { url: url.trim_end().to_owned(), program }
    }

    fn stop(mut self) {
        drop(self.program.stdin.take());
        assert!(output(self.program).status.success());
    }
}

/// Runs a client with these arguments; returns what it prints.
fn run(client: &str, arguments: &[&str]) -> String {
    let program = Command::new(client).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let output = output(program.unwrap());
    assert!(output.status.success(), "{:?}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn client_on_blocking_threads_calls_a_tool() {
    assert_eq!(run(env!("CARGO_BIN_EXE_threads"), &[PEER]), "5\n");
}

/// F2
#[test]
fn client_on_a_hand_written_executor_has_two_calls_in_flight() {
    assert_eq!(run(env!("CARGO_BIN_EXE_executor"), &[PEER]), "5 7\n");
}

#[test]
fn client_in_a_frame_loop_calls_a_tool() {
    assert_eq!(run(env!("CARGO_BIN_EXE_frames"), &[PEER]), "5\n");
}

#[test]
fn server_with_local_handlers_answers_each_client() {
    let server = env!("CARGO_BIN_EXE_local");
    assert_eq!(run(env!("CARGO_BIN_EXE_executor"), &[server]), "5 7\n");
}

#[test]
fn client_on_completion_io_calls_a_tool() {
    assert_eq!(run(env!("CARGO_BIN_EXE_completion"), &[PEER]), "5\n");
}

#[test]
fn client_over_hyper_util_calls_a_tool() {
    let server = HttpServer::start(PEER, &["http"]);
    assert_eq!(run(env!("CARGO_BIN_EXE_http_client"), &[&server.url]), "5\n");
    server.stop();
}

#[test]
fn clients_on_tokio_call_tools_of_a_program_and_of_a_url() {
    let server = HttpServer::start(PEER, &["http"]);
    assert_eq!(run(env!("CARGO_BIN_EXE_tokio"), &[&server.url, PEER]), "5\n7\n");
    server.stop();
}

type Connected = (Client, Pin<Box<dyn Future<Output = ()>>>);

/// Checks a transport to a peer in another process, in each era, and what happens when that process crashes.
fn keeps_its_duties(connect: impl Fn(EraPolicy) -> Connected) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sleep = async |time| _ = smol::Timer::after(time).await;
    for eras in [EraPolicy::ModernOnly, EraPolicy::LegacyOnly] {
        runtime.block_on(async {
            for fails in [false, true] {
                let (client, driver) = connect(eras);
                let check = async {
                    if fails {
                        check_transport_failure(&client, sleep).await
                    } else {
                        check_transport(&client, sleep).await
                    }
                };
                or(check, async {
                    driver.await;
                    pending().await
                })
                .await
                .unwrap();
            }
        });
    }
}

#[test]
fn child_process_keeps_the_duties_of_a_transport() {
    for runtime in [RuntimeKind::Smol, RuntimeKind::Tokio] {
        keeps_its_duties(|eras| {
            let options = mcp_smol::ClientOptions::new("test", "1.0.0").era_policy(eras).runtime(runtime);
            let (client, driver) = options.connect(mcp_smol::Command::new(PEER));
            (client, Box::pin(async { _ = driver.await }))
        });
    }
}

#[test]
fn child_process_of_http_2_keeps_the_duties_of_a_transport() {
    keeps_its_duties(|eras| {
        let options = mcp_hyper::ClientOptions::new("test", "1.0.0").era_policy(eras);
        let peer = mcp_smol::Command::new(PEER).arg("stdio-v2");
        let (client, driver) = options.connect_command_v2(peer).unwrap();
        (client, Box::pin(async { _ = driver.await }))
    });
}

#[test]
fn client_of_a_url_on_tokio_keeps_the_duties_of_a_transport() {
    keeps_its_duties(|eras| {
        let server = HttpServer::start(PEER, &["http"]);
        let options = mcp_hyper::ClientOptions::new("test", "1.0.0").era_policy(eras);
        let (client, driver) = options.runtime(mcp_hyper::Tokio).connect(&server.url).unwrap();
        let driver = async {
            let _ = driver.await;
            drop(server);
        };
        (client, Box::pin(driver))
    });
}

/// Calls a tool at this URL, with a client of each era.
fn calls_a_tool(url: &str) {
    for eras in [EraPolicy::ModernOnly, EraPolicy::LegacyOnly] {
        let options = mcp_hyper::ClientOptions::new("test", "1.0.0").era_policy(eras);
        let (client, driver) = options.connect(url).unwrap();
        let calls = async {
            let sum = client.call_tool("add", json!({ "a": 2, "b": 3 })).timeout(LIMIT).await;
            client.close().await;
            sum
        };
        let (sum, _) = smol::block_on(smol::future::zip(calls, driver));
        assert_eq!(sum.unwrap().text_content(), "5");
    }
}

fn serves_mcp_beside_other_pages(program: &str) {
    let server = HttpServer::start(program, &[]);
    calls_a_tool(&server.url);
    let authority = server.url.trim_start_matches("http://").trim_end_matches("/mcp");
    let mut socket = TcpStream::connect(authority).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    write!(socket, "GET / HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    socket.read_to_string(&mut page).unwrap();
    assert!(page.ends_with("The application."), "{page}");
    server.stop();
}

#[test]
fn axum_application_serves_mcp_beside_its_own_pages() {
    serves_mcp_beside_other_pages(env!("CARGO_BIN_EXE_axum"));
}

/// Calls each tool of the program `axum`.
async fn calls_its_tools(client: &mcp_hyper::Client, whoami: &str) {
    let calls = [
        ("wait", json!({ "milliseconds": 1 }), "done"),
        ("lookup", json!({ "host": "127.0.0.1" }), "127.0.0.1"),
        ("count", json!({ "text": "three short words" }), "3"),
        ("whoami", json!({}), whoami),
    ];
    for (tool, arguments, text) in calls {
        let result = client.call_tool(tool, arguments).timeout(LIMIT).await.unwrap();
        assert_eq!((result.failed(), &*result.text_content()), (false, text), "{tool}");
    }
}

#[test]
fn tools_of_the_axum_application_use_tokio() {
    let server = HttpServer::start(env!("CARGO_BIN_EXE_axum"), &[]);
    for eras in [EraPolicy::ModernOnly, EraPolicy::LegacyOnly] {
        let options = mcp_hyper::ClientOptions::new("test", "1.0.0").era_policy(eras);
        let (client, driver) = options.connect(&server.url).unwrap();
        let calls = async {
            calls_its_tools(&client, "127.0.0.1").await;
            client.close().await
        };
        smol::block_on(smol::future::zip(calls, driver)).1.unwrap();
    }
    server.stop();
}

#[test]
fn tools_on_standard_streams_use_the_tokio_runtime_that_is_entered() {
    let command = mcp_smol::Command::new(env!("CARGO_BIN_EXE_axum")).arg("stdio");
    let (client, driver) = mcp_smol::connect(command);
    smol::block_on(driver.run_until(async {
        calls_its_tools(&client, "unknown").await;
        client.close().await;
    }));
}

/// A page of the guide shows only code of a program that is tested, in this number of blocks.
fn shows_code_of(page: &str, program: &str, count: usize) {
    let plain = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.trim_start_matches("//!").trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    };
    let (page, program) = (page.replace("//! ```", "```"), plain(program).join("\n"));
    let blocks: Vec<_> = page.split("```rust,ignore\n").skip(1).collect();
    assert_eq!(blocks.len(), count);
    for block in blocks {
        let code = plain(block.split("```").next().unwrap()).join("\n");
        assert!(program.contains(&code), "{code}");
    }
}

#[test]
fn guide_on_tokio_shows_the_axum_application() {
    let page = include_str!("../../../mcp-hyper/src/guide/tokio.rs");
    shows_code_of(page, include_str!("../src/bin/axum.rs"), 4);
}

#[test]
fn guide_on_clients_shows_the_clients_on_tokio() {
    let page = include_str!("../../../mcp-hyper/src/guide/client.rs");
    shows_code_of(page, include_str!("../src/bin/tokio.rs"), 3);
}

#[test]
fn guide_on_webassembly_shows_the_adapters() {
    let page = include_str!("../../../mcp-proto/src/adapter/web.rs");
    let program = concat!(
        include_str!("../web/src/lib.rs"),
        include_str!("../web/src/client.rs"),
        include_str!("../web/examples/client.rs"),
        include_str!("../web/src/server.rs")
    );
    shows_code_of(page, program, 6);
}

#[test]
fn axum_application_serves_websockets_at_the_same_route() {
    let server = HttpServer::start(env!("CARGO_BIN_EXE_axum"), &[]);
    calls_a_tool(&server.url.replace("http:", "ws:"));
    calls_a_tool(&server.url);
    server.stop();
}

#[test]
fn hyper_service_serves_mcp_beside_its_own_pages() {
    serves_mcp_beside_other_pages(env!("CARGO_BIN_EXE_hyper_service"));
}
