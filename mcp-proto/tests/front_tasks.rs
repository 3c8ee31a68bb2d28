//! Tool calls that become tasks, over a byte stream.

mod front_common;
mod router_common;

use core::task::Poll;
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use mcp_proto::front::tasks::{
    Detached, MemoryLimits, MemoryStore, Standing, TaskChoice, TaskConfig, TaskListing, TaskStore,
};
use mcp_proto::front::{Context, HandlerError, NoArguments, Progress, Router, RouterError};
use mcp_proto::rpc::ErrorObject;
use mcp_proto::schema::{CallToolResult, LoggingLevel, ServerCapability, Tool};
use router_common::Served;
use serde_json::{Value, json};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn tool(name: &str) -> Tool {
    Tool::new(name, "A tool", json!({"type": "object"}))
}

/// What the handlers of [`router`] wait for.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    contexts: Vec<Context>,
    verdict: Option<Verdict>,
    wakers: Vec<Waker>,
    dropped: usize,
}

type Verdict = Result<CallToolResult, ErrorObject>;

impl Gate {
    /// The context of the handler that began last.
    #[track_caller]
    fn context(&self) -> Context {
        self.0.lock().unwrap().contexts.pop().expect("the handler has not begun")
    }

    fn has_begun(&self) -> bool {
        !self.0.lock().unwrap().contexts.is_empty()
    }

