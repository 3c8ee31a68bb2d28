//! The server's driver over sockets, with this crate's client or with hand-written lines.

use std::cell::Cell;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{self, BlockingSocket, Socket, blocking_pair, bounded, pair, polled, run};
use futures_lite::future;
use mcp_proto::front::{Context, Error, Event, NoArguments, Router};
use mcp_proto::peer::client::{CloseReason, EraPolicy};
use mcp_proto::peer::server::{CloseReason as ServerClosed, ListKind};
use mcp_proto::schema::{Era, ServerCapability, Tool, ToolListChanged};
use mcp_smol::{ClientOptions, ServerOptions};
use serde::Deserialize;
use serde_json::{Value, json};
use smol::Timer;

#[derive(Deserialize)]
struct NapArguments {
    ms: u64,
}

fn tool(name: &str) -> Tool {
    Tool::new(name, "", json!({ "type": "object" }))
}

fn router() -> Router {
    Router::new("test", "1.0.0")
        .declare(ServerCapability::ToolsListChanged)
        .tool_with(tool("hello"), async |NoArguments {}, _| "hello")
        .tool_with(tool("nap"), async |NapArguments { ms }, cx: Context| {
            cx.progress(1);
            Timer::after(Duration::from_millis(ms)).await;
            "rested"
        })
}

/// A socket pair: one end for an executor, the other for a thread of its own.
fn half_blocking() -> (Socket, BlockingSocket) {
    let (ours, theirs) = blocking_pair();
    (polled(ours), theirs)
}

