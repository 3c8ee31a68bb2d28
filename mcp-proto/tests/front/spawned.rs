//! Handlers that are tasks of their own, and handlers that block their driver.

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex, OnceLock};

use mcp_proto::front::http::HttpServerEvent;
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{
    BlockedHandler, ClientHandlers, Context, NoArguments, Router, ServerEvent, SpawnedHandler,
};
use mcp_proto::schema::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ElicitSchema, Json,
    SamplingMessage, Tool,
};
use mcp_proto::testing;
use serde_json::json;

use crate::common::front_http::{HttpHarness, ParkedHandlers, router};
use crate::common::polling::{TestClock, WakeCounter};
use crate::common::router::ServerHarness;

fn tool(name: &str) -> Tool {
    Tool::new(name, "A tool", Json::empty_object())
}

/// An executor that the test polls.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<TasksState>>);

#[derive(Default)]
struct TasksState {
    tasks: Vec<SpawnedHandler>,
    waker: Option<Waker>,
}

impl Tasks {
    fn spawn(&self, task: SpawnedHandler) {
        let mut state = self.0.lock().unwrap();
        state.tasks.push(task);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Polls every task once.
    fn poll(&self, cx: &mut TaskContext<'_>) {
        let mut tasks = {
            let mut state = self.0.lock().unwrap();
            state.waker = Some(cx.waker().clone());
            core::mem::take(&mut state.tasks)
        };
        tasks.retain_mut(|task| Pin::new(task).poll(cx).is_pending());
        self.0.lock().unwrap().tasks.extend(tasks);
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().tasks.len()
    }

    fn clear(&self) {
        let tasks = core::mem::take(&mut self.0.lock().unwrap().tasks);
        drop(tasks);
    }
}

fn spawned(router: Router) -> (Router, Tasks) {
    let tasks = Tasks::default();
    let spawner = tasks.clone();
    (router.spawn_handlers(move |task| spawner.spawn(task)), tasks)
}

#[test]
fn spawned_handlers_answer_over_each_transport_in_each_era() {
    for way in 0..4 {
        let (router, tasks) = spawned(
            Router::new("calculator", "1.0.0")
                .tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
                    let ask =
                        |key| cx.elicit(key, ElicitParams::form("Are you sure?", ElicitSchema::empty()));
                    let (mut first, mut second) = (pin!(ask("first")), pin!(ask("second")));
                    let mut answers = (None, None);
                    poll_fn(|cx| {
                        if answers.0.is_none()
                            && let Poll::Ready(answer) = first.as_mut().poll(cx)
                        {
                            answers.0 = Some(answer);
                        }
                        if answers.1.is_none()
                            && let Poll::Ready(answer) = second.as_mut().poll(cx)
                        {
                            answers.1 = Some(answer);
                        }
                        if answers.0.is_some() && answers.1.is_some() {
                            Poll::Ready(())
                        } else {
                            Poll::Pending
                        }
                    })
                    .await;
                    let (first, second) = (answers.0.unwrap()?, answers.1.unwrap()?);
                    let question = CreateMessageParams::new(vec![SamplingMessage::user("Why?")], 100_u64);
                    let reason = cx.sample("why", question).await?;
                    Ok::<_, mcp_proto::front::HandlerError>(format!(
                        "{} {} {}",
                        first.action,
                        second.action,
                        reason.content.text_content()
                    ))
                })
                .tasks(TaskConfig::default())
                .task_tool(tool("bake"), TaskChoice::Optional, async |NoArguments {}, _| "baked"),
        );
        let handlers = ClientHandlers::new()
            .elicitation(async |_, _| ElicitResult::decline())
            .sampling(async |_, _| CreateMessageResult::text("Because.", "model"));
        let pair = testing::pair(router).handlers(handlers);
        let pair = if way >= 2 { pair.http() } else { pair };
        let mut pair = if way % 2 == 1 { pair.legacy() } else { pair };
        for (tool, text) in [("ask", "decline decline Because."), ("bake", "baked")] {
            let running = tasks.clone();
            let answer = pair.run(async move |client| {
                let mut call = pin!(client.call_tool(tool, json!({})).into_future());
                poll_fn(|cx| {
                    running.poll(cx);
                    call.as_mut().poll(cx)
                })
                .await
            });
            assert_eq!(answer.unwrap().text_content(), text, "{way}");
        }
        assert_eq!(tasks.len(), 0);
    }
}

/// The server of `front_http`, with tasks.
fn held() -> (HttpHarness, ParkedHandlers, Tasks) {
    let (router, held) = router();
    let (router, tasks) =
        spawned(router.tool_with(tool("fail"), async |NoArguments {}, _| -> String { panic!("on purpose") }));
    (HttpHarness::new(router), held, tasks)
}

