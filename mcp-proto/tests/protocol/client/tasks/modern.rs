//! The extension of 2026-07-28.

use core::time::Duration;

use mcp_proto::peer::client::Event;
use mcp_proto::peer::{
    InputError, InputMode, InvalidAnswerError, LostReason, Outcome, RequestOptions, TaskMode,
};
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::Notification as _;
use mcp_proto::schema::tasks::TaskStatus;
use mcp_proto::schema::{ElicitResult, ListTools, PaginatedParams, ReadResource, ReadResourceParams};
use serde_json::{Value, json};

use super::*;
use crate::common::client::{ClientHarness, config};

/// C14.1
#[test]
fn client_declares_the_extension_on_requests_that_may_create_tasks() {
    let mut s = ClientHarness::open(config());
    let probe = s.line();
    assert!(declared(&probe).is_object(), "{probe}");
    s.answer(&probe["id"], crate::common::messages::discover_result());
    s.client.at(s.now).request::<ListTools>(&PaginatedParams::default(), RequestOptions::default()).unwrap();
    assert!(declared(&s.line()).is_object());
    let (_, line) = call(&mut s, "slow", RequestOptions::default().task(TaskMode::Never));
    assert!(declared(&line).is_null(), "{line}");

    let mut never = config();
    never.tasks = TaskMode::Never;
    let mut s = ClientHarness::open(never);
    let probe = s.line();
    assert!(declared(&probe).is_null(), "{probe}");
    s.answer(&probe["id"], crate::common::messages::discover_result());
    let (_, line) = call(&mut s, "slow", RequestOptions::default());
    assert!(declared(&line).is_null(), "{line}");
    let (_, line) = call(&mut s, "slow", RequestOptions::default().task(TaskMode::Await));
    assert!(declared(&line).is_object(), "{line}");
}

/// C14.1, C14.3, K24
#[test]
fn call_that_becomes_a_task_ends_with_the_result_of_the_task() {
    let mut s = ClientHarness::modern(config());
    let request = started_task(&mut s);
    s.expect_silence();
    let id = answer_poll(&mut s);
    s.answer(&id, with(task("working"), "pollIntervalMs", json!(5000)));
    s.advance(INTERVAL);
    s.expect_silence();
    s.advance(Duration::from_secs(3));
    let line = s.line();
    assert!(declared(&line).is_object(), "the extension is declared on tasks/get: {line}");
    s.answer(&line["id"], completed());
    assert_eq!(result(s.outcome(request))["content"][0]["text"], "done");
    assert_eq!(statuses(&mut s), [TaskStatus::Working, TaskStatus::Working, TaskStatus::Completed]);
    s.advance(Duration::from_secs(600));
    s.expect_silence();
    assert_eq!(s.client.peer().in_flight(), 0);
}

/// C14.1
#[test]
fn a_server_may_answer_without_a_task() {
    let mut s = ClientHarness::modern(config());
    let (request, line) = call(&mut s, "fast", RequestOptions::default());
    s.answer(&line["id"], json!({"resultType": "complete", "content": []}));
    assert_eq!(result(s.outcome(request))["content"], json!([]));
}

/// C14.1, C14.14: a task in answer to what cannot become one is an invalid answer.
#[test]
fn unexpected_task_is_an_invalid_result() {
    let mut s = ClientHarness::modern(config());
    let params = ReadResourceParams::new("file:///a");
    let read = s.client.at(s.now).request::<ReadResource>(&params, RequestOptions::default()).unwrap();
    let id = s.expect("resources/read");
    s.answer(&id, created());
    assert!(
        matches!(s.outcome(read), Outcome::Invalid(InvalidAnswerError::ResultType(kind)) if kind == "task")
    );
    let (never, line) = call(&mut s, "slow", RequestOptions::default().task(TaskMode::Never));
    s.answer(&line["id"], created());
    assert!(
        matches!(s.outcome(never), Outcome::Invalid(InvalidAnswerError::ResultType(kind)) if kind == "task")
    );
    let (nameless, line) = call(&mut s, "slow", RequestOptions::default());
    s.answer(&line["id"], json!({"resultType": "task", "status": "working"}));
    assert!(matches!(s.outcome(nameless), Outcome::Invalid(InvalidAnswerError::Malformed(_))));
    s.advance(Duration::from_secs(60));
    s.expect_silence();
}

/// C1.8: a value of an extension that the server never declared.
#[test]
fn task_of_a_server_that_does_not_declare_tasks_is_an_invalid_result() {
    let mut s = super::without_tasks();
    let (call, line) = call(&mut s, "slow", RequestOptions::default());
    s.answer(&line["id"], created());
    assert!(
        matches!(s.outcome(call), Outcome::Invalid(InvalidAnswerError::ResultType(kind)) if kind == "task")
    );
    s.advance(Duration::from_secs(60));
    s.expect_silence();
}

