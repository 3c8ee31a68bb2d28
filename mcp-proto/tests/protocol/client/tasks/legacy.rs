//! The tasks of 2025-11-25.

use core::time::Duration;

use mcp_proto::peer::client::{Diagnostic, Event, TaskCommand};
use mcp_proto::peer::{Outcome, ProgressOption, RequestError, RequestOptions, TaskMode};
use mcp_proto::rpc::code;
use mcp_proto::schema::tasks::TaskStatus;
use serde_json::json;

use super::*;
use crate::common::client::{ClientHarness, config};

/// C14.7, R7
#[test]
fn legacy_call_requests_a_task_only_if_server_and_tool_allow_it() {
    let mut s = legacy();
    let cases = [
        ("plain", TaskMode::Handle, false),
        ("forbidden", TaskMode::Handle, false),
        ("unheard-of", TaskMode::Handle, false),
        ("optional", TaskMode::Await, false),
        ("optional", TaskMode::Handle, true),
        ("optional", TaskMode::Never, false),
        ("required", TaskMode::Await, true),
        ("required", TaskMode::Handle, true),
        ("required", TaskMode::Never, false),
    ];
    for (tool, mode, asks) in cases {
        let (_, line) = call(&mut s, tool, RequestOptions::default().task(mode));
        assert_eq!(line["params"].get("task").is_some(), asks, "{tool} {mode:?}: {line}");
        assert!(line["params"]["_meta"].get("io.modelcontextprotocol/clientCapabilities").is_none());
    }
    for capabilities in [json!({"tools": {}}), json!({"tools": {}, "tasks": {"requests": {}}})] {
        let mut s = legacy_with(capabilities);
        let (_, line) = call(&mut s, "required", RequestOptions::default().task(TaskMode::Handle));
        assert!(line["params"].get("task").is_none(), "{line}");
    }
}

/// C14.7: the application's own request for a task obeys the same rules.
#[test]
fn client_sends_no_task_of_the_application_where_none_is_allowed() {
    let with_tasks = legacy_capabilities();
    for (capabilities, tool, allowed) in [
        (json!({"tools": {}}), "required", false),
        (json!({"tools": {}, "tasks": {"requests": {}}}), "required", false),
        (with_tasks.clone(), "plain", false),
        (with_tasks.clone(), "forbidden", false),
        (with_tasks.clone(), "unheard-of", false),
        (with_tasks, "optional", true),
    ] {
        let mut s = legacy_with(capabilities);
        let params = json!({"name": tool, "task": {"ttl": 60000}}).to_string();
        let params: CallToolParams = serde_json::from_str(&params).unwrap();
        let sent = s.client.at(s.now).request::<CallTool>(&params, RequestOptions::default());
        assert_eq!(matches!(sent, Err(RequestError::Encode(_))), !allowed, "{tool}: {sent:?}");
        let line = s.try_line();
        assert_eq!(line.is_some_and(|line| line["params"]["task"]["ttl"] == 60000), allowed, "{tool}");
        s.expect_silence();
    }
}

/// C14.7: the next list may change what a tool allows.
#[test]
fn client_uses_the_latest_list_of_tools() {
    let mut s = legacy();
    list_tools(&mut s, json!({"tools": [{"name": "required", "inputSchema": {"type": "object"}}]}));
    let (_, line) = call(&mut s, "required", RequestOptions::default());
    assert!(line["params"].get("task").is_none(), "{line}");
}

/// C14.7, K24
#[test]
fn client_polls_a_legacy_task_and_fetches_its_result() {
    let mut s = legacy();
    let request = started_legacy_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, legacy_task("working"));
    let id = answer_poll(&mut s);
    s.answer(&id, legacy_task("completed"));
    let line = s.line();
    assert_eq!((&line["method"], &line["params"]["taskId"]), (&json!("tasks/result"), &json!("task-1")));
    s.answer(
        &line["id"],
        json!({"content": [], "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "task-1"}}}),
    );
    assert_eq!(result(s.outcome(request))["content"], json!([]));
    assert_eq!(statuses(&mut s), [TaskStatus::Working, TaskStatus::Completed]);
}

/// C14.7: a server may ignore the request for a task.
#[test]
fn legacy_server_may_answer_without_a_task() {
    let mut s = legacy();
    let (request, line) = call(&mut s, "required", RequestOptions::default());
    s.answer(&line["id"], json!({"content": [], "structuredContent": {"task": 1}}));
    assert_eq!(result(s.outcome(request))["content"], json!([]));
}

/// A result that looks like a task is one only if the request asked for a task.
#[test]
fn a_legacy_result_that_looks_like_a_task_is_a_result() {
    let mut s = legacy();
    let (request, line) = call(&mut s, "plain", RequestOptions::default());
    s.answer(&line["id"], json!({"content": [], "task": legacy_task("working")}));
    assert_eq!(result(s.outcome(request))["task"]["taskId"], "task-1");
}

/// R7: `tasks/result` blocks, and the server sends requests meanwhile; it needs its own timeout.
#[test]
fn client_fetches_the_result_of_a_legacy_task_that_needs_input_with_a_long_timeout() {
    let mut s = legacy();
    let request = started_legacy_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, legacy_task("input_required"));
    let fetched = s.expect("tasks/result");
    for _ in 0..120 {
        let id = answer_poll(&mut s);
        s.answer(&id, legacy_task("input_required"));
    }
    s.expect_silence();
    s.answer(&fetched, json!({"content": []}));
    result(s.outcome(request));
    assert_eq!(s.client.peer().in_flight(), 0);
}

