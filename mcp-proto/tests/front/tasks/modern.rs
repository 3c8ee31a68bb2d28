//! Tasks of the extension: 2026-07-28.

use super::*;

/// S11.2, S11.3, R8
#[test]
fn call_becomes_a_task_whose_result_is_fetched_later() {
    let (mut s, gate) = modern();
    let created = begin(&mut s, "hold");
    let id = &created["taskId"];
    assert_eq!((&created["status"], &created["ttlMs"]), (&json!("working"), &json!(3_600_000)));
    assert_eq!(created["pollIntervalMs"], 1000);
    assert_eq!(created["createdAt"], "2026-07-28T12:00:00.000Z");
    for absent in ["result", "error", "inputRequests", "requestState", "ttl", "task"] {
        assert!(created.get(absent).is_none(), "{created}");
    }

    s.advance(Duration::from_secs(5));
    let working = get(&mut s, id);
    assert_eq!((&working["status"], &working["resultType"]), (&json!("working"), &json!("complete")));
    assert_eq!(working["taskId"], *id);

    gate.open(text("done"));
    let done = get(&mut s, id);
    assert_eq!((&done["status"], &done["resultType"]), (&json!("completed"), &json!("complete")));
    assert_eq!(done["result"]["content"][0]["text"], "done");
    assert!(done["result"].get("_meta").is_none(), "{done}");
    assert_eq!(done["createdAt"], created["createdAt"]);
    assert_eq!(done["lastUpdatedAt"], "2026-07-28T12:00:05.000Z");
}

/// S11.2: `tasks/get` finds it as soon as the client receives it.
#[test]
fn task_is_stored_before_the_client_receives_it() {
    let store = store();
    let (router, _gate) = router_with(stored_in(&store));
    let mut s = ServerHarness::modern_with(router, with_extension());
    let created = begin(&mut s, "hold");
    let kept = futures_lite::future::block_on(store.get(created["taskId"].as_str().unwrap())).unwrap();
    assert_eq!(kept.unwrap().state, StoredTaskState::Working);
}

/// S11.1
#[test]
fn only_a_request_that_declares_tasks_becomes_one() {
    let (router, gate) = router();
    gate.open(text("at once"));
    let mut s = ServerHarness::modern(router);
    let result = s.result("tools/call", json!({"name": "hold"}));
    assert_eq!(
        (&result["resultType"], &result["content"][0]["text"]),
        (&json!("complete"), &json!("at once"))
    );

    let error = s.error("tools/call", json!({"name": "must"}));
    assert_eq!(error["code"], -32021);
    assert_eq!(error["data"], json!({"requiredCapabilities": {"extensions": {(EXTENSION): {}}}}));
}

/// S11.7
#[test]
fn client_that_does_not_declare_tasks_may_not_query_them() {
    let (router, _gate) = router();
    let mut s = ServerHarness::modern(router);
    let params = json!({"taskId": "x", "inputResponses": {}});
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let error = s.error(method, params.clone());
        assert_eq!(error["code"], -32021, "{method}: {error}");
        assert!(error["data"]["requiredCapabilities"]["extensions"][EXTENSION].is_object());
    }
}

/// S11.7
#[test]
fn an_unknown_task_is_an_invalid_parameter() {
    let (mut s, _gate) = modern();
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let error = s.error(method, json!({"taskId": "nonesuch", "inputResponses": {}}));
        assert_eq!(error["code"], -32602, "{method}: {error}");
    }
}

/// S11.7
#[test]
fn task_methods_of_2025_11_25_are_unknown() {
    let (mut s, _gate) = modern();
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(s.error(method, json!({"taskId": "x"}))["code"], -32601);
    }
}

/// S11.4
#[test]
fn error_of_the_tool_completes_a_task() {
    let (mut s, gate) = modern();
    let id = begin(&mut s, "must")["taskId"].clone();
    gate.open(Ok(CallToolResult::error("out of paper")));
    let done = get(&mut s, &id);
    assert_eq!((&done["status"], &done["result"]["isError"]), (&json!("completed"), &json!(true)));
    assert!(done.get("error").is_none());
    assert_eq!(done["statusMessage"], "out of paper");
}