/// C14.4
#[test]
fn client_sends_the_answers_of_the_application_to_the_task() {
    let mut s = eliciting();
    let request = started_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, asking(&["name", "age"]));
    let ids = input_requests(&mut s);
    assert_eq!(ids.len(), 2);
    assert_eq!(s.client.peer().on_behalf_of(ids[0]), Some(request));
    let id = answer_poll(&mut s);
    s.answer(&id, asking(&["name", "age"]));
    assert_eq!(input_requests(&mut s), [], "asked once");
    for id in ids {
        s.expect_silence();
        s.client.at(s.now).respond(id, Ok(&ElicitResult::decline()));
    }
    let line = s.line();
    assert_eq!(line["method"], "tasks/update");
    assert_eq!(line["params"]["taskId"], "task-1");
    let answers = json!({"name": {"action": "decline"}, "age": {"action": "decline"}});
    assert_eq!(line["params"]["inputResponses"], answers);
    assert!(declared(&line).is_object());
    s.answer(&line["id"], json!({"resultType": "complete"}));
    let id = answer_poll(&mut s);
    s.answer(&id, completed());
    assert_eq!(result(s.outcome(request))["content"][0]["text"], "done");
}

/// C14.4: the trust rules of a direct request apply: an input request without its capability is refused.
#[test]
fn client_cancels_a_task_that_requests_undeclared_input() {
    let mut s = ClientHarness::modern(config());
    let request = started_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, asking(&["name"]));
    assert!(matches!(s.outcome(request), Outcome::Input(InputError::Undeclared { .. })));
    assert_eq!(s.line()["method"], "tasks/cancel");
}

/// C14.4
#[test]
fn error_of_the_application_cancels_the_task() {
    let mut s = eliciting();
    let request = started_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, asking(&["name", "age"]));
    let ids = input_requests(&mut s);
    s.client.at(s.now).respond(ids[0], Err(ErrorObject::new(code::INTERNAL_ERROR, "no")));
    assert!(matches!(s.outcome(request), Outcome::Input(InputError::Failed { .. })));
    assert_eq!(s.line()["method"], "tasks/cancel");
}

/// C14.4
#[test]
fn client_cancels_input_requests_when_their_task_ends() {
    let mut s = eliciting();
    let request = started_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, asking(&["name"]));
    let ids = input_requests(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, completed());
    let withdrawn = |event: &Event| matches!(event, Event::RequestCancelled { id, .. } if *id == ids[0]);
    result(s.outcome(request));
    assert!(s.take_events().iter().any(withdrawn));
    s.client.at(s.now).respond(ids[0], Ok(&ElicitResult::decline()));
    s.expect_silence();
}

/// Found by the exhaustive model of tasks: the request ended, and its input stayed open until the link ended.
#[test]
fn closing_client_cancels_the_input_of_a_task_with_its_request() {
    let mut s = eliciting();
    let request = started_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, asking(&["name"]));
    let ids = input_requests(&mut s);
    s.client.at(s.now).close();
    s.advance(Duration::from_secs(2));
    assert!(matches!(s.outcome(request), Outcome::Lost(LostReason::Closed)));
    let cancelled = |event: &Event| matches!(event, Event::RequestCancelled { id, .. } if *id == ids[0]);
    assert!(s.take_events().iter().any(cancelled));
}

/// C14.4
#[test]
fn application_with_manual_input_sees_the_waiting_task_and_answers_it() {
    let mut s = eliciting();
    let mut options = RequestOptions::default();
    options.input = InputMode::Manual;
    let (_, line) = call(&mut s, "slow", options);
    s.answer(&line["id"], created());
    let id = answer_poll(&mut s);
    s.answer(&id, asking(&["name"]));
    assert_eq!(statuses(&mut s), [TaskStatus::Working, TaskStatus::InputRequired]);
    assert_eq!(input_requests(&mut s), []);
}

/// C14.5
#[test]
fn client_cancels_a_task_by_a_cancel_request() {
    let mut s = ClientHarness::modern(config());
    let request = started_task(&mut s);
    s.client.at(s.now).cancel(request, Some("enough"));
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    let line = s.line();
    assert!(declared(&line).is_object(), "{line}");
    assert_eq!((&line["method"], &line["params"]["taskId"]), (&json!("tasks/cancel"), &json!("task-1")));
    // The client stops polling it, whatever the server does with the cancellation.
    s.answer_error(&line["id"], code::INVALID_PARAMS, None);
    s.advance(Duration::from_secs(600));
    s.expect_silence();
    assert_eq!(s.client.peer().in_flight(), 0);
}