/// R7
#[test]
fn progress_of_a_legacy_task_is_reported_until_it_ends() {
    let mut s = legacy();
    let options = RequestOptions::default().progress(ProgressOption::Always);
    let (request, line) = call(&mut s, "required", options);
    let token = line["params"]["_meta"]["progressToken"].clone();
    s.answer(&line["id"], json!({"task": legacy_task("working")}));
    let report = |s: &mut ClientHarness| {
        s.notify("notifications/progress", json!({"progressToken": token, "progress": 1}));
        let events = s.take_events();
        events.iter().filter(|event| matches!(event, Event::Progress { .. })).count()
    };
    assert_eq!(report(&mut s), 1);
    let id = answer_poll(&mut s);
    assert_eq!(report(&mut s), 1);
    s.answer(&id, legacy_task("completed"));
    let id = s.expect("tasks/result");
    s.answer(&id, json!({"content": []}));
    result(s.outcome(request));
    assert_eq!(report(&mut s), 0);
}

/// R7, C14.5
#[test]
fn a_legacy_task_is_cancelled_by_its_own_request_alone() {
    let mut s = legacy();
    let request = started_legacy_task(&mut s);
    s.client.at(s.now).cancel(request, None);
    let line = s.line();
    assert_eq!((&line["method"], &line["params"]["taskId"]), (&json!("tasks/cancel"), &json!("task-1")));
    s.expect_silence();
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
}

/// R7, C14.5: the notification must not be used for a request with a task; so the cancellation waits until the task is
/// known.
#[test]
fn legacy_call_cancelled_before_its_task_exists_cancels_the_task_later() {
    let mut s = legacy();
    let (request, line) = call(&mut s, "required", RequestOptions::default());
    s.client.at(s.now).cancel(request, None);
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    s.expect_silence();
    s.client.at(s.now).cancel(request, None);
    s.answer(&line["id"], json!({"task": legacy_task("working")}));
    assert_eq!(s.line()["params"]["taskId"], "task-1");
    assert!(s.take_events().iter().all(|event| !matches!(event, Event::Outcome { .. })));
}

#[test]
fn client_reports_no_progress_of_a_legacy_call_that_was_cancelled_before_its_task_exists() {
    let mut s = legacy();
    let (request, line) = call(&mut s, "required", RequestOptions::default());
    s.client.at(s.now).cancel(request, None);
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    let params = json!({"progressToken": line["params"]["_meta"]["progressToken"], "progress": 1});
    s.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
    let events = s.take_events();
    assert!(events.is_empty(), "{events:?}");
}

/// C14.5
#[test]
fn legacy_call_that_times_out_before_its_task_exists_sends_no_cancellation() {
    let mut s = legacy();
    let (request, line) = call(&mut s, "required", RequestOptions::default());
    s.advance(Duration::from_secs(30));
    assert!(matches!(s.outcome(request), Outcome::TimedOut { .. }));
    s.expect_silence();
    s.answer(&line["id"], json!({"task": legacy_task("working")}));
    assert_eq!(s.line()["method"], "tasks/cancel");
}

/// R7: a server that cancels no tasks does not receive `tasks/cancel`.
#[test]
fn client_sends_no_cancellation_to_a_legacy_server_that_cancels_no_tasks() {
    let mut s = legacy_with(json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}));
    let request = started_legacy_task(&mut s);
    s.client.at(s.now).cancel(request, None);
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    s.expect_silence();
    let refused = s.client.at(s.now).task("task-1", TaskCommand::Cancel, RequestOptions::default());
    assert!(matches!(refused, Err(RequestError::Capability { .. })));
}

/// C14.7: the client uses notifications and does not rely on them.
#[test]
fn client_reports_a_legacy_status_notification() {
    let mut s = legacy();
    let request = started_legacy_task(&mut s);
    s.notify("notifications/tasks/status", legacy_task("completed"));
    let id = s.expect("tasks/result");
    s.answer_error(&id, code::INTERNAL_ERROR, None);
    assert!(matches!(s.outcome(request), Outcome::Error(error) if error.code == code::INTERNAL_ERROR));
}

#[test]
fn client_reports_an_unrelated_response_about_tasks() {
    let mut s = ClientHarness::modern(config());
    s.answer(&json!(4711), created());
    let events = s.take_events();
    assert!(matches!(events[..], [Event::Diagnostic(Diagnostic::UnknownAnswer(_))]), "{events:?}");
    s.expect_silence();
}