    /// Lets every handler end like this.
    fn open(&self, verdict: Verdict) {
        let wakers = {
            let mut state = self.0.lock().unwrap();
            state.verdict = Some(verdict);
            core::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn dropped(&self) -> usize {
        self.0.lock().unwrap().dropped
    }

    async fn pass(self, cx: Context) -> Result<CallToolResult, HandlerError> {
        self.0.lock().unwrap().contexts.push(cx);
        let guard = OnDrop(self);
        let passing = core::future::poll_fn(|cx| {
            let mut state = guard.0.0.lock().unwrap();
            match state.verdict.clone() {
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

struct OnDrop(Gate);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().dropped += 1;
    }
}

/// A server that offers `hold`, which may be a task, `must`, which has to be, and `plain`, which is none.
fn router_with(config: TaskConfig) -> (Router, Gate) {
    let gate = Gate::default();
    let holding = |gate: &Gate| {
        let gate = gate.clone();
        move |NoArguments {}, cx: Context| gate.clone().pass(cx)
    };
    let router = Router::new("worker", "1")
        .declare(ServerCapability::Logging)
        .tasks(config)
        .task_tool(tool("hold"), TaskChoice::Optional, holding(&gate))
        .task_tool(tool("must"), TaskChoice::Required, holding(&gate))
        .tool_with(tool("plain"), async |NoArguments {}, _| "plain");
    (router, gate)
}

fn router() -> (Router, Gate) {
    router_with(TaskConfig::default())
}

fn with_extension() -> Value {
    json!({"extensions": {(EXTENSION): {}}})
}

fn modern() -> (Served, Gate) {
    let (router, gate) = router();
    (Served::modern_with(router, with_extension()), gate)
}

fn legacy() -> (Served, Gate) {
    let (router, gate) = router();
    (Served::legacy(router), gate)
}

fn text(text: &str) -> Verdict {
    Ok(CallToolResult::text(text))
}

/// Calls a tool that becomes a task; returns what the client is told of that.
#[track_caller]
fn begin(s: &mut Served, tool: &str) -> Value {
    let created = s.result("tools/call", json!({"name": tool}));
    assert_eq!(created["resultType"], "task", "{created}");
    created
}

#[track_caller]
fn begin_legacy(s: &mut Served, tool: &str) -> String {
    let created = s.result("tools/call", json!({"name": tool, "task": {}}));
    created["task"]["taskId"].as_str().expect("a task").to_owned()
}

#[track_caller]
fn get(s: &mut Served, id: &Value) -> Value {
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

// --- 2026-07-28 ---

/// S11.2, S11.3, R8
#[test]
fn a_call_becomes_a_task_whose_result_is_got_later() {
    let (mut s, gate) = modern();
    let created = begin(&mut s, "hold");
    let id = &created["taskId"];
    assert_eq!((&created["status"], &created["ttlMs"]), (&json!("working"), &json!(3_600_000)));
    assert_eq!(created["pollIntervalMs"], 1000);
    assert_eq!(created["createdAt"], "2026-07-28T12:00:00.000Z");
    for absent in ["result", "error", "inputRequests", "requestState", "ttl", "task"] {
        assert!(created.get(absent).is_none(), "{created}");
    }

    s.advance(Duration::from_secs(5));
    let working = get(&mut s, id);
    assert_eq!((&working["status"], &working["resultType"]), (&json!("working"), &json!("complete")));
    assert_eq!(working["taskId"], *id);

    gate.open(text("done"));
    let done = get(&mut s, id);
    assert_eq!((&done["status"], &done["resultType"]), (&json!("completed"), &json!("complete")));
    assert_eq!(done["result"]["content"][0]["text"], "done");
    assert!(done["result"].get("_meta").is_none(), "{done}");
    assert_eq!(done["createdAt"], created["createdAt"]);
    assert_eq!(done["lastUpdatedAt"], "2026-07-28T12:00:05.000Z");
}

/// S11.2: `tasks/get` finds it as soon as the client is told.
#[test]
fn a_task_is_in_the_store_before_the_client_is_told() {
    let store = store();
    let (router, _gate) = router_with(stored_in(&store));
    let mut s = Served::modern_with(router, with_extension());
    let created = begin(&mut s, "hold");
    let kept = futures_lite::future::block_on(store.get(created["taskId"].as_str().unwrap())).unwrap();
    assert_eq!(kept.unwrap().standing, Standing::Working);
}

/// S11.1
#[test]
fn only_a_client_that_declares_tasks_with_its_request_gets_one() {
    let (router, gate) = router();
    gate.open(text("at once"));
    let mut s = Served::modern(router);
    let result = s.result("tools/call", json!({"name": "hold"}));
    assert_eq!(
        (&result["resultType"], &result["content"][0]["text"]),
        (&json!("complete"), &json!("at once"))
    );

    let error = s.error("tools/call", json!({"name": "must"}));
    assert_eq!(error["code"], -32021);
    assert_eq!(error["data"], json!({"requiredCapabilities": {"extensions": {(EXTENSION): {}}}}));
}

/// S11.7
#[test]
fn a_client_that_does_not_declare_tasks_may_not_ask_of_any() {
    let (router, _gate) = router();
    let mut s = Served::modern(router);
    let params = json!({"taskId": "x", "inputResponses": {}});
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let error = s.error(method, params.clone());
        assert_eq!(error["code"], -32021, "{method}: {error}");
        assert!(error["data"]["requiredCapabilities"]["extensions"][EXTENSION].is_object());
    }
}

/// S11.7
#[test]
fn an_unknown_task_is_an_invalid_parameter() {
    let (mut s, _gate) = modern();
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let error = s.error(method, json!({"taskId": "nonesuch", "inputResponses": {}}));
        assert_eq!(error["code"], -32602, "{method}: {error}");
    }
}

/// S11.7
#[test]
fn what_2025_11_25_asked_of_tasks_is_unknown() {
    let (mut s, _gate) = modern();
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(s.error(method, json!({"taskId": "x"}))["code"], -32601);
    }
}

/// S11.4
#[test]
fn an_error_of_the_tool_completes_a_task() {
    let (mut s, gate) = modern();
    let id = begin(&mut s, "must")["taskId"].clone();
    gate.open(Ok(CallToolResult::error("out of paper")));
    let done = get(&mut s, &id);
    assert_eq!((&done["status"], &done["result"]["isError"]), (&json!("completed"), &json!(true)));
    assert!(done.get("error").is_none());
    assert_eq!(done["statusMessage"], "out of paper");
}

/// S11.4
#[test]
fn an_error_of_the_protocol_fails_a_task() {
    let (mut s, gate) = modern();
    let id = begin(&mut s, "hold")["taskId"].clone();
    gate.open(Err(ErrorObject::new(-32603, "no such job")));
    let failed = get(&mut s, &id);
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["error"], json!({"code": -32603, "message": "no such job"}));
    assert_eq!(failed["statusMessage"], "no such job");
    assert!(failed.get("result").is_none());
}

/// S11.4
#[test]
fn a_panic_fails_a_task_and_nothing_else() {
    let (router, _gate) = router();
    let router = router.task_tool(tool("panic"), TaskChoice::Optional, async |NoArguments {}, _| {
        panic!("as it should");
        #[allow(unreachable_code)]
        ""
    });
    let mut s = Served::modern_with(router, with_extension());
    let id = begin(&mut s, "panic")["taskId"].clone();
    assert_eq!(get(&mut s, &id)["error"]["code"], -32603);
    assert_eq!(s.call("plain", json!({}))["content"][0]["text"], "plain");
}

#[test]
fn a_task_says_how_it_is_doing() {
    let (mut s, gate) = modern();
    let id = begin(&mut s, "hold")["taskId"].clone();
    let cx = gate.context();
    assert_eq!(cx.task_id(), id.as_str());
    s.advance(Duration::from_secs(1));
    cx.status("halfway");
    let task = get(&mut s, &id);
    assert_eq!((&task["status"], &task["statusMessage"]), (&json!("working"), &json!("halfway")));
    assert_eq!(task["lastUpdatedAt"], "2026-07-28T12:00:01.000Z");
    gate.open(text("done"));
    assert_eq!(get(&mut s, &id)["statusMessage"], "halfway");
    cx.status("too late");
    assert_eq!(get(&mut s, &id)["statusMessage"], "halfway");
}

/// S11.8, R8
#[test]
fn a_cancelled_task_drops_its_handler_and_stays_cancelled() {
    let (mut s, gate) = modern();
    let id = begin(&mut s, "hold")["taskId"].clone();
    let cx = gate.context();
    assert!(!cx.is_cancelled());
    let ack = s.result("tasks/cancel", json!({"taskId": id}));
    assert_eq!(ack["resultType"], "complete");
    for absent in ["taskId", "status", "result", "error", "inputRequests"] {
        assert!(ack.get(absent).is_none(), "{ack}");
    }
    assert_eq!(gate.dropped(), 1);
    assert!(cx.is_cancelled());
    gate.open(text("too late"));
    let task = get(&mut s, &id);
    assert_eq!(task["status"], "cancelled");
    assert!(task.get("result").is_none());
    // It is acknowledged again, whatever the task has come to.
    assert_eq!(s.result("tasks/cancel", json!({"taskId": id}))["resultType"], "complete");
}

/// R7: `notifications/cancelled` means nothing for a call that has been answered.
#[test]
fn a_task_is_not_cancelled_with_its_request() {
    let (mut s, gate) = modern();
    let call = s.send("tools/call", json!({"name": "hold"}));
    let id = s.line()["result"]["taskId"].clone();
    s.notify("notifications/cancelled", json!({"requestId": call}));
    assert_eq!((gate.dropped(), &get(&mut s, &id)["status"]), (0, &json!("working")));
}

/// S11.8, R8
#[test]
fn answers_to_what_was_not_asked_mean_nothing() {
    let (mut s, gate) = modern();
    let id = begin(&mut s, "hold")["taskId"].clone();
    let responses = json!({"unknown": {"ignored": true}});
    for _ in 0..2 {
        let ack = s.result("tasks/update", json!({"taskId": id, "inputResponses": responses}));
        assert_eq!(ack["resultType"], "complete");
        assert!(ack.get("status").is_none());
        gate.open(text("done"));
    }
}

/// S11.10
#[test]
fn a_task_of_the_extension_reports_no_progress_and_logs_nothing() {
    let (mut s, gate) = modern();
    let meta = json!({"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"});
    s.result("tools/call", json!({"name": "hold", "_meta": meta}));
    let cx = gate.context();
    cx.progress(Progress::new(1));
    cx.log(LoggingLevel::Error, "hot");
    s.expect_silence();
}

/// S11.10
#[test]
fn those_who_listen_are_told_of_every_change() {
    let (mut s, gate) = modern();
    let id = begin(&mut s, "hold")["taskId"].clone();
    let listen = s.send("subscriptions/listen", json!({"notifications": {"taskIds": [id, "other"]}}));
    let acknowledged = s.line();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    // S11.9: what does not exist, or is not theirs, is not granted.
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([id]));

    gate.context().status("halfway");
    let told = s.line();
    assert_eq!((&told["method"], &told["params"]["taskId"]), (&json!("notifications/tasks"), &id));
    assert_eq!(
        (&told["params"]["status"], &told["params"]["statusMessage"]),
        (&json!("working"), &json!("halfway"))
    );
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen);

