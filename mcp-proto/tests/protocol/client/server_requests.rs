//! Requests of the server: what the client answers, refuses or ignores.

use crate::common::client::{ClientHarness, config};
use mcp_proto::peer::client::{Diagnostic, Event};
use mcp_proto::rpc::Id;
use mcp_proto::schema::{CustomResult, ListRootsResult, Root};
use serde_json::json;

/// C7.10, C1.6, F21
#[test]
fn client_answers_a_ping_at_once() {
    let mut s = ClientHarness::legacy(config());
    s.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "ping"}));
    assert_eq!(s.line(), json!({"jsonrpc": "2.0", "id": 0, "result": {}}));
}

/// C1.6, C11.7, F21
#[test]
fn client_answers_declared_requests_of_a_legacy_server_and_refuses_others() {
    let mut config = config();
    config.capabilities.roots = Some(Default::default());
    let mut s = ClientHarness::legacy(config);
    s.send(&json!({"jsonrpc": "2.0", "id": "", "method": "roots/list"}));
    let asked = s.take_events().into_iter().find_map(|event| match event {
        Event::Request { id, .. } => Some(id),
        _ => None,
    });
    let roots = ListRootsResult::new(vec![Root::new("file:///home")]);
    s.client.at(s.now).respond(asked.unwrap(), Ok(&roots));
    assert_eq!(s.line(), json!({"jsonrpc": "2.0", "id": "", "result": {"roots": [{"uri": "file:///home"}]}}));
    for method in ["sampling/createMessage", "elicitation/create", "nonsense"] {
        s.send(&json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": {}}));
        assert_eq!(s.line()["error"]["code"], -32601, "{method}");
    }
}

/// The application answers the custom methods that it names, or all of them.
#[test]
fn client_passes_custom_requests_of_a_legacy_server_to_the_application() {
    let mut named = config();
    named.custom_methods.push("com.example/confirm".into());
    let mut other = config();
    other.other_methods = true;
    for (config, method) in [(named, "com.example/confirm"), (other, "com.example/anything")] {
        let mut s = ClientHarness::legacy(config);
        s.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"pages": 3}}));
        let asked = s.take_events().into_iter().find_map(|event| match event {
            Event::CustomRequest { id, method: of, params } if *of == *method => Some((id, params)),
            _ => None,
        });
        let (id, params) = asked.unwrap();
        assert_eq!(params.unwrap().as_str(), r#"{"pages":3}"#);
        let mut result = CustomResult::new();
        result.extra.insert("by", "ann");
        s.client.at(s.now).respond(id, Ok(&result));
        assert_eq!(s.line(), json!({"jsonrpc": "2.0", "id": 1, "result": {"by": "ann"}}));
        s.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "roots/list"}));
        assert_eq!(s.line()["error"]["code"], -32601, "undeclared");
    }
}

/// C10.1, C10.3, C11.3
#[test]
fn client_refuses_an_undeclared_elicitation_mode_or_tools() {
    let mut config = config();
    config.capabilities = serde_json::from_str(r#"{"elicitation":{},"sampling":{}}"#).unwrap();
    let mut s = ClientHarness::legacy(config);
    let url = json!({"mode": "url", "message": "m", "url": "https://example.com", "elicitationId": "e"});
    s.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": url}));
    assert_eq!(s.line()["error"]["code"], -32602);
    let tools =
        json!({"messages": [], "maxTokens": 1, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]});
    s.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "sampling/createMessage", "params": tools}));
    assert_eq!(s.line()["error"]["code"], -32602);
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    s.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "elicitation/create", "params": form}));
    s.expect_silence();
    let reached = s.take_events().iter().filter(|event| matches!(event, Event::Request { .. })).count();
    assert_eq!(reached, 1, "the form alone");
}

/// C10.1, C10.3: a request without a mode is one for a form.
#[test]
fn client_that_declares_pages_alone_refuses_forms() {
    let mut config = config();
    config.capabilities = serde_json::from_str(r#"{"elicitation":{"url":{}}}"#).unwrap();
    let mut s = ClientHarness::legacy(config);
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let page = json!({"mode": "url", "message": "m", "url": "https://example.com", "elicitationId": "e"});
    let mut named = form.clone();
    named["mode"] = json!("form");
    for (params, accepted) in [(form, false), (named, false), (page, true)] {
        s.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}));
        let code = s.try_line().map(|line| line["error"]["code"].clone());
        assert_eq!(code, (!accepted).then(|| json!(-32602)), "{params}");
        let reached = s.take_events().iter().any(|event| matches!(event, Event::Request { .. }));
        assert_eq!(reached, accepted, "{params}");
    }
}

/// C11.3: a choice of tools needs the capability as the tools do.
#[test]
fn client_refuses_an_undeclared_tool_choice() {
    let params = json!({"messages": [], "maxTokens": 1, "toolChoice": {"mode": "auto"}});
    for (capabilities, accepted) in [(r#"{"sampling":{}}"#, false), (r#"{"sampling":{"tools":{}}}"#, true)] {
        let mut config = config();
        config.capabilities = serde_json::from_str(capabilities).unwrap();
        let mut s = ClientHarness::legacy(config);
        s.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": params}));
        let code = s.try_line().map(|line| line["error"]["code"].clone());
        assert_eq!(code, (!accepted).then(|| json!(-32602)));
        let reached = s.take_events().iter().any(|event| matches!(event, Event::Request { .. }));
        assert_eq!(reached, accepted);
    }
}

/// C1.5, C3.2
#[test]
fn client_never_answers_a_modern_server() {
    let mut s = ClientHarness::modern(config());
    for method in ["ping", "roots/list", "nonsense"] {
        s.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method}));
    }
    s.send_text(r#"{"jsonrpc":"2.0","id":9,"method":5}"#);
    s.expect_silence();
    assert_eq!(s.take_events().len(), 4, "each is reported");
}

#[test]
fn client_does_not_answer_a_request_whose_id_is_in_flight() {
    let mut config = config();
    config.capabilities.roots = Some(Default::default());
    let mut s = ClientHarness::legacy(config);
    s.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "roots/list"}));
    s.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "roots/list"}));
    s.expect_silence();
    let events = s.take_events();
    let [Event::Request { id: first, .. }, Event::Diagnostic(Diagnostic::DuplicateRequest { id, .. })] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(*id, Id::from(7));
    s.client.at(s.now).respond(*first, Ok(&ListRootsResult::new(vec![])));
    assert_eq!((&s.line()["id"], s.try_line()), (&json!(7), None));
}

#[test]
fn client_does_not_answer_a_request_that_the_server_cancelled() {
    let mut config = config();
    config.capabilities.roots = Some(Default::default());
    let mut s = ClientHarness::legacy(config);
    s.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "roots/list"}));
    s.notify("notifications/cancelled", json!({"requestId": 7, "reason": "too late"}));
    let events = s.take_events();
    let [Event::Request { id, .. }, Event::RequestCancelled { id: cancelled, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(id, cancelled);
    s.client.at(s.now).respond(*id, Ok(&ListRootsResult::new(vec![])));
    s.expect_silence();
}