/// S11.3, S11.4
#[test]
fn protocol_error_fails_a_task() {
    let (mut s, gate) = modern();
    let id = begin(&mut s, "hold")["taskId"].clone();
    gate.open(Err(ErrorObject::new(-32603, "no such job")));
    let failed = get(&mut s, &id);
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["error"], json!({"code": -32603, "message": "no such job"}));
    assert_eq!(failed["statusMessage"], "no such job");
    assert!(failed.get("result").is_none());
}

/// S1.10
#[test]
fn error_of_a_task_has_a_code_that_the_revision_allows() {
    for (given, sent) in [(-32_002, -32_602), (-32_042, -32_603), (-32_050, -32_603), (4711, 4711)] {
        let (mut s, gate) = modern();
        let id = begin(&mut s, "hold")["taskId"].clone();
        gate.open(Err(ErrorObject::new(given, "no such job")));
        let failed = get(&mut s, &id);
        assert_eq!(
            (&failed["status"], &failed["error"]["code"]),
            (&json!("failed"), &json!(sent)),
            "{given}"
        );
    }
}

/// S11.4
#[test]
fn panic_ends_its_task_with_a_failed_tool_result() {
    let (router, _gate) = router();
    let router = router.task_tool(tool("panic"), TaskChoice::Optional, async |NoArguments {}, _| {
        panic!("as it should");
        #[allow(unreachable_code)]
        ""
    });
    let mut s = ServerHarness::modern_with(router, with_extension());
    let id = begin(&mut s, "panic")["taskId"].clone();
    let ended = get(&mut s, &id);
    assert_eq!((&ended["status"], &ended["result"]["isError"]), (&json!("completed"), &json!(true)));
    let text = ended["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("the tool failed unexpectedly") && !text.contains("as it should"), "{text}");
    assert_eq!(s.call("plain", json!({}))["content"][0]["text"], "plain");
}

#[test]
fn task_reports_its_status() {
    let (mut s, gate) = modern();
    let id = begin(&mut s, "hold")["taskId"].clone();
    let cx = gate.context();
    assert_eq!(cx.task_id(), id.as_str());
    s.advance(Duration::from_secs(1));
    cx.status("halfway");
    let task = get(&mut s, &id);
    assert_eq!((&task["status"], &task["statusMessage"]), (&json!("working"), &json!("halfway")));
    assert_eq!(task["lastUpdatedAt"], "2026-07-28T12:00:01.000Z");
    gate.open(text("done"));
    assert_eq!(get(&mut s, &id)["statusMessage"], "halfway");
    cx.status("too late");
    assert_eq!(get(&mut s, &id)["statusMessage"], "halfway");
}

/// S11.3, S11.8, R8
#[test]
fn a_cancelled_task_drops_its_handler_and_stays_cancelled() {
    let (mut s, gate) = modern();
    let id = begin(&mut s, "hold")["taskId"].clone();
    let cx = gate.context();
    assert!(!cx.is_cancelled());
    let ack = s.result("tasks/cancel", json!({"taskId": id}));
    assert_eq!(ack["resultType"], "complete");
    for absent in ["taskId", "status", "result", "error", "inputRequests"] {
        assert!(ack.get(absent).is_none(), "{ack}");
    }
    assert_eq!(gate.dropped(), 1);
    assert!(cx.is_cancelled());
    gate.open(text("too late"));
    let task = get(&mut s, &id);
    assert_eq!(task["status"], "cancelled");
    assert!(task.get("result").is_none());
    // The cancellation is acknowledged again, in any state of the task.
    assert_eq!(s.result("tasks/cancel", json!({"taskId": id}))["resultType"], "complete");
}

/// R7: `notifications/cancelled` means nothing for a call that has been answered.
#[test]
fn cancelling_the_call_does_not_cancel_its_task() {
    let (mut s, gate) = modern();
    let call = s.send("tools/call", json!({"name": "hold"}));
    let id = s.line()["result"]["taskId"].clone();
    s.notify("notifications/cancelled", json!({"requestId": call}));
    assert_eq!((gate.dropped(), &get(&mut s, &id)["status"]), (0, &json!("working")));
}

/// S11.8, R8
#[test]
fn server_ignores_answers_to_unknown_input_requests() {
    let (mut s, gate) = modern();
    let id = begin(&mut s, "hold")["taskId"].clone();
    let responses = json!({"unknown": {"ignored": true}});
    for _ in 0..2 {
        let ack = s.result("tasks/update", json!({"taskId": id, "inputResponses": responses}));
        assert_eq!(ack["resultType"], "complete");
        assert!(ack.get("status").is_none());
        gate.open(text("done"));
    }
}

/// S11.10
#[test]
fn task_of_the_extension_sends_no_progress_and_no_logs() {
    let (mut s, gate) = modern();
    let meta = json!({"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"});
    s.result("tools/call", json!({"name": "hold", "_meta": meta}));
    let cx = gate.context();
    cx.progress(Progress::new(1));
    cx.log(LoggingLevel::Error, "hot");
    s.expect_silence();
}

/// S11.10
#[test]
fn subscriptions_receive_every_change_of_a_task() {
    let (mut s, gate) = modern();
    let id = begin(&mut s, "hold")["taskId"].clone();
    let listen = s.send("subscriptions/listen", json!({"notifications": {"taskIds": [id, "other"]}}));
    let acknowledged = s.line();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    // S11.9: tasks that do not exist or belong to others are not granted.
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([id]));

    gate.context().status("halfway");
    let told = s.line();
    assert_eq!((&told["method"], &told["params"]["taskId"]), (&json!("notifications/tasks"), &id));
    assert_eq!(
        (&told["params"]["status"], &told["params"]["statusMessage"]),
        (&json!("working"), &json!("halfway"))
    );
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen);

    gate.open(text("done"));
    let told = s.line();
    assert_eq!(told["params"]["status"], "completed");
    assert_eq!(told["params"]["result"]["content"][0]["text"], "done");
    s.expect_silence();
}

