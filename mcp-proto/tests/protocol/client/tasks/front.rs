//! Tasks through the front.

use mcp_proto::front::{ClientHandlers, Error, Event as FrontEvent, HandlerError, ToolCallOutcome};
use mcp_proto::rpc::code;
use mcp_proto::schema::tasks::TaskStatus;
use mcp_proto::schema::{ClientCapability, ElicitResult};
use serde_json::{Value, json};

use super::*;
use crate::common::front::ClientHarness;
use crate::common::polling::{boxed, pending, poll, ready};

fn extended() -> Value {
    let mut capabilities = crate::common::messages::server_capabilities();
    capabilities["extensions"] = json!({EXTENSION: {}});
    capabilities
}

/// A front whose server has the extension.
fn front(handlers: ClientHandlers) -> ClientHarness {
    let mut front = ClientHarness::open(crate::common::front::config(), handlers);
    let id = front.expect("server/discover");
    front.answer(
        &id,
        json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": extended()}),
    );
    front
}

/// C14.1, C14.4: a call awaits its task, and handlers answer the task's input requests.
#[test]
fn call_awaits_its_task_while_handlers_answer_input_requests() {
    let handlers =
        ClientHandlers::new().elicitation(async |_, _| Ok::<_, HandlerError>(ElicitResult::decline()));
    let mut front = front(handlers);
    let mut events = front.client.events();
    let mut call = boxed(front.client.call_tool("slow", json!({})));
    pending(poll(&mut call));
    let id = front.expect("tools/call");
    front.answer(&id, created());
    pending(poll(&mut call));
    front.advance(INTERVAL);
    let id = front.expect("tasks/get");
    front.answer(&id, asking(&["name"]));
    let update = front.line();
    assert_eq!(update["params"]["inputResponses"]["name"]["action"], "decline");
    front.answer(&update["id"], json!({"resultType": "complete"}));
    front.advance(INTERVAL);
    let id = front.expect("tasks/get");
    front.answer(&id, completed());
    assert_eq!(ready(poll(&mut call)).unwrap().text_content(), "done");
    let told = match ready(poll(&mut boxed(events.next()))) {
        Some(FrontEvent::TaskStatus { report, .. }) => report.status,
        other => panic!("{other:?}"),
    };
    assert_eq!(told, TaskStatus::Working);
}

/// C14.5
#[test]
fn dropping_a_call_cancels_its_task() {
    let mut front = front(ClientHandlers::new());
    let mut call = boxed(front.client.call_tool("slow", json!({})));
    pending(poll(&mut call));
    let id = front.expect("tools/call");
    front.answer(&id, created());
    drop(call);
    front.expect("tasks/cancel");
}

/// C14.5: cancellation is cooperative: the task may complete nevertheless.
#[test]
fn cancelled_task_may_still_complete() {
    let mut front = front(ClientHandlers::new());
    let task_handle = front.client.resume_task("task-1");
    let mut cancel = boxed(task_handle.cancel());
    pending(poll(&mut cancel));
    let id = front.expect("tasks/cancel");
    front.answer(&id, json!({"resultType": "complete"}));
    assert!(ready(poll(&mut cancel)).is_ok());
    drop(cancel);

    let mut wait = boxed(task_handle.wait());
    pending(poll(&mut wait));
    let id = front.expect("tasks/get");
    front.answer(&id, task("working"));
    pending(poll(&mut wait));
    front.advance(INTERVAL);
    let id = front.expect("tasks/get");
    front.answer(&id, completed());
    assert_eq!(ready(poll(&mut wait)).unwrap().text_content(), "done");
    front.expect_silence();
}

/// C14.4: an unsafe page that a task asks for reaches no handler either.
#[test]
fn unsafe_page_of_a_task_never_reaches_the_handler() {
    let handlers = ClientHandlers::new()
        .elicitation(async |_, _| -> ElicitResult { panic!("not to be called") })
        .declare(|declared| *declared = declared.clone().with(ClientCapability::ElicitationUrl));
    let mut front = front(handlers);
    let mut call = boxed(front.client.call_tool("slow", json!({})));
    pending(poll(&mut call));
    let id = front.expect("tools/call");
    front.answer(&id, created());
    pending(poll(&mut call));
    front.advance(INTERVAL);
    let id = front.expect("tasks/get");
    let page = json!({"mode": "url", "message": "m", "url": "javascript:alert(1)", "elicitationId": "e"});
    let requests = json!({"page": {"method": "elicitation/create", "params": page}});
    front.answer(&id, with(task("input_required"), "inputRequests", requests));
    assert!(matches!(ready(poll(&mut call)), Err(Error::Input(_))));
    front.expect("tasks/cancel");
}