/// C14.5: its place among the requests in flight is free by then.
#[test]
fn client_at_its_limit_of_requests_still_cancels_the_task_of_a_request() {
    let mut config = config();
    config.limits.requests_out = 1;
    let mut s = ClientHarness::modern(config);
    let request = started_task(&mut s);
    s.client.at(s.now).cancel(request, None);
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
    assert_eq!(s.line()["method"], "tasks/cancel");
}

/// C14.5: before a task exists, a request is cancelled like any other; a task created nevertheless is cancelled.
#[test]
fn client_cancels_a_task_that_crosses_the_cancellation() {
    let mut s = ClientHarness::modern(config());
    let (request, line) = call(&mut s, "slow", RequestOptions::default());
    s.client.at(s.now).cancel(request, None);
    assert_eq!(s.line()["method"], "notifications/cancelled");
    s.answer(&line["id"], created());
    assert_eq!(s.line()["method"], "tasks/cancel");
    assert!(matches!(s.outcome(request), Outcome::Cancelled));
}

/// C14.6
#[test]
fn a_notification_ends_the_task_as_an_answer_does() {
    let mut s = ClientHarness::modern(config());
    let request = started_task(&mut s);
    let mut params = completed();
    params.as_object_mut().unwrap().remove("resultType");
    s.notify("notifications/tasks", with(params.clone(), "taskId", json!("another")));
    assert_eq!(s.client.peer().in_flight(), 1);
    s.notify("notifications/tasks", params);
    assert_eq!(result(s.outcome(request))["content"][0]["text"], "done");
    s.advance(Duration::from_secs(60));
    s.expect_silence();
}

/// C14.6: a notification does not replace polling.
#[test]
fn client_continues_to_poll_after_notifications() {
    let mut s = ClientHarness::modern(config());
    started_task(&mut s);
    s.notify("notifications/tasks", task("working"));
    answer_poll(&mut s);
}

#[test]
fn failed_task_ends_the_request_with_its_error() {
    let mut s = ClientHarness::modern(config());
    let request = started_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, with(task("failed"), "error", json!({"code": -32603, "message": "limit"})));
    assert!(matches!(s.outcome(request), Outcome::Error(error) if error.message == "limit"));
}

#[test]
fn task_cancelled_by_the_server_ends_the_request_as_cancelled() {
    let mut s = ClientHarness::modern(config());
    let request = started_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, with(task("cancelled"), "statusMessage", json!("quota")));
    assert!(matches!(s.outcome(request), Outcome::TaskCancelled { message: Some(why) } if why == "quota"));
}

#[test]
fn task_unknown_to_the_server_ends_the_request_with_that_error() {
    let mut s = ClientHarness::modern(config());
    let request = started_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer_error(&id, code::INVALID_PARAMS, None);
    assert!(matches!(s.outcome(request), Outcome::Error(error) if error.code == code::INVALID_PARAMS));
    s.expect_silence();
}

/// R8: some servers mark the response to `tasks/get` as a task where it should be complete.
#[test]
fn client_accepts_a_task_status_whose_result_type_is_task() {
    let mut s = ClientHarness::modern(config());
    let request = started_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, with(completed(), "resultType", json!("task")));
    result(s.outcome(request));
}

/// C14.5
#[test]
fn task_outlives_request_timeouts_but_not_its_hard_timeout() {
    let mut s = ClientHarness::modern(config());
    let request = started_task(&mut s);
    let minute = |s: &mut ClientHarness| {
        for _ in 0..30 {
            let id = answer_poll(s);
            s.answer(&id, task("working"));
        }
    };
    for _ in 0..20 {
        minute(&mut s);
    }
    assert_eq!(s.client.peer().in_flight(), 1, "{:?}", s.outcome(request));

    let mut s = ClientHarness::modern(config());
    let (request, line) =
        call(&mut s, "slow", RequestOptions::default().hard_timeout(Duration::from_secs(60)));
    s.answer(&line["id"], created());
    for _ in 0..29 {
        let id = answer_poll(&mut s);
        s.answer(&id, task("working"));
    }
    s.advance(INTERVAL);
    assert!(matches!(s.outcome(request), Outcome::TimedOut { hard: true, .. }));
    let lines: Vec<Value> = core::iter::from_fn(|| s.try_line()).collect();
    assert!(lines.iter().any(|line| line["method"] == "tasks/cancel"), "{lines:?}");
    assert!(lines.iter().all(|line| line["method"] != "notifications/cancelled"), "{lines:?}");
}

