//! Which subscriptions receive which changes.

use mcp_proto::peer::server::{Event, ListKind, ServerConfig};
use mcp_proto::schema::ServerCapability;
use mcp_proto::schema::tasks::{TaskStatus, TaskUpdatedParams};
use serde_json::{Value, json};

use crate::common::server::{ServerHarness, config, initialize};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn listen(s: &mut ServerHarness, id: impl Into<Value>, filter: Value) -> Value {
    s.modern(id, "subscriptions/listen", json!({"notifications": filter}));
    s.line()
}

fn notifications(s: &mut ServerHarness) -> Vec<(String, Value)> {
    let told = |line: Value| {
        let subscription = line["params"]["_meta"][SUBSCRIPTION].clone();
        (line["method"].as_str().unwrap_or_default().to_string(), subscription)
    };
    s.lines().into_iter().map(told).collect()
}

/// S5.2, S5.3
#[test]
fn each_subscription_receives_changes_under_its_own_id() {
    let mut s = ServerHarness::new(config());
    assert_eq!(
        listen(&mut s, "one", json!({"toolsListChanged": true}))["params"]["_meta"][SUBSCRIPTION],
        "one"
    );
    listen(&mut s, 0, json!({"toolsListChanged": true, "promptsListChanged": true}));
    listen(&mut s, "", json!({"promptsListChanged": true}));
    s.server.at(s.now).list_changed(ListKind::Tools);
    let changed = "notifications/tools/list_changed".to_string();
    assert_eq!(notifications(&mut s), [(changed.clone(), json!("one")), (changed, json!(0))]);
    s.server.at(s.now).list_changed(ListKind::Prompts);
    let changed = "notifications/prompts/list_changed".to_string();
    assert_eq!(notifications(&mut s), [(changed.clone(), json!(0)), (changed, json!(""))]);
}

/// S5.1
#[test]
fn server_does_not_grant_undeclared_changes() {
    let mut config = ServerConfig::new(mcp_proto::schema::Implementation::new("s", "1"));
    config.capabilities = config.capabilities.with(ServerCapability::Tools);
    let mut s = ServerHarness::new(config);
    let asked = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["x://y"], "taskIds": ["t"], "somethingNew": true,
    });
    assert_eq!(listen(&mut s, 1, asked)["params"]["notifications"], json!({}));
    s.server.at(s.now).list_changed(ListKind::Tools);
    s.expect_silence();
}

#[test]
fn resource_named_twice_is_granted_and_reported_once() {
    let mut s = ServerHarness::new(config());
    let acknowledged = listen(&mut s, 1, json!({"resourceSubscriptions": ["a:", "b:", "a:"]}));
    assert_eq!(acknowledged["params"]["notifications"]["resourceSubscriptions"], json!(["a:", "b:"]));
    s.server.at(s.now).resource_updated("a:");
    assert_eq!(s.lines().len(), 1);
}

/// S1.7, S5.3: a server may serve both eras on one connection.
#[test]
fn subscription_receives_changes_beside_a_session_that_is_not_ready() {
    let mut s = ServerHarness::new(config());
    s.request_with_id(1, "initialize", initialize("2025-11-25"));
    s.line();
    listen(&mut s, 2, json!({"toolsListChanged": true}));
    let changed = |subscription: Value| [("notifications/tools/list_changed".to_string(), subscription)];
    s.server.at(s.now).list_changed(ListKind::Tools);
    assert_eq!(notifications(&mut s), changed(json!(2)));
    s.notify("notifications/initialized", json!({}));
    assert_eq!(notifications(&mut s), changed(Value::Null));
}

#[test]
fn new_session_receives_no_changes_of_the_session_that_it_replaces() {
    let mut s = ServerHarness::new(config());
    s.request_with_id(1, "initialize", initialize("2025-11-25"));
    s.server.at(s.now).list_changed(ListKind::Tools);
    s.request_with_id(2, "initialize", initialize("2025-11-25"));
    s.lines();
    s.notify("notifications/initialized", json!({}));
    s.expect_silence();
}

