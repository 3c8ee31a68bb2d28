//! Extensions that are checked together: what they need and provide, and what excludes each other.

use core::task::{Context as TaskContext, Poll, Waker};
use std::sync::Arc;

use crate::common::front::{ClientHarness, config};
use crate::common::messages::discover_result;
use crate::common::polling::TestClock;
use crate::common::router::ServerHarness;
use mcp_proto::Instant;
use mcp_proto::adapter;
use mcp_proto::front::{ClientHandlers, Error, Router, RouterError};
use mcp_proto::peer::RequestError;
use mcp_proto::peer::client::{ClientConfig, CloseReason, ConnectError, State};
use mcp_proto::peer::server::ServerConfig;
use mcp_proto::schema::{
    BUILT_IN_EXTENSIONS, ClientCapability, CustomResult, Direction, Extension, ExtensionError,
    ExtensionMethod, Implementation, Requirement, ServerCapability, apps, skills, tasks,
};
use mcp_proto::transport::StreamClient;
use mcp_proto::transport::http::client::{HttpClient, HttpClientConfig};
use serde_json::json;

fn extension(identifier: &str) -> Extension {
    Extension::new(identifier).unwrap()
}

fn method(name: &str) -> ExtensionMethod {
    ExtensionMethod::new(name)
}

const A: &str = "com.example/a";
const B: &str = "com.example/b";

fn redefined(identifier: &str, name: &str, owner: Option<&str>) -> ExtensionError {
    ExtensionError::Redefined {
        identifier: identifier.into(),
        name: name.into(),
        owner: owner.map(Into::into),
    }
}

fn missing(identifier: &str, needed: impl Into<Requirement>) -> ExtensionError {
    ExtensionError::Missing { identifier: identifier.into(), needed: needed.into() }
}

/// Extensions that neither a client nor a server can use together.
fn invalid() -> Vec<(Vec<Extension>, ExtensionError)> {
    let tasks = Some(tasks::EXTENSION);
    vec![
        (vec![extension(A), extension(A)], ExtensionError::Duplicate { identifier: A.into() }),
        (vec![extension(A).with_settings(7)], ExtensionError::Settings { identifier: A.into() }),
        (
            vec![extension(A), extension(B).with_conflict(A)],
            ExtensionError::Conflict { identifier: B.into(), other: A.into() },
        ),
        (vec![extension(A).with_need(Requirement::extension(B))], missing(A, Requirement::extension(B))),
        (vec![extension(A).with_method(method("tools/call"))], redefined(A, "tools/call", None)),
        (vec![extension(A).with_method(method("skills/list"))], redefined(A, "skills/list", None)),
        (
            vec![
                extension(A).with_method(method("x").in_direction(Direction::Both)).with_method(method("x")),
            ],
            redefined(A, "x", Some(A)),
        ),
        (vec![extension(A).with_method(method("tasks/list"))], redefined(A, "tasks/list", tasks)),
        (vec![extension(A).with_method(method("tasks/own"))], redefined(A, "tasks/own", tasks)),
        (
            vec![extension(A).with_notification("notifications/tasks/own", Direction::ServerToClient)],
            redefined(A, "notifications/tasks/own", tasks),
        ),
        (
            vec![extension(A).with_notification("notifications/progress", Direction::ServerToClient)],
            redefined(A, "notifications/progress", None),
        ),
        (vec![extension(A).with_result_type("complete")], redefined(A, "complete", None)),
        (vec![extension(A).with_result_type("task")], redefined(A, "task", tasks)),
        (
            vec![extension(A).with_method(method("a/print")), extension(B).with_method(method("a/print"))],
            redefined(B, "a/print", Some(A)),
        ),
        (
            vec![extension(A).with_result_type("a/queued"), extension(B).with_result_type("a/queued")],
            redefined(B, "a/queued", Some(A)),
        ),
        (
            vec![extension(apps::EXTENSION).with_method(method("a/b"))],
            ExtensionError::BuiltIn { identifier: apps::EXTENSION.into() },
        ),
    ]
}

