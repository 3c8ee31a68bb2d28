//! Task configurations that the router refuses.

use super::*;

#[test]
fn router_without_tasks_refuses_tools_that_become_tasks() {
    let router = Router::new("worker", "1").task_tool(
        tool("hold"),
        TaskChoice::Optional,
        async |NoArguments {}, _| "",
    );
    assert_eq!(router.check(), Err(RouterError::NoTasks { tool: "hold".into() }));
    assert_eq!(router.tasks(TaskConfig::default()).check(), Ok(()));
}

/// S11.11, K24
#[test]
fn server_declares_tasks_in_both_forms() {
    let mut s = ServerHarness::modern(router().0);
    let discovered = s.result("server/discover", json!({}));
    assert_eq!(discovered["capabilities"]["extensions"], json!({(EXTENSION): {}}));
    assert!(discovered["capabilities"].get("tasks").is_none());
    let tools = s.result("tools/list", json!({}));
    assert!(tools["tools"][0].get("execution").is_none(), "{tools}");

    let mut s = ServerHarness::unintroduced(router().0);
    let initialized = s.result(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    let tasks = &initialized["capabilities"]["tasks"];
    assert_eq!(*tasks, json!({"cancel": {}, "requests": {"tools": {"call": {}}}}));
    s.notify("notifications/initialized", json!({}));
    let tools = s.result("tools/list", json!({}));
    assert_eq!(tools["tools"][0]["execution"]["taskSupport"], "optional");
    assert_eq!(tools["tools"][1]["execution"]["taskSupport"], "required");
    assert!(tools["tools"][2].get("execution").is_none());
}
