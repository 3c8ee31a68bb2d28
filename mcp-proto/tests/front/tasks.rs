//! Tool calls that become tasks, over a byte stream.

mod bounds;
mod legacy;
mod modern;
mod router;

use core::task::Poll;
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use mcp_proto::front::tasks::{
    DetachedWork, MemoryLimits, MemoryStore, StoredTaskState, TaskChoice, TaskConfig, TaskListing, TaskStore,
};
use mcp_proto::front::{Context, HandlerError, NoArguments, Progress, Router, RouterError};
use mcp_proto::rpc::ErrorObject;
use mcp_proto::schema::{CallToolResult, ElicitParams, ElicitSchema, LoggingLevel, ServerCapability};
use serde_json::{Value, json};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Controls the handlers of [`router`].
#[derive(Clone, Default)]
struct HandlerControl(Arc<Mutex<ControlState>>);

#[derive(Default)]
struct ControlState {
    contexts: Vec<Context>,
    outcome: Option<HandlerOutcome>,
    wakers: Vec<Waker>,
    dropped: usize,
}

type HandlerOutcome = Result<CallToolResult, ErrorObject>;

impl HandlerControl {
    /// The context of the handler that started last.
    #[track_caller]
    fn context(&self) -> Context {
        self.0.lock().unwrap().contexts.pop().expect("the handler has not begun")
    }

    fn has_begun(&self) -> bool {
        !self.0.lock().unwrap().contexts.is_empty()
    }

    /// Lets every handler end with this outcome.
    fn open(&self, verdict: HandlerOutcome) {
        let wakers = {
            let mut state = self.0.lock().unwrap();
            state.outcome = Some(verdict);
            core::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn dropped(&self) -> usize {
        self.0.lock().unwrap().dropped
    }

    async fn wait_outcome(self, cx: Context) -> Result<CallToolResult, HandlerError> {
        self.0.lock().unwrap().contexts.push(cx);
        let guard = OnDrop(self);
        let passing = core::future::poll_fn(|cx| {
            let mut state = guard.0.0.lock().unwrap();
            match state.outcome.clone() {
                Some(verdict) => Poll::Ready(verdict),
                None => {
                    state.wakers.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        });
        Ok(passing.await?)
    }
}

struct OnDrop(HandlerControl);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().dropped += 1;
    }
}

/// A server that offers `hold`, which may be a task, `must`, which has to be one, and `plain`, which is none.
fn router_with(config: TaskConfig) -> (Router, HandlerControl) {
    let gate = HandlerControl::default();
    let holding = |gate: &HandlerControl| {
        let gate = gate.clone();
        move |NoArguments {}, cx: Context| gate.clone().wait_outcome(cx)
    };
    let router = Router::new("worker", "1")
        .declare(ServerCapability::Logging)
        .tasks(config)
        .task_tool(tool("hold"), TaskChoice::Optional, holding(&gate))
        .task_tool(tool("must"), TaskChoice::Required, holding(&gate))
        .tool_with(tool("plain"), async |NoArguments {}, _| "plain");
    (router, gate)
}

fn router() -> (Router, HandlerControl) {
    router_with(TaskConfig::default())
}

fn with_extension() -> Value {
    json!({"extensions": {(EXTENSION): {}}})
}

fn modern() -> (ServerHarness, HandlerControl) {
    let (router, gate) = router();
    (ServerHarness::modern_with(router, with_extension()), gate)
}

fn legacy() -> (ServerHarness, HandlerControl) {
    let (router, gate) = router();
    (ServerHarness::legacy(router), gate)
}

fn text(text: &str) -> HandlerOutcome {
    Ok(CallToolResult::text(text))
}

/// Calls a tool that becomes a task; returns the task that the client receives.
#[track_caller]
fn begin(s: &mut ServerHarness, tool: &str) -> Value {
    let created = s.result("tools/call", json!({"name": tool}));
    assert_eq!(created["resultType"], "task", "{created}");
    created
}

#[track_caller]
fn begin_legacy(s: &mut ServerHarness, tool: &str) -> String {
    let created = s.result("tools/call", json!({"name": tool, "task": {}}));
    created["task"]["taskId"].as_str().expect("a task").to_owned()
}

#[track_caller]
fn get(s: &mut ServerHarness, id: &Value) -> Value {
    s.turn();
    s.result("tasks/get", json!({"taskId": id}))
}

fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::default())
}

fn stored_in(store: &Arc<MemoryStore>) -> TaskConfig {
    let mut config = TaskConfig::default();
    config.store = store.clone();
    config
}
