//! The time that the handlers of tools may take.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use mcp_proto::adapter::Clock as _;
use mcp_proto::front::layer::{Layer, LayerFuture, LayerRequest, Next};
use mcp_proto::front::tasks::{DetachedWork, TaskChoice, TaskConfig};
use mcp_proto::front::{
    Client, ClientContext, ClientHandlers, Context, Error, HandlerError, NoArguments, Router, RouterError,
};
use mcp_proto::schema::{CallToolParams, ElicitParams, ElicitResult, ElicitSchema, Map};
use mcp_proto::testing::{self, RouterPair, SimulatedClock};
use serde_json::json;

use crate::common::tools::tool;

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(20);

/// Counts how often it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A router whose tools `work` and `free` take this long; `work` has a limit.
fn slow(clock: &Arc<SimulatedClock>, time: Duration, dropped: &Arc<AtomicUsize>) -> Router {
    let work = |clock: &Arc<SimulatedClock>| {
        let (clock, dropped) = (clock.clone(), dropped.clone());
        move |NoArguments {}, _: Context| {
            let (clock, guard) = (clock.clone(), Dropped(dropped.clone()));
            async move {
                clock.sleep(time).await;
                drop(guard);
                "done"
            }
        }
    };
    Router::new("slow", "1")
        .tool_with(tool("work"), work(clock))
        .tool_with(tool("free"), work(clock))
        .tool_timeout("work", LIMIT)
}

/// Pairs of both eras, over a stream and over HTTP.
fn pairs(router: impl Fn(&Arc<SimulatedClock>) -> Router, check: impl Fn(RouterPair)) {
    for (legacy, http) in [(false, false), (false, true), (true, false), (true, true)] {
        let clock = Arc::new(SimulatedClock::default());
        let pair = testing::pair(router(&clock)).clock(clock);
        let pair = if legacy { pair.legacy() } else { pair };
        check(if http { pair.http() } else { pair });
    }
}

#[test]
fn handler_is_dropped_at_its_limit_and_the_model_reads_it() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    pairs(
        |clock| slow(clock, 3600 * SECOND, &count),
        |mut pair| {
            dropped.store(0, SeqCst);
            let begun = pair.time().now();
            let result = pair.run(async |client| client.call_tool("work", json!({})).await).unwrap();
            assert!(result.failed());
            let text = r#"the tool "work" did not finish within 20 s, the limit of this server"#;
            assert_eq!(result.text_content(), text);
            let elapsed = pair.time().now().saturating_since(begun);
            assert!(elapsed >= LIMIT && elapsed < LIMIT + SECOND, "{elapsed:?}");
            assert_eq!(dropped.load(SeqCst), 1);
            // Other tools have no limit but that of their callers.
            let free = pair.run(async |client| client.call_tool("free", json!({})).await);
            assert!(matches!(free, Err(Error::TimedOut { .. })), "{free:?}");
        },
    );
}

#[test]
fn handler_within_its_limit_is_not_ended_however_often_it_runs() {
    let dropped = Arc::new(AtomicUsize::new(0));
    pairs(
        |clock| slow(clock, 15 * SECOND, &dropped),
        |mut pair| {
            for _ in 0..3 {
                let result = pair.run(async |client| client.call_tool("work", json!({})).await).unwrap();
                assert_eq!(result.text_content(), "done");
            }
        },
    );
}

#[test]
fn time_in_which_the_user_answers_does_not_count() {
    pairs(
        |_| {
            let ask = async |NoArguments {}, cx: Context| {
                let question = ElicitParams::form("Sure?", ElicitSchema::empty());
                cx.elicit("sure", question).await?;
                Ok::<_, HandlerError>("asked")
            };
            Router::new("asking", "1").tool_with(tool("ask"), ask).tool_timeout("ask", LIMIT)
        },
        |pair| {
            let clock = pair.time().clone();
            let answer = move |_: ElicitParams, _: ClientContext| {
                let clock = clock.clone();
                async move {
                    clock.sleep(70 * SECOND).await;
                    ElicitResult::accept(Map::new())
                }
            };
            let mut pair = pair.handlers(ClientHandlers::new().elicitation(answer));
            let result = pair.run(async |client| client.call_tool("ask", json!({})).await).unwrap();
            assert_eq!(result.text_content(), "asked");
        },
    );
}

#[test]
fn limit_covers_detached_work_before_the_answer_but_no_task() {
    let works = |clock: &Arc<SimulatedClock>| {
        let clock = clock.clone();
        move |NoArguments {}, _: Context| {
            let clock = clock.clone();
            async move {
                Ok::<_, HandlerError>(DetachedWork::new(async move |_: Context| {
                    clock.sleep(60 * SECOND).await;
                    "done"
                }))
            }
        }
    };
    let router = |clock: &Arc<SimulatedClock>| {
        Router::new("tasks", "1")
            .tasks(TaskConfig::default())
            .detaching_tool(tool("work"), TaskChoice::Optional, works(clock))
            .tool_timeout("work", LIMIT)
    };
    for has_tasks in [true, false] {
        let clock = Arc::new(SimulatedClock::default());
        let mut pair = testing::pair(router(&clock)).clock(clock).configure(|client| {
            client.request_timeout = 600 * SECOND;
            if !has_tasks {
                client.tasks = mcp_proto::peer::TaskMode::Never;
            }
        });
        let result = pair.run(async |client| client.call_tool("work", json!({})).await).unwrap();
        assert_eq!(result.failed(), !has_tasks, "{}", result.text_content());
    }
}

/// Calls another tool, at once or later.
struct Redirect(Option<Arc<SimulatedClock>>, &'static str);

impl Layer for Redirect {
    fn request(&self, mut request: LayerRequest, next: Next) -> LayerFuture {
        if request.item().is_some() {
            request.set_params(&CallToolParams::new(self.1).with_arguments(json!({}))).unwrap();
        }
        let clock = self.0.clone();
        Box::pin(async move {
            if let Some(clock) = clock {
                clock.sleep(15 * SECOND).await;
            }
            next.run(request).await
        })
    }
}

#[test]
fn call_that_a_layer_redirects_has_the_limit_of_the_tool_that_runs() {
    let dropped = Arc::new(AtomicUsize::new(0));
    for (named, called, waits) in
        [("work", "free", false), ("work", "free", true), ("free", "work", false), ("free", "work", true)]
    {
        pairs(
            |clock| {
                let waits = waits.then(|| clock.clone());
                slow(clock, 60 * SECOND, &dropped).layer(Redirect(waits, called))
            },
            |mut pair| {
                let begun = pair.time().now();
                let call =
                    async |client: Client| client.call_tool(named, json!({})).timeout(600 * SECOND).await;
                let result = pair.run(call).unwrap();
                assert_eq!(result.failed(), called == "work", "{}", result.text_content());
                let time = if called == "work" { LIMIT } else { 60 * SECOND };
                let waited = if waits { 15 * SECOND } else { Duration::ZERO };
                let elapsed = pair.time().now().saturating_since(begun);
                assert!(elapsed >= time + waited && elapsed < time + waited + SECOND, "{elapsed:?}");
            },
        );
    }
}

#[test]
fn limit_of_a_tool_that_is_not_registered_is_an_error() {
    let router = || Router::new("r", "1").tool_with(tool("work"), async |NoArguments {}, _| "");
    let error = router().tool_timeout("wrok", LIMIT).check().unwrap_err();
    assert_eq!(error, RouterError::NoTool { tool: "wrok".into() });
    // It goes with its tool.
    assert!(router().tool_timeout("work", LIMIT).remove_tool("work").check().is_ok());
}
