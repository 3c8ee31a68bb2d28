//! Starts, outages and ends of servers.

use std::io;
use std::time::Duration;

use mcp_hyper::host::{CallError, FileStorage, Host, HostEvent};
use mcp_hyper::mcp_proto::host::config::TimeoutOverrides;
use mcp_hyper::mcp_proto::host::control::{FailureKind, Repeat, Status};
use mcp_hyper::mcp_proto::host::tools::LookupError;
use mcp_hyper::mcp_proto::peer::client::Keepalive;
use serde_json::json;
use smol::Task;

use super::testbed::*;
use crate::common::cli;
use crate::common::runtime::within;
use crate::common::server::*;

/// F92, F95
#[test]
fn host_uses_programs_and_urls_under_names_for_a_model() {
    bounded(async {
        let folder = Folder::new();
        let (listener, address) = listener();
        let (_server, driver) = serving(router(&HandlerLog::default())).listen(listener);
        let serving = smol::spawn(within(driver));
        let servers = json!({
            "one": folder.demo("one"), "two": folder.demo("two"), "three": folder.demo("three"),
            "web": { "type": "http", "url": format!("http://{address}/mcp") },
        });
        let (host, driver) = start(options(config(servers)));
        host.ready().await;
        for server in host.servers() {
            assert_eq!(server.status, Status::Connected, "{server:?}");
        }
        for server in ["one", "two", "three"] {
            let sum =
                host.call_tool(&format!("mcp__{server}__add"), json!({ "a": 2, "b": 3 })).await.unwrap();
            assert_eq!(sum.text_content(), r#"{"sum":5}"#);
        }
        let echo = host.call_tool("mcp__web__echo", json!({ "message": "hello" })).await.unwrap();
        assert_eq!(echo.text_content(), "hello");
        let unknown = host.call_tool("mcp__web__other", json!({})).await.unwrap_err();
        assert!(matches!(unknown, CallError::Name(_)), "{unknown}");

        // No process is left.
        let processes: Vec<_> = ["one", "two", "three"].map(|name| folder.last_process(name)).into();
        host.close().await;
        driver.await.unwrap();
        assert!(processes.into_iter().all(|process| !is_running(process)));
        let closed = host.call_tool("mcp__web__echo", json!({ "message": "hello" })).await.unwrap_err();
        assert!(matches!(closed, CallError::Closed), "{closed}");
        serving.cancel().await;
    });
}

/// F71
#[test]
fn killed_program_is_started_again_and_its_tools_stay_visible() {
    bounded(async {
        let folder = Folder::new();
        let (host, _driver) = start(options(config(json!({ "one": folder.demo("one") }))));
        host.ready().await;
        let tools = tool_names(&host);
        assert!(tools.contains(&"mcp__one__echo".to_owned()), "{tools:?}");
        let process = folder.last_process("one");
        kill(process);
        until("the host has noticed", || status(&host, "one") != Status::Connected).await;
        assert_eq!(tool_names(&host), tools);
        // The call waits for the server.
        let echo = host.call_tool("mcp__one__echo", json!({ "text": "again" })).await.unwrap();
        assert_eq!(echo.text_content(), "again");
        assert_ne!(folder.last_process("one"), process);
        assert_eq!(tool_names(&host), tools);
        assert!(
            host.server("one").unwrap().failure.unwrap().reason.contains("signal"),
            "{:?}",
            host.servers()
        );
        host.close().await;
        assert!(!is_running(folder.last_process("one")));
    });
}

/// A legacy server without tools that answers no pings.
const HANGING: &str = r#"while ask; do case $line in
    *'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *server/discover*) refuse 'no' ;;
    *tools/list*) answer '{"tools":[]}' ;;
esac; done"#;

/// F68, F69, K2: by default, as an option of the host and as a member of an entry.
#[test]
fn server_that_answers_no_pings_is_connected_again_unless_its_pings_are_off() {
    bounded(async {
        let folder = Folder::new();
        let of = |name, pause| {
            let mut entry = folder.script(name, &cli::script(HANGING));
            entry["keepAliveMs"] = pause;
            entry
        };
        let servers = json!({ "hangs": of("hangs", 20.into()), "quiet": of("quiet", 0.into()) });
        let pings = Keepalive { timeout: Duration::from_millis(50), misses: 2, ..Keepalive::PRESET };
        let (host, mut events, _driver) = start_watched(options(config(servers)).keepalive(pings));
        host.ready().await;
        let failure = loop {
            let event = events.next().await.unwrap();
            if let HostEvent::Status { server, status: Some(Status::Reconnecting), failure, .. } = event {
                assert_eq!(&*server, "hangs");
                break failure.unwrap();
            }
        };
        assert!(failure.reason.contains("the peer stopped answering pings"), "{failure:?}");
        until("the server is started again", || folder.processes("hangs").len() > 1).await;
        assert_eq!((status(&host, "quiet"), folder.processes("quiet").len()), (Status::Connected, 1));
    });
}

