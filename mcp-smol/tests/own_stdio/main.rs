//! Tests of this process's own standard streams, which a test under the usual harness lacks: this program is its own
//! server.
//!
//! Started without a role it is the client and runs every test; with a role it is a server.

/// The name of a test, and the test.
type Test = (&'static str, fn());

#[path = "../common/mod.rs"]
mod common;
#[cfg(windows)]
mod windows;

use std::env;
use std::fs::{self, File};
use std::future::poll_fn;
use std::io::{self, Read as _, Seek as _, Write as _};
#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use mcp_proto::front::{Router, ServerHandle};
use mcp_proto::schema::Tool;
use mcp_smol::{Io, ServerOptions};
use serde::Deserialize;
use serde_json::{Value, json};

use common::{Scratch, enter, eventually, in_runtime, line, run};

const ROLE: &str = "MCP_SMOL_TEST_ROLE";
/// Makes the tests of slow clients use the default limits and hundreds of megabytes.
const FULL_SIZE: &str = "MCP_SMOL_TEST_FULL_SIZE";

/// Gives the server two tools of one name.
const INVALID_ROUTER: &str = "MCP_SMOL_TEST_INVALID_ROUTER";

fn is_full_size() -> bool {
    env::var_os(FULL_SIZE).is_some()
}

#[derive(Deserialize)]
struct Echo {
    text: String,
}

#[derive(Deserialize)]
struct Fill {
    bytes: usize,
}

const TESTS: &[Test] = &[
    ("pipes_carry_megabytes_both_ways", pipes_carry_megabytes_both_ways),
    #[cfg(unix)]
    ("sockets_carry_megabytes_both_ways", sockets_carry_megabytes_both_ways),
    ("files_can_be_read_and_written", files_can_be_read_and_written),
    ("streams_can_be_shared", streams_can_be_shared),
    #[cfg(unix)]
    ("only_messages_reach_standard_output", only_messages_reach_standard_output),
    #[cfg(unix)]
    ("client_sees_the_server_close_its_output", client_sees_the_server_close_its_output),
    ("standard_streams_can_be_taken_only_once", standard_streams_can_be_taken_only_once),
    #[cfg(unix)]
    ("polling_leaves_the_flags_of_the_descriptors_alone", polling_leaves_the_flags_of_the_descriptors_alone),
    ("client_that_reads_late_gets_every_answer", client_that_reads_late_gets_every_answer),
    ("client_that_reads_slowly_gets_every_answer", client_that_reads_slowly_gets_every_answer),
    ("server_answers_over_pipes_sockets_and_files", server_answers_over_pipes_sockets_and_files),
    ("handler_is_woken_by_another_thread", handler_is_woken_by_another_thread),
    ("handle_closes_the_server", handle_closes_the_server),
    (
        "server_gives_up_a_client_that_does_not_read_its_last_answers",
        server_gives_up_a_client_that_does_not_read_its_last_answers,
    ),
    (
        "client_that_disconnects_without_reading_is_no_error",
        client_that_disconnects_without_reading_is_no_error,
    ),
    ("server_rejects_an_invalid_router", server_rejects_an_invalid_router),
];

#[cfg(unix)]
const SYSTEM_TESTS: &[Test] = &[];
#[cfg(windows)]
use windows::TESTS as SYSTEM_TESTS;

fn main() {
    match env::var(ROLE).as_deref() {
        Ok("echo") => run(async { echo(mcp_smol::stdio().unwrap()).await }),
        Ok("echo shared") => run(async { echo(mcp_smol::stdio_shared().unwrap()).await }),
        #[cfg(unix)]
        Ok("noisy") => noisy(),
        #[cfg(unix)]
        Ok("close") => close(),
        Ok("twice") => twice(),
        #[cfg(unix)]
        Ok("flags") => flags(),
        Ok("server") => serve(Server::Driver),
        Ok("server on its own thread") => serve(Server::OwnThread),
        #[cfg(windows)]
        Ok(role) => windows::run_role(role),
        #[cfg(unix)]
        Ok(role) => panic!("no such role: {role}"),
        Err(_) => run_tests(),
    }
}

/// Runs every test, and reports each as the usual harness does.
fn run_tests() {
    let mut failed = 0;
    for (name, test) in TESTS.iter().chain(SYSTEM_TESTS) {
        let passed = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += usize::from(!passed);
    }
    let count = TESTS.len() + SYSTEM_TESTS.len();
    println!(
        "test result: {}. {} passed; {failed} failed",
        if failed == 0 { "ok" } else { "FAILED" },
        count - failed
    );
    assert_eq!(failed, 0);
}

// Roles of the server.

async fn echo((stdin, stdout): (mcp_smol::Stdin, mcp_smol::Stdout)) {
    let mut io = Io::new(stdin, stdout);
    let mut ended = false;
    poll_fn(|cx| -> Poll<io::Result<()>> {
        loop {
            std::task::ready!(io.poll_write(cx))?;
            if ended {
                return Poll::Ready(Ok(()));
            }
            let chunk = std::task::ready!(io.poll_read(cx))?;
            ended = chunk.is_empty();
            io.outgoing().unwrap().extend_from_slice(&chunk);
        }
    })
    .await
    .unwrap();
}

#[cfg(unix)]
fn noisy() {
    run(async {
        let (mut stdin, mut stdout) = mcp_smol::stdio().unwrap();
        println!("noise of the server");
        assert!(Command::new("sh").args(["-c", "cat; echo noise of its child"]).status().unwrap().success());
        let request = line(&mut stdin).await;
        stdout.write_all(format!("answer to {request}\n").as_bytes()).await.unwrap();
        stdout.flush().await.unwrap();
    });
}

#[cfg(unix)]
fn close() {
    run(async {
        let (mut stdin, mut stdout) = mcp_smol::stdio().unwrap();
        stdout.write_all(b"bye").await.unwrap();
        stdout.close().await.unwrap();
        assert_eq!(stdout.write(b"more").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        // Only the client's reaction to the end of the output ends this.
        assert_eq!(stdin.read(&mut [0]).await.unwrap(), 0);
    });
}

fn twice() {
    let _entered = enter();
    let taken = mcp_smol::stdio().unwrap();
    assert_eq!(mcp_smol::stdio().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    drop(taken);
    assert_eq!(mcp_smol::stdio_shared().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}

#[cfg(unix)]
fn flags() {
    run(async {
        let streams = mcp_smol::stdio_shared().unwrap();
        for fd in [rustix::stdio::stdin(), rustix::stdio::stdout()] {
            let flags = rustix::fs::fcntl_getfl(fd).unwrap();
            assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
        }
        echo(streams).await;
        if cfg!(target_os = "linux") {
            let names = fs::read_dir("/proc/self/task").unwrap().flatten();
            let names = names.map(|thread| fs::read_to_string(thread.path().join("comm")).unwrap());
            assert!(!names.into_iter().any(|name| name.starts_with("mcp-")), "they are polled");
        }
    });
}

/// Both kinds of server on standard streams.
#[derive(Clone, Copy)]
enum Server {
    Driver,
    OwnThread,
}

const SERVERS: [(Server, &str); 2] =
    [(Server::Driver, "server"), (Server::OwnThread, "server on its own thread")];

/// The exit status of a server whose client did not read its last answers, and of one with an invalid router.
const TIMED_OUT: i32 = 3;
const INVALID: i32 = 4;

/// A server whose tools return their argument, at once or from another thread, or as many bytes as requested.
fn serve(kind: Server) {
    let tool = |name| Tool::new(name, "", json!({ "type": "object" }));
    let (quit, quits) = mpsc::channel();
    let mut router = Router::new("echoes", "1")
        .tool_with(tool("echo"), async |Echo { text }, _| text)
        .tool_with(tool("fill"), async |Fill { bytes }, _| "x".repeat(bytes))
        .tool_with(tool("later"), async |Echo { text }, _| {
            let (sender, receiver) = smol::channel::bounded(1);
            thread::spawn(move || sender.send_blocking(text).unwrap());
            receiver.recv().await.unwrap()
        })
        .tool_with(tool("quit"), move |Echo { text }, _| {
            quit.send(()).unwrap();
            async move { text }
        });
    if env::var_os(INVALID_ROUTER).is_some() {
        router = router.tool_with(tool("echo"), async |Echo { text }, _| text);
    }
    let options = ServerOptions::new(router).configure(|config| {
        if !is_full_size() {
            config.limits.message_bytes = 2_000_000;
            config.limits.queued_bytes = 2_000_000;
            config.limits.reply_bytes = 2_000_000;
        }
    });
    let close = move |handle: ServerHandle| {
        thread::spawn(move || {
            if quits.recv().is_ok() {
                smol::block_on(handle.close());
            }
        });
    };
    let served = match kind {
        Server::Driver => smol::block_on(in_runtime(async {
            let (handle, driver) = options.stdio().unwrap();
            close(handle);
            driver.await
        })),
        Server::OwnThread => {
            let (handle, server) = options.blocking_stdio().unwrap();
            close(handle);
            server.run().map_err(io::Error::from)
        }
    };
    std::process::exit(match served.map_err(|error| error.kind()) {
        Ok(()) => 0,
        Err(io::ErrorKind::TimedOut) => TIMED_OUT,
        Err(io::ErrorKind::InvalidInput) => INVALID,
        Err(kind) => panic!("{kind}"),
    });
}

// Tests of the client.

fn server(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(ROLE, role);
    command
}

fn megabytes(count: usize) -> Vec<u8> {
    (0..count * 250_000).flat_map(|n| (n as u32).to_le_bytes()).collect()
}

fn exchange(mut to: impl io::Write + Send, mut from: impl io::Read, sent: &[u8], end: impl FnOnce() + Send) {
    let received = std::thread::scope(|scope| {
        scope.spawn(|| {
            to.write_all(sent).unwrap();
            drop(to);
            end();
        });
        let mut received = Vec::new();
        from.read_to_end(&mut received).unwrap();
        received
    });
    assert!(received == sent, "{} of {} bytes came back", received.len(), sent.len());
}

/// C3.1, S2.4
fn pipes_carry_megabytes_both_ways() {
    let mut child = server("echo").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    exchange(child.stdin.take().unwrap(), child.stdout.take().unwrap(), &megabytes(5), || ());
    assert!(child.wait().unwrap().success());
}

/// C3.1: Node connects its children by sockets.
#[cfg(unix)]
fn sockets_carry_megabytes_both_ways() {
    for role in ["echo", "flags"] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let theirs = [theirs.try_clone().unwrap(), theirs].map(|stream| Stdio::from(OwnedFd::from(stream)));
        let [stdin, stdout] = theirs;
        let mut child = server(role).stdin(stdin).stdout(stdout).spawn().unwrap();
        let writer = ours.try_clone().unwrap();
        let end = || ours.shutdown(std::net::Shutdown::Write).unwrap();
        exchange(writer, &ours, &megabytes(2), end);
        assert!(child.wait().unwrap().success());
    }
}

/// S2.4: epoll refuses both.
fn files_can_be_read_and_written() {
    let scratch = Scratch::new("own-stdio");
    let input = scratch.file("in", &"request\n".repeat(100_000), 0o644);
    let mut output = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(scratch.0.join("out"))
        .unwrap();
    output.write_all(b"before\n").unwrap();
    let status =
        server("echo").stdin(File::open(input).unwrap()).stdout(output.try_clone().unwrap()).status();
    assert!(status.unwrap().success());
    let mut text = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut text).unwrap();
    assert!(text == format!("before\n{}", "request\n".repeat(100_000)), "{} bytes", text.len());

    assert!(server("echo").stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap().success());
}

/// C3.1
fn streams_can_be_shared() {
    let mut child = server("echo shared").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    exchange(child.stdin.take().unwrap(), child.stdout.take().unwrap(), &megabytes(1), || ());
    assert!(child.wait().unwrap().success());
}

/// S2.1: neither the server's printed text nor its child's; and the child does not swallow the request.
#[cfg(unix)]
fn only_messages_reach_standard_output() {
    let mut child =
        server("noisy").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"request\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "answer to request\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "noise of the server\nnoise of its child\n");
}

/// S2.5
#[cfg(unix)]
fn client_sees_the_server_close_its_output() {
    let mut child = server("close").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "bye");
    assert!(child.try_wait().unwrap().is_none());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// S2.1
fn standard_streams_can_be_taken_only_once() {
    assert!(server("twice").stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap().success());
}

/// S2.1: other processes share the descriptors.
#[cfg(unix)]
fn polling_leaves_the_flags_of_the_descriptors_alone() {
    let mut child = server("flags").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    exchange(child.stdin.take().unwrap(), child.stdout.take().unwrap(), &megabytes(1), || ());
    assert!(child.wait().unwrap().success());
}

fn call(id: usize, tool: &str, arguments: &Value) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
}