    gate.open(text("done"));
    let told = s.line();
    assert_eq!(told["params"]["status"], "completed");
    assert_eq!(told["params"]["result"]["content"][0]["text"], "done");
    s.expect_silence();
}

/// S11.6
#[test]
fn a_client_that_does_not_declare_tasks_may_not_listen_for_any() {
    let (router, _gate) = router();
    let mut s = Served::modern(router);
    let error = s.error("subscriptions/listen", json!({"notifications": {"taskIds": ["x"]}}));
    assert_eq!(error["code"], -32021);
    assert!(error["data"]["requiredCapabilities"]["extensions"][EXTENSION].is_object());
}

/// S11.10
#[test]
fn nobody_else_is_told_of_a_task() {
    let (mut s, gate) = modern();
    begin(&mut s, "hold");
    s.send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    s.line();
    gate.context().status("halfway");
    gate.open(text("done"));
    s.expect_silence();
}

/// S11.5: what is asked before there is a task is asked by the call.
#[test]
fn a_tool_may_do_something_before_it_becomes_a_task() {
    let early = Arc::new(Mutex::new(Vec::new()));
    let seen = early.clone();
    let router = Router::new("worker", "1").tasks(TaskConfig::default()).detaching_tool(
        tool("later"),
        TaskChoice::Optional,
        move |NoArguments {}, cx: Context| {
            let seen = seen.clone();
            async move {
                seen.lock().unwrap().push(cx.task_id().map(str::to_owned));
                if seen.lock().unwrap().len() == 3 {
                    return Err(HandlerError::new("enough"));
                }
                Ok(Detached::new(async move |cx: Context| format!("in {:?}", cx.task_id())))
            }
        },
    );
    let mut s = Served::modern_with(router, with_extension());
    let id = begin(&mut s, "later")["taskId"].clone();
    let done = get(&mut s, &id);
    assert_eq!(done["result"]["content"][0]["text"], format!("in {:?}", id.as_str()));

    // For a client that can't have a task the rest is done at once.
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": {}});
    let result = s.result("tools/call", json!({"name": "later", "_meta": meta}));
    assert_eq!(
        (&result["resultType"], &result["content"][0]["text"]),
        (&json!("complete"), &json!("in None"))
    );

    let failed = s.result("tools/call", json!({"name": "later"}));
    assert_eq!((&failed["resultType"], &failed["isError"]), (&json!("complete"), &json!(true)));
    assert_eq!(*early.lock().unwrap(), [None, None, None]);
}

