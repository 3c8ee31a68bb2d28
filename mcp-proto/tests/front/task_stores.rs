//! Stores of tasks, and servers with a slow, a failing or a shared store.

mod instances;

use core::future::poll_fn;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use crate::common::front_http::{HttpHarness, ParkedHandlers, TestExchange, field, settle};
use crate::common::tools::{ask_two_names, tool};
use futures_lite::future::block_on;
use mcp_proto::UnixTime;
use mcp_proto::adapter::Clock as _;
use mcp_proto::front::tasks::{
    MemoryLimits, MemoryStore, StoreError, StoreFuture, StoredTaskState, TaskChoice, TaskConfig, TaskPage,
    TaskRecord, TaskStore,
};
use mcp_proto::front::{Context, HandlerMode, NoArguments, Router};
use mcp_proto::peer::Principal;
use mcp_proto::rpc::ErrorObject;
use mcp_proto::schema::{InputRequests, Json, ListRootsParams, Tool};
use serde_json::{Value, json};

/// A store in memory that acts only when the test lets it.
#[derive(Default)]
struct SlowStore {
    shared: bool,
    /// Whether expired tasks are deleted only when the test lets it.
    sweeps_slowly: bool,
    inner: MemoryStore,
    control: Mutex<StoreControl>,
}

#[derive(Default)]
struct StoreControl {
    permits: usize,
    waiting: Vec<Waker>,
    broken: bool,
    /// The last version, which a failover does not forget.
    version: u64,
}

impl SlowStore {
    /// Permits this many more operations.
    fn permit(&self, count: usize) {
        let mut gate = self.control.lock().unwrap();
        gate.permits += count;
        let waiting = core::mem::take(&mut gate.waiting);
        drop(gate);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn is_waited_for(&self) -> bool {
        !self.control.lock().unwrap().waiting.is_empty()
    }

    fn break_down(&self) {
        self.control.lock().unwrap().broken = true;
    }

    fn repair(&self) {
        self.control.lock().unwrap().broken = false;
    }

    /// Fails if the store is broken.
    fn check(&self) -> Result<(), StoreError> {
        let is_broken = self.control.lock().unwrap().broken;
        if is_broken { Err(StoreError::Failed("the disk is gone".into())) } else { Ok(()) }
    }

    async fn pass(&self) -> Result<(), StoreError> {
        poll_fn(|cx| {
            self.check()?;
            let mut gate = self.control.lock().unwrap();
            if gate.permits == 0 {
                gate.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            gate.permits -= 1;
            Poll::Ready(Ok(()))
        })
        .await
    }
}

impl TaskStore for SlowStore {
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.pass().await?;
            self.inner.create(record).await
        })
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        Box::pin(async move {
            self.check()?;
            self.inner.get(id).await
        })
    }

    fn update(&self, mut record: TaskRecord) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            self.pass().await?;
            self.inner.update(record.clone()).await?;
            let mut control = self.control.lock().unwrap();
            control.version += 1;
            record.version = control.version;
            self.inner.restore(record);
            Ok(control.version)
        })
    }

    fn list<'a>(
        &'a self,
        owner: Option<&'a Principal>,
        after: Option<&'a str>,
        most: usize,
    ) -> StoreFuture<'a, TaskPage> {
        Box::pin(async move {
            self.check()?;
            self.inner.list(owner, after, most).await
        })
    }

    fn expire(&self, now: UnixTime) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if self.sweeps_slowly {
                self.pass().await?;
            }
            self.inner.expire(now).await
        })
    }

    fn is_shared(&self) -> bool {
        self.shared
    }
}

fn hold() -> Tool {
    tool("hold")
}

fn web(store: Arc<dyn TaskStore>) -> (HttpHarness, ParkedHandlers) {
    web_with(store, TaskConfig::default().ttl)
}