/// Reads to the end, at most this fast, and returns the ids of the results in order.
fn read_answers(mut from: impl io::Read, bytes_per_second: usize) -> Vec<u64> {
    let (start, mut chunk, mut read) = (Instant::now(), vec![0; 64 * 1024], 0);
    let (mut answers, mut line) = (Vec::new(), Vec::new());
    loop {
        let length = from.read(&mut chunk).unwrap();
        if length == 0 {
            return answers;
        }
        read += length;
        for piece in chunk[..length].split_inclusive(|&byte| byte == b'\n') {
            line.extend_from_slice(piece);
            if line.ends_with(b"\n") {
                let answer: Value = serde_json::from_slice(&line).unwrap();
                assert!(answer.get("result").is_some(), "{}", answer["error"]);
                answers.push(answer["id"].as_u64().unwrap());
                line.clear();
            }
        }
        let due = Duration::from_secs_f64(read as f64 / bytes_per_second as f64);
        thread::sleep(due.saturating_sub(start.elapsed()));
    }
}

/// Peak memory of a process, in megabytes.
fn peak_memory(child: &Child) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or_default() / 1024
}

/// Writes the requests while a reader that starts late reads the answers at a pace.
fn converse(role: &str, requests: Vec<String>, late: Duration, bytes_per_second: usize) {
    let count = requests.len();
    let mut child = server(role).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let writing = thread::spawn(move || {
        // The requests end long before the last answer.
        for request in requests {
            to.write_all(request.as_bytes()).unwrap();
        }
    });
    let (done, answers) = mpsc::channel();
    let start = Instant::now();
    let reading = thread::spawn(move || {
        thread::sleep(late);
        done.send(read_answers(from, bytes_per_second)).unwrap();
    });
    let bound = Duration::from_secs(if is_full_size() { 300 } else { 60 });
    let mut peak = 0;
    let ids = loop {
        match answers.recv_timeout(Duration::from_millis(100)) {
            Err(mpsc::RecvTimeoutError::Timeout) if start.elapsed() < bound => {
                peak = peak.max(peak_memory(&child));
            }
            ended => break ended,
        }
    };
    if is_full_size() {
        println!("{count} answers in {:?}, peak memory {} MB", start.elapsed(), peak);
    }
    if ids.is_err() {
        child.kill().unwrap();
    }
    let mut ids = ids.expect("every answer in time");
    ids.sort_unstable();
    assert_eq!(ids, (0..count as u64).collect::<Vec<_>>(), "every request is answered");
    writing.join().unwrap();
    reading.join().unwrap();
    assert!(child.wait().unwrap().success());
}