/// S11.1
#[test]
fn a_tool_that_must_become_a_task_is_not_begun_for_a_client_that_can_not_have_one() {
    let router = Router::new("worker", "1").tasks(TaskConfig::default()).detaching_tool(
        tool("later"),
        TaskChoice::Required,
        async |NoArguments {}, _| -> Result<Detached, HandlerError> { panic!("it was begun") },
    );
    let mut s = Served::modern(router);
    assert_eq!(s.error("tools/call", json!({"name": "later"}))["code"], -32021);
}

#[test]
fn arguments_that_do_not_fit_are_the_tasks_concern() {
    #[derive(serde::Deserialize)]
    struct Needs {
        #[expect(dead_code)]
        text: String,
    }
    let router = Router::new("worker", "1").tasks(TaskConfig::default()).task_tool(
        tool("needs"),
        TaskChoice::Optional,
        async |Needs { .. }, _| "fine",
    );
    let mut s = Served::modern_with(router, with_extension());
    let id = begin(&mut s, "needs")["taskId"].clone();
    let done = get(&mut s, &id);
    assert_eq!((&done["status"], &done["result"]["isError"]), (&json!("completed"), &json!(true)));
}

// --- Bounds and time ---

/// S11.11: the ends of tasks are kept for their time, and no longer.
#[test]
fn a_task_that_outlives_its_time_fails_and_is_forgotten() {
    let store = store();
    let mut config = stored_in(&store);
    config.ttl = Duration::from_secs(60);
    let (router, gate) = router_with(config);
    let mut s = Served::modern_with(router, with_extension());
    let id = begin(&mut s, "hold")["taskId"].clone();
    s.send("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
    s.line();
    assert_eq!(s.driver.next_timeout().unwrap().since_origin(), Duration::from_secs(60));

    s.advance(Duration::from_secs(60));
    assert_eq!(s.line()["params"]["status"], "failed");
    assert_eq!(gate.dropped(), 1);
    assert_eq!(s.error("tasks/get", json!({"taskId": id}))["code"], -32602);
    s.advance(Duration::from_secs(60));
    assert!(store.is_empty());
    s.advance(Duration::from_secs(60));
    assert_eq!(s.driver.next_timeout(), None);
}

#[test]
fn so_many_tasks_run_at_once_and_no_more() {
    let mut config = TaskConfig::default();
    config.running = 2;
    let (router, gate) = router_with(config);
    let mut s = Served::modern_with(router, with_extension());
    begin(&mut s, "hold");
    begin(&mut s, "hold");
    assert_eq!(s.error("tools/call", json!({"name": "hold"}))["code"], -32603);
    gate.open(text("done"));
    s.turn();
    begin(&mut s, "hold");
}

/// A store that is full refuses the call; a result that does not fit fails the task.
#[test]
fn what_does_not_fit_the_store_is_refused() {
    let mut config = TaskConfig::default();
    config.store = Arc::new(MemoryStore::new(MemoryLimits { tasks: 1, bytes: 2000 }));
    let (router, gate) = router_with(config);
    let mut s = Served::modern_with(router, with_extension());
    let id = begin(&mut s, "hold")["taskId"].clone();
    assert_eq!(s.error("tools/call", json!({"name": "hold"}))["code"], -32603);
    assert!(gate.has_begun());
    gate.open(text(&"x".repeat(5000)));
    let task = get(&mut s, &id);
    assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32603)));
}

