//! Handlers wait for a client that leaves responses unread.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;

use mcp_proto::Bytes;
use mcp_proto::adapter;
use mcp_proto::front::{NoArguments, Router};
use mcp_proto::schema::Tool;
use mcp_proto::transport::StreamServer;
use serde_json::{Value, json};

use crate::common::polling::{CountingEntropy, TestClock, WakeCounter};

const ANSWER: usize = 1000;

/// This many responses exceed the mark.
const AT_ONCE: usize = 4;

fn call(id: usize, tool: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
}

/// A hundred calls in one read, half of them with handlers that wait before they answer, and that have a time limit. The
/// time in which the client reads nothing does not count.
#[test]
fn server_runs_only_as_many_handlers_as_its_client_reads_responses() {
    let ran = Arc::new(AtomicUsize::new(0));
    let tool = |name: &str| Tool::new(name, "", json!({"type": "object"}));
    let (quick, slow) = (ran.clone(), ran.clone());
    let router = Router::new("test", "1")
        .tool_with(tool("quick"), move |NoArguments {}, _| {
            let quick = quick.clone();
            async move {
                quick.fetch_add(1, Ordering::SeqCst);
                "x".repeat(ANSWER)
            }
        })
        .tool_with(tool("slow"), move |NoArguments {}, _| {
            let slow = slow.clone();
            async move {
                futures_lite::future::yield_now().await;
                slow.fetch_add(1, Ordering::SeqCst);
                "x".repeat(ANSWER)
            }
        })
        .tool_timeout("slow", Duration::from_secs(1));
    let mut config = router.config();
    config.limits.queued_bytes = AT_ONCE * ANSWER - ANSWER / 2;
    config.limits.reply_bytes = 2 * ANSWER;
    let machine = StreamServer::new(config);
    let clock = Arc::new(TestClock::default());
    let (_, mut driver) =
        adapter::server(machine, clock.clone(), Arc::new(CountingEntropy::default()), router);

    let read: String = (0..100).map(|id| call(id, ["quick", "slow"][id % 2])).collect();
    driver.lock(|machine, now| machine.handle_input(now, Bytes::from(read)));
    let (wakes, waker) = WakeCounter::new();
    let mut cx = Context::from_waker(&waker);
    let mut answered = Vec::new();
    for _ in 0..200 {
        // The client reads nothing meanwhile.
        for _ in 0..5 {
            let polled = driver.poll(&mut cx, |machine, now| {
                machine.handle_timeout(now);
                Poll::<()>::Pending
            });
            assert!(polled.is_pending());
            clock.advance(Duration::from_secs(2));
        }
        assert!(ran.load(Ordering::SeqCst) <= answered.len() + AT_ONCE, "handlers run ahead");
        wakes.take();
        assert!(driver.poll(&mut cx, |_, _| Poll::<()>::Pending).is_pending());
        assert_eq!(wakes.take(), 0, "the driver rests while the client reads nothing");
        let mut out = Vec::new();
        let _ = driver.poll(&mut Context::from_waker(Waker::noop()), |machine, _| {
            if machine.poll_transmit(&mut out) { Poll::Ready(()) } else { Poll::Pending }
        });
        let lines = out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        answered.extend(lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()));
    }
    let mut ids: Vec<u64> = answered.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..100).collect::<Vec<u64>>(), "every call is answered");
    assert!(answered.iter().all(|answer| answer["result"]["content"][0]["text"] == "x".repeat(ANSWER)));
    assert!(driver.closed().is_none());
}

#[test]
fn client_cancels_a_call_before_its_handler_starts() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let tool = Tool::new("count", "", json!({"type": "object"}));
    let router = Router::new("test", "1").tool_with(tool, move |NoArguments {}, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async { "x".repeat(ANSWER) }
    });
    let mut config = router.config();
    config.limits.queued_bytes = ANSWER / 2;
    let machine = StreamServer::new(config);
    let (_, mut driver) = adapter::server(
        machine,
        Arc::new(TestClock::default()),
        Arc::new(CountingEntropy::default()),
        router,
    );
    let mut cx = Context::from_waker(Waker::noop());
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let read = format!("{}{}{}{cancel}\n", call(0, "count"), call(1, "count"), call(2, "count"));
    driver.lock(|machine, now| machine.handle_input(now, Bytes::from(read)));
    let mut out = Vec::new();
    for _ in 0..5 {
        let _ = driver.poll(&mut cx, |_, _| Poll::<()>::Pending);
        let mut taken = Vec::new();
        driver.lock(|machine, _| machine.poll_transmit(&mut taken));
        out.extend(taken);
    }
    let lines = out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let ids: Vec<_> =
        lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()["id"].clone()).collect();
    assert_eq!(ids, [0, 2]);
    assert_eq!(ran.load(Ordering::SeqCst), 2);
}

/// A client always has one more call in flight, and reads one answer at a time.
#[test]
fn handler_that_waits_is_not_passed_by_every_later_call() {
    let (release, released) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(None::<Waker>)));
    let (flag, waker) = (release.clone(), released.clone());
    let tool = |name: &str| Tool::new(name, "", json!({"type": "object"}));
    let router = Router::new("test", "1")
        .tool_with(tool("quick"), |NoArguments {}, _| async { "x".repeat(ANSWER) })
        .tool_with(tool("waits"), move |NoArguments {}, _| {
            let (flag, waker) = (flag.clone(), waker.clone());
            core::future::poll_fn(move |cx| {
                if flag.load(Ordering::SeqCst) > 0 {
                    return Poll::Ready("waited");
                }
                *waker.lock().unwrap() = Some(cx.waker().clone());
                Poll::Pending
            })
        });
    let mut config = router.config();
    config.limits.queued_bytes = ANSWER / 2;
    let machine = StreamServer::new(config);
    let (_, mut driver) = adapter::server(
        machine,
        Arc::new(TestClock::default()),
        Arc::new(CountingEntropy::default()),
        router,
    );
    let mut cx = Context::from_waker(Waker::noop());
    driver.lock(|machine, now| machine.handle_input(now, Bytes::from(call(0, "waits"))));
    let _ = driver.poll(&mut cx, |_, _| Poll::<()>::Pending);
    driver.lock(|machine, now| machine.handle_input(now, Bytes::from(call(1, "quick") + &call(2, "quick"))));
    let _ = driver.poll(&mut cx, |_, _| Poll::<()>::Pending);
    release.store(1, Ordering::SeqCst);
    released.lock().unwrap().take().unwrap().wake();
    let mut out = Vec::new();
    for id in 3..103 {
        // The client reads what there is, and sends another call.
        driver.lock(|machine, now| {
            let _ = machine.poll_transmit(&mut out);
            machine.handle_input(now, Bytes::from(call(id, "quick")));
        });
        let _ = driver.poll(&mut cx, |_, _| Poll::<()>::Pending);
        let text = String::from_utf8_lossy(&out);
        if text.lines().any(|line| line.contains("\"id\":0")) {
            eprintln!("answered in turn {}", id - 3);
            return;
        }
    }
    panic!("a hundred later calls were answered before the one that had waited");
}
