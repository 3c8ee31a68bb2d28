//! Records of tasks, as a task store holds them.

use core::fmt::Write as _;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;
use mcp_proto::UnixTime;
use mcp_proto::front::tasks::{
    MemoryStore, StoreFuture, StoredTaskState, TaskChoice, TaskConfig, TaskPage, TaskRecord, TaskStore,
};
use mcp_proto::front::{Context, HandlerError, NoArguments, Router};
use mcp_proto::peer::Principal;
use mcp_proto::rpc::ErrorObject;
use mcp_proto::schema::Json;
use serde_json::{Value, json};

use crate::common::front_http::{HttpHarness, ParkedHandlers, settle};
use crate::common::tools::{accept, ask_two_names, tool};
use crate::fixtures::{check, committed, sorted};

/// A store that collects the JSON of each record that is written.
#[derive(Default)]
struct RecordingStore {
    store: MemoryStore,
    notes: Mutex<Vec<String>>,
}

impl RecordingStore {
    fn note(&self, record: &TaskRecord) {
        self.notes.lock().unwrap().push(record.to_json().unwrap().as_str().to_owned());
    }

    fn text(&self) -> String {
        self.notes.lock().unwrap().iter().map(|note| format!("{note}\n")).collect()
    }
}

impl TaskStore for RecordingStore {
    fn create(&self, record: TaskRecord) -> StoreFuture<'_, ()> {
        self.note(&record);
        self.store.create(record)
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<TaskRecord>> {
        self.store.get(id)
    }

    fn update(&self, record: TaskRecord) -> StoreFuture<'_, u64> {
        self.note(&record);
        self.store.update(record)
    }

    fn list<'a>(
        &'a self,
        owner: Option<&'a Principal>,
        after: Option<&'a str>,
        most: usize,
    ) -> StoreFuture<'a, TaskPage> {
        self.store.list(owner, after, most)
    }

    fn expire(&self, now: UnixTime) -> StoreFuture<'_, ()> {
        self.store.expire(now)
    }

    // A shared store, so that its records hold answers that another instance accepts.
    fn is_shared(&self) -> bool {
        true
    }
}

/// A server with a tool for each end of a task: `done`, `error`, `fail`, `two`, which asks for two names, and `hold`.
fn web(store: &Arc<RecordingStore>) -> HttpHarness {
    let mut config = TaskConfig::default();
    config.store = store.clone();
    let held = ParkedHandlers::default();
    let choice = TaskChoice::Required;
    let router = Router::new("worker", "1")
        .tasks(config)
        .task_tool(tool("done"), choice, async |NoArguments {}, _: Context| "done")
        .task_tool(tool("error"), choice, async |NoArguments {}, _: Context| {
            mcp_proto::schema::CallToolResult::error("out of paper")
        })
        .task_tool(tool("fail"), choice, async |NoArguments {}, _: Context| {
            Err::<String, _>(HandlerError::from(ErrorObject::new(-32603, "no such job")))
        })
        .task_tool(tool("two"), choice, ask_two_names)
        .task_tool(tool("hold"), choice, move |NoArguments {}, cx: Context| held.park(cx));
    let mut web = HttpHarness::new(router);
    web.principal = Some(Principal::new("alice"));
    web
}

fn ask(web: &mut HttpHarness, method: &str, params: Value) -> Value {
    let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut caller = web.ask_with(method, params, capabilities);
    settle(web, &mut caller);
    let answer = caller.json();
    assert!(answer["error"].is_null(), "{answer}");
    answer
}

/// Every record of the tasks of 2026-07-28.
fn modern_records() -> String {
    let store = Arc::new(RecordingStore::default());
    // The second instance accepts answers for tasks of the first.
    let (mut one, mut other) = (web(&store), web(&store));
    let begin = |web: &mut HttpHarness, tool: &str| {
        web.advance(Duration::from_millis(1250));
        let task = ask(web, "tools/call", json!({"name": tool, "arguments": {}}))["result"]["taskId"].clone();
        web.poll_driver();
        task
    };
    for tool in ["done", "error", "fail"] {
        begin(&mut one, tool);
    }
    let two = begin(&mut one, "two");
    let update = json!({"taskId": two, "inputResponses": {"one": accept("Ada")}});
    ask(&mut other, "tasks/update", update);
    one.advance(Duration::from_secs(1));
    ask(&mut one, "tasks/update", json!({"taskId": two, "inputResponses": {"other": accept("Bob")}}));
    one.poll_driver();
    let hold = begin(&mut one, "hold");
    ask(&mut one, "tasks/cancel", json!({"taskId": hold}));
    one.poll_driver();
    store.text()
}