#[test]
fn a_connection_that_ends_takes_its_tasks_along() {
    let store = store();
    let (router, gate) = router_with(stored_in(&store));
    let mut s = Served::modern_with(router, with_extension());
    let id = begin(&mut s, "hold")["taskId"].as_str().unwrap().to_owned();
    drop(s);
    assert_eq!(gate.dropped(), 1);
    let kept = futures_lite::future::block_on(store.get(&id)).unwrap().unwrap();
    assert!(matches!(kept.standing, Standing::Failed(_)), "{kept:?}");
}

#[test]
fn a_task_whose_call_is_cancelled_before_it_was_answered_never_was() {
    let (router, gate) = router();
    let mut s = Served::modern_with(router, with_extension());
    // The driver has not run yet.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": with_extension(),
    });
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hold", "_meta": meta}});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "_meta": meta}});
    let text = format!("{call}\n{cancel}\n");
    s.driver.lock(|machine, now| machine.handle_input(now, mcp_proto::Bytes::from(text)));
    s.expect_silence();
    assert!(!gate.has_begun() || gate.dropped() == 1);
}

/// S11.9
#[test]
fn tasks_have_identifiers_of_128_random_bits() {
    let (mut s, _gate) = modern();
    let ids: Vec<Value> = (0..3).map(|_| begin(&mut s, "hold")["taskId"].clone()).collect();
    for id in &ids {
        let id = id.as_str().unwrap();
        assert!(id.len() == 32 && id.chars().all(|c| c.is_ascii_hexdigit()), "{id}");
    }
    assert!(ids[0] != ids[1] && ids[1] != ids[2]);
}