fn poll(tasks: &Tasks) {
    tasks.poll(&mut TaskContext::from_waker(Waker::noop()));
}

#[test]
fn spawned_handler_runs_in_its_task_alone() {
    let (mut web, held, tasks) = held();
    let mut call = web.call("hold", json!({}));
    assert!(!call.has_head());
    assert_eq!(tasks.len(), 1);
    poll(&tasks);
    held.release("done");
    // Its own waker was called, but the driver does not poll it.
    assert!(!call.has_head());
    call.wakes.take();
    poll(&tasks);
    assert_eq!((call.wakes.take(), tasks.len()), (1, 0));
    assert_eq!(call.json()["result"]["content"][0]["text"], "done");
}

#[test]
fn cancelled_request_drops_its_spawned_handler() {
    let (mut web, held, tasks) = held();
    let mut call = web.call("hold", json!({}));
    assert!(!call.has_head());
    let (wakes, waker) = WakeCounter::new();
    tasks.poll(&mut TaskContext::from_waker(&waker));
    assert_eq!((held.dropped_count(), wakes.take()), (0, 0));
    drop(call);
    assert_eq!(wakes.take(), 1, "the task drops its handler");
    poll(&tasks);
    assert_eq!((held.dropped_count(), tasks.len()), (1, 0));
}

#[test]
fn request_is_answered_when_its_spawned_handler_panics_or_is_dropped() {
    let (mut web, held, tasks) = held();
    let mut call = web.call("fail", json!({}));
    assert!(!call.has_head());
    poll(&tasks);
    let answer = call.json();
    assert_eq!(answer["result"]["isError"], true, "{answer}");

    let mut call = web.call("hold", json!({}));
    assert!(!call.has_head());
    tasks.clear();
    let answer = call.json();
    assert_eq!(answer["error"]["code"], -32603);
    assert_eq!(answer["error"]["message"], "the executor of this server's handlers has ended");
    assert_eq!(held.dropped_count(), 1);
}

/// A server whose tool `slow` blocks for two seconds before and after it waits, and `quick` for one.
fn blocking() -> (Router, Arc<OnceLock<Arc<TestClock>>>) {
    let clock: Arc<OnceLock<Arc<TestClock>>> = Arc::default();
    let (slow, quick) = (clock.clone(), clock.clone());
    let router = Router::new("slow", "1.0.0")
        .tool_with(tool("slow"), move |NoArguments {}, _| {
            let clock = slow.clone();
            async move {
                for round in 0..2 {
                    let mut is_second = false;
                    poll_fn(|cx| {
                        if core::mem::replace(&mut is_second, true) {
                            return Poll::Ready(());
                        }
                        clock.get().unwrap().advance(Duration::from_secs(2 + round));
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    })
                    .await;
                }
            }
        })
        .tool_with(tool("quick"), move |NoArguments {}, _| {
            let clock = quick.clone();
            async move { clock.get().unwrap().advance(Duration::from_secs(1)) }
        });
    (router, clock)
}

#[track_caller]
fn expect_reports(reports: &[&BlockedHandler]) {
    let seconds = |report: &&BlockedHandler| report.elapsed.as_secs();
    assert_eq!(reports.iter().map(seconds).collect::<Vec<_>>(), [2, 3]);
    for report in reports {
        assert_eq!((report.method, report.name.as_deref()), (Some("tools/call"), Some("slow")));
        let text = report.to_string();
        for part in ["tools/call \"slow\" blocked its driver for", "spawn_blocking", "Router::spawn_handlers"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn handler_that_blocks_its_driver_is_reported_on_a_stream() {
    for legacy in [false, true] {
        let (router, clock) = blocking();
        let mut server = if legacy { ServerHarness::legacy(router) } else { ServerHarness::modern(router) };
        clock.set(server.clock.clone()).ok().unwrap();
        let mut events = server.handle.events();
        server.call("quick", json!({}));
        server.call("slow", json!({}));
        let events = events.drain();
        let reports: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                ServerEvent::HandlerBlocked(blocked) => Some(blocked),
                _ => None,
            })
            .collect();
        expect_reports(&reports);
    }
}

#[test]
fn handler_that_blocks_its_driver_is_reported_over_http() {
    for legacy in [false, true] {
        let (router, clock) = blocking();
        let mut web = HttpHarness::new(router);
        clock.set(web.clock.clone()).ok().unwrap();
        let mut events = web.server.events();
        let mut call = if legacy {
            let session = web.open();
            web.post_request(&session, "tools/call", json!({ "name": "slow", "arguments": {} }))
        } else {
            web.call("slow", json!({}))
        };
        assert_eq!(call.message()["result"]["content"], json!([]));
        let events = events.drain();
        let reports: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                HttpServerEvent::HandlerBlocked(blocked) => Some(blocked),
                _ => None,
            })
            .collect();
        expect_reports(&reports);
    }
}