/// Every record of the tasks of 2025-11-25.
fn legacy_records() -> String {
    let store = Arc::new(RecordingStore::default());
    let mut web = web(&store);
    let session = web.open_with("2025-11-25", json!({"elicitation": {}}));
    let mut post = |method: &str, params: Value| {
        web.advance(Duration::from_millis(1250));
        let mut caller = web.post_request(&session, method, params);
        settle(&mut web, &mut caller);
        let answer = caller.message();
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"]["task"]["taskId"].clone()
    };
    for tool in ["done", "error", "fail"] {
        post("tools/call", json!({"name": tool, "task": {"ttl": 60_000}}));
    }
    post("tools/call", json!({"name": "two", "task": {}}));
    let hold = post("tools/call", json!({"name": "hold", "task": {}}));
    post("tasks/cancel", json!({"taskId": hold}));
    store.text()
}

/// A record of each kind with each of its fields, derived from one of the server's own.
fn derived_records() -> String {
    let own = modern_records();
    let mut record = TaskRecord::from_json(own.lines().next().unwrap()).unwrap();
    let mut out = String::new();
    let mut write = |record: &TaskRecord| writeln!(out, "{}", record.to_json().unwrap().as_str()).unwrap();
    write(&record);
    record.owner = None;
    record.ttl = None;
    record.message = Some("\u{bd} of \"it\"\n".into());
    record.version = u64::MAX;
    record.state = StoredTaskState::Working;
    write(&record);
    record.state = StoredTaskState::Cancelled;
    record.ttl = Some(Duration::ZERO);
    write(&record);
    let mut error = ErrorObject::new(-32603, "no such job");
    error.data = Some(mcp_proto::rpc::Raw::encode(&json!({"job": 7})).unwrap());
    record.state = StoredTaskState::Failed(error);
    write(&record);
    record.state =
        StoredTaskState::Completed(Json::encode(&json!({"content": [], "isError": true})).unwrap());
    record.answers.insert("one".into(), Json::encode(&accept("Ada")).unwrap());
    record.answers.insert("other".into(), Json::encode(&json!({"action": "decline"})).unwrap());
    write(&record);
    out
}

/// The fixtures, and the current output for each.
fn fixtures() -> [(&'static str, String); 3] {
    [
        ("task_records_2026-07-28.txt", modern_records()),
        ("task_records_2025-11-25.txt", legacy_records()),
        ("task_records_made.txt", derived_records()),
    ]
}

#[test]
fn server_writes_the_recorded_task_records() {
    for (name, current) in fixtures() {
        check(name, &current);
        for status in ["working", "completed", "failed", "cancelled"] {
            assert!(current.contains(&format!(r#""status":"{status}""#)), "{name} lacks {status}: {current}");
        }
    }
    assert!(legacy_records().contains(r#""status":"input_required""#));
}

#[test]
fn task_record_reads_back_what_an_older_version_wrote() {
    for (name, current) in fixtures() {
        for line in committed(name, &current).lines() {
            let record =
                TaskRecord::from_json(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
            assert_eq!(record.to_json().unwrap().as_str(), line, "{name}");
            // Each member is decoded into its field.
            let json: Value = serde_json::from_str(line).unwrap();
            assert_eq!(json["id"], record.id.as_str());
            assert_eq!(json["owner"].as_str(), record.owner.as_ref().map(Principal::as_str));
            assert_eq!(json["version"], record.version);
            let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap();
            assert_eq!(json["created_at"], millis(record.created_at.since_epoch()));
            assert_eq!(json["updated_at"], millis(record.updated_at.since_epoch()));
            assert_eq!(json["ttl"].as_u64(), record.ttl.map(millis));
            assert_eq!(json["poll_interval"], millis(record.poll_interval));
            assert_eq!(json["message"].as_str(), record.message.as_deref());
            let status = match &record.state {
                StoredTaskState::Working => "working",
                StoredTaskState::InputRequired(_) => "input_required",
                StoredTaskState::Completed(_) => "completed",
                StoredTaskState::Failed(_) => "failed",
                StoredTaskState::Cancelled => "cancelled",
            };
            assert_eq!(json["status"], status);
            assert_eq!(json["answers"].as_object().map_or(0, |map| map.len()), record.answers.len());
        }
    }
}

/// A newer server answers `tasks/get` from the records.
#[test]
fn server_reports_the_recorded_tasks() {
    let mut out = String::new();
    for (name, current) in fixtures() {
        let text = committed(name, &current);
        // The last record of each task.
        let ids: Vec<String> = text.lines().map(|line| TaskRecord::from_json(line).unwrap().id).collect();
        for (at, line) in text.lines().enumerate() {
            if ids[at + 1..].contains(&ids[at]) {
                continue;
            }
            let store = Arc::new(RecordingStore::default());
            let mut record = TaskRecord::from_json(line).unwrap();
            record.owner = Some(Principal::new("alice"));
            record.ttl = Some(Duration::from_secs(3600));
            block_on(store.create(record)).unwrap();
            let answer = ask(&mut web(&store), "tasks/get", json!({"taskId": ids[at]}));
            writeln!(out, "{name}: {}", sorted(&answer["result"])).unwrap();
        }
    }
    check("task_results.txt", &out);
}
