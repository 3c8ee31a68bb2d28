//! Tasks known by their identifier alone.

use core::time::Duration;

use mcp_proto::peer::client::{Diagnostic, Event, TaskCommand};
use mcp_proto::peer::{Outcome, RequestError, RequestOptions, TaskMode, TaskReport};
use mcp_proto::schema::ListTools;
use mcp_proto::schema::tasks::TaskStatus;
use serde_json::{Value, json};

use super::*;
use crate::common::client::{ClientHarness, config};

#[test]
fn task_handle_mode_ends_the_request_with_the_task() {
    let mut s = ClientHarness::modern(config());
    let (request, line) = call(&mut s, "slow", RequestOptions::default().task(TaskMode::Handle));
    s.answer(&line["id"], created());
    match s.outcome(request) {
        Outcome::Task(report) => {
            assert_eq!((&*report.id, report.status), ("task-1", TaskStatus::Working));
            assert_eq!((report.ttl, report.poll_interval), (None, Some(INTERVAL)));
        }
        other => panic!("{other:?}"),
    }
    s.advance(Duration::from_secs(60));
    s.expect_silence();
}

/// C14.3: a task is resumed by its identifier alone, even before the server is known.
#[test]
fn client_resumes_a_task_after_a_restart() {
    let mut s = ClientHarness::open(config());
    let request = s.client.at(s.now).task("task-1", TaskCommand::Follow, RequestOptions::default()).unwrap();
    let probe = s.expect("server/discover");
    let mut discovered = crate::common::messages::discover_result();
    discovered["capabilities"]["extensions"] = json!({EXTENSION: {}});
    s.answer(&probe, discovered);
    let id = s.expect("tasks/get");
    s.answer(&id, task("working"));
    let id = answer_poll(&mut s);
    s.answer(&id, completed());
    assert_eq!(result(s.outcome(request))["content"][0]["text"], "done");
}

#[test]
fn client_does_not_cancel_a_resumed_task_when_it_stops_following() {
    let mut s = with_extension();
    let follow = s.client.at(s.now).task("task-1", TaskCommand::Follow, RequestOptions::default()).unwrap();
    s.expect("tasks/get");
    s.client.at(s.now).cancel(follow, None);
    assert!(matches!(s.outcome(follow), Outcome::Cancelled));
    s.advance(Duration::from_secs(60));
    let lines: Vec<Value> = core::iter::from_fn(|| s.try_line()).collect();
    assert!(lines.iter().all(|line| line["method"] != "tasks/cancel"), "{lines:?}");
}

fn with_extension() -> ClientHarness {
    let mut s = ClientHarness::open(config());
    let probe = s.expect("server/discover");
    let mut discovered = crate::common::messages::discover_result();
    discovered["capabilities"]["extensions"] = json!({EXTENSION: {}});
    s.answer(&probe, discovered);
    s.take_events();
    s
}

#[test]
fn client_queries_and_cancels_a_task_by_its_identifier() {
    let mut s = with_extension();
    let status = s.client.at(s.now).task("task-1", TaskCommand::Status, RequestOptions::default()).unwrap();
    let id = s.expect("tasks/get");
    s.answer(&id, task("working"));
    match s.outcome(status) {
        Outcome::Result(raw) => assert_eq!(TaskReport::read(&raw).unwrap().status, TaskStatus::Working),
        other => panic!("{other:?}"),
    }
    let cancel = s.client.at(s.now).task("task-1", TaskCommand::Cancel, RequestOptions::default()).unwrap();
    let id = s.expect("tasks/cancel");
    s.answer(&id, json!({"resultType": "complete"}));
    assert!(matches!(s.outcome(cancel), Outcome::Result(_)));
}

#[test]
fn client_sends_queued_requests_and_commands_in_the_order_they_were_made() {
    let mut s = ClientHarness::open(config());
    let probe = s.expect("server/discover");
    for _ in 0..2 {
        s.client.at(s.now).task("task-1", TaskCommand::Status, RequestOptions::default()).unwrap();
        s.client.at(s.now).request::<ListTools>(&Default::default(), RequestOptions::default()).unwrap();
    }
    // An answer to a command that is not sent yet is reported.
    s.answer(&json!(2), task("working"));
    let reported = |event: &Event| matches!(event, Event::Diagnostic(Diagnostic::UnknownAnswer(_)));
    assert!(s.take_events().iter().any(reported));
    let mut discovered = crate::common::messages::discover_result();
    discovered["capabilities"]["extensions"] = json!({EXTENSION: {}});
    s.answer(&probe, discovered);
    for (id, method) in [(2, "tasks/get"), (3, "tools/list"), (4, "tasks/get"), (5, "tools/list")] {
        let line = s.line();
        assert_eq!((&line["id"], &line["method"]), (&json!(id), &json!(method)));
    }
}

/// C14.1: a request about a task declares the extension, even where calls may not become tasks.
#[test]
fn each_request_about_a_task_declares_the_extension() {
    for mode in [TaskMode::Await, TaskMode::Never] {
        let mut config = config();
        config.tasks = mode;
        let mut s = ClientHarness::modern(config);
        for (command, method) in [
            (TaskCommand::Follow, "tasks/get"),
            (TaskCommand::Status, "tasks/get"),
            (TaskCommand::Cancel, "tasks/cancel"),
        ] {
            s.client.at(s.now).task("task-1", command, RequestOptions::default()).unwrap();
            let line = s.line();
            assert_eq!(line["method"], method);
            assert!(declared(&line).is_object(), "{mode:?}: {line}");
        }
    }
}

/// C2.9
#[test]
fn client_sends_no_task_request_to_a_server_without_tasks() {
    let mut s = super::without_tasks();
    for command in [TaskCommand::Follow, TaskCommand::Status, TaskCommand::Cancel] {
        let refused = s.client.at(s.now).task("task-1", command, RequestOptions::default());
        assert!(matches!(refused, Err(RequestError::Capability { .. })), "{refused:?}");
    }
    s.expect_silence();
}
