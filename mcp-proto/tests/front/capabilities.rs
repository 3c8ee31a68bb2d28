//! Experimental capabilities, and the names of loggers.

use std::sync::{Arc, Mutex};

use crate::common::front::ClientHarness;
use crate::common::front_http::HttpHarness;
use crate::common::messages::{LEGACY, discover_result, initialize_result};
use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{ClientHandlers, Context, NoArguments, Router, RouterError};
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::schema::{Extension, ListRootsResult, LoggingLevel, ServerCapability};
use serde_json::{Value, json};

#[test]
fn server_declares_experimental_capabilities_in_every_revision() {
    let router = || Router::new("plotter", "1").experimental("charts", json!({"formats": ["svg"]}));
    let declared = json!({"charts": {"formats": ["svg"]}});
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut s = ServerHarness::unintroduced(router());
        let answer = s.result(
            "initialize",
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}),
        );
        assert_eq!(answer["capabilities"]["experimental"], declared, "{version}");
    }
    let mut s = ServerHarness::modern(router());
    assert_eq!(s.result("server/discover", json!({}))["capabilities"]["experimental"], declared);
}

#[test]
fn settings_of_an_experimental_capability_are_an_object() {
    let router = Router::new("plotter", "1").experimental("charts", true);
    assert_eq!(router.check(), Err(RouterError::Experimental { name: "charts".into() }));
}

#[test]
fn handler_reads_the_experimental_capabilities_of_its_client() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let router = Router::new("x", "1").tool_with(tool("look"), move |NoArguments {}, cx: Context| {
        let settings = cx.experimental("charts").map(|settings| settings.as_str().to_owned());
        log.lock().unwrap().push((settings, cx.experimental("other").is_some()));
        async { "done" }
    });
    let router = Arc::new(router);
    let declared = json!({"experimental": {"charts": {"formats": ["svg"]}}});
    ServerHarness::modern_with(router.clone(), declared.clone()).call("look", json!({}));
    ServerHarness::legacy_shared(router, "2024-11-05", declared).call("look", json!({}));
    let expected = (Some(r#"{"formats":["svg"]}"#.to_owned()), false);
    assert_eq!(*seen.lock().unwrap(), [expected.clone(), expected]);
}

#[test]
fn client_declares_and_reads_experimental_capabilities() {
    let handlers = || ClientHandlers::new().experimental("charts", json!({"formats": []}));
    let declares = |mut result: Value| {
        result["capabilities"]["experimental"] = json!({"tables": {}});
        result
    };
    let own = json!({"charts": {"formats": []}});

    let mut s = ClientHarness::open(crate::common::front::config(), handlers());
    let probe = s.line();
    let capabilities = &probe["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(capabilities["experimental"], own, "{probe}");
    s.answer(&probe["id"], declares(discover_result()));
    let server = s.client.server().unwrap().capabilities.clone().unwrap();
    assert_eq!(server.experimental("tables").unwrap().as_str(), "{}");
    assert!(server.experimental("charts").is_none());

    let mut config = crate::common::front::config();
    config.era_policy = EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(config, handlers());
    let initialize = s.line();
    assert_eq!(initialize["params"]["capabilities"]["experimental"], own);
    s.answer(&initialize["id"], declares(initialize_result(LEGACY)));
    assert!(s.client.server().unwrap().capabilities.as_ref().unwrap().experimental("tables").is_some());
}

// --- Loggers ---

/// S8.18
#[test]
fn handler_logs_under_the_name_of_a_logger() {
    let router = || {
        Router::new("x", "1").declare(ServerCapability::Logging).tool_with(
            tool("log"),
            async |NoArguments {}, cx: Context| {
                cx.log_as(LoggingLevel::Error, "database", json!({"lost": true}));
                cx.log_as(LoggingLevel::Debug, "database", "too little");
                cx.log(LoggingLevel::Error, "unnamed");
                "done"
            },
        )
    };
    let named = json!({"level": "error", "logger": "database", "data": {"lost": true}});
    let unnamed = json!({"level": "error", "data": "unnamed"});
    let level = json!({"io.modelcontextprotocol/logLevel": "info"});
    let params = json!({"name": "log", "_meta": level});
    for mut s in [ServerHarness::modern(router()), ServerHarness::legacy(router())] {
        s.send("tools/call", params.clone());
        assert_eq!((&s.line()["params"], &s.line()["params"]), (&named, &unnamed));
        assert!(s.line()["result"].is_object());
    }
    let mut web = HttpHarness::new(router());
    let mut caller = web.ask("tools/call", params);
    assert_eq!((&caller.message()["params"], &caller.message()["params"]), (&named, &unnamed));
    let session = web.open();
    let mut caller = web.post_request(&session, "tools/call", json!({"name": "log"}));
    assert_eq!(caller.message()["params"], named);
}

#[test]
fn handler_of_a_legacy_task_logs_under_the_name_of_a_logger() {
    let router = Router::new("x", "1")
        .declare(ServerCapability::Logging)
        .tasks(TaskConfig::default())
        .task_tool(tool("log"), TaskChoice::Optional, async |NoArguments {}, cx: Context| {
            cx.log_as(LoggingLevel::Error, "database", "lost");
            "done"
        });
    let mut s = ServerHarness::legacy(router);
    s.send("tools/call", json!({"name": "log", "task": {}}));
    let lines: Vec<Value> = std::iter::from_fn(|| s.try_line()).collect();
    let logged = lines.iter().find(|line| line["method"] == "notifications/message").expect("a log message");
    assert_eq!(
        (&logged["params"]["logger"], &logged["params"]["data"]),
        (&json!("database"), &json!("lost"))
    );
}

/// What a client declares does not depend on the order in which it is registered.
#[test]
fn handlers_keep_what_was_declared_before_them() {
    let printing = Extension::new("com.example/printing").unwrap();
    let handlers = ClientHandlers::new()
        .experimental("charts", json!({"formats": []}))
        .with_extension(printing)
        .roots(async |_, _| ListRootsResult::new(Vec::new()));
    let declared = handlers.capabilities();
    assert!(declared.experimental("charts").is_some() && declared.roots.is_some());
    assert!(declared.has_extension("com.example/printing"));
}