fn request(id: u64, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

fn nap(id: u64, ms: u64) -> String {
    request(id, "tools/call", json!({ "name": "nap", "arguments": { "ms": ms } }))
}

/// The messages of the server, until it closes the stream.
fn lines(stream: BlockingSocket) -> Vec<Value> {
    BufReader::new(stream).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

#[test]
fn client_and_server_communicate_in_both_eras() {
    for (mode, era) in [
        (EraPolicy::ModernOnly, Era::Modern),
        (EraPolicy::LegacyOnly, Era::Legacy),
        (EraPolicy::Auto, Era::Modern),
    ] {
        run(async {
            let (ours, theirs) = pair();
            let serving = common::spawn(mcp_smol::serve(router(), theirs.clone(), theirs));
            let options = ClientOptions::new("test", "1").era_policy(mode);
            let (client, driver) = options.connect_stream(ours.clone(), ours);
            let driver = common::spawn(driver);
            assert_eq!(client.ready().await.unwrap().era, era);
            assert_eq!(client.list_tools().await.unwrap().len(), 2);
            assert_eq!(client.call_tool("hello", json!({})).await.unwrap().text_content(), "hello");
            assert_eq!(client.close().await, CloseReason::Done);
            driver.await.unwrap();
            serving.await.unwrap();
        });
    }
}

#[test]
fn one_router_serves_many_clients_at_once() {
    run(async {
        let router = Arc::new(router());
        let clients = (0..20).map(|_| {
            let (ours, theirs) = pair();
            let serving = mcp_smol::serve(router.clone(), theirs.clone(), theirs);
            let (client, driver) = mcp_smol::connect_stream(ours.clone(), ours);
            common::spawn(async move {
                let call = async {
                    let text = client.call_tool("nap", json!({ "ms": 50 })).await.unwrap().text_content();
                    client.close().await;
                    text
                };
                let ((text, driven), served) = future::zip(future::zip(call, driver), serving).await;
                driven.unwrap();
                served.unwrap();
                text
            })
        });
        for client in clients.collect::<Vec<_>>() {
            assert_eq!(client.await, "rested");
        }
    });
}

#[test]
fn handlers_that_are_not_send_are_served_on_a_local_executor() {
    let executor = smol::LocalExecutor::new();
    run(executor.run(async {
        let calls = Rc::new(Cell::new(0));
        let count = calls.clone();
        let router = Router::local("local", "1").tool_with(tool("count"), move |NoArguments {}, _| {
            let count = count.clone();
            async move {
                count.set(count.get() + 1);
                count.get().to_string()
            }
        });
        let (ours, theirs) = pair();
        let serving = executor.spawn(common::in_runtime(mcp_smol::serve(router, theirs.clone(), theirs)));
        let (client, driver) = mcp_smol::connect_stream(ours.clone(), ours);
        let driver = executor.spawn(common::in_runtime(driver));
        for number in 1..=3 {
            let text = client.call_tool("count", json!({})).await.unwrap().text_content();
            assert_eq!(text, number.to_string());
        }
        client.close().await;
        driver.await.unwrap();
        serving.await.unwrap();
        assert_eq!(calls.get(), 3);
    }));
}

/// S2.4
#[test]
fn server_answers_requests_in_flight_after_its_input_ends() {
    let (ours, mut theirs) = half_blocking();
    let serving = thread::spawn(|| future::block_on(bounded(mcp_smol::serve(router(), ours.clone(), ours))));
    theirs.write_all((nap(1, 200) + &nap(2, 1)).as_bytes()).unwrap();
    theirs.shutdown(Shutdown::Write).unwrap();
    let answers = lines(theirs);
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [2, 1]);
    assert_eq!(answers[1]["result"]["content"][0]["text"], "rested");
    serving.join().unwrap().unwrap();
}

/// S2.4
#[test]
fn server_limits_the_time_of_handlers_after_its_input_ends() {
    let (ours, mut theirs) = half_blocking();
    let start = Instant::now();
    let options =
        ServerOptions::new(router()).configure(|config| config.close_timeout = Duration::from_millis(100));
    let (_, driver) = options.stream(ours.clone(), ours);
    let serving = thread::spawn(|| future::block_on(bounded(driver)));
    theirs.write_all(nap(1, 60_000).as_bytes()).unwrap();
    theirs.shutdown(Shutdown::Write).unwrap();
    lines(theirs);
    serving.join().unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn unread_answers_do_not_keep_the_server_running() {
    let (ours, mut theirs) = half_blocking();
    let large =
        Router::new("test", "1").tool_with(tool("large"), async |NoArguments {}, _| "x".repeat(12_000_000));
    let serving = thread::spawn(|| future::block_on(bounded(mcp_smol::serve(large, ours.clone(), ours))));
    let call = request(1, "tools/call", json!({ "name": "large" }));
    theirs.write_all(call.as_bytes()).unwrap();
    theirs.shutdown(Shutdown::Write).unwrap();
    let error = serving.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn slow_reader_gets_every_byte_after_it_closed_its_side() {
    let (ours, mut theirs) = half_blocking();
    let large =
        Router::new("test", "1").tool_with(tool("large"), async |NoArguments {}, _| "x".repeat(1_000_000));
    let serving = thread::spawn(|| future::block_on(bounded(mcp_smol::serve(large, ours.clone(), ours))));
    for id in 0..4 {
        theirs.write_all(request(id, "tools/call", json!({ "name": "large" })).as_bytes()).unwrap();
    }
    theirs.shutdown(Shutdown::Write).unwrap();
    let mut read = 0;
    let mut chunk = vec![0; 256 * 1024];
    loop {
        match theirs.read(&mut chunk).unwrap() {
            0 => break,
            length => read += length,
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert!(read > 4_000_000, "{read}");
    serving.join().unwrap().unwrap();
}

#[test]
fn client_disconnect_is_not_an_error() {
    let (ours, mut theirs) = half_blocking();
    let serving = thread::spawn(|| future::block_on(bounded(mcp_smol::serve(router(), ours.clone(), ours))));
    theirs.write_all(nap(1, 100).as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(50));
    drop(theirs);
    serving.join().unwrap().unwrap();
}

#[test]
fn server_with_waiting_answers_ends_with_its_client() {
    let (ours, mut theirs) = half_blocking();
    let large = Router::new("test", "1").tool_with(tool("large"), async |_: Value, _| "x".repeat(100_000));
    let options = ServerOptions::new(large).configure(|config| {
        config.limits.queued_bytes = 1 << 20;
        config.limits.message_bytes = 1 << 20;
    });
    let (_handle, serving) = options.stream(ours.clone(), ours);
    let serving = thread::spawn(|| future::block_on(bounded(serving)));
    theirs.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let arguments = json!({ "text": "x".repeat(100_000) });
    // Until the server holds as many requests as it may, and reads no more.
    for id in 0.. {
        let call = request(id, "tools/call", json!({ "name": "large", "arguments": arguments }));
        if theirs.write_all(call.as_bytes()).is_err() {
            break;
        }
    }
    let start = Instant::now();
    drop(theirs);
    serving.join().unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn handle_notifies_clients_of_changes_and_closes() {
    run(async {
        let (ours, theirs) = pair();
        let (handle, serving) = ServerOptions::new(router()).stream(theirs.clone(), theirs);
        let serving = common::spawn(serving);
        let options = ClientOptions::new("test", "1").era_policy(EraPolicy::LegacyOnly);
        let (client, driver) = options.connect_stream(ours.clone(), ours);
        let driver = common::spawn(driver);
        let mut events = client.events();
        client.call_tool("hello", json!({})).await.unwrap();
        handle.list_changed(ListKind::Tools);
        loop {
            match events.next().await.unwrap() {
                Event::Notification(notification) if notification.is::<ToolListChanged>() => break,
                _ => {}
            }
        }
        assert_eq!(handle.close().await, ServerClosed::Done);
        serving.await.unwrap();
        assert!(driver.await.is_err());
        assert!(matches!(client.closed().await, CloseReason::Lost(_)));
    });
}

#[test]
fn driver_rejects_an_invalid_router() {
    let (ours, _theirs) = half_blocking();
    let router = Router::new("test", "1")
        .tool_with(tool("twice"), async |NoArguments {}, _| "")
        .tool_with(tool("twice"), async |NoArguments {}, _| "");
    let error = future::block_on(bounded(mcp_smol::serve(router, ours.clone(), ours))).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("twice"), "{error}");
}

#[test]
fn dropping_a_request_cancels_its_handler() {
    run(async {
        let dropped = Arc::new(());
        let watch = Arc::downgrade(&dropped);
        let held = Arc::new(std::sync::Mutex::new(Some(dropped)));
        let router = Router::new("test", "1").tool_with(tool("hang"), move |NoArguments {}, cx: Context| {
            let mine = held.lock().unwrap().take();
            async move {
                cx.progress(1);
                future::pending::<()>().await;
                drop(mine);
                ""
            }
        });
        let (ours, theirs) = pair();
        let serving = common::spawn(mcp_smol::serve(router, theirs.clone(), theirs));
        let (client, driver) = mcp_smol::connect_stream(ours.clone(), ours);
        let driver = common::spawn(driver);
        let mut call = client.call_tool("hang", json!({})).start().unwrap();
        assert!(call.progress().await.is_some());
        drop(call);
        while watch.strong_count() > 0 {
            Timer::after(Duration::from_millis(1)).await;
        }
        let again = client.call_tool("none", json!({})).await;
        assert!(matches!(again, Err(Error::Peer(_))), "{again:?}");
        client.close().await;
        driver.await.unwrap();
        serving.await.unwrap();
    });
}

#[test]
fn handlers_read_the_values_that_the_application_attached() {
    #[derive(Debug, PartialEq)]
    struct Address(&'static str);

    let router = || {
        Router::new("test", "1.0.0").tool_with(tool("whoami"), async |NoArguments {}, cx: Context| {
            format!("{:?} {:?}", cx.attachments().get::<Address>(), cx.attachments().get::<u32>())
        })
    };
    for mode in [EraPolicy::ModernOnly, EraPolicy::LegacyOnly] {
        run(async {
            let (ours, theirs) = pair();
            let options =
                ServerOptions::new(router()).attach(Address("a")).attach(Address("b")).attach(7_u32);
            let (_, driver) = options.stream(theirs.clone(), theirs);
            let serving = common::spawn(driver);
            let options = ClientOptions::new("test", "1").era_policy(mode);
            let (client, driver) = options.connect_stream(ours.clone(), ours);
            let driving = common::spawn(driver);
            let answer = client.call_tool("whoami", json!({})).await.unwrap();
            assert_eq!(answer.text_content(), r#"Some(Address("b")) Some(7)"#);
            client.close().await;
            driving.await.unwrap();
            serving.await.unwrap();
        });
    }
}

/// A question to a client of 2026-07-28 names the feature that it needs.
#[cfg(not(feature = "seal"))]
#[test]
fn question_without_the_feature_seal_names_the_feature() {
    use mcp_proto::schema::{ElicitParams, ElicitSchema};

    run(async {
        let router =
            Router::new("test", "1.0.0").tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
                let question = ElicitParams::form("Sure?", ElicitSchema::empty());
                cx.elicit("sure", question).await.err().map(|error| error.to_string()).unwrap_or_default()
            });
        let (ours, theirs) = pair();
        let serving = common::spawn(mcp_smol::serve(router, theirs.clone(), theirs));
        let (client, driver) = mcp_smol::connect_stream(ours.clone(), ours);
        let driver = common::spawn(driver);
        assert_eq!(
            client.call_tool("ask", json!({})).await.unwrap().text_content(),
            "elicitation/create was not sent: add \"seal\" to the features of mcp-smol, mcp-hyper or mcp-proto"
        );
        client.close().await;
        driver.await.unwrap();
        serving.await.unwrap();
    });
}
