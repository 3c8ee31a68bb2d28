//! Tool calls that become tasks, over HTTP: they outlive the exchange of their call.

use core::time::Duration;

use crate::common::front_http::{HttpHarness, ParkedHandlers, TestExchange, settle};
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Context, NoArguments, Router};
use mcp_proto::peer::Principal;
use mcp_proto::schema::Tool;
use serde_json::{Value, json};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn web() -> (HttpHarness, ParkedHandlers) {
    let held = ParkedHandlers::default();
    let holding = held.clone();
    let tool = Tool::new("hold", "A tool", json!({"type": "object"}));
    let router = Router::new("worker", "1").tasks(TaskConfig::default()).task_tool(
        tool,
        TaskChoice::Required,
        move |NoArguments {}, cx: Context| holding.park(cx),
    );
    (HttpHarness::new(router), held)
}

fn with_extension() -> Value {
    json!({"extensions": {(EXTENSION): {}}})
}

fn ask(web: &mut HttpHarness, method: &str, params: Value) -> TestExchange {
    let mut caller = web.ask_with(method, params, with_extension());
    settle(web, &mut caller);
    caller
}

#[track_caller]
fn result(web: &mut HttpHarness, method: &str, params: Value) -> Value {
    let mut caller = ask(web, method, params);
    let answer = caller.json();
    assert!(answer["result"].is_object(), "{answer}");
    answer["result"].clone()
}

#[track_caller]
fn begin(web: &mut HttpHarness) -> Value {
    let created = result(web, "tools/call", json!({"name": "hold"}));
    assert_eq!(created["resultType"], "task", "{created}");
    created["taskId"].clone()
}

/// S11.2, S11.3
#[test]
fn a_task_outlives_the_exchange_of_its_call() {
    let (mut web, held) = web();
    let id = begin(&mut web);
    assert_eq!(held.dropped_count(), 0);
    assert_eq!(result(&mut web, "tasks/get", json!({"taskId": id}))["status"], "working");
    held.context().status("halfway");
    web.poll_driver();
    assert_eq!(result(&mut web, "tasks/get", json!({"taskId": id}))["statusMessage"], "halfway");
    held.release("done");
    web.poll_driver();
    let done = result(&mut web, "tasks/get", json!({"taskId": id}));
    assert_eq!(
        (&done["status"], &done["result"]["content"][0]["text"]),
        (&json!("completed"), &json!("done"))
    );
}

/// S11.1, S11.7
#[test]
fn undeclared_tasks_have_status_400() {
    let (mut web, _held) = web();
    for (method, params) in [("tools/call", json!({"name": "hold"})), ("tasks/get", json!({"taskId": "x"}))] {
        let mut caller = web.ask(method, params);
        settle(&mut web, &mut caller);
        assert_eq!(caller.head().status, 400, "{method}");
        let error = caller.json()["error"].clone();
        assert_eq!(error["code"], -32021);
        assert_eq!(error["data"]["requiredCapabilities"], json!({"extensions": {(EXTENSION): {}}}));
    }
}