fn web_with(store: Arc<dyn TaskStore>, ttl: Duration) -> (HttpHarness, ParkedHandlers) {
    let held = ParkedHandlers::default();
    let holding = held.clone();
    let mut config = TaskConfig::default();
    (config.store, config.ttl) = (store, ttl);
    let router = Router::new("worker", "1")
        .tasks(config)
        .task_tool(hold(), TaskChoice::Required, move |NoArguments {}, cx: Context| holding.park(cx))
        .task_tool(tool("two"), TaskChoice::Required, ask_two_names);
    (HttpHarness::new(router), held)
}

fn ask<H: HandlerMode>(web: &mut HttpHarness<H>, method: &str, params: Value) -> TestExchange<H> {
    let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut caller = web.ask_with(method, params, capabilities);
    settle(web, &mut caller);
    caller
}

fn answer<H: HandlerMode>(web: &mut HttpHarness<H>, method: &str, params: Value) -> Value {
    ask(web, method, params).json()
}

#[track_caller]
fn begin<H: HandlerMode>(web: &mut HttpHarness<H>) -> Value {
    begin_tool(web, "hold")
}

#[track_caller]
fn begin_tool<H: HandlerMode>(web: &mut HttpHarness<H>, tool: &str) -> Value {
    let created = answer(web, "tools/call", json!({"name": tool}));
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    created["result"]["taskId"].clone()
}

fn status<H: HandlerMode>(web: &mut HttpHarness<H>, id: &Value) -> Value {
    answer(web, "tasks/get", json!({"taskId": id}))["result"]["status"].clone()
}

/// S11.2
#[test]
fn client_learns_of_a_task_once_it_is_stored() {
    let store = Arc::new(SlowStore::default());
    let (mut web, held) = web(store.clone());
    let mut caller = ask(&mut web, "tools/call", json!({"name": "hold"}));
    assert!(!caller.has_head());
    assert_eq!(held.started(), 0);
    store.permit(1);
    settle(&mut web, &mut caller);
    let id = caller.json()["result"]["taskId"].clone();
    assert_eq!(held.started(), 1);
    assert_eq!(status(&mut web, &id), "working");
}

/// A change is visible at once, however slow the store is, and reaches the store in the end.
#[test]
fn slow_store_receives_the_last_change() {
    let store = Arc::new(SlowStore::default());
    let (mut web, held) = web(store.clone());
    store.permit(1);
    let id = begin(&mut web);
    let cx = held.context();
    for message in ["one", "two", "three"] {
        cx.status(message);
        web.poll_driver();
    }
    held.release("done");
    web.poll_driver();
    assert_eq!(status(&mut web, &id), "completed");
    let kept = |store: &SlowStore| block_on(store.get(id.as_str().unwrap())).unwrap().unwrap();
    assert_eq!(kept(&store).state, StoredTaskState::Working);
    // The first change, and then the rest in one update.
    store.permit(2);
    web.poll_driver();
    assert!(matches!(kept(&store).state, StoredTaskState::Completed(_)));
    assert_eq!(kept(&store).version, 2);
    assert_eq!(status(&mut web, &id), "completed");
}

/// Requires status 503 with `Retry-After`, and an error that does not quote the store.
#[track_caller]
fn expect_unavailable<H: HandlerMode>(mut caller: TestExchange<H>) {
    let head = caller.head();
    assert_eq!((head.status, field(&head, "retry-after")), (503, Some("5")));
    let refused = caller.json();
    assert_eq!(refused["error"]["code"], -32603);
    assert_eq!(refused["error"]["message"], "the task store failed: try again later");
}

/// Requests that need the store; calls that need none are answered.
#[test]
fn failing_store_makes_requests_unavailable() {
    let store = Arc::new(SlowStore::default());
    store.permit(1);
    let (mut web, held) = web(store.clone());
    let id = begin(&mut web);
    store.break_down();
    expect_unavailable(ask(&mut web, "tools/call", json!({"name": "hold"})));
    assert_eq!(held.started(), 1);
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        expect_unavailable(ask(&mut web, method, json!({"taskId": "elsewhere", "inputResponses": {}})));
    }
    assert_eq!(status(&mut web, &id), "working");
    let session = web.open();
    for (method, params) in [
        ("tasks/get", json!({"taskId": "elsewhere"})),
        ("tasks/result", json!({"taskId": "elsewhere"})),
        ("tasks/cancel", json!({"taskId": "elsewhere"})),
    ] {
        let mut caller = web.post_request(&session, method, params);
        settle(&mut web, &mut caller);
        expect_unavailable(caller);
    }
}

