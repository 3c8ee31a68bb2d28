//! Several instances of a server with one store.

use mcp_proto::adapter::Clock as _;

use super::*;
use crate::common::tools::accept;

/// S11.9, C1.28: each instance compares the owner.
#[test]
fn another_instance_knows_the_task_and_its_result() {
    let store: Arc<dyn TaskStore> = Arc::new(MemoryStore::default());
    let (mut one, held) = web(store.clone());
    let (mut other, _) = web(store);
    let id = begin(&mut one);
    assert_eq!(status(&mut other, &id), "working");
    other.principal = Some(Principal::new("bob"));
    assert_eq!(answer(&mut other, "tasks/get", json!({"taskId": id}))["error"]["code"], -32602);
    other.principal = None;
    held.release("done");
    one.poll_driver();
    assert_eq!(status(&mut other, &id), "completed");
    let update = json!({"taskId": id, "inputResponses": {}});
    assert_eq!(answer(&mut other, "tasks/update", update)["result"]["resultType"], "complete");
}

/// A shared store that permits this many operations.
fn shared(permits: usize) -> Arc<SlowStore> {
    let store = Arc::new(SlowStore { shared: true, ..SlowStore::default() });
    store.permit(permits);
    store
}

fn two_instances() -> (HttpHarness, HttpHarness, [ParkedHandlers; 2]) {
    two_instances_with(shared(1000))
}

fn two_instances_with(store: Arc<SlowStore>) -> (HttpHarness, HttpHarness, [ParkedHandlers; 2]) {
    let ((one, held), (other, idle)) = (web(store.clone()), web(store));
    (one, other, [held, idle])
}

fn get<H: HandlerMode>(web: &mut HttpHarness<H>, id: &Value) -> Value {
    answer(web, "tasks/get", json!({"taskId": id}))["result"].take()
}