/// S11.15: whatever the status.
#[test]
fn notification_of_a_task_has_the_state_that_a_request_for_it_has() {
    let without = |mut state: Value, members: &[&str]| {
        members.iter().for_each(|member| drop(state.as_object_mut().unwrap().remove(*member)));
        state
    };
    let compare = |s: &mut ServerHarness, id: &Value, notified: Value, status: &str| {
        assert_eq!(notified["method"], "notifications/tasks");
        assert_eq!(notified["params"]["status"], status);
        let requested = s.result("tasks/get", json!({"taskId": id}));
        assert_eq!(
            without(notified["params"].clone(), &["_meta"]),
            without(requested, &["_meta", "resultType"])
        );
    };
    let watched = |name: &str| {
        let (router, gate) = router();
        let of_ask = gate.clone();
        let ask = move |NoArguments {}, cx: Context| {
            let gate = of_ask.clone();
            async move {
                gate.wait_outcome(cx.clone()).await?;
                cx.elicit("name", ElicitParams::form("Which name?", ElicitSchema::empty())).await?;
                Ok::<_, HandlerError>("asked")
            }
        };
        let router = router.task_tool(tool("ask"), TaskChoice::Optional, ask);
        let capabilities = json!({"elicitation": {}, "extensions": {(EXTENSION): {}}});
        let mut s = ServerHarness::modern_with(router, capabilities);
        let id = begin(&mut s, name)["taskId"].clone();
        s.send("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
        assert_eq!(s.line()["method"], "notifications/subscriptions/acknowledged");
        (s, id, gate)
    };

    let (mut s, id, gate) = watched("hold");
    gate.context().status("halfway");
    let notified = s.line();
    compare(&mut s, &id, notified, "working");
    for (name, outcome, status) in [
        ("hold", text("done"), "completed"),
        ("hold", Err(ErrorObject::new(-32_603, "broken")), "failed"),
        ("ask", text("done"), "input_required"),
    ] {
        let (mut s, id, gate) = watched(name);
        gate.open(outcome);
        let notified = s.line();
        compare(&mut s, &id, notified, status);
    }
    let (mut s, id, _gate) = watched("hold");
    s.send("tasks/cancel", json!({"taskId": id}));
    let lines = [s.line(), s.line()];
    let notified = lines.into_iter().find(|line| line.get("method").is_some());
    compare(&mut s, &id, notified.unwrap(), "cancelled");
}

/// S11.10: progress and logs are not sent on the stream of a subscription to the task either.
#[test]
fn subscription_to_a_task_receives_no_progress_and_no_logs() {
    let (mut s, gate) = modern();
    let meta = |token: &str| json!({"progressToken": token, "io.modelcontextprotocol/logLevel": "debug"});
    let id = s.result("tools/call", json!({"name": "hold", "_meta": meta("p")}))["taskId"].clone();
    s.send("subscriptions/listen", json!({"notifications": {"taskIds": [id]}, "_meta": meta("q")}));
    assert_eq!(s.line()["params"]["notifications"]["taskIds"], json!([id]));
    let cx = gate.context();
    cx.progress(Progress::new(1));
    cx.log(LoggingLevel::Error, "hot");
    s.expect_silence();
    cx.status("halfway");
    assert_eq!(s.line()["method"], "notifications/tasks");
    s.expect_silence();
}

/// S11.6
#[test]
fn client_that_does_not_declare_tasks_may_not_subscribe_to_them() {
    let (router, _gate) = router();
    let mut s = ServerHarness::modern(router);
    let error = s.error("subscriptions/listen", json!({"notifications": {"taskIds": ["x"]}}));
    assert_eq!(error["code"], -32021);
    assert!(error["data"]["requiredCapabilities"]["extensions"][EXTENSION].is_object());
}

/// S11.10
#[test]
fn clients_without_the_subscription_receive_no_change_of_a_task() {
    let (mut s, gate) = modern();
    begin(&mut s, "hold");
    s.send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    s.line();
    gate.context().status("halfway");
    gate.open(text("done"));
    s.expect_silence();
}

/// S11.5: the call itself requests input before the task exists.
#[test]
fn tool_may_work_before_it_becomes_a_task() {
    let early = Arc::new(Mutex::new(Vec::new()));
    let seen = early.clone();
    let router = Router::new("worker", "1").tasks(TaskConfig::default()).detaching_tool(
        tool("later"),
        TaskChoice::Optional,
        move |NoArguments {}, cx: Context| {
            let seen = seen.clone();
            async move {
                seen.lock().unwrap().push(cx.task_id().map(str::to_owned));
                if seen.lock().unwrap().len() == 3 {
                    return Err(HandlerError::new("enough"));
                }
                Ok(DetachedWork::new(async move |cx: Context| format!("in {:?}", cx.task_id())))
            }
        },
    );
    let mut s = ServerHarness::modern_with(router, with_extension());
    let id = begin(&mut s, "later")["taskId"].clone();
    let done = get(&mut s, &id);
    assert_eq!(done["result"]["content"][0]["text"], format!("in {:?}", id.as_str()));

    // For a client that cannot have a task, the rest runs at once.
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": {}});
    let result = s.result("tools/call", json!({"name": "later", "_meta": meta}));
    assert_eq!(
        (&result["resultType"], &result["content"][0]["text"]),
        (&json!("complete"), &json!("in None"))
    );

    let failed = s.result("tools/call", json!({"name": "later"}));
    assert_eq!((&failed["resultType"], &failed["isError"]), (&json!("complete"), &json!(true)));
    assert_eq!(*early.lock().unwrap(), [None, None, None]);
}

/// S11.1
#[test]
fn tool_that_requires_a_task_does_not_start_for_a_client_without_tasks() {
    let router = Router::new("worker", "1").tasks(TaskConfig::default()).detaching_tool(
        tool("later"),
        TaskChoice::Required,
        async |NoArguments {}, _| -> Result<DetachedWork, HandlerError> { panic!("the tool was started") },
    );
    let mut s = ServerHarness::modern(router);
    assert_eq!(s.error("tools/call", json!({"name": "later"}))["code"], -32021);
}

#[test]
fn invalid_arguments_are_reported_by_the_task() {
    #[derive(serde::Deserialize)]
    struct Needs {
        #[expect(dead_code)]
        text: String,
    }
    let router = Router::new("worker", "1").tasks(TaskConfig::default()).task_tool(
        tool("needs"),
        TaskChoice::Optional,
        async |Needs { .. }, _| "fine",
    );
    let mut s = ServerHarness::modern_with(router, with_extension());
    let id = begin(&mut s, "needs")["taskId"].clone();
    let done = get(&mut s, &id);
    assert_eq!((&done["status"], &done["result"]["isError"]), (&json!("completed"), &json!(true)));
}