#[test]
fn client_repeats_an_unanswered_poll() {
    let mut s = ClientHarness::modern(config());
    let request = started_task(&mut s);
    answer_poll(&mut s);
    s.advance(Duration::from_secs(30));
    assert_eq!(s.line()["method"], "notifications/cancelled");
    let id = answer_poll(&mut s);
    s.answer(&id, completed());
    result(s.outcome(request));
}

#[test]
fn client_ignores_a_second_response_to_a_request_that_became_a_task() {
    let mut s = ClientHarness::modern(config());
    let (request, line) = call(&mut s, "slow", RequestOptions::default());
    s.answer(&line["id"], created());
    s.answer(&line["id"], json!({"resultType": "complete", "content": []}));
    s.expect_silence();
    let id = answer_poll(&mut s);
    s.answer(&id, completed());
    assert_eq!(result(s.outcome(request))["content"][0]["text"], "done");
}

#[test]
fn lost_connection_ends_the_request_once() {
    let mut s = eliciting();
    let request = started_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, asking(&["name"]));
    answer_poll(&mut s);
    s.end("gone");
    assert!(matches!(s.outcome(request), Outcome::Lost(LostReason::Disconnected(_))));
    assert_eq!(s.client.poll_timeout(), None);
}

#[test]
fn closing_client_does_not_cancel_the_task() {
    let mut s = ClientHarness::modern(config());
    let request = started_task(&mut s);
    s.client.at(s.now).close();
    s.advance(Duration::from_secs(10));
    assert!(matches!(s.outcome(request), Outcome::Lost(LostReason::Closed)));
    let lines: Vec<Value> = core::iter::from_fn(|| s.try_line()).collect();
    assert!(lines.iter().all(|line| line["method"] != "tasks/cancel"), "{lines:?}");
}

#[test]
fn closing_client_waits_for_the_response_to_its_cancellation() {
    let mut s = ClientHarness::modern(config());
    let request = started_task(&mut s);
    s.client.at(s.now).cancel(request, None);
    s.client.at(s.now).close();
    let id = s.expect("tasks/cancel");
    assert_eq!(s.client.poll_link(), None);
    s.answer(&id, json!({"resultType": "complete"}));
    assert_eq!(s.client.poll_link(), Some(mcp_proto::peer::client::LinkAction::CloseWrite));
}

#[test]
fn follower_with_a_poll_that_was_refused_resolves_its_request() {
    let mut config = config();
    config.capabilities = config.capabilities.with(mcp_proto::schema::ClientCapability::ElicitationForm);
    config.limits.queued_bytes = 0;
    let mut s = ClientHarness::modern(config);
    let request = started_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, asking(&["name"]));
    let ids = input_requests(&mut s);
    // The server reads nothing: the answer to the task is refused, and later again, with the poll behind it.
    s.client.at(s.now).request::<ListTools>(&PaginatedParams::new(), RequestOptions::default()).unwrap();
    s.client.at(s.now).respond(ids[0], Ok(&ElicitResult::decline()));
    s.advance(Duration::from_secs(5));
    s.notify(mcp_proto::schema::tasks::TaskUpdated::NAME, completed());
    assert_eq!(result(s.outcome(request))["content"][0]["text"], "done");
}

#[test]
fn followed_task_is_polled_at_the_limit_of_requests() {
    let mut config = config();
    config.limits.requests_out = 1;
    let mut s = ClientHarness::modern(config);
    let request = started_task(&mut s);
    s.advance(Duration::from_secs(10));
    let id = s.expect("tasks/get");
    s.answer(&id, completed());
    assert_eq!(result(s.outcome(request))["content"][0]["text"], "done");
}

#[test]
fn second_answer_that_names_a_followed_task_does_not_cancel_it() {
    let mut s = ClientHarness::modern(config());
    let (_request, line) = call(&mut s, "slow", RequestOptions::default());
    s.answer(&line["id"], created());
    s.answer(&line["id"], created());
    s.expect_silence();
}

#[test]
fn task_is_cancelled_at_the_limit_of_requests() {
    let mut config = config();
    config.capabilities = config.capabilities.with(mcp_proto::schema::ClientCapability::ElicitationForm);
    config.limits.requests_out = 2;
    let mut s = ClientHarness::modern(config);
    let request = started_task(&mut s);
    let id = answer_poll(&mut s);
    s.answer(&id, asking(&["name"]));
    let ids = input_requests(&mut s);
    let (_other, _) = call(&mut s, "other", RequestOptions::default().timeout(Duration::from_secs(6000)));
    s.client.at(s.now).respond(ids[0], Err(ErrorObject::new(-1, "no")));
    assert!(matches!(s.outcome(request), Outcome::Input(_)));
    let lines: Vec<Value> = core::iter::from_fn(|| s.try_line()).collect();
    assert!(lines.iter().any(|line| line["method"] == "tasks/cancel"), "{lines:?}");
}