/// The keys of a task's input requests.
fn keys(task: &Value) -> Vec<&str> {
    task["inputRequests"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

fn update<H: HandlerMode>(web: &mut HttpHarness<H>, id: &Value, responses: Value) -> Value {
    answer(web, "tasks/update", json!({"taskId": id, "inputResponses": responses}))
}

const SECOND: Duration = Duration::from_secs(1);

/// S11.8: the instance that runs the task finds the answers at its next read.
#[test]
fn another_instance_accepts_input_for_a_task() {
    let (mut one, mut other, _) = two_instances();
    let id = begin_tool(&mut one, "two");
    one.poll_driver();
    assert_eq!(keys(&get(&mut other, &id)), ["one", "other"]);
    assert_eq!(update(&mut other, &id, json!({"one": accept("Ada")}))["result"]["resultType"], "complete");
    assert_eq!(keys(&get(&mut other, &id)), ["other"]);
    // It is answered: another answer has no effect.
    update(&mut other, &id, json!({"one": accept("Eve"), "nonesuch": accept("Eve")}));
    update(&mut other, &id, json!({"other": accept("Bob")}));
    assert_eq!(get(&mut other, &id)["status"], "working");
    one.advance(SECOND);
    for web in [&mut one, &mut other] {
        let task = get(web, &id);
        assert_eq!(task["status"], "completed", "{task}");
        assert_eq!(task["result"]["content"][0]["text"], "Ada and Bob");
    }
}

/// S11.8: a client that moves between instances never sees an answered input request again.
#[test]
fn each_instance_knows_the_answers_that_others_accepted() {
    let (mut one, mut other, _) = two_instances();
    let id = begin_tool(&mut one, "two");
    one.poll_driver();
    update(&mut other, &id, json!({"one": accept("Ada")}));
    assert_eq!(keys(&get(&mut one, &id)), ["other"]);
    update(&mut one, &id, json!({"other": accept("Bob")}));
    one.poll_driver();
    assert_eq!(get(&mut one, &id)["result"]["content"][0]["text"], "Ada and Bob");
    one.poll_driver();
    assert_eq!(get(&mut other, &id)["result"]["content"][0]["text"], "Ada and Bob");
}

/// An update of one instance does not undo that of another.
#[test]
fn two_instances_accept_input_at_once() {
    let (mut one, mut other, _) = two_instances();
    let id = begin_tool(&mut one, "two");
    one.poll_driver();
    update(&mut other, &id, json!({"one": accept("Ada")}));
    // The first has not read the store, and is about to write.
    update(&mut one, &id, json!({"other": accept("Bob")}));
    one.poll_driver();
    one.poll_driver();
    assert_eq!(get(&mut other, &id)["result"]["content"][0]["text"], "Ada and Bob");
}

/// S11.8, S4.8
#[test]
fn another_instance_refuses_an_invalid_answer() {
    let (mut one, mut other, _) = two_instances();
    let id = begin_tool(&mut one, "two");
    one.poll_driver();
    for odd in [json!({"roots": []}), json!({"action": "accept", "content": {"name": 7}})] {
        let refused = update(&mut other, &id, json!({"one": accept("Ada"), "other": odd}));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert_eq!(keys(&get(&mut other, &id)), ["one", "other"]);
    }
    // S11.9
    other.principal = Some(Principal::new("bob"));
    let refused = update(&mut other, &id, json!({"one": accept("Ada")}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(keys(&get(&mut one, &id)), ["one", "other"]);
}

#[test]
fn task_cancelled_by_another_instance_ends_at_the_next_read() {
    let (mut one, mut other, [held, _]) = two_instances();
    let id = begin(&mut one);
    answer(&mut other, "tasks/cancel", json!({"taskId": id}));
    assert_eq!((status(&mut other, &id), held.dropped_count()), (json!("cancelled"), 0));
    one.advance(SECOND / 2);
    assert_eq!(held.dropped_count(), 0);
    one.advance(SECOND / 2);
    assert_eq!((status(&mut one, &id), held.dropped_count()), (json!("cancelled"), 1));
    assert_eq!(status(&mut other, &id), "cancelled");
}

#[test]
fn task_cancelled_by_another_instance_ends_at_its_next_update() {
    let (mut one, mut other, [held, _]) = two_instances();
    let id = begin(&mut one);
    answer(&mut other, "tasks/cancel", json!({"taskId": id}));
    held.context().status("still here");
    one.poll_driver();
    assert_eq!((status(&mut one, &id), held.dropped_count()), (json!("cancelled"), 1));
    assert_eq!(status(&mut other, &id), "cancelled");
}

/// The result of a task started at `one`, requested at the other.
fn legacy_result_elsewhere(one: &mut HttpHarness, other: &mut HttpHarness) -> (Value, TestExchange) {
    let session = one.open();
    let call = json!({"name": "hold", "arguments": {}, "task": {}});
    let created = one.post_request(&session, "tools/call", call).message();
    let id = created["result"]["task"]["taskId"].clone();
    assert!(id.is_string(), "{created}");
    let session = other.open();
    let mut waiting = other.post_request(&session, "tasks/result", json!({"taskId": id}));
    waiting.expect_silence();
    (id, waiting)
}

/// S11.11: from any instance and in any session.
#[test]
fn another_instance_waits_for_the_result_of_a_legacy_task() {
    let (mut one, mut other, [held, _]) = two_instances();
    let (id, mut waiting) = legacy_result_elsewhere(&mut one, &mut other);
    other.advance(SECOND);
    waiting.expect_silence();
    held.release("done");
    one.poll_driver();
    waiting.expect_silence();
    other.advance(SECOND);
    let result = waiting.message();
    assert_eq!(result["result"]["content"][0]["text"], "done", "{result}");
    assert_eq!(result["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id);
}

#[test]
fn another_instance_reports_that_a_cancelled_task_has_no_result() {
    let (mut one, mut other, [held, _]) = two_instances();
    let (id, mut waiting) = legacy_result_elsewhere(&mut one, &mut other);
    answer(&mut other, "tasks/cancel", json!({"taskId": id}));
    other.advance(SECOND);
    assert_eq!(waiting.message()["error"]["code"], -32603);
    one.advance(SECOND);
    assert_eq!(held.dropped_count(), 1);
}

/// S11.8: otherwise an instance that knows only the store would drop the answer.
#[test]
fn server_shows_input_requests_once_they_are_stored() {
    let store = shared(1);
    let (mut one, mut other, _) = two_instances_with(store.clone());
    let id = begin_tool(&mut one, "two");
    let listen = json!({"notifications": {"taskIds": [id]}});
    let mut listener = ask(&mut one, "subscriptions/listen", listen);
    assert_eq!(listener.message()["params"]["notifications"], json!({"taskIds": [id]}));
    let mut asking = ask(&mut one, "tasks/get", json!({"taskId": id}));
    assert!(!asking.has_head());
    listener.expect_silence();
    store.permit(1000);
    settle(&mut one, &mut asking);
    assert_eq!(keys(&asking.json()["result"]), ["one", "other"]);
    assert_eq!(keys(&listener.message()["params"]), ["one", "other"]);
    update(&mut other, &id, json!({"one": accept("Ada"), "other": accept("Bob")}));
    one.advance(SECOND);
    assert_eq!(get(&mut one, &id)["result"]["content"][0]["text"], "Ada and Bob");
}

/// Otherwise the next instance would report it as running.
#[test]
fn server_shows_the_end_of_a_task_once_it_is_stored() {
    let store = shared(1);
    let (mut one, mut other, [held, _]) = two_instances_with(store.clone());
    let id = begin(&mut one);
    held.release("done");
    one.poll_driver();
    let mut asking = ask(&mut one, "tasks/get", json!({"taskId": id}));
    assert!(!asking.has_head());
    store.permit(1);
    settle(&mut one, &mut asking);
    assert_eq!(asking.json()["result"]["status"], "completed");
    assert_eq!(status(&mut other, &id), "completed");
}

#[test]
fn first_instance_to_end_a_task_wins() {
    let store = shared(1);
    let (mut one, mut other, [held, _]) = two_instances_with(store.clone());
    let id = begin(&mut one);
    held.release("done");
    one.poll_driver();
    let mut asking = ask(&mut one, "tasks/get", json!({"taskId": id}));
    // The update of the first also waits for a permit, and comes too late.
    let mut cancelled = block_on(store.get(id.as_str().unwrap())).unwrap().unwrap();
    cancelled.state = StoredTaskState::Cancelled;
    block_on(store.inner.update(cancelled)).unwrap();
    store.permit(1000);
    settle(&mut one, &mut asking);
    assert_eq!(asking.json()["result"]["status"], "cancelled");
    assert_eq!(status(&mut other, &id), "cancelled");
}

#[test]
fn shared_store_that_failed_receives_the_change_later() {
    let store = shared(1000);
    let (mut one, mut other, [held, _]) = two_instances_with(store.clone());
    let id = begin(&mut one);
    store.break_down();
    held.context().status("half done");
    one.poll_driver();
    store.repair();
    assert_eq!(get(&mut other, &id)["statusMessage"], Value::Null);
    one.advance(SECOND);
    assert_eq!(get(&mut other, &id)["statusMessage"], "half done");
}

/// Otherwise the other instances would report the task as running until it expires. Until they know the result, this one
/// does not report it either: an ended task never runs again.
#[test]
fn shared_store_that_failed_receives_the_result_later() {
    for ttl in [Duration::from_secs(60), Duration::MAX] {
        let store = shared(1000);
        let ((mut one, held), (mut other, _)) = (web_with(store.clone(), ttl), web_with(store.clone(), ttl));
        let id = begin(&mut one);
        store.break_down();
        held.release("done");
        one.poll_driver();
        one.advance(SECOND);
        store.repair();
        expect_unavailable(ask(&mut one, "tasks/get", json!({"taskId": id})));
        assert_eq!(status(&mut other, &id), "working");
        one.advance(SECOND);
        assert_eq!([status(&mut one, &id), status(&mut other, &id)], ["completed", "completed"]);
    }
}

// --- A failover of the store ---

/// Replaces all that the store has by this record: its last writes are forgotten.
fn fail_over(store: &SlowStore, record: Option<TaskRecord>) {
    block_on(store.inner.expire(at(u64::MAX / 2))).unwrap();
    record.into_iter().for_each(|record| block_on(store.inner.create(record)).unwrap());
}

/// A task that waits, its record at first, and then `changes` more.
fn changed(changes: u64) -> (Arc<SlowStore>, [HttpHarness; 2], ParkedHandlers, Value, TaskRecord) {
    let store = shared(1000);
    let (mut one, other, [held, _]) = two_instances_with(store.clone());
    let id = begin(&mut one);
    let stored = |store: &SlowStore| block_on(store.get(id.as_str().unwrap())).unwrap().unwrap();
    let first = stored(&store);
    let context = held.context();
    for change in 0..changes {
        context.status(change.to_string());
        one.poll_driver();
    }
    assert_eq!((first.version, stored(&store).version), (0, changes));
    (store, [one, other], held, id, first)
}

#[test]
fn forgotten_changes_of_a_running_task_are_stored_again() {
    let (store, [mut one, mut other], held, id, first) = changed(2);
    fail_over(&store, Some(first));
    assert_eq!(get(&mut other, &id)["statusMessage"], Value::Null);
    one.advance(SECOND);
    assert_eq!(get(&mut other, &id)["statusMessage"], "1");
    held.release("done");
    one.poll_driver();
    assert_eq!(status(&mut other, &id), "completed");
}

/// S11.8: from a version that is lower than the last one that the running instance stored, or equal to it.
#[test]
fn task_is_cancelled_by_another_instance_after_a_failover() {
    for changes in [3, 1] {
        let (store, [mut one, mut other], held, id, first) = changed(changes);
        fail_over(&store, Some(first));
        answer(&mut other, "tasks/cancel", json!({"taskId": id}));
        one.advance(SECOND);
        assert_eq!((status(&mut one, &id), held.dropped_count()), (json!("cancelled"), 1), "{changes}");
    }
}

/// The running instance stores the result before it has read the store again: the versions differ.
#[test]
fn cancellation_after_a_failover_is_not_overwritten() {
    let (store, [mut one, mut other], held, id, first) = changed(1);
    fail_over(&store, Some(first));
    answer(&mut other, "tasks/cancel", json!({"taskId": id}));
    held.release("late");
    one.poll_driver();
    one.poll_driver();
    assert_eq!((status(&mut one, &id), status(&mut other, &id)), (json!("cancelled"), json!("cancelled")));
}

#[test]
fn task_whose_creation_was_forgotten_is_stored_again() {
    let (store, [mut one, mut other], held, id, _) = changed(1);
    fail_over(&store, None);
    assert_eq!(answer(&mut other, "tasks/get", json!({"taskId": id}))["error"]["code"], -32602);
    one.advance(SECOND);
    assert_eq!(get(&mut other, &id)["statusMessage"], "0");
    fail_over(&store, None);
    // The instance has not noticed it before it stores the result.
    held.release("done");
    one.poll_driver();
    one.poll_driver();
    assert_eq!(status(&mut other, &id), "completed");
}

// --- A store that is not shared ---

#[test]
fn another_instance_accepts_no_input_without_a_shared_store() {
    let store: Arc<dyn TaskStore> = Arc::new(MemoryStore::default());
    let (mut one, _held) = web(store.clone());
    let (mut other, _) = web(store);
    let id = begin(&mut one);
    assert_eq!(update(&mut other, &id, json!({}))["error"]["code"], -32603);
}

#[test]
fn server_polls_only_a_shared_store() {
    for (store, looks) in
        [(Arc::new(MemoryStore::default()) as Arc<dyn TaskStore>, false), (shared(1000), true)]
    {
        let (mut web, _held) = web(store);
        begin(&mut web);
        let due = web.driver.as_ref().unwrap().next_timeout().unwrap();
        assert_eq!(due <= web.clock.now() + SECOND, looks, "{due:?}");
    }
}