#[test]
fn program_that_does_not_start_is_suspended_with_its_reason() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({
            "broken": folder.script("broken", "echo 'no database' >&2; exit 3"), "good": folder.demo("good"),
        });
        let (host, _driver) = start(options(config(servers)));
        host.ready().await;
        let call = host.call_tool("mcp__good__echo", json!({ "text": "hello" }));
        assert_eq!(call.await.unwrap().text_content(), "hello");
        until_status(&host, "broken", Status::Suspended).await;
        let failure = host.server("broken").unwrap().failure.unwrap();
        assert!(failure.reason.contains('3') && failure.stderr.contains("no database"), "{failure:?}");
        assert_eq!(host.server("broken").unwrap().attempts, 4);
        let ping = host.request::<mcp_hyper::mcp_proto::schema::Ping>("broken", Default::default());
        let refused = ping.await.unwrap_err();
        assert!(refused.is_unsent() && refused.to_string().contains("suspended"), "{refused}");
        // It may be tried again.
        let starts = folder.processes("broken").len();
        host.reconnect("broken").unwrap();
        until("it was tried again", || folder.processes("broken").len() > starts).await;
    });
}

#[test]
fn server_that_cannot_work_as_configured_is_not_tried_again() {
    bounded(async {
        let servers = json!({
            "missing": { "command": "/nonexistent/program", "args": ["--key=hunter2"] },
            "variable": { "command": "true", "args": ["${MCP_HOST_TEST_UNSET}"] },
            "pattern": { "command": "true", "enabledTools": [""] },
            "login": { "url": "http://127.0.0.1:1/mcp" },
        });
        let (host, _driver) = start(options(config(servers)));
        host.ready().await;
        for (name, reason) in [("missing", "no such file"), ("variable", "MCP_HOST_TEST_UNSET")] {
            let server = host.server(name).unwrap();
            let failure = server.failure.unwrap();
            assert_eq!(
                (server.status, failure.kind),
                (Status::Failed, FailureKind::Permanent),
                "{failure:?}"
            );
            // Arguments may be secrets.
            assert!(failure.reason.contains(reason) && !failure.reason.contains("hunter2"), "{failure:?}");
            assert_eq!(server.attempts, 1);
        }
    });
}

#[test]
fn server_that_requires_a_login_says_so() {
    bounded(async {
        let testbed = crate::common::auth_testbed::AuthTestbed::new().await;
        let (host, _driver) = start(options(config(json!({ "web": { "url": testbed.url() } }))));
        host.ready().await;
        assert_eq!(status(&host, "web"), Status::NeedsAuthorization, "{:?}", host.servers());
    });
}

/// F83, F89
#[test]
fn reload_touches_only_what_changed() {
    bounded(async {
        let folder = Folder::new();
        let before = json!({ "same": folder.demo("same"), "changed": folder.demo("changed"), "gone": folder.demo("gone") });
        let (host, _driver) = start(options(config(before.clone())));
        host.ready().await;
        let mut events = host.events();
        let gone = folder.last_process("gone");
        let mut after = before;
        after.as_object_mut().unwrap().remove("gone");
        after["same"]["timeout"] = json!(5000);
        after["changed"]["env"] = json!({ "X": "1" });
        after["new"] = folder.demo("new");
        host.reload(&config(after));
        until("all are as configured", || {
            let connected = ["same", "changed", "new"]
                .iter()
                .all(|name| host.server(name).is_some_and(|server| server.status == Status::Connected));
            connected && !is_running(gone)
        })
        .await;
        assert_eq!(folder.processes("same").len(), 1);
        assert_eq!(folder.processes("changed").len(), 2);
        assert!(host.server("gone").is_none());
        assert!(!tool_names(&host).iter().any(|name| name.starts_with("mcp__gone__")));
        let mut removed = false;
        while let Some(Some(event)) = smol::future::poll_once(events.next()).await {
            removed |=
                matches!(&event, HostEvent::Status { server, status: None, .. } if **server == *"gone");
        }
        assert!(removed);
        // A connection that comes later brings its tools, and one server is connected again by its name.
        assert!(tool_names(&host).contains(&"mcp__new__echo".to_owned()));
        host.reconnect("same").unwrap();
        until("it is connected again", || {
            folder.processes("same").len() == 2 && status(&host, "same") == Status::Connected
        })
        .await;
    });
}