/// Forty echoes are under way before anything is read.
fn client_that_reads_late_gets_every_answer() {
    let (bytes, late) = if is_full_size() { (5_000_000, 2000) } else { (200_000, 300) };
    let text = json!({ "text": "x".repeat(bytes) });
    for (_, role) in SERVERS {
        let requests = (0..40).map(|id| call(id, "echo", &text)).collect();
        converse(role, requests, Duration::from_millis(late), usize::MAX);
    }
}

/// All calls arrive in one read, and their answers exceed the queue limit.
fn client_that_reads_slowly_gets_every_answer() {
    let (bytes, pace) = if is_full_size() { (5_000_000, 10_000_000) } else { (200_000, 12_000_000) };
    let size = json!({ "bytes": bytes });
    for (_, role) in SERVERS {
        let requests = (0..60).map(|id| call(id, "fill", &size)).collect();
        converse(role, requests, Duration::ZERO, pace);
    }
}

/// The exit status of a child, which it must reach within ten seconds.
fn status(child: &mut Child) -> Option<i32> {
    let child = std::cell::RefCell::new(child);
    eventually("the server ends", || child.borrow_mut().try_wait().unwrap().is_some());
    child.borrow_mut().wait().unwrap().code()
}

/// C3.1, S2.4
fn server_answers_over_pipes_sockets_and_files() {
    let requests: String = (0..3).map(|id| call(id, "echo", &json!({ "text": "hello" }))).collect();
    for (_, role) in SERVERS {
        let mut child = server(role).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(requests.as_bytes()).unwrap();
        assert_eq!(read_answers(child.stdout.take().unwrap(), usize::MAX), [0, 1, 2]);
        assert_eq!(status(&mut child), Some(0));

        #[cfg(unix)]
        {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let stdin = OwnedFd::from(theirs.try_clone().unwrap());
            let mut child = server(role).stdin(stdin).stdout(OwnedFd::from(theirs)).spawn().unwrap();
            (&ours).write_all(requests.as_bytes()).unwrap();
            ours.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(read_answers(&ours, usize::MAX), [0, 1, 2]);
            assert_eq!(status(&mut child), Some(0));
        }

        let scratch = Scratch::new("own-stdio-server");
        let input = scratch.file("in", &requests, 0o644);
        let output = scratch.0.join("out");
        let mut child = server(role)
            .stdin(File::open(input).unwrap())
            .stdout(File::create(&output).unwrap())
            .spawn()
            .unwrap();
        assert_eq!(status(&mut child), Some(0));
        assert_eq!(read_answers(File::open(output).unwrap(), usize::MAX), [0, 1, 2]);
    }
}