/// S6.1, S5.1
#[test]
fn ended_subscription_receives_no_changes() {
    let mut s = ServerHarness::new(config());
    listen(&mut s, 1, json!({"toolsListChanged": true, "resourceSubscriptions": ["a:"]}));
    s.notify("notifications/cancelled", json!({"requestId": 1}));
    s.server.at(s.now).list_changed(ListKind::Tools);
    s.server.at(s.now).resource_updated("a:");
    s.expect_silence();
    // The id is free again.
    assert_eq!(listen(&mut s, 1, json!({}))["method"], "notifications/subscriptions/acknowledged");
}

#[test]
fn application_learns_which_resources_have_subscribers() {
    let mut s = ServerHarness::legacy_at("2025-11-25");
    let edges = |s: &mut ServerHarness| -> Vec<(bool, String)> {
        let edge = |event| match event {
            Event::Subscribed { uri } => Some((true, uri)),
            Event::Unsubscribed { uri } => Some((false, uri)),
            _ => None,
        };
        s.events().into_iter().filter_map(edge).collect()
    };
    s.request_with_id(1, "resources/subscribe", json!({"uri": "a:"}));
    assert_eq!(edges(&mut s), [(true, "a:".into())]);
    s.request_with_id(2, "resources/subscribe", json!({"uri": "a:"}));
    s.modern(3, "subscriptions/listen", json!({"notifications": {"resourceSubscriptions": ["a:", "b:"]}}));
    assert_eq!(edges(&mut s), [(true, "b:".into())], "the first resource has a subscriber already");
    s.request_with_id(4, "resources/unsubscribe", json!({"uri": "a:"}));
    assert_eq!(edges(&mut s), [], "one subscriber remains");
    s.notify("notifications/cancelled", json!({"requestId": 3}));
    assert_eq!(edges(&mut s), [(false, "a:".into()), (false, "b:".into())]);
}

// --- Tasks ---

fn with_tasks() -> ServerHarness {
    let mut config = config();
    config.capabilities = config.capabilities.with(ServerCapability::TasksExtension);
    ServerHarness::new(config)
}

fn task(id: &str) -> TaskUpdatedParams {
    TaskUpdatedParams::new(id, TaskStatus::Working, "2026-08-01T00:00:00Z", "2026-08-01T00:00:00Z", None)
}

/// S11.6
#[test]
fn only_clients_with_the_extension_subscribe_to_tasks() {
    let mut s = with_tasks();
    s.modern(1, "subscriptions/listen", json!({"notifications": {"taskIds": ["t-1"]}}));
    let error = s.line()["error"].take();
    assert_eq!(error["code"], -32021);
    assert_eq!(error["data"]["requiredCapabilities"]["extensions"], json!({TASKS: {}}));
}

/// S11.7
#[test]
fn server_refuses_task_methods_of_clients_without_the_extension() {
    let mut s = with_tasks();
    let declared = json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {(TASKS): {}}}});
    for (id, method) in [(1, "tasks/get"), (2, "tasks/update"), (3, "tasks/cancel")] {
        let params = json!({"taskId": "t-1", "inputResponses": {}});
        // The second one repeats the `_meta` of the first.
        for _ in 0..2 {
            s.modern(id, method, params.clone());
            let error = s.line()["error"].take();
            assert_eq!(error["code"], -32021, "{method}");
            assert_eq!(error["data"]["requiredCapabilities"]["extensions"], json!({TASKS: {}}));
        }
        s.modern(id, method, json!({"taskId": "t-1", "inputResponses": {}, "_meta": declared}));
        s.request();
    }
}

/// S5.3, S11.10
#[test]
fn server_reports_a_task_to_subscriptions_that_name_it() {
    let mut s = with_tasks();
    let capabilities = json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}}});
    for (id, tasks) in [(1, json!(["t-1"])), (2, json!(["t-2"]))] {
        s.modern(
            id,
            "subscriptions/listen",
            json!({"notifications": {"taskIds": tasks}, "_meta": capabilities}),
        );
        assert_eq!(s.line()["params"]["notifications"]["taskIds"], tasks);
    }
    assert!(s.server.at(s.now).task_updated(&task("t-1")));
    let line = s.line();
    assert_eq!((&line["method"], &line["params"]["taskId"]), (&json!("notifications/tasks"), &json!("t-1")));
    assert_eq!(line["params"]["_meta"][SUBSCRIPTION], 1);
    assert!(!s.server.at(s.now).task_updated(&task("t-3")), "nobody listens");
    s.expect_silence();
}
