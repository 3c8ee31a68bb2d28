//! Owners and their quotas: none of them starves another.

use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use crate::common::front_http::{HttpHarness, ParkedHandlers, TestExchange, field};
use mcp_proto::front::tasks::{MemoryLimits, MemoryStore, TaskChoice, TaskConfig};
use mcp_proto::front::{Context, HandlerError, NoArguments, Router, UsedIds};
use mcp_proto::peer::Principal;
use mcp_proto::schema::{ElicitParams, ElicitSchema, Json, Map, Tool};
use serde_json::{Value, json};

fn address(number: u8) -> Option<IpAddr> {
    Some(IpAddr::from([192, 0, 2, number]))
}

const EVE: u8 = 66;

fn web(sessions: usize) -> HttpHarness {
    let tool = Tool::new("greet", "Greets", Json::empty_object());
    let router = Router::new("greeter", "1").tool_with(tool, async |NoArguments {}, _| "Hello");
    HttpHarness::configured(router, |config| config.max_sessions = sessions)
}

fn is_alive(web: &mut HttpHarness, session: &str) -> bool {
    let status = web.post_request(session, "ping", json!({})).head().status;
    assert!(status == 200 || status == 404, "{status}");
    status == 200
}

/// Opens a session as one of many: the driver is slow.
fn initialize(web: &HttpHarness) -> TestExchange {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    web.send("POST", &[], &body.to_string())
}

#[test]
fn client_that_opens_many_sessions_evicts_none_but_its_own() {
    let mut web = web(100);
    let others: Vec<String> = (1..=20)
        .map(|number| {
            web.client = address(number);
            web.open()
        })
        .collect();
    web.advance(Duration::from_secs(60));
    web.client = address(EVE);
    for _ in 0..50 {
        let callers: Vec<TestExchange> = (0..10).map(|_| initialize(&web)).collect();
        web.poll_driver();
        drop(callers);
    }
    let last = web.open();
    assert!(others.iter().all(|session| is_alive(&mut web, session)));
    assert!(is_alive(&mut web, &last), "the newest of its own");
    // A new client finds room, too.
    web.client = address(30);
    let newcomer = web.open();
    assert!(is_alive(&mut web, &newcomer) && others.iter().all(|session| is_alive(&mut web, session)));
}

#[test]
fn principals_are_owners_wherever_they_come_from() {
    let mut web = web(10);
    web.client = address(1);
    web.principal = Some(Principal::new("ada"));
    let ada = web.open();
    web.principal = Some(Principal::new("eve"));
    for number in 1..=30 {
        web.client = address(number);
        web.open();
    }
    web.principal = Some(Principal::new("ada"));
    assert!(is_alive(&mut web, &ada));
}

#[test]
fn client_with_busy_sessions_gives_one_up_for_a_newcomer() {
    let mut web = web(3);
    web.client = address(EVE);
    let sessions = [web.open(), web.open(), web.open()];
    let streams = sessions.each_ref().map(|session| {
        let mut events = web.get(session, None);
        events.poll_exchange();
        events
    });
    web.poll_driver();
    let mut refused = initialize(&web);
    assert_eq!((refused.head().status, field(&refused.head(), "retry-after")), (503, Some("5")));
    web.client = address(1);
    let newcomer = web.open();
    assert!(is_alive(&mut web, &newcomer));
    assert!(!is_alive(&mut web, &sessions[0]), "the oldest");
    assert!(is_alive(&mut web, &sessions[1]) && is_alive(&mut web, &sessions[2]));
    drop(streams);
}

fn worker(config: TaskConfig) -> (HttpHarness, ParkedHandlers) {
    let held = ParkedHandlers::default();
    let holding = held.clone();
    let tool = Tool::new("hold", "A tool", json!({"type": "object"}));
    let router = Router::new("worker", "1").tasks(config).task_tool(
        tool,
        TaskChoice::Required,
        move |NoArguments {}, cx: Context| holding.park(cx),
    );
    (HttpHarness::new(router), held)
}

fn begin(web: &mut HttpHarness) -> TestExchange {
    let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut caller = web.ask_with("tools/call", json!({"name": "hold"}), extension);
    for _ in 0..4 {
        caller.poll_exchange();
        web.poll_driver();
    }
    caller
}

#[track_caller]
fn assert_no_room(mut caller: TestExchange) {
    assert_eq!((caller.head().status, field(&caller.head(), "retry-after")), (503, Some("5")));
    assert_eq!(caller.json()["error"]["code"], -32603);
}

#[test]
fn client_with_many_running_tasks_leaves_room_for_others() {
    let mut config = TaskConfig::default();
    (config.running, config.running_each) = (10, 3);
    let (mut web, _held) = worker(config);
    web.client = address(EVE);
    (0..3).for_each(|_| assert_eq!(begin(&mut web).head().status, 200));
    assert_no_room(begin(&mut web));
    web.client = address(1);
    assert_eq!(begin(&mut web).head().status, 200);
}

#[test]
fn client_with_many_stored_tasks_leaves_room_for_others() {
    let mut config = TaskConfig::default();
    config.store = Arc::new(MemoryStore::new(MemoryLimits { tasks: 10, bytes: 1 << 20 }));
    let (mut web, _held) = worker(config);
    web.client = address(EVE);
    (0..6).for_each(|_| assert_eq!(begin(&mut web).head().status, 200));
    assert_no_room(begin(&mut web));
    web.client = address(1);
    assert_eq!(begin(&mut web).head().status, 200);
}

#[test]
fn server_never_forgets_used_states_for_new_ones() {
    let form = ElicitParams::form("Sure?", ElicitSchema::new(Map::new()));
    let tool = Tool::new("ask", "Asks", Json::empty_object());
    let router = Router::new("asker", "1").single_use(Arc::new(UsedIds::new(2))).tool_with(
        tool,
        move |NoArguments {}, cx: Context| {
            let form = form.clone();
            async move { Ok::<_, HandlerError>(cx.elicit("sure", form).await?.action.as_str()) }
        },
    );
    let mut web = HttpHarness::new(router);
    let mut attempt = |client: u8, state: Option<&Value>| {
        web.client = address(client);
        let mut params = json!({"name": "ask", "arguments": {}});
        if let Some(state) = state {
            params["requestState"] = state.clone();
            params["inputResponses"] = json!({"sure": {"action": "accept", "content": {}}});
        }
        web.ask_with("tools/call", params, json!({"elicitation": {"form": {}}}))
    };
    let states: Vec<Value> =
        (0..3).map(|_| attempt(EVE, None).json()["result"]["requestState"].clone()).collect();
    for state in &states[..2] {
        assert_eq!(attempt(EVE, Some(state)).json()["result"]["content"][0]["text"], "accept");
    }
    assert_no_room(attempt(EVE, Some(&states[2])));
    assert_eq!(attempt(EVE, Some(&states[0])).json()["error"]["code"], -32602, "still known");
}
