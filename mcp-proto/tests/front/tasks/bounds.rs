//! Limits of tasks in number, size and time.

use super::*;

/// S11.11: an ended task is stored for its ttl, and no longer.
#[test]
fn task_that_outlives_its_ttl_fails_and_is_dropped() {
    let store = store();
    let mut config = stored_in(&store);
    config.ttl = Duration::from_secs(60);
    let (router, gate) = router_with(config);
    let mut s = ServerHarness::modern_with(router, with_extension());
    let id = begin(&mut s, "hold")["taskId"].clone();
    s.send("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
    s.line();
    assert_eq!(s.driver.next_timeout().unwrap().since_origin(), Duration::from_secs(60));

    s.advance(Duration::from_secs(60));
    assert_eq!(s.line()["params"]["status"], "failed");
    assert_eq!(gate.dropped(), 1);
    assert_eq!(s.error("tasks/get", json!({"taskId": id}))["code"], -32602);
    s.advance(Duration::from_secs(60));
    assert!(store.is_empty());
    s.advance(Duration::from_secs(60));
    assert_eq!(s.driver.next_timeout(), None);
}

#[test]
fn server_limits_the_number_of_running_tasks() {
    let mut config = TaskConfig::default();
    config.running = 2;
    let (router, gate) = router_with(config);
    let mut s = ServerHarness::modern_with(router, with_extension());
    begin(&mut s, "hold");
    begin(&mut s, "hold");
    assert_eq!(s.error("tools/call", json!({"name": "hold"}))["code"], -32603);
    gate.open(text("done"));
    s.turn();
    begin(&mut s, "hold");
}

/// A store that is full refuses the call; a result that does not fit fails the task.
#[test]
fn server_refuses_tasks_and_results_that_do_not_fit_the_store() {
    let mut config = TaskConfig::default();
    config.store = Arc::new(MemoryStore::new(MemoryLimits { tasks: 1, bytes: 2000 }));
    let (router, gate) = router_with(config);
    let mut s = ServerHarness::modern_with(router, with_extension());
    let id = begin(&mut s, "hold")["taskId"].clone();
    assert_eq!(s.error("tools/call", json!({"name": "hold"}))["code"], -32603);
    assert!(gate.has_begun());
    gate.open(text(&"x".repeat(5000)));
    let task = get(&mut s, &id);
    assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32603)));
}

#[test]
fn end_of_the_connection_ends_its_tasks() {
    let store = store();
    let (router, gate) = router_with(stored_in(&store));
    let mut s = ServerHarness::modern_with(router, with_extension());
    let id = begin(&mut s, "hold")["taskId"].as_str().unwrap().to_owned();
    drop(s);
    assert_eq!(gate.dropped(), 1);
    let kept = futures_lite::future::block_on(store.get(&id)).unwrap().unwrap();
    assert!(matches!(kept.state, StoredTaskState::Failed(_)), "{kept:?}");
}

#[test]
fn call_cancelled_before_its_response_leaves_no_task() {
    let (router, gate) = router();
    let mut s = ServerHarness::modern_with(router, with_extension());
    // The driver has not run yet.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": with_extension(),
    });
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hold", "_meta": meta}});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "_meta": meta}});
    let text = format!("{call}\n{cancel}\n");
    s.driver.lock(|machine, now| machine.handle_input(now, mcp_proto::Bytes::from(text)));
    s.expect_silence();
    assert!(!gate.has_begun() || gate.dropped() == 1);
}

/// S11.9, S10.9
#[test]
fn tasks_have_identifiers_of_128_random_bits() {
    use crate::common::polling::CountingEntropy;
    use mcp_proto::adapter::Entropy as _;

    // The server draws from the same sequence.
    let drawn = |start| {
        let mut bytes = [0_u8; 16];
        CountingEntropy::new(start).fill(&mut bytes);
        bytes.map(|byte| format!("{byte:02x}")).concat()
    };
    let (mut s, _gate) = modern();
    let ids: Vec<Value> = (0..3).map(|_| begin(&mut s, "hold")["taskId"].clone()).collect();
    for id in &ids {
        let id = id.as_str().unwrap();
        assert!(id.len() == 32 && (1..1000).any(|start| drawn(start) == id), "{id}");
    }
    assert!(ids[0] != ids[1] && ids[1] != ids[2]);
}

/// S11.9
#[test]
fn task_of_another_owner_does_not_exist() {
    use mcp_proto::peer::Principal;
    let (router, gate) = router();
    let mut s = ServerHarness::modern_with(router, with_extension());
    let principal = |s: &mut ServerHarness, name: Option<&str>| {
        let principal = name.map(Principal::new);
        s.driver.lock(|machine, now| machine.at(now).set_principal(principal));
    };
    principal(&mut s, Some("alice"));
    let id = begin(&mut s, "hold")["taskId"].clone();
    for who in [Some("bob"), None] {
        principal(&mut s, who);
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let error = s.error(method, json!({"taskId": id, "inputResponses": {}}));
            assert_eq!(error["code"], -32602, "{who:?} {method}");
        }
        s.send("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
        assert_eq!(s.line()["params"]["notifications"], json!({"taskIds": []}));
    }
    gate.open(text("done"));
    s.expect_silence();
    principal(&mut s, Some("bob"));
    assert_eq!(s.error("tasks/get", json!({"taskId": id}))["code"], -32602);
    principal(&mut s, Some("alice"));
    assert_eq!(get(&mut s, &id)["status"], "completed");
}
