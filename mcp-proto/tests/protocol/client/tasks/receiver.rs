//! The client as the receiver of tasks (2025-11-25).

use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;

use mcp_proto::Bytes;
use mcp_proto::front::{ClientHandlers, HandlerError};
use mcp_proto::rpc::code;
use mcp_proto::schema::{CreateMessageResult, ElicitResult, Role};
use serde_json::{Value, json};

use crate::common::front::ClientHarness;

/// A front that lets servers request elicitation as a task; each answer waits until `open` is set.
fn receiver(open: &Arc<AtomicBool>) -> ClientHarness {
    let open = open.clone();
    let handlers = ClientHandlers::new().tasks().elicitation(move |_, _| {
        let open = open.clone();
        async move {
            poll_fn(|cx| match open.load(Ordering::SeqCst) {
                true => Poll::Ready(()),
                false => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            })
            .await;
            Ok::<_, HandlerError>(ElicitResult::decline())
        }
    });
    ClientHarness::legacy_with(handlers)
}

/// The next message that the client writes, while its handlers run.
fn next_message(front: &mut ClientHarness, message: Value) -> Value {
    front.driver.lock(|machine, now| machine.handle_input(now, Bytes::from(format!("{message}\n"))));
    written(front)
}

fn written(front: &mut ClientHarness) -> Value {
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..8 {
        let mut out = Vec::new();
        let _ = front.driver.poll(&mut cx, |machine, _| {
            if machine.poll_transmit(&mut out) { Poll::Ready(()) } else { Poll::Pending }
        });
        if !out.is_empty() {
            return serde_json::from_slice(&out).expect("one message");
        }
    }
    Value::Null
}

fn elicit(id: u32, more: Value) -> Value {
    let mut params = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    crate::common::messages::request(&json!(id), "elicitation/create", params)
}

fn about(id: u32, method: &str, task: &Value) -> Value {
    crate::common::messages::request(&json!(id), method, json!({"taskId": task}))
}

/// R7, C14.7
#[test]
fn request_of_a_server_becomes_a_task_that_it_polls_and_fetches() {
    let open = Arc::new(AtomicBool::new(false));
    let mut front = receiver(&open);
    let created = next_message(&mut front, elicit(1, json!({"task": {"ttl": 60000}})));
    let task = &created["result"]["task"];
    assert_eq!(
        (&created["id"], &task["status"], &task["ttl"]),
        (&json!(1), &json!("working"), &json!(60000))
    );
    let (began, id) = (task["createdAt"].as_str().unwrap(), task["taskId"].clone());
    assert!(began.ends_with('Z') && began.contains('T'), "{began}");

    assert_eq!(next_message(&mut front, about(2, "tasks/get", &id))["result"]["status"], "working");
    let listed =
        next_message(&mut front, crate::common::messages::request(&json!(3), "tasks/list", json!({})));
    assert_eq!(listed["result"]["tasks"][0]["taskId"], id, "a task that can be fetched can be listed");
    assert_eq!(
        next_message(&mut front, about(4, "tasks/result", &id)),
        Value::Null,
        "the result is held back"
    );

    open.store(true, Ordering::SeqCst);
    let fetched = written(&mut front);
    assert_eq!((&fetched["id"], &fetched["result"]["action"]), (&json!(4), &json!("decline")));
    let related = json!({"taskId": id});
    assert_eq!(fetched["result"]["_meta"]["io.modelcontextprotocol/related-task"], related);
    assert_eq!(next_message(&mut front, about(5, "tasks/get", &id))["result"]["status"], "completed");
    assert_eq!(next_message(&mut front, about(6, "tasks/result", &id))["result"]["action"], "decline");
    let refused = next_message(&mut front, about(7, "tasks/cancel", &id));
    assert_eq!(refused["error"]["code"], code::INVALID_PARAMS, "the task has ended");
}