fn router(extensions: Vec<Extension>) -> Router {
    extensions.into_iter().fold(Router::new("server", "1"), Router::with_extension)
}

fn handlers(extensions: Vec<Extension>) -> ClientHandlers {
    extensions.into_iter().fold(ClientHandlers::new(), ClientHandlers::with_extension)
}

/// C2.9
#[test]
fn router_refuses_extensions_that_cannot_be_used_together() {
    for (extensions, error) in invalid() {
        let mut config = ServerConfig::new(Implementation::new("server", "1"));
        config.extensions.clone_from(&extensions);
        assert_eq!(config.check(), Err(error.clone()));
        assert_eq!(router(extensions).check(), Err(RouterError::Extensions { error: error.clone() }));
        assert!(
            error.to_string().contains("com.example/a") || error.to_string().contains("built in"),
            "{error}"
        );
    }
    let needing = extension(A).with_need(ServerCapability::Resources).with_need(ClientCapability::Roots);
    let error = missing(A, ServerCapability::Resources);
    assert_eq!(router(vec![needing.clone()]).check(), Err(RouterError::Extensions { error }));
    assert_eq!(router(vec![needing]).declare(ServerCapability::Resources).check(), Ok(()));
    let twice = Router::new("server", "1").extension(A, json!({"a": 1})).with_extension(extension(A));
    let error = ExtensionError::Duplicate { identifier: A.into() };
    assert_eq!(twice.check(), Err(RouterError::Extensions { error }));
}

#[test]
fn extensions_that_fit_are_used_together() {
    let fitting = || {
        vec![
            extension(A)
                .with_method(method("a/do"))
                .with_notification("a/done", Direction::ServerToClient)
                .with_conflict("com.example/c")
                .with_need(Requirement::extension(B)),
            // The other direction is another method.
            extension(B)
                .with_method(method("a/do").in_direction(Direction::ServerToClient))
                .with_notification("a/done", Direction::ClientToServer),
            extension(apps::EXTENSION).with_settings(apps::settings()),
        ]
    };
    assert_eq!(router(fitting()).check(), Ok(()));
    let mut client = ClientConfig::new(Implementation::new("client", "1"));
    client.extensions = fitting();
    assert_eq!(client.check(), Ok(()));
}

/// Nothing is sent: the link is not even opened.
#[test]
fn client_with_invalid_extensions_sends_nothing() {
    for (extensions, error) in invalid() {
        let closed = CloseReason::Connect(ConnectError::Extensions(error.clone()));
        let clock = Arc::new(TestClock::default());
        let (client, mut driver) =
            adapter::client(StreamClient::new(config()), clock, handlers(extensions.clone()));
        let refused = client.request_custom("a/b", ()).start().map(|_| ()).unwrap_err();
        assert!(matches!(refused, Error::Closed(reason) if reason == closed));
        let mut cx = TaskContext::from_waker(Waker::noop());
        let _: Poll<()> = driver.poll(&mut cx, |machine, _| {
            assert_ne!(machine.poll_link(), Some(mcp_proto::peer::client::LinkAction::Open));
            assert!(!machine.poll_transmit(&mut Vec::new()));
            Poll::Pending
        });
        assert_eq!(client.state(), State::Disconnected);

        let http = HttpClientConfig::new(config(), "http://localhost/mcp");
        let machine = HttpClient::new(http, Instant::ORIGIN).unwrap();
        let (client, mut driver) =
            adapter::client(machine, Arc::new(TestClock::default()), handlers(extensions));
        let _: Poll<()> = driver.poll(&mut cx, |machine, _| {
            let action = machine.poll_action();
            assert!(action.is_none(), "{action:?}");
            Poll::Pending
        });
        assert_eq!(client.state(), State::Disconnected);
    }
}

