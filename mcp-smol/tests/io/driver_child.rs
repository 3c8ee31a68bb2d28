//! The client's driver over real child processes. The servers are shell scripts.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{self, Scratch, bounded, eventually, run, runs, state, times};
use futures_lite::future;
use mcp_proto::front::{Client, ClientHandlers, Error};
use mcp_proto::peer::LostReason;
use mcp_proto::peer::client::CloseReason;
use mcp_proto::schema::{Era, ListRootsResult, Root};
use mcp_smol::{ClientOptions, Command, WireDirection};
use serde_json::json;
use smol::Timer;

/// Shell functions of the scripts. `ask` reads a line and takes its id; `modern` and `legacy` are handshakes.
const PRELUDE: &str = r#"
ask() { IFS= read -r line || exit 0; id=${line#*\"id\":}; id=${id%%[,\}]*}; }
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
refuse() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}\n' "$id"; }
modern() {
    ask
    answer '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}'
}
initialized() {
    answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"script","version":"1"}}'
    ask
}
legacy() { ask; refuse; ask; initialized; }
text() { answer "{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
"#;

fn script(body: &str) -> Command {
    Command::new("sh").args(["-c", &format!("{PRELUDE}{body}")]).shutdown(times(10_000, 200))
}

async fn call(client: &Client) -> Result<String, Error> {
    client.call_tool("tool", json!({})).await.map(|result| result.text_content())
}

fn pid(file: &Path) -> u32 {
    eventually("the server has started", || fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

/// C3.9
#[test]
fn client_gets_its_answer_and_close_lets_the_server_exit_by_itself() {
    run(async {
        let (client, driver) = mcp_smol::connect(script("modern; ask; text hello; ask"));
        let work = async {
            assert_eq!(call(&client).await.unwrap(), "hello");
            assert_eq!(client.server().unwrap().era, Era::Modern);
            client.close().await
        };
        let (closed, ended) = future::zip(work, driver).await;
        assert_eq!(closed, CloseReason::Done);
        ended.unwrap();
    });
}

#[test]
fn driver_runs_beside_the_work_that_uses_its_client() {
    let (client, driver) = mcp_smol::connect(script("modern; ask; text hello; ask"));
    let work = async {
        let text = call(&client).await.unwrap();
        assert_eq!(client.close().await, CloseReason::Done);
        text
    };
    assert_eq!(run(driver.run_until(work)), "hello");

    // The server ends first: the work goes on, and sees its request fail.
    let (client, driver) = mcp_smol::connect(script("modern; ask; exit 7"));
    assert!(run(driver.run_until(async { call(&client).await })).is_err());
}

#[test]
fn driver_runs_on_an_unrelated_executor() {
    let (client, driver) = mcp_smol::connect(script("legacy; ask; text hello; ask"));
    let worker = std::thread::spawn(|| future::block_on(bounded(driver)));
    assert_eq!(future::block_on(bounded(call(&client))).unwrap(), "hello");
    drop(client);
    worker.join().unwrap().unwrap();
}

#[test]
fn the_driver_can_be_spawned_on_an_executor_with_many_threads() {
    run(async {
        let (client, driver) = mcp_smol::connect(script("modern; ask; text hello; ask"));
        let driver = common::spawn(driver);
        assert_eq!(call(&client).await.unwrap(), "hello");
        client.close().await;
        driver.await.unwrap();
    });
}

#[test]
fn handlers_that_are_not_send_run_on_a_local_executor() {
    let asked = Rc::new(Cell::new(0));
    let count = asked.clone();
    let handlers = ClientHandlers::local().roots(move |_, _| {
        let count = count.clone();
        async move {
            count.set(count.get() + 1);
            ListRootsResult::new(vec![Root::new("file:///home")])
        }
    });
    let server = script(
        r#"legacy; ask
        call=$id; printf '{"jsonrpc":"2.0","id":"r","method":"roots/list"}\n'
        ask; case $line in *file:///home*) id=$call; text seen;; esac
        ask"#,
    );
    let (client, driver) = ClientOptions::new("test", "1").handlers(handlers).connect(server);
    let executor = smol::LocalExecutor::new();
    run(executor.run(async {
        let driver = executor.spawn(common::in_runtime(driver));
        assert_eq!(call(&client).await.unwrap(), "seen");
        client.close().await;
        driver.await.unwrap();
    }));
    assert_eq!(asked.get(), 1);
}

/// C2.4; the marker makes only the first process break.
#[test]
fn client_restarts_a_server_that_dies_on_the_probe_and_speaks_legacy() {
    run(async {
        let scratch = Scratch::new("probe");
        let body = format!(
            "if mkdir {0}/marker 2>&-; then ask; echo 'what is this' >&2; exit 1; fi; ask; initialized; ask; text hello; ask",
            scratch.0.display()
        );
        let (client, driver) = mcp_smol::connect(script(&body));
        let driver = common::spawn(driver);
        assert_eq!(call(&client).await.unwrap(), "hello");
        assert_eq!(client.server().unwrap().era, Era::Legacy);
        assert!(client.known_era().unwrap().probe_breaks_server);
        client.close().await;
        driver.await.unwrap();
    });
}

/// Twenty megabytes arrive before the server reads anything, while ten wait to be written.
#[test]
fn flooding_server_does_not_deadlock_a_writing_client() {
    run(async {
        let note = r#"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}"#;
        let body = format!(
            "modern; yes \"{note}\" | head -n 100000
            start=$(head -c 60); head -c 10000000 >/dev/null; id=${{start#*\\\"id\\\":}}; id=${{id%%,*}}
            text done; cat >/dev/null"
        );
        let (client, driver) = mcp_smol::connect(script(&body));
        let driver = common::spawn(driver);
        client.ready().await.unwrap();
        let result = client.call_tool("tool", json!({ "text": "x".repeat(10_000_000) })).await.unwrap();
        assert_eq!(result.text_content(), "done");
        client.close().await;
        driver.await.unwrap();
    });
}

/// C3.5
#[test]
fn client_kills_a_server_that_ignores_closed_input_and_sigterm() {
    run(async {
        let scratch = Scratch::new("stubborn");
        let file = scratch.0.join("pid");
        let body = format!("trap '' TERM; echo $$ >{}; modern; while :; do sleep 60; done", file.display());
        let (client, driver) = ClientOptions::new("test", "1")
            .configure(|config| config.close_timeout = Duration::from_millis(100))
            .connect(script(&body).shutdown(times(100, 100)));
        let driver = common::spawn(driver);
        client.ready().await.unwrap();
        let pid = pid(&file);
        assert!(runs(pid));
        assert_eq!(client.close().await, CloseReason::Done);
        driver.await.unwrap();
        assert!(!runs(pid));
    });
}

/// C3.5: the documented client detaches its driver, and ends the program after `close`.
#[test]
fn close_waits_until_a_stubborn_server_is_reaped_with_a_detached_driver() {
    for _ in 0..3 {
        run(async {
            let scratch = Scratch::new("detached");
            let file = scratch.0.join("pid");
            let body =
                format!("trap '' TERM; echo $$ >{}; modern; while :; do sleep 60; done", file.display());
            let (client, driver) = ClientOptions::new("test", "1")
                .configure(|config| config.close_timeout = Duration::from_millis(100))
                .connect(script(&body).shutdown(times(100, 100)));
            common::spawn(driver).detach();
            client.ready().await.unwrap();
            let pid = pid(&file);
            assert!(runs(pid));
            assert_eq!(client.close().await, CloseReason::Done);
            assert_eq!(state(pid), None, "neither process nor zombie is left");
        });
    }
}

#[test]
fn close_returns_at_once_when_the_driver_was_dropped() {
    run(async {
        let (client, driver) = mcp_smol::connect(script("modern; sleep 60"));
        let driver = common::spawn(driver);
        client.ready().await.unwrap();
        driver.cancel().await;
        assert_eq!(
            future::poll_once(client.close()).await,
            Some(CloseReason::Lost(LostReason::DriverDropped))
        );
    });
}

/// C3.5, K11
#[test]
fn server_gets_the_shutdown_time_of_its_command() {
    run(async {
        let scratch = Scratch::new("patience");
        let file = scratch.0.join("saved");
        let body = format!("modern; cat >&2; sleep 0.6; echo saved >{}", file.display());
        let (client, driver) = ClientOptions::new("test", "1")
            .configure(|config| config.close_timeout = Duration::from_millis(50))
            .connect(script(&body).shutdown(times(10_000, 10)));
        let driver = common::spawn(driver);
        client.ready().await.unwrap();
        assert_eq!(client.close().await, CloseReason::Done);
        driver.await.unwrap();
        assert_eq!(fs::read_to_string(file).unwrap(), "saved\n");
    });
}

/// C3.5: the time for closing is over when the driver is polled again.
#[test]
fn server_gets_its_shutdown_time_from_a_driver_that_runs_late() {
    run(async {
        let scratch = Scratch::new("late");
        let file = scratch.0.join("saved");
        let body = format!("modern; cat >&2; sleep 0.1; echo saved >{}", file.display());
        let (client, mut driver) = ClientOptions::new("test", "1")
            .configure(|config| config.close_timeout = Duration::from_millis(1))
            .connect(script(&body).shutdown(times(10_000, 10)));
        let ready = async { client.ready().await.map(drop) };
        future::or(ready, &mut driver).await.unwrap();
        let mut close = std::pin::pin!(client.close());
        assert!(future::poll_once(&mut close).await.is_none());
        std::thread::sleep(Duration::from_millis(20));
        let (closed, ended) = future::zip(close, driver).await;
        assert_eq!(closed, CloseReason::Done);
        ended.unwrap();
        assert_eq!(fs::read_to_string(file).unwrap(), "saved\n");
    });
}

#[test]
fn dropping_the_last_client_ends_the_process_in_an_orderly_way() {
    run(async {
        let scratch = Scratch::new("drop");
        let file = scratch.0.join("left");
        let (client, driver) = mcp_smol::connect(script(&format!(
            "modern; ask; text hello; cat >&2; echo bye >{}",
            file.display()
        )));
        let driver = common::spawn(driver);
        call(&client).await.unwrap();
        drop(client);
        driver.await.unwrap();
        assert_eq!(fs::read_to_string(file).unwrap(), "bye\n");
    });
}

#[test]
fn dropping_the_driver_ends_the_process_and_the_calls() {
    run(async {
        let scratch = Scratch::new("driver");
        let file = scratch.0.join("pid");
        let (client, driver) =
            mcp_smol::connect(script(&format!("echo $$ >{}; modern; sleep 60", file.display())));
        let driver = common::spawn(driver);
        client.ready().await.unwrap();
        let waiting = client.call_tool("tool", json!({})).start().unwrap();
        driver.cancel().await;
        assert!(matches!(waiting.await, Err(Error::Lost(_))));
        assert!(call(&client).await.unwrap_err().is_disconnect());
        let pid = pid(&file);
        eventually("the server is gone", || !runs(pid));
    });
}

/// C3.6, F35
#[test]
fn errors_quote_exit_status_and_standard_error_of_a_dead_server() {
    run(async {
        let (client, driver) = mcp_smol::connect(script("modern; ask; echo 'out of memory' >&2; exit 7"));
        let driver = common::spawn(driver);
        let error = call(&client).await.unwrap_err().to_string();
        for part in ["exit status: 7", "by itself", "out of memory"] {
            assert!(error.contains(part), "{part:?} is missing in: {error}");
        }
        let ended = driver.await.unwrap_err().to_string();
        assert!(ended.contains("exit status: 7"), "{ended}");
    });
}

/// F15
#[test]
fn server_that_cannot_start_fails_every_call_with_its_command_line() {
    run(async {
        let (client, driver) = mcp_smol::connect(Command::new("no-such-server-anywhere").arg("--stdio"));
        let driver = common::spawn(driver);
        let error = call(&client).await.unwrap_err().to_string();
        assert!(error.contains("no-such-server-anywhere --stdio") && error.contains("PATH"), "{error}");
        assert!(driver.await.is_err());
    });
}

#[test]
fn descendants_of_a_dead_server_do_not_keep_the_connection_open() {
    run(async {
        let scratch = Scratch::new("left");
        let file = scratch.0.join("pid");
        let (client, driver) = mcp_smol::connect(script(&format!(
            "modern; ask; sleep 60 & echo $! >{}; exit 3",
            file.display()
        )));
        let driver = common::spawn(driver);
        let error = call(&client).await.unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(driver.await.is_err());
        let pid = pid(&file);
        eventually("the rest of the group is gone", || !runs(pid));
    });
}

#[test]
fn client_still_reads_from_a_server_that_closed_its_input() {
    run(async {
        let (client, driver) =
            mcp_smol::connect(script("modern; ask; exec 0<&-; sleep 0.3; text late; sleep 0.1; exit 4"));
        let driver = common::spawn(driver);
        client.ready().await.unwrap();
        let first = client.call_tool("tool", json!({})).start().unwrap();
        smol::Timer::after(Duration::from_millis(100)).await;
        let second = client.call_tool("tool", json!({})).start().unwrap();
        assert_eq!(first.await.unwrap().text_content(), "late");
        let error = second.await.unwrap_err().to_string();
        assert!(error.contains("exit status: 4"), "{error}");
        assert!(driver.await.is_err());
    });
}

#[test]
fn call_to_a_silent_server_times_out() {
    run(async {
        let (client, driver) = mcp_smol::connect(script("modern; cat >/dev/null"));
        let driver = common::spawn(driver);
        client.ready().await.unwrap();
        let start = Instant::now();
        let error =
            client.call_tool("tool", json!({})).timeout(Duration::from_millis(200)).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert!(start.elapsed() >= Duration::from_millis(200));
        client.close().await;
        driver.await.unwrap();
    });
}

/// C3.3, F30
#[test]
fn observers_see_the_wire_and_standard_error() {
    run(async {
        let (sent, received, lines) =
            <(Arc<Mutex<Vec<u8>>>, Arc<Mutex<Vec<u8>>>, Arc<Mutex<Vec<String>>>)>::default();
        let (to, from, log) = (sent.clone(), received.clone(), lines.clone());
        let (client, driver) = ClientOptions::new("test", "1")
            .on_wire(move |direction, bytes| {
                let buffer = if direction == WireDirection::Sent { &to } else { &from };
                buffer.lock().unwrap().extend_from_slice(bytes);
            })
            .on_stderr(move |line| log.lock().unwrap().push(line.text))
            .connect(script("echo starting >&2; modern; ask; text hello; ask; echo leaving >&2"));
        let driver = common::spawn(driver);
        call(&client).await.unwrap();
        client.close().await;
        driver.await.unwrap();
        let text = |bytes: &Mutex<Vec<u8>>| String::from_utf8(bytes.lock().unwrap().clone()).unwrap();
        assert!(text(&sent).contains("tools/call") && text(&sent).ends_with('\n'));
        assert!(text(&received).contains("hello"));
        assert!(lines.lock().unwrap().contains(&"starting".to_owned()));
    });
}

/// F33
#[test]
fn killer_ends_a_server_that_ignores_closed_input_and_sigterm() {
    let scratch = Scratch::new("killer");
    let (file, closed) = (scratch.0.join("pids"), scratch.0.join("closed"));
    let deaf = format!(
        "trap '' TERM; sleep 60 & echo $$ $! > {}; modern; echo > {}; while :; do sleep 1; done",
        file.display(),
        closed.display()
    );
    run(async {
        let (client, driver) = mcp_smol::connect(script(&deaf).shutdown(times(60_000, 60_000)));
        let killer = driver.killer();
        let driver = common::spawn(driver);
        client.ready().await.unwrap();
        let closing = common::spawn(async move { client.close().await });
        // The shutdown steps have begun; they would take two minutes.
        while !closed.exists() {
            Timer::after(Duration::from_millis(2)).await;
        }
        killer.kill();
        driver.await.unwrap();
        closing.await;
    });
    let pids = fs::read_to_string(file).unwrap();
    for pid in pids.split_whitespace() {
        assert!(!runs(pid.parse().unwrap()), "{pid} runs");
    }
}

#[test]
fn killer_ends_an_open_connection_and_starts_no_other_server() {
    run(async {
        let (client, driver) = mcp_smol::connect(script("trap '' TERM; modern; while :; do sleep 1; done"));
        let killer = driver.killer();
        let driver = common::spawn(driver);
        client.ready().await.unwrap();
        killer.kill();
        assert!(matches!(driver.await, Err(Error::Closed(CloseReason::Lost(_)))));
    });
}

/// async-io's reactor runs on a thread of its own there, and has begun its next turn before a late executor polls.
#[cfg(feature = "smol")]
#[test]
fn driver_on_an_executor_that_is_late_reads_after_one_wake() {
    const CALLS: usize = 20;
    let (client, mut driver) = mcp_smol::connect(script("modern; while :; do ask; text hello; done"));
    let polls = Cell::new(0);
    let late = std::future::poll_fn(|cx| {
        polls.set(polls.get() + 1);
        std::thread::sleep(Duration::from_millis(2));
        std::pin::Pin::new(&mut driver).poll(cx)
    });
    let work = async {
        for _ in 0..CALLS {
            assert_eq!(call(&client).await.unwrap(), "hello");
        }
        client.close().await;
    };
    // Not smol's own, which is the reactor meanwhile.
    future::block_on(bounded(async { drop(future::zip(work, late).await) }));
    assert!(polls.get() < 10 * CALLS, "{} polls for {CALLS} calls", polls.get());
}