fn handler_is_woken_by_another_thread() {
    for (_, role) in SERVERS {
        let mut child = server(role).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The input stays open: only the wake can lead to the answer.
        let mut to = child.stdin.take().unwrap();
        to.write_all(call(7, "later", &json!({ "text": "hello" })).as_bytes()).unwrap();
        let mut answer = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(child.stdout.take().unwrap()), &mut answer).unwrap();
        assert!(answer.contains("hello"), "{answer}");
        drop(to);
        assert_eq!(status(&mut child), Some(0));
    }
}

/// C3.5
fn handle_closes_the_server() {
    for (_, role) in SERVERS {
        let mut child = server(role).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut to = child.stdin.take().unwrap();
        to.write_all(call(7, "quit", &json!({ "text": "bye" })).as_bytes()).unwrap();
        assert_eq!(status(&mut child), Some(0));
        let mut answer = String::new();
        child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
        assert!(answer.contains("bye"), "{answer}");
    }
}

fn server_gives_up_a_client_that_does_not_read_its_last_answers() {
    for (_, role) in SERVERS {
        let mut child = server(role).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let fill = call(7, "fill", &json!({ "bytes": 1_000_000 }));
        child.stdin.take().unwrap().write_all(fill.as_bytes()).unwrap();
        assert_eq!(status(&mut child), Some(TIMED_OUT));
    }
}

fn client_that_disconnects_without_reading_is_no_error() {
    for (_, role) in SERVERS {
        let mut child = server(role).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let fill = call(7, "fill", &json!({ "bytes": 1_000_000 }));
        child.stdin.take().unwrap().write_all(fill.as_bytes()).unwrap();
        assert_eq!(status(&mut child), Some(0));
    }
}

fn server_rejects_an_invalid_router() {
    for (_, role) in SERVERS {
        let mut command = server(role);
        let mut child =
            command.env(INVALID_ROUTER, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        assert_eq!(status(&mut child), Some(INVALID));
    }
}