/// S11.9
#[test]
fn a_task_of_somebody_else_does_not_exist() {
    use mcp_proto::peer::Principal;
    let (router, gate) = router();
    let mut s = Served::modern_with(router, with_extension());
    let principal = |s: &mut Served, name: Option<&str>| {
        let principal = name.map(Principal::new);
        s.driver.lock(|machine, _| machine.set_principal(principal));
    };
    principal(&mut s, Some("alice"));
    let id = begin(&mut s, "hold")["taskId"].clone();
    for who in [Some("bob"), None] {
        principal(&mut s, who);
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let error = s.error(method, json!({"taskId": id, "inputResponses": {}}));
            assert_eq!(error["code"], -32602, "{who:?} {method}");
        }
        s.send("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
        assert_eq!(s.line()["params"]["notifications"], json!({"taskIds": []}));
    }
    gate.open(text("done"));
    s.expect_silence();
    principal(&mut s, Some("bob"));
    assert_eq!(s.error("tasks/get", json!({"taskId": id}))["code"], -32602);
    principal(&mut s, Some("alice"));
    assert_eq!(get(&mut s, &id)["status"], "completed");
}

// --- The router ---

#[test]
fn a_router_without_tasks_can_not_offer_tools_that_become_some() {
    let router = Router::new("worker", "1").task_tool(
        tool("hold"),
        TaskChoice::Optional,
        async |NoArguments {}, _| "",
    );
    assert_eq!(router.check(), Err(RouterError::NoTasks { tool: "hold".into() }));
    assert_eq!(router.tasks(TaskConfig::default()).check(), Ok(()));
}

/// S11.11
#[test]
fn tasks_are_declared_in_both_forms() {
    let mut s = Served::modern(router().0);
    let discovered = s.result("server/discover", json!({}));
    assert_eq!(discovered["capabilities"]["extensions"], json!({(EXTENSION): {}}));
    assert!(discovered["capabilities"].get("tasks").is_none());
    let tools = s.result("tools/list", json!({}));
    assert!(tools["tools"][0].get("execution").is_none(), "{tools}");

    let mut s = Served::unintroduced(router().0);
    let initialized = s.result(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    let tasks = &initialized["capabilities"]["tasks"];
    assert_eq!(*tasks, json!({"cancel": {}, "requests": {"tools": {"call": {}}}}));
    s.notify("notifications/initialized", json!({}));
    let tools = s.result("tools/list", json!({}));
    assert_eq!(tools["tools"][0]["execution"]["taskSupport"], "optional");
    assert_eq!(tools["tools"][1]["execution"]["taskSupport"], "required");
    assert!(tools["tools"][2].get("execution").is_none());
}

// --- 2025-11-25 ---

/// S11.11, R7
#[test]
fn a_legacy_client_asks_for_a_task_and_waits_for_its_result() {
    let (mut s, gate) = legacy();
    let created = s.result("tools/call", json!({"name": "hold", "task": {"ttl": 60_000}}));
    let task = &created["task"];
    assert_eq!(
        (&task["status"], &task["ttl"], &task["pollInterval"]),
        (&json!("working"), &json!(60_000), &json!(1000))
    );
    assert_eq!(task["createdAt"], "2026-07-28T12:00:00.000Z");
    assert!(created.get("resultType").is_none());
    let id = task["taskId"].clone();

    let waiting = s.send("tasks/result", json!({"taskId": id}));
    s.expect_silence();
    let got = get(&mut s, &id);
    assert_eq!((&got["status"], &got["lastUpdatedAt"]), (&json!("working"), &task["createdAt"]));
    assert!(got.get("_meta").is_none());

    gate.open(text("done"));
    let lines = [s.line(), s.line()];
    let told = lines.iter().find(|line| line["method"] == "notifications/tasks/status").expect("told");
    assert_eq!((&told["params"]["taskId"], &told["params"]["status"]), (&id, &json!("completed")));
    assert!(told["params"].get("_meta").is_none());
    let result = &lines.iter().find(|line| line["id"] == waiting).expect("answered")["result"];
    assert_eq!(result["content"][0]["text"], "done");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], json!({"taskId": id}));

    // And again, from the store.
    let again = s.result("tasks/result", json!({"taskId": id}));
    assert_eq!(again, *result);
}