/// R7
#[test]
fn cancelled_received_task_stays_cancelled() {
    let open = Arc::new(AtomicBool::new(false));
    let mut front = receiver(&open);
    let id = next_message(&mut front, elicit(1, json!({"task": {}})))["result"]["task"]["taskId"].clone();
    next_message(&mut front, about(2, "tasks/result", &id));
    front.driver.lock(|machine, now| {
        machine.handle_input(now, Bytes::from(format!("{}\n", about(3, "tasks/cancel", &id))));
    });
    front.turn();
    let held = front.line();
    assert_eq!((&held["id"], &held["error"]["code"]), (&json!(2), &json!(code::INTERNAL_ERROR)));
    assert_eq!(front.line()["result"]["status"], "cancelled");
    open.store(true, Ordering::SeqCst);
    front.expect_silence();
    assert_eq!(next_message(&mut front, about(4, "tasks/get", &id))["result"]["status"], "cancelled");
}

/// R7: a handler's error ends the task, and `tasks/result` returns it.
#[test]
fn result_of_a_failed_received_task_is_its_error() {
    let handlers = ClientHandlers::new()
        .tasks()
        .elicitation(async |_, _| Err::<ElicitResult, _>(HandlerError::new("nobody is there")));
    let mut front = ClientHarness::legacy_with(handlers);
    let id = next_message(&mut front, elicit(1, json!({"task": {}})))["result"]["task"]["taskId"].clone();
    let got = next_message(&mut front, about(2, "tasks/get", &id));
    assert_eq!(
        (&got["result"]["status"], &got["result"]["statusMessage"]),
        (&json!("failed"), &json!("nobody is there"))
    );
    assert_eq!(
        next_message(&mut front, about(3, "tasks/result", &id))["error"]["message"],
        "nobody is there"
    );
}

/// R7: a client that declares no tasks ignores the request for one, and has no tasks to query.
#[test]
fn client_without_the_capability_ignores_the_request_for_a_task() {
    let handlers =
        ClientHandlers::new().elicitation(async |_, _| Ok::<_, HandlerError>(ElicitResult::decline()));
    let mut front = ClientHarness::legacy_with(handlers);
    assert_eq!(next_message(&mut front, elicit(1, json!({"task": {}})))["result"]["action"], "decline");
    let refused = next_message(&mut front, about(2, "tasks/get", &json!("1")));
    assert_eq!(refused["error"]["code"], code::METHOD_NOT_FOUND);
}

#[test]
fn client_answers_a_request_without_task_directly() {
    let open = Arc::new(AtomicBool::new(true));
    let mut front = receiver(&open);
    assert_eq!(next_message(&mut front, elicit(1, json!({})))["result"]["action"], "decline");
    let listed =
        next_message(&mut front, crate::common::messages::request(&json!(2), "tasks/list", json!({})));
    assert_eq!(listed["result"]["tasks"], json!([]));
}

#[test]
fn client_refuses_an_unknown_task_or_cursor() {
    let mut front = receiver(&Arc::default());
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let refused = next_message(&mut front, about(1, method, &json!("1")));
        assert_eq!(refused["error"]["code"], code::INVALID_PARAMS, "{method}");
    }
    let refused = next_message(
        &mut front,
        crate::common::messages::request(&json!(2), "tasks/list", json!({"cursor": "next"})),
    );
    assert_eq!(refused["error"]["code"], code::INVALID_PARAMS);
}

/// R7: lists have pages, and the stored tasks are bounded.
#[test]
fn received_tasks_are_bounded_and_listed_in_pages() {
    let open = Arc::new(AtomicBool::new(false));
    let mut front = receiver(&open);
    for id in 1..=256 {
        assert!(next_message(&mut front, elicit(id, json!({"task": {}})))["result"]["task"].is_object());
    }
    let refused = next_message(&mut front, elicit(257, json!({"task": {}})));
    assert_eq!(refused["error"]["code"], code::INTERNAL_ERROR);
    let (mut cursor, mut seen) = (json!({}), 0);
    for page in 0..6 {
        let listed = next_message(
            &mut front,
            crate::common::messages::request(&json!(300 + page), "tasks/list", cursor),
        );
        seen += listed["result"]["tasks"].as_array().unwrap().len();
        cursor = json!({"cursor": listed["result"]["nextCursor"]});
    }
    assert_eq!((seen, cursor), (256, json!({"cursor": null})));
    // Ended tasks make room: the oldest of them is evicted.
    open.store(true, Ordering::SeqCst);
    written(&mut front);
    assert!(next_message(&mut front, elicit(400, json!({"task": {}})))["result"]["task"].is_object());
}