/// The status of a stream has been sent.
#[test]
fn store_that_fails_during_a_stream_is_an_error_in_it() {
    let store = Arc::new(SlowStore::default());
    let (mut web, _held) = web(store.clone());
    let mut caller = ask(&mut web, "tools/call", json!({"name": "hold"}));
    web.advance(Duration::from_secs(15));
    caller.advance_to_timeout();
    assert_eq!(caller.head().status, 200);
    store.break_down();
    store.permit(0);
    settle(&mut web, &mut caller);
    let error = caller.message()["error"].clone();
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!(-32603), &json!("the task store failed: try again later"))
    );
}

#[test]
fn server_keeps_the_result_that_a_failing_store_refuses_until_its_ttl() {
    let store = Arc::new(SlowStore::default());
    let (mut web, held) = web(store.clone());
    store.permit(1);
    let id = begin(&mut web);
    store.break_down();
    held.release("done");
    web.poll_driver();
    assert_eq!(status(&mut web, &id), "completed");
    web.advance(Duration::from_secs(60 * 60));
    store.repair();
    assert_eq!(answer(&mut web, "tasks/get", json!({"taskId": id}))["error"]["code"], -32602);
}

/// Contract 5: the driver's next deadline is never in the past.
#[test]
fn sweep_that_outlasts_its_interval_is_followed_by_the_next() {
    let store = Arc::new(SlowStore { sweeps_slowly: true, ..SlowStore::default() });
    let (mut web, _held) = web(store.clone());
    // To make room, and to create the task.
    store.permit(2);
    begin(&mut web);
    let sweep_interval = Duration::from_secs(60);
    web.advance(sweep_interval);
    web.advance(2 * sweep_interval);
    assert!(store.is_waited_for(), "the first sweep is in progress");
    store.permit(1);
    // One poll answers the wake-up of the store.
    web.wakes.take();
    web.poll_driver();
    let due = web.driver.as_ref().unwrap().next_timeout();
    assert!(due.is_none_or(|due| due > web.clock.now()), "{due:?}");
    assert!(store.is_waited_for(), "the next sweep is in progress");
}

// --- Handlers of one thread ---

#[test]
fn handlers_of_tasks_may_stay_on_their_thread() {
    let count = Rc::new(core::cell::Cell::new(0));
    let counting = count.clone();
    let router = Router::local("worker", "1").tasks(TaskConfig::default()).task_tool(
        hold(),
        TaskChoice::Optional,
        move |NoArguments {}, _| {
            let counting = counting.clone();
            async move {
                counting.set(counting.get() + 1);
                "counted"
            }
        },
    );
    let mut web = HttpHarness::new(router);
    let id = begin(&mut web);
    assert_eq!((status(&mut web, &id), count.get()), (json!("completed"), 1));
}

// --- The store in memory ---

fn record(id: &str, owner: Option<&str>, ttl: Option<u64>) -> TaskRecord {
    let text = json!({
        "id": id, "owner": owner, "version": 0, "created_at": 1000, "updated_at": 1000,
        "ttl": ttl, "poll_interval": 5, "message": null, "status": "working",
    });
    TaskRecord::from_json(&text.to_string()).unwrap()
}

fn at(millis: u64) -> UnixTime {
    UnixTime::from_epoch(Duration::from_millis(millis))
}