/// R7
#[test]
fn a_legacy_call_runs_as_it_asks() {
    let (mut s, gate) = legacy();
    gate.open(text("at once"));
    assert_eq!(s.call("hold", json!({}))["content"][0]["text"], "at once");
    assert_eq!(s.error("tools/call", json!({"name": "must"}))["code"], -32601);
    assert_eq!(s.error("tools/call", json!({"name": "plain", "task": {}}))["code"], -32601);
}

/// R7
#[test]
fn a_server_without_tasks_ignores_that_one_is_asked_for() {
    let router = Router::new("worker", "1").tool_with(tool("plain"), async |NoArguments {}, _| "plain");
    let mut s = Served::legacy(router);
    let result = s.result("tools/call", json!({"name": "plain", "task": {"ttl": 1}}));
    assert_eq!(result["content"][0]["text"], "plain");
    assert_eq!(s.error("tasks/get", json!({"taskId": "x"}))["code"], -32601);
}

/// S11.11: tasks are of 2025-11-25 alone.
#[test]
fn earlier_revisions_know_no_tasks() {
    let (router, gate) = router();
    gate.open(text("at once"));
    let mut s = Served::legacy_with(router, "2025-06-18", json!({}));
    let result = s.result("tools/call", json!({"name": "hold", "task": {}}));
    assert_eq!(result["content"][0]["text"], "at once");
    assert_eq!(s.error("tasks/get", json!({"taskId": "x"}))["code"], -32601);
    assert_eq!(s.error("tools/call", json!({"name": "must", "task": {}}))["code"], -32601);
}

/// S11.11
#[test]
fn an_error_of_the_tool_fails_a_legacy_task_and_is_its_result() {
    let (mut s, gate) = legacy();
    let id = begin_legacy(&mut s, "hold");
    gate.open(Ok(CallToolResult::error("out of paper")));
    assert_eq!(s.line()["params"]["status"], "failed");
    let got = get(&mut s, &json!(id));
    assert_eq!((&got["status"], &got["statusMessage"]), (&json!("failed"), &json!("out of paper")));
    let result = s.result("tasks/result", json!({"taskId": id}));
    assert_eq!(result["isError"], true);
}

/// S11.11
#[test]
fn an_error_of_the_protocol_is_what_the_result_of_a_legacy_task_is() {
    let (mut s, gate) = legacy();
    let id = begin_legacy(&mut s, "hold");
    gate.open(Err(ErrorObject::new(-32602, "no such job")));
    s.line();
    let error = s.error("tasks/result", json!({"taskId": id}));
    assert_eq!(error, json!({"code": -32602, "message": "no such job"}));
}

