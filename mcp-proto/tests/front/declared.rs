//! What a client declares, and how it reports the errors of a server.

use crate::common::front::{ClientHarness, config};
use crate::common::messages::error_with;
use crate::common::polling::{pending, poll, ready};
use mcp_proto::front::{ClientHandlers, Error};
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::schema::{
    ClientCapability, CreateMessageResult, ElicitResult, ListRootsResult, Role, SamplingContent,
};
use serde_json::{Value, json};

/// The capabilities in the next request, without the extensions.
fn declared(s: &mut ClientHarness) -> Value {
    let mut list = s.client.list_tools();
    pending(poll(&mut list));
    let mut capabilities = s.line()["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].take();
    capabilities.as_object_mut().unwrap().remove("extensions");
    drop(list);
    s.expect("notifications/cancelled");
    capabilities
}

fn everything(handlers: ClientHandlers) -> ClientHandlers {
    handlers.roots_change().declare(|declared| {
        for capability in [
            ClientCapability::SamplingTools,
            ClientCapability::SamplingContext,
            ClientCapability::ElicitationUrl,
            ClientCapability::TasksList,
        ] {
            *declared = declared.clone().with(capability);
        }
    })
}

/// C1.17, C11.1, C10.1
#[test]
fn each_request_declares_the_capabilities_that_have_handlers() {
    let mut s = ClientHarness::modern_with(everything(ClientHandlers::new()));
    assert_eq!(declared(&mut s), json!({}));

    let roots = ClientHandlers::new().roots(async |_, _| ListRootsResult::new(Vec::new()));
    let mut s = ClientHarness::modern_with(roots);
    for _ in 0..2 {
        assert_eq!(declared(&mut s), json!({"roots": {}}));
    }

    let sampling = || {
        ClientHandlers::new().sampling(async |_, _| {
            CreateMessageResult::new(Role::Assistant, SamplingContent::from("Hello"), "none")
        })
    };
    let mut s = ClientHarness::modern_with(sampling());
    assert_eq!(declared(&mut s), json!({"sampling": {}}));
    // The order of the calls does not matter.
    for handlers in [
        everything(sampling()),
        everything(ClientHandlers::new()).sampling(async |_, _| {
            CreateMessageResult::new(Role::Assistant, SamplingContent::from("Hello"), "none")
        }),
    ] {
        let mut s = ClientHarness::modern_with(handlers);
        assert_eq!(declared(&mut s), json!({"sampling": {"context": {}, "tools": {}}}));
    }

    let form = ClientHandlers::new().elicitation(async |_, _| ElicitResult::decline());
    let mut s = ClientHarness::modern_with(form);
    assert_eq!(declared(&mut s), json!({"elicitation": {"form": {}}}));
    let pages = ClientHandlers::new().elicitation(async |_, _| ElicitResult::decline());
    let mut s = ClientHarness::modern_with(everything(pages));
    assert_eq!(declared(&mut s), json!({"elicitation": {"form": {}, "url": {}}}));
}

/// C11.1, C10.1: the same in the handshake of earlier revisions.
#[test]
fn handshake_declares_the_capabilities_that_have_handlers() {
    let sampling = || {
        ClientHandlers::new().sampling(async |_, _| {
            CreateMessageResult::new(Role::Assistant, SamplingContent::from("Hello"), "none")
        })
    };
    let form = ClientHandlers::new().elicitation(async |_, _| ElicitResult::decline());
    for (handlers, expected) in [
        (everything(ClientHandlers::new()), json!({})),
        (sampling(), json!({"sampling": {}})),
        (everything(sampling()), json!({"sampling": {"context": {}, "tools": {}}})),
        (form, json!({"elicitation": {"form": {}}})),
    ] {
        let mut config = config();
        config.era_policy = EraPolicy::LegacyOnly;
        let mut s = ClientHarness::open(config, handlers);
        let mut initialize = s.line();
        assert_eq!(initialize["method"], "initialize");
        let declared = &mut initialize["params"]["capabilities"];
        declared.as_object_mut().unwrap().remove("extensions");
        assert_eq!(*declared, expected);
    }
}

/// C1.13
#[test]
fn client_recognises_a_missing_resource_by_the_codes_of_all_revisions() {
    let mut s = ClientHarness::modern();
    for (code, data, missing) in [
        (-32002, None, true),
        (-32002, Some(json!({"uri": "file:///x"})), true),
        (-32602, Some(json!({"uri": "file:///x"})), true),
        (-32602, None, false),
        (-32602, Some(json!({"field": "uri"})), false),
        (-32603, Some(json!({"uri": "file:///x"})), false),
        (-32001, None, false),
    ] {
        let mut read = s.client.read_resource("file:///x");
        pending(poll(&mut read));
        let id = s.expect("resources/read");
        s.receive(&[error_with(&id, code, data)]);
        let error = ready(poll(&mut read)).unwrap_err();
        assert_eq!(error.is_resource_not_found(), missing, "{error}");
    }
    assert!(!Error::Cancelled.is_resource_not_found());
}

/// C9.1, C9.2
#[test]
fn list_may_fit_on_one_page() {
    let mut s = ClientHarness::modern();
    let mut list = s.client.list_tools();
    pending(poll(&mut list));
    let id = s.expect("tools/list");
    let tool = json!({"name": "a", "inputSchema": {"type": "object"}});
    s.answer(&id, json!({"resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private"}));
    assert_eq!(ready(poll(&mut list)).unwrap().len(), 1);
    s.expect_silence();
}