/// S11.3: the header `Mcp-Name` repeats the task.
#[test]
fn header_must_name_the_task_of_the_body() {
    let (mut web, _held) = web();
    let id = begin(&mut web);
    let mut params = json!({"taskId": id});
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": with_extension(),
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": params}).to_string();
    for (name, status) in [(id.as_str().unwrap(), 200), ("another", 400)] {
        let headers =
            [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tasks/get"), ("mcp-name", name)];
        let mut caller = web.send("POST", &headers, &body);
        settle(&mut web, &mut caller);
        assert_eq!(caller.head().status, status, "{name}");
    }
}

/// S11.10
#[test]
fn subscription_on_another_connection_receives_changes() {
    let (mut web, held) = web();
    let id = begin(&mut web);
    let listen = json!({"notifications": {"taskIds": [id]}});
    let mut listener = ask(&mut web, "subscriptions/listen", listen);
    assert_eq!(listener.message()["params"]["notifications"], json!({"taskIds": [id]}));
    held.context().status("halfway");
    web.poll_driver();
    let told = listener.message();
    assert_eq!(
        (&told["method"], &told["params"]["statusMessage"]),
        (&json!("notifications/tasks"), &json!("halfway"))
    );
    held.release("done");
    web.poll_driver();
    assert_eq!(listener.message()["params"]["result"]["content"][0]["text"], "done");
    listener.expect_silence();
    // The task has ended, so no change can follow.
    let listen = json!({"notifications": {"taskIds": [id]}});
    let mut listener = ask(&mut web, "subscriptions/listen", listen);
    assert_eq!(listener.message()["params"]["notifications"], json!({"taskIds": []}));
}

/// S1.7, S11.8
#[test]
fn client_cancels_a_task_from_another_connection() {
    let (mut web, held) = web();
    let id = begin(&mut web);
    result(&mut web, "tasks/cancel", json!({"taskId": id}));
    assert_eq!(held.dropped_count(), 1);
    assert_eq!(result(&mut web, "tasks/get", json!({"taskId": id}))["status"], "cancelled");
}

/// A client that disconnects before it receives its task leaves none behind.
#[test]
fn server_drops_a_task_that_no_client_received() {
    let (mut web, held) = web();
    let mut caller = web.ask_with("tools/call", json!({"name": "hold"}), with_extension());
    caller.poll_exchange();
    assert!(!caller.has_head());
    drop(caller);
    web.poll_driver();
    assert_eq!(held.started(), held.dropped_count());
}

#[test]
fn closed_server_ends_its_tasks_and_starts_no_more() {
    let (mut web, held) = web();
    begin(&mut web);
    let mut waiting = web.ask_with("tools/call", json!({"name": "hold"}), with_extension());
    waiting.poll_exchange();
    web.driver = None;
    assert_eq!(held.dropped_count(), 1);
    assert_eq!(waiting.json()["error"]["code"], -32603);
    let mut refused = web.ask_with("tools/call", json!({"name": "hold"}), with_extension());
    assert_eq!(refused.json()["error"]["code"], -32603);
}

/// The driver reports the deadline of a task.
#[test]
fn driver_enforces_the_ttl_of_a_task() {
    let (mut web, held) = web();
    begin(&mut web);
    let due = web.driver.as_ref().unwrap().next_timeout().unwrap();
    assert!(due.since_origin() <= Duration::from_secs(60 * 60));
    web.advance(Duration::from_secs(60 * 60));
    assert_eq!(held.dropped_count(), 1);
}

/// S11.11
#[test]
fn task_of_a_legacy_session_outlives_the_session() {
    let (mut web, held) = web();
    let session = web.open();
    let mut caller = web.post_request(&session, "tools/call", json!({"name": "hold", "task": {}}));
    settle(&mut web, &mut caller);
    let id = caller.json()["result"]["task"]["taskId"].clone();
    let mut waiting = web.post_request(&session, "tasks/result", json!({"taskId": id}));
    settle(&mut web, &mut waiting);
    assert!(!waiting.ended);
    assert_eq!(web.delete(&session).status, 200);
    web.poll_driver();
    assert_eq!(held.dropped_count(), 0);

    let session = web.open();
    let mut waiting = web.post_request(&session, "tasks/result", json!({"taskId": id}));
    settle(&mut web, &mut waiting);
    held.release("done");
    settle(&mut web, &mut waiting);
    let result = waiting.message()["result"].clone();
    assert_eq!(result["content"][0]["text"], "done");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id);
}

/// S11.9
#[test]
fn task_belongs_to_the_principal_of_its_call() {
    let (mut web, _held) = web();
    let alice = Some(Principal::new("alice"));
    web.principal.clone_from(&alice);
    let id = begin(&mut web);
    for who in [Some(Principal::new("bob")), None] {
        web.principal = who;
        let mut caller = ask(&mut web, "tasks/get", json!({"taskId": id}));
        assert_eq!(caller.json()["error"]["code"], -32602);
    }
    web.principal = alice;
    assert_eq!(result(&mut web, "tasks/get", json!({"taskId": id}))["status"], "working");
}