#[test]
fn switched_off_server_ends_and_starts_again_when_switched_on() {
    bounded(async {
        let folder = Folder::new();
        let (host, _driver) = start(options(config(json!({ "one": folder.demo("one") }))));
        host.ready().await;
        host.set_enabled("one", false).unwrap();
        until("it has ended", || !is_running(folder.last_process("one"))).await;
        assert_eq!(status(&host, "one"), Status::Disabled);
        host.set_enabled("one", true).unwrap();
        until_status(&host, "one", Status::Connected).await;
    });
}

/// Starts a host of one server, `lazy`, which is lazy, and whose lists another host has stored.
async fn start_lazy(folder: &Folder) -> (Host, Task<io::Result<()>>) {
    let mut lazy = folder.demo("lazy");
    lazy["lazy"] = json!(true);
    let options = || {
        let storage = FileStorage::in_folder(folder.path().join("state"));
        options(config(json!({ "lazy": lazy }))).storage(storage)
    };
    let (first, driver) = start(options());
    first.ready().await;
    assert_eq!(status(&first, "lazy"), Status::Connected, "{:?}", first.servers());
    assert!(tool_names(&first).contains(&"mcp__lazy__echo".to_owned()));
    first.close().await;
    driver.await.unwrap();
    let started = start(options());
    started.0.ready().await;
    started
}

#[test]
fn lazy_server_starts_once_for_its_lists_then_with_its_first_call() {
    bounded(async {
        let folder = Folder::new();
        let (host, _driver) = start_lazy(&folder).await;
        assert_eq!(status(&host, "lazy"), Status::Idle);
        assert_eq!(folder.processes("lazy").len(), 1);
        let echo = host.call_tool("mcp__lazy__echo", json!({ "text": "hello" })).await.unwrap();
        assert_eq!(echo.text_content(), "hello");
        assert_eq!(folder.processes("lazy").len(), 2);
    });
}

#[test]
fn lazy_server_that_does_not_list_its_tools_is_not_tried_again_before_a_call() {
    bounded(async {
        let folder = Folder::new();
        let mut lazy = folder.script("lazy", "exit 3");
        lazy["lazy"] = json!(true);
        let (host, _driver) = start(options(config(json!({ "lazy": lazy }))));
        host.ready().await;
        let server = host.server("lazy").unwrap();
        assert_eq!((server.status, server.next_attempt), (Status::Idle, None), "{server:?}");
        assert!(server.failure.unwrap().reason.contains('3'));
    });
}

#[test]
fn held_lazy_server_starts_without_a_call() {
    bounded(async {
        let folder = Folder::new();
        let (host, _driver) = start_lazy(&folder).await;
        assert_eq!(status(&host, "lazy"), Status::Idle);
        let hold = host.hold("lazy").unwrap();
        until_status(&host, "lazy", Status::Connected).await;
        drop(hold);
        assert!(host.hold("none").is_err());
    });
}

#[test]
fn driver_ends_with_the_last_handle() {
    bounded(async {
        let folder = Folder::new();
        let (host, driver) = start(options(config(json!({ "one": folder.demo("one") }))));
        host.ready().await;
        let process = folder.last_process("one");
        drop(host);
        driver.await.unwrap();
        assert!(!is_running(process));
    });
}

#[test]
fn server_at_a_url_that_was_away_answers_again() {
    bounded(async {
        let (first, address) = listener();
        let (_server, driver) = serving(router(&HandlerLog::default())).listen(first);
        let serving_first = smol::spawn(within(driver));
        let servers = json!({ "web": { "url": format!("http://{address}/mcp") } });
        let (host, _driver) = start(options(config(servers)));
        host.ready().await;
        let tools = tool_names(&host);
        drop(serving_first.cancel().await);
        assert_eq!(tool_names(&host), tools);
        let mut call = host.call_tool("mcp__web__echo", json!({ "message": "back" })).repeat(Repeat::IfLost);
        assert!(smol::future::poll_once(&mut call).await.is_none());
        let mut bound = std::net::TcpListener::bind(address);
        until("the port is free", || {
            if bound.is_err() {
                bound = std::net::TcpListener::bind(address);
            }
            bound.is_ok()
        })
        .await;
        let again = crate::common::runtime::server_listener(bound.unwrap());
        let (_server, driver) = serving(router(&HandlerLog::default())).listen(again);
        let _serving = smol::spawn(within(driver));
        assert_eq!(call.await.unwrap().text_content(), "back");
    });
}

