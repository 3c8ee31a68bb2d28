//! The experimental tasks of 2025-11-25.

use super::*;

/// S11.11, R7
#[test]
fn legacy_client_requests_a_task_and_waits_for_its_result() {
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
fn legacy_call_becomes_a_task_only_on_request() {
    let (mut s, gate) = legacy();
    gate.open(text("at once"));
    assert_eq!(s.call("hold", json!({}))["content"][0]["text"], "at once");
    assert_eq!(s.error("tools/call", json!({"name": "must"}))["code"], -32601);
    assert_eq!(s.error("tools/call", json!({"name": "plain", "task": {}}))["code"], -32601);
}

/// R7
#[test]
fn server_without_tasks_ignores_the_request_for_one() {
    let router = Router::new("worker", "1").tool_with(tool("plain"), async |NoArguments {}, _| "plain");
    let mut s = ServerHarness::legacy(router);
    let result = s.result("tools/call", json!({"name": "plain", "task": {"ttl": 1}}));
    assert_eq!(result["content"][0]["text"], "plain");
    assert_eq!(s.error("tasks/get", json!({"taskId": "x"}))["code"], -32601);
}

/// S11.11: tasks are of 2025-11-25 alone.
#[test]
fn earlier_revisions_have_no_tasks() {
    let (router, gate) = router();
    gate.open(text("at once"));
    let mut s = ServerHarness::legacy_with(router, "2025-06-18", json!({}));
    let result = s.result("tools/call", json!({"name": "hold", "task": {}}));
    assert_eq!(result["content"][0]["text"], "at once");
    assert_eq!(s.error("tasks/get", json!({"taskId": "x"}))["code"], -32601);
    assert_eq!(s.error("tools/call", json!({"name": "must", "task": {}}))["code"], -32601);
}

/// S11.11
#[test]
fn error_of_the_tool_fails_a_legacy_task_and_is_its_result() {
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
fn protocol_error_is_the_result_of_a_legacy_task() {
    let (mut s, gate) = legacy();
    let id = begin_legacy(&mut s, "hold");
    gate.open(Err(ErrorObject::new(-32602, "no such job")));
    s.line();
    let error = s.error("tasks/result", json!({"taskId": id}));
    assert_eq!(error, json!({"code": -32602, "message": "no such job"}));
}

/// S11.11
#[test]
fn client_cancels_a_legacy_task_once() {
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

/// S11.11: a task that has ended stays as it is.
#[test]
fn client_cannot_cancel_a_legacy_task_that_has_ended() {
    let failure = Err(ErrorObject::new(-32603, "no such job"));
    for (verdict, status) in [(text("done"), "completed"), (failure, "failed")] {
        let (mut s, gate) = legacy();
        let id = begin_legacy(&mut s, "hold");
        gate.open(verdict);
        assert_eq!(s.line()["params"]["status"], status);
        assert_eq!(s.error("tasks/cancel", json!({"taskId": id}))["code"], -32602, "{status}");
        assert_eq!(get(&mut s, &json!(id))["status"], status);
        s.expect_silence();
    }
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
fn progress_token_of_a_legacy_task_lives_as_long_as_the_task() {
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

/// S6.2, R7
#[test]
fn reports_of_a_legacy_task_are_paced_and_the_last_precedes_its_end() {
    let (mut s, gate) = legacy();
    s.result("tools/call", json!({"name": "hold", "task": {}, "_meta": {"progressToken": "p"}}));
    let cx = gate.context();
    (1..=100).for_each(|done| cx.progress(Progress::new(done)));
    assert_eq!(s.line()["params"]["progress"], 1);
    s.expect_silence();
    s.advance(Duration::from_millis(20));
    assert_eq!(s.line()["params"]["progress"], 100);
    (101..=200).for_each(|done| cx.progress(Progress::new(done)));
    s.expect_silence();
    gate.open(text("done"));
    assert_eq!(s.line()["params"]["progress"], 200);
    assert_eq!(s.line()["method"], "notifications/tasks/status");
    s.advance(Duration::from_secs(1));
    s.expect_silence();
}

/// R7: a task that can be fetched can be listed, page by page.
#[test]
fn server_lists_legacy_tasks_if_configured() {
    let mut config = TaskConfig::default();
    config.listing = TaskListing::Shown;
    let (router, gate) = router_with(config);
    let mut s = ServerHarness::legacy(router.page_size(2));
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
    while s.try_line().is_some() {}
    // They have ended, and can still be fetched.
    let page = s.result("tasks/list", json!({}));
    assert_eq!((listed(&page), &page["tasks"][0]["status"]), (ids[..2].to_vec(), &json!("completed")));
}

/// S11.11: a server that cannot distinguish its clients lists nothing.
#[test]
fn server_lists_no_legacy_tasks_by_default() {
    let (mut s, _gate) = legacy();
    assert_eq!(s.error("tasks/list", json!({}))["code"], -32601);
}

/// S11.11
#[test]
fn server_limits_the_ttl_of_a_legacy_task() {
    for most in [TaskConfig::default().ttl_most, Duration::from_secs(60)] {
        let mut config = TaskConfig::default();
        config.ttl_most = most;
        let (router, _gate) = router_with(config);
        let mut s = ServerHarness::legacy(router);
        let mut ttl = |ttl: u64| {
            let created = s.result("tools/call", json!({"name": "hold", "task": {"ttl": ttl}}));
            created["task"]["ttl"].as_u64().map(Duration::from_millis)
        };
        assert_eq!(ttl(1000), Some(Duration::from_secs(1)));
        assert_eq!(ttl(u64::MAX), Some(most));
    }
}

/// S11.11: a task belongs to the principal that called the tool. To others it is unknown, in every state.
#[test]
fn legacy_task_of_another_principal_does_not_exist() {
    use mcp_proto::peer::Principal;
    let mut config = TaskConfig::default();
    config.listing = TaskListing::Shown;
    let (router, gate) = router_with(config);
    let mut s = ServerHarness::legacy(router);
    let act_as = |s: &mut ServerHarness, name: Option<&str>| {
        let principal = name.map(Principal::new);
        s.driver.lock(|machine, now| machine.at(now).set_principal(principal));
    };
    let stranger_sees_nothing = |s: &mut ServerHarness, id: &str| {
        for who in [Some("bob"), None] {
            act_as(s, who);
            for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
                assert_eq!(s.error(method, json!({"taskId": id}))["code"], -32602, "{who:?} {method}");
            }
            assert_eq!(s.result("tasks/list", json!({}))["tasks"], json!([]), "{who:?}");
        }
    };
    act_as(&mut s, Some("alice"));
    let id = begin_legacy(&mut s, "hold");
    stranger_sees_nothing(&mut s, &id);
    act_as(&mut s, Some("alice"));
    assert_eq!(get(&mut s, &json!(id))["status"], "working", "no other principal has cancelled it");
    assert_eq!(s.result("tasks/list", json!({}))["tasks"][0]["taskId"], id);
    gate.open(text("done"));
    assert_eq!(s.line()["params"]["status"], "completed");
    stranger_sees_nothing(&mut s, &id);
    act_as(&mut s, Some("alice"));
    assert_eq!(s.result("tasks/result", json!({"taskId": id}))["content"][0]["text"], "done");
}

/// R7: the request has been answered by the task, so its cancellation has no effect on the task.
#[test]
fn legacy_task_is_not_cancelled_by_the_cancellation_of_its_request() {
    let (mut s, gate) = legacy();
    let call = s.send("tools/call", json!({"name": "hold", "task": {}}));
    let id = s.line()["result"]["task"]["taskId"].clone();
    s.notify("notifications/cancelled", json!({"requestId": call}));
    s.expect_silence();
    assert_eq!(get(&mut s, &id)["status"], "working");
    assert_eq!(gate.dropped(), 0);
    assert_eq!(s.result("tasks/cancel", json!({"taskId": id}))["status"], "cancelled");
    assert_eq!(gate.dropped(), 1);
}