/// S11.11
#[test]
fn a_legacy_task_is_cancelled_once() {
    let (mut s, gate) = legacy();
    let id = begin_legacy(&mut s, "hold");
    let waiting = s.send("tasks/result", json!({"taskId": id}));
    s.send("tasks/cancel", json!({"taskId": id}));
    let mut lines = Vec::new();
    while let Some(line) = s.try_line() {
        lines.push(line);
    }
    let answer = |id: i64| lines.iter().find(|line| line["id"] == id).expect("answered");
    assert_eq!(answer(waiting + 1)["result"]["status"], "cancelled");
    assert!(answer(waiting)["error"].is_object());
    assert_eq!(gate.dropped(), 1);
    assert_eq!(s.error("tasks/cancel", json!({"taskId": id}))["code"], -32602);
    assert_eq!(get(&mut s, &json!(id))["status"], "cancelled");
}

/// S11.11
#[test]
fn an_unknown_task_is_an_invalid_parameter_to_legacy_clients() {
    let (mut s, _gate) = legacy();
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(s.error(method, json!({"taskId": "nonesuch"}))["code"], -32602);
    }
}

/// R7
#[test]
fn the_progress_token_of_a_legacy_task_lives_as_long_as_it() {
    let (mut s, gate) = legacy();
    let created =
        s.result("tools/call", json!({"name": "hold", "task": {}, "_meta": {"progressToken": "p"}}));
    let id = &created["task"]["taskId"];
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": id}});
    let cx = gate.context();
    cx.progress(Progress::new(2).total(3));
    cx.progress(Progress::new(1));
    let told = s.line();
    assert_eq!(
        (&told["method"], &told["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("p"))
    );
    assert_eq!((&told["params"]["progress"], &told["params"]["_meta"]), (&json!(2), &related));
    cx.log(LoggingLevel::Warning, "hot");
    let logged = s.line();
    assert_eq!((&logged["method"], &logged["params"]["_meta"]), (&json!("notifications/message"), &related));
    gate.open(text("done"));
    assert_eq!(s.line()["method"], "notifications/tasks/status");
    cx.progress(Progress::new(3));
    s.expect_silence();
}

/// R7: what can be got can be listed, page by page.
#[test]
fn legacy_tasks_are_listed_where_clients_may() {
    let mut config = TaskConfig::default();
    config.listing = TaskListing::Shown;
    let (router, gate) = router_with(config);
    let mut s = Served::legacy(router.page_size(2));
    let ids: Vec<String> = (0..3).map(|_| begin_legacy(&mut s, "hold")).collect();
    let page = s.result("tasks/list", json!({}));
    let listed = |page: &Value| -> Vec<String> {
        let tasks = page["tasks"].as_array().unwrap();
        tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(&page), ids[..2]);
    let page = s.result("tasks/list", json!({"cursor": page["nextCursor"]}));
    assert_eq!(listed(&page), ids[2..]);
    assert!(page.get("nextCursor").is_none());
    assert_eq!(page["tasks"][0]["status"], "working");
    assert_eq!(s.error("tasks/list", json!({"cursor": "nonesuch"}))["code"], -32602);
    gate.open(text("done"));
    assert_eq!(s.line()["params"]["status"], "completed");
}

/// S11.11: a server that can't tell its clients apart lists nothing.
#[test]
fn legacy_tasks_are_not_listed_otherwise() {
    let (mut s, _gate) = legacy();
    assert_eq!(s.error("tasks/list", json!({}))["code"], -32601);
}

/// S11.11
#[test]
fn a_legacy_client_does_not_get_more_time_than_there_is() {
    let (mut s, _gate) = legacy();
    let mut ttl = |ttl: u64| {
        let created = s.result("tools/call", json!({"name": "hold", "task": {"ttl": ttl}}));
        created["task"]["ttl"].as_u64().unwrap()
    };
    assert_eq!(ttl(1000), 1000);
    assert_eq!(ttl(u64::MAX), 24 * 60 * 60 * 1000);
}