/// A program that serves the demo after half a second.
fn slow(folder: &Folder) -> serde_json::Value {
    let program = crate::common::cli::program();
    folder.script("slow", &format!("sleep 0.5; exec '{}' serve", program.display()))
}

#[test]
fn ready_waits_for_servers_that_start_after_the_gate() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({ "slow": slow(&folder), "broken": folder.script("broken", "exit 3") });
        let options = options(config(servers)).control(|control| control.startup_gate = Duration::ZERO);
        let (host, mut events, _driver) = start_watched(options);
        host.wait_for_gate().await;
        assert_eq!((status(&host, "slow"), tool_names(&host)), (Status::Starting, vec![]));
        while !matches!(events.next().await.unwrap(), HostEvent::GatePassed) {}
        host.ready().await;
        assert_eq!(status(&host, "slow"), Status::Connected);
        assert!(tool_names(&host).contains(&"mcp__slow__echo".to_owned()));
        assert!(host.server("broken").unwrap().failure.is_some());
        // Also for those of a new configuration.
        let mut other = slow(&folder);
        other["env"] = json!({ "X": "1" });
        host.reload(&config(json!({ "slow": other })));
        host.ready().await;
        assert_eq!(status(&host, "slow"), Status::Connected);
    });
}

#[test]
fn ready_waits_no_longer_than_the_start_timeout() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({ "hanging": folder.script("hanging", "exec sleep 1000") });
        let timeouts =
            TimeoutOverrides::from_variables(|name| (name == "MCP_TIMEOUT").then(|| "100".into())).unwrap();
        let (host, _driver) = start(options(config(servers)).timeouts(timeouts));
        host.ready().await;
        assert_eq!(status(&host, "hanging"), Status::Reconnecting);
    });
}

/// F79
#[test]
fn call_waits_for_a_configured_server_that_has_not_listed_its_tools() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({ "slow": slow(&folder), "broken": { "command": "/nonexistent/program" } });
        let (host, _driver) =
            start(options(config(servers)).control(|control| control.startup_gate = Duration::ZERO));
        host.wait_for_gate().await;
        let unknown = host.call_tool("mcp__other__echo", json!({})).await.unwrap_err();
        assert!(matches!(unknown, CallError::Name(LookupError::Unknown)), "{unknown}");
        assert_eq!(tool_names(&host), [""; 0]);
        let echo = host.call_tool("mcp__slow__echo", json!({ "text": "hello" }));
        let missing = host.call_tool("mcp__slow__missing", json!({}));
        let (echo, missing) = smol::future::zip(echo, missing).await;
        assert_eq!(echo.unwrap().text_content(), "hello");
        let missing = missing.unwrap_err();
        assert!(matches!(missing, CallError::Name(LookupError::Unknown)) && missing.is_unsent(), "{missing}");
        // A server that cannot start says so.
        let broken = host.call_tool("mcp__broken__echo", json!({})).await.unwrap_err();
        assert!(broken.to_string().contains("no such file"), "{broken}");
    });
}

/// F90
#[test]
fn ready_returns_once_a_removed_server_is_gone() {
    bounded(async {
        let folder = Folder::new();
        let options = options(config(json!({ "one": folder.demo("one") })))
            .control(|control| control.grace = Duration::from_millis(200));
        let (host, _driver) = start(options);
        host.ready().await;
        let call = super::calls::endless(&host).await;
        let mut other = folder.demo("one");
        other["env"] = json!({ "OTHER": "1" });
        host.reload(&config(json!({ "one": other })));
        host.reload(&config(json!({})));
        let waiting = host.clone();
        let ready = smol::spawn(async move { waiting.ready().await });
        assert!(call.await.is_err());
        until("it has ended", || folder.processes("one").into_iter().all(|it| !is_running(it))).await;
        ready.await;
        assert!(host.servers().is_empty());
    });
}