/// C2.9: of the other side, what an extension needs must be declared too.
#[test]
fn extension_is_negotiated_with_peers_that_declare_what_it_needs() {
    let printing = || {
        extension(A)
            .with_method(method("a/print"))
            .with_need(ServerCapability::Resources)
            .with_need(ClientCapability::ElicitationForm)
            .with_need(Requirement::extension(B))
    };
    let declared = |extensions: serde_json::Value, resources: bool| {
        let handlers = ClientHandlers::new()
            .declare(|declared| *declared = core::mem::take(declared).with(ClientCapability::ElicitationForm))
            .elicitation(async |_, _| {
                mcp_proto::schema::ElicitResult::new(mcp_proto::schema::ElicitAction::Decline)
            })
            .with_extension(extension(B))
            .with_extension(printing());
        let mut client = ClientHarness::open(config(), handlers);
        let id = client.expect("server/discover");
        let mut discovered = discover_result();
        discovered["capabilities"]["extensions"] = extensions;
        if !resources {
            discovered["capabilities"].as_object_mut().unwrap().remove("resources");
        }
        client.answer(&id, discovered);
        client.client.request_custom("a/print", ()).start().map(|_| ())
    };
    declared(json!({A: {}, B: {}}), true).unwrap();
    for (extensions, resources) in
        [(json!({A: {}}), true), (json!({A: {}, B: {}}), false), (json!({B: {}}), true)]
    {
        let refused = declared(extensions, resources);
        assert!(matches!(refused, Err(Error::NotSent(RequestError::Extension { .. }))), "{refused:?}");
    }

    let serving = || {
        Router::new("printer", "1")
            .declare(ServerCapability::Resources)
            .with_extension(extension(B))
            .with_extension(printing())
            .custom("a/print", async |_, _| CustomResult::new())
    };
    let complete = json!({"elicitation": {"form": {}}, "extensions": {A: {}, B: {}}});
    ServerHarness::modern_with(serving(), complete).result("a/print", json!({}));
    let mut server = ServerHarness::modern_with(serving(), json!({"extensions": {A: {}}}));
    let error = server.error("a/print", json!({}));
    assert_eq!(error["code"], -32021);
    let required = json!({"elicitation": {"form": {}}, "extensions": {A: {}, B: {}}});
    assert_eq!(error["data"]["requiredCapabilities"], required);
}

#[test]
fn extension_declares_what_it_provides() {
    let providing = || {
        extension(A)
            .with_provided(ServerCapability::ResourcesSubscribe)
            .with_provided(ClientCapability::RootsListChanged)
            .with_provided(Requirement::extension(B))
            .with_need(Requirement::extension(B))
    };
    let router = router(vec![providing()]);
    assert_eq!(router.check(), Ok(()));
    let declared = serde_json::to_value(router.capabilities()).unwrap();
    assert_eq!(declared, json!({"resources": {"subscribe": true}, "extensions": {A: {}, B: {}}}));
    let client =
        handlers(vec![providing()]).roots(async |_, _| mcp_proto::schema::ListRootsResult::new(Vec::new()));
    let declared = serde_json::to_value(client.capabilities()).unwrap();
    assert_eq!(declared, json!({"roots": {"listChanged": true}, "extensions": {A: {}, B: {}}}));
}

#[test]
fn built_in_extensions_are_declared_and_checked_like_others() {
    let identifiers: Vec<_> = BUILT_IN_EXTENSIONS.iter().map(|extension| extension.identifier).collect();
    for identifier in [tasks::EXTENSION, apps::EXTENSION, skills::EXTENSION] {
        assert!(identifiers.contains(&identifier));
    }
    let mut config = ServerConfig::new(Implementation::new("server", "1"));
    config.capabilities = config.capabilities.with(ServerCapability::SkillsExtension);
    let error = missing(skills::EXTENSION, ServerCapability::Resources);
    assert_eq!(config.check(), Err(error));
    config.capabilities = config.capabilities.with(ServerCapability::Resources);
    assert_eq!(config.check(), Ok(()));
    // A client that declares skills need not have resources.
    let mut client = ClientConfig::new(Implementation::new("client", "1"));
    client.extensions.push(extension(skills::EXTENSION));
    assert_eq!(client.check(), Ok(()));
}