#[test]
fn task_record_round_trips_as_json() {
    let mut requests = InputRequests::default();
    requests.insert("roots", ListRootsParams::new());
    let answers = [("who".to_owned(), Json::new(r#"{"action":"decline"}"#).unwrap())];
    let error = ErrorObject::new(-32000, "broken").with_data(mcp_proto::rpc::Raw::new("[1]").unwrap());
    let standings = [
        StoredTaskState::Working,
        StoredTaskState::InputRequired(requests),
        StoredTaskState::Completed(Json::new(r#"{"content":[]}"#).unwrap()),
        StoredTaskState::Failed(error),
        StoredTaskState::Cancelled,
    ];
    for standing in standings {
        let mut one = record("x", Some("alice"), Some(7));
        one.state = standing;
        one.message = Some("so it is".into());
        one.answers = answers.clone().into();
        assert_eq!(TaskRecord::from_json(one.to_json().unwrap().as_str()).unwrap(), one);
    }
    let text = record("x", None, None).to_json().unwrap().as_str().replace("working", "completed");
    assert!(TaskRecord::from_json(&text).is_err());
}

#[test]
fn store_creates_a_task_once_and_updates_only_the_current_version() {
    let store = MemoryStore::default();
    assert_eq!(block_on(store.create(record("a", None, None))), Ok(()));
    assert_eq!(block_on(store.create(record("a", None, None))), Err(StoreError::Conflict));
    let mut changed = record("a", None, None);
    changed.state = StoredTaskState::Cancelled;
    assert_eq!(block_on(store.update(changed.clone())), Ok(1));
    assert_eq!(block_on(store.update(changed)), Err(StoreError::Conflict));
    assert_eq!(block_on(store.get("a")).unwrap().unwrap().version, 1);
    assert_eq!(block_on(store.update(record("b", None, None))), Err(StoreError::Conflict));
    assert_eq!(block_on(store.get("b")), Ok(None));
}

#[test]
fn store_drops_only_expired_tasks() {
    let store = MemoryStore::default();
    for (id, ttl) in [("a", Some(10)), ("b", Some(20)), ("c", None)] {
        block_on(store.create(record(id, None, ttl))).unwrap();
    }
    for (now, left) in [(1009, 3), (1010, 2), (u64::MAX / 2, 1)] {
        block_on(store.expire(at(now))).unwrap();
        assert_eq!(store.len(), left, "{now}");
    }
}

#[test]
fn full_store_refuses_tasks_until_one_expires() {
    let store = MemoryStore::new(MemoryLimits { tasks: 1, bytes: 1 << 20 });
    block_on(store.create(record("a", None, Some(10)))).unwrap();
    assert_eq!(block_on(store.create(record("b", None, None))), Err(StoreError::Full));
    block_on(store.expire(at(1010))).unwrap();
    block_on(store.create(record("b", None, None))).unwrap();
    let mut large = record("b", None, None);
    large.message = Some("x".repeat(1 << 20));
    assert_eq!(block_on(store.update(large)), Err(StoreError::Full));
}

/// S11.9
#[test]
fn list_has_only_the_tasks_of_one_owner() {
    let store = MemoryStore::default();
    for (id, owner) in [("a", Some("x")), ("b", None), ("c", Some("y")), ("d", Some("x")), ("e", Some("x"))] {
        block_on(store.create(record(id, owner, None))).unwrap();
    }
    let page = |owner: Option<&str>, after: Option<&str>| {
        let owner = owner.map(Principal::new);
        let page = block_on(store.list(owner.as_ref(), after, 2))?;
        Ok((page.tasks.iter().map(|task| task.id.clone()).collect::<String>(), page.next))
    };
    assert_eq!(page(Some("x"), None), Ok(("ad".into(), Some("d".into()))));
    assert_eq!(page(Some("x"), Some("d")), Ok(("e".into(), None)));
    assert_eq!(page(None, None), Ok(("b".into(), None)));
    assert_eq!(page(Some("z"), None), Ok((String::new(), None)));
    assert_eq!(page(Some("y"), Some("d")), Err(StoreError::Cursor));
}