#[test]
fn client_forgets_a_received_task_after_its_ttl() {
    let open = Arc::new(AtomicBool::new(true));
    let mut front = receiver(&open);
    let id = next_message(&mut front, elicit(1, json!({"task": {"ttl": 1000}})))["result"]["task"]["taskId"]
        .clone();
    assert_eq!(next_message(&mut front, about(2, "tasks/get", &id))["result"]["status"], "completed");
    front.clock.advance(Duration::from_secs(1));
    next_message(&mut front, elicit(3, json!({"task": {}})));
    assert_eq!(next_message(&mut front, about(4, "tasks/get", &id))["error"]["code"], code::INVALID_PARAMS);
}

#[test]
fn capabilities_name_the_requests_that_may_become_tasks_in_any_order() {
    let declared = |handlers: ClientHandlers| serde_json::to_value(handlers.capabilities()).unwrap();
    let before = ClientHandlers::new().tasks().elicitation(async |_, _| ElicitResult::decline());
    let after = ClientHandlers::new().elicitation(async |_, _| ElicitResult::decline()).tasks();
    let expected = json!({"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}});
    assert_eq!((&declared(before)["tasks"], &declared(after)["tasks"]), (&expected, &expected));
}

/// R7, C14.7: the response to a request made on behalf of a server's task names that task.
#[test]
fn response_on_behalf_of_a_task_names_the_task() {
    let handlers =
        ClientHandlers::new().elicitation(async |_, _| Ok::<_, HandlerError>(ElicitResult::decline()));
    let mut front = ClientHarness::legacy_with(handlers);
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "theirs"}});
    let answered = next_message(&mut front, elicit(1, json!({"_meta": related})));
    assert_eq!(answered["result"], json!({"action": "decline", "_meta": related}));
    assert!(next_message(&mut front, elicit(2, json!({})))["result"].get("_meta").is_none());
}

/// R7, C14.7: sampling may become a task as elicitation does.
#[test]
fn sampling_request_of_a_server_becomes_a_task() {
    let open = Arc::new(AtomicBool::new(false));
    let opened = open.clone();
    let handlers = ClientHandlers::new().tasks().sampling(move |_, _| {
        let open = opened.clone();
        async move {
            poll_fn(|cx| match open.load(Ordering::SeqCst) {
                true => Poll::Ready(()),
                false => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            })
            .await;
            Ok::<_, HandlerError>(CreateMessageResult::new(Role::Assistant, "four", "a model"))
        }
    });
    let declared = serde_json::to_value(handlers.capabilities()).unwrap();
    assert_eq!(declared["tasks"]["requests"], json!({"sampling": {"createMessage": {}}}));
    let mut front = ClientHarness::legacy_with(handlers);
    let sample = |id: u32, more: Value| {
        let mut params = json!({"messages": [], "maxTokens": 5});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        crate::common::messages::request(&json!(id), "sampling/createMessage", params)
    };
    let created = next_message(&mut front, sample(1, json!({"task": {"ttl": 60000}})));
    let task = &created["result"]["task"];
    assert_eq!((&created["id"], &task["status"]), (&json!(1), &json!("working")));
    let id = task["taskId"].clone();
    assert_eq!(next_message(&mut front, about(2, "tasks/get", &id))["result"]["status"], "working");
    assert_eq!(
        next_message(&mut front, about(3, "tasks/result", &id)),
        Value::Null,
        "the result is held back"
    );
    open.store(true, Ordering::SeqCst);
    let fetched = written(&mut front);
    assert_eq!((&fetched["id"], &fetched["result"]["content"]["text"]), (&json!(3), &json!("four")));
    let related = json!({"taskId": id});
    assert_eq!(fetched["result"]["_meta"]["io.modelcontextprotocol/related-task"], related);
    // Without `task` it is an ordinary request.
    assert_eq!(next_message(&mut front, sample(4, json!({})))["result"]["content"]["text"], "four");
}