/// A server whose tool `eager` blocks for two seconds before it returns its future.
fn eager() -> (Router, Arc<OnceLock<Arc<TestClock>>>) {
    let clock: Arc<OnceLock<Arc<TestClock>>> = Arc::default();
    let blocking = clock.clone();
    let router = Router::new("eager", "1.0.0").tool_with(tool("eager"), move |NoArguments {}, _| {
        blocking.get().unwrap().advance(Duration::from_secs(2));
        core::future::ready("done")
    });
    (router, clock)
}

fn is_eager(report: &BlockedHandler) -> bool {
    (report.method, report.name.as_deref()) == (Some("tools/call"), Some("eager"))
        && report.elapsed == Duration::from_secs(2)
}

#[test]
fn handler_that_blocks_before_its_future_is_reported() {
    let (router, clock) = eager();
    let mut server = ServerHarness::modern(router);
    clock.set(server.clock.clone()).ok().unwrap();
    let mut events = server.handle.events();
    server.call("eager", json!({}));
    let events = events.drain();
    assert!(matches!(&events[..], [ServerEvent::HandlerBlocked(report)] if is_eager(report)), "{events:?}");

    let (router, clock) = eager();
    let web = HttpHarness::new(router);
    clock.set(web.clock.clone()).ok().unwrap();
    let mut events = web.server.events();
    let mut web = web;
    assert_eq!(web.call("eager", json!({})).head().status, 200);
    let events = events.drain();
    assert!(
        matches!(&events[..], [HttpServerEvent::HandlerBlocked(report)] if is_eager(report)),
        "{events:?}"
    );
}

/// S8.22
#[test]
fn server_over_http_reports_once_that_handlers_log_without_the_capability() {
    let router = Router::new("quiet", "1.0.0").tool_with(tool("log"), async |NoArguments {}, cx: Context| {
        cx.log(mcp_proto::schema::LoggingLevel::Error, "the disk is full");
    });
    let mut web = HttpHarness::new(router);
    let mut events = web.server.events();
    for _ in 0..2 {
        assert_eq!(web.call("log", json!({})).head().status, 200);
    }
    let session = web.open();
    let mut call = web.post_request(&session, "tools/call", json!({ "name": "log", "arguments": {} }));
    assert_eq!(call.message()["result"]["content"], json!([]));
    assert_eq!(events.drain(), [HttpServerEvent::UndeclaredLogging]);
}

#[test]
fn spawned_handler_that_blocks_is_not_reported() {
    let (router, clock) = blocking();
    let (router, tasks) = spawned(router);
    let mut web = HttpHarness::new(router);
    clock.set(web.clock.clone()).ok().unwrap();
    let mut events = web.server.events();
    let mut call = web.call("slow", json!({}));
    for _ in 0..3 {
        assert!(!call.has_head());
        poll(&tasks);
    }
    assert_eq!(call.head().status, 200);
    assert!(events.drain().is_empty());
}

/// The memory of a handler that takes two seconds to drop.
struct SlowToDrop(Arc<OnceLock<Arc<TestClock>>>);

impl Drop for SlowToDrop {
    fn drop(&mut self) {
        self.0.get().unwrap().advance(Duration::from_secs(2));
    }
}

#[test]
fn handler_is_not_blamed_for_the_drop_of_the_one_before() {
    let clock: Arc<OnceLock<Arc<TestClock>>> = Arc::default();
    let held = clock.clone();
    let router = Router::new("drops", "1.0.0")
        .tool_with(tool("asks"), move |NoArguments {}, cx: Context| {
            let held = SlowToDrop(held.clone());
            async move {
                let _held = held;
                let schema = ElicitSchema::empty();
                let _ = cx.elicit("a", ElicitParams::form("name?", schema)).await;
                "asked"
            }
        })
        .tool_with(tool("quick"), |NoArguments {}, _| async { "quick" });
    let mut server = ServerHarness::modern_with(router, json!({"elicitation": {}}));
    clock.set(server.clock.clone()).ok().unwrap();
    let mut events = server.handle.events();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    let call = |id: u32, name: &str| {
        let params = json!({"name": name, "arguments": {}, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let text = format!("{}\n{}\n", call(1, "asks"), call(2, "quick"));
    server.driver.lock(|machine, now| machine.handle_input(now, mcp_proto::Bytes::from(text)));
    server.turn();
    let events = events.drain();
    let is_blamed = |event: &ServerEvent| matches!(event, ServerEvent::HandlerBlocked(blocked) if blocked.name.as_deref() == Some("quick"));
    assert!(!events.iter().any(is_blamed), "{events:?}");
}