/// C14.3, F102
#[test]
fn task_handle_reports_status_awaits_the_result_and_cancels() {
    let mut front = front(ClientHandlers::new());
    let mut call = boxed(front.client.call_tool("slow", json!({})).start_task());
    pending(poll(&mut call));
    let id = front.expect("tools/call");
    front.answer(&id, created());
    let ToolCallOutcome::Task(task_handle) = ready(poll(&mut call)).unwrap() else { panic!("no task") };
    assert_eq!(task_handle.id(), "task-1");
    assert_eq!(task_handle.initial_report().unwrap().poll_interval, Some(INTERVAL));
    assert!(!format!("{task_handle:?}").contains("task-1"));
    drop(call);
    front.expect_silence();

    let mut status = boxed(task_handle.status());
    pending(poll(&mut status));
    let id = front.expect("tasks/get");
    front.answer(&id, task("working"));
    assert_eq!(ready(poll(&mut status)).unwrap().status, TaskStatus::Working);
    drop(status);

    let mut wait = boxed(task_handle.wait());
    pending(poll(&mut wait));
    front.expect("tasks/get");
    drop(wait);
    front.expect_silence();

    let resumed = front.client.resume_task(task_handle.id());
    let mut wait = boxed(resumed.wait());
    pending(poll(&mut wait));
    let id = front.expect("tasks/get");
    front.answer(&id, completed());
    assert_eq!(ready(poll(&mut wait)).unwrap().text_content(), "done");
    drop(wait);

    let mut cancel = boxed(task_handle.cancel());
    pending(poll(&mut cancel));
    let id = front.expect("tasks/cancel");
    front.receive(&[crate::common::messages::error(&id, code::INVALID_PARAMS)]);
    assert!(
        matches!(ready(poll(&mut cancel)), Err(Error::Peer(error)) if error.code == code::INVALID_PARAMS)
    );
}

#[test]
fn task_handle_of_a_call_without_task_is_complete() {
    let mut front = front(ClientHandlers::new());
    let mut call = boxed(front.client.call_tool("fast", json!({})).start_task());
    pending(poll(&mut call));
    let id = front.expect("tools/call");
    front.answer(&id, crate::common::messages::text("at once"));
    let ToolCallOutcome::Completed(result) = ready(poll(&mut call)).unwrap() else { panic!("a task") };
    assert_eq!(result.text_content(), "at once");
}

#[test]
fn task_cancelled_by_the_server_has_its_own_error() {
    let mut front = front(ClientHandlers::new());
    let mut call = boxed(front.client.call_tool("slow", json!({})));
    pending(poll(&mut call));
    let id = front.expect("tools/call");
    front.answer(&id, created());
    front.advance(INTERVAL);
    let id = front.expect("tasks/get");
    front.answer(&id, task("cancelled"));
    assert!(matches!(ready(poll(&mut call)), Err(Error::TaskCancelled { message: None })));
}

/// C9.7: a task's result is validated against the tool's output schema, if the client knows which tool was called.
#[cfg(feature = "schema-validate")]
#[test]
fn client_validates_the_result_of_a_task_against_the_output_schema() {
    let mut front = front(ClientHandlers::new());
    let mut list = boxed(front.client.list_tools_page(None));
    pending(poll(&mut list));
    let id = front.expect("tools/list");
    let promised = json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]});
    let tool = json!({"name": "slow", "inputSchema": {"type": "object"}, "outputSchema": promised});
    front.answer(&id, json!({"resultType": "complete", "tools": [tool]}));
    ready(poll(&mut list)).unwrap();
    drop(list);

    let mut call = boxed(front.client.call_tool("slow", json!({})).start_task());
    pending(poll(&mut call));
    let id = front.expect("tools/call");
    front.answer(&id, created());
    let ToolCallOutcome::Task(task_handle) = ready(poll(&mut call)).unwrap() else { panic!("no task") };
    drop(call);
    let broken = with(task("completed"), "result", json!({"content": [], "structuredContent": {"sum": "5"}}));
    for (handle, held) in [(task_handle.clone(), true), (front.client.resume_task("task-1"), false)] {
        let mut wait = boxed(handle.wait());
        pending(poll(&mut wait));
        let id = front.expect("tasks/get");
        front.answer(&id, broken.clone());
        let result = ready(poll(&mut wait));
        assert_eq!(matches!(result, Err(Error::Output { .. })), held, "{result:?}");
    }
}
