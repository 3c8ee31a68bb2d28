//! Rules of a client for whatever a server sends: contents that it does not know, and handlers set by their method.

use std::sync::{Arc, Mutex};

use crate::common::front::ClientHarness;
use crate::common::messages::{answer, request};
use crate::common::polling::{pending, poll, ready};
use mcp_proto::front::{ClientHandlers, Error, HandlerError};
use mcp_proto::peer::{InputError, RequestError};
use mcp_proto::rpc::{ErrorObject, code};
use mcp_proto::schema::{
    ClientCapability, ContentBlock, CreateMessage, CreateMessageResult, CustomResult, Elicit, ElicitMode,
    ElicitResult, Json, ListRoots, ListRootsResult, ResourceContents, Role, Root, SamplingBlock,
    SamplingContent, ToolUseContent,
};
use serde_json::{Value, json};

fn says(content: impl Into<SamplingContent>) -> CreateMessageResult {
    CreateMessageResult::new(Role::Assistant, content, "a model")
}

// --- Requests of a server ---

/// C11.4
#[test]
fn invalid_conversation_never_reaches_the_sampling_handler() {
    let handlers =
        ClientHandlers::new().sampling(async |_, _| -> CreateMessageResult { panic!("not to be called") });
    let handlers = handlers.declare(|declared| {
        *declared = declared.clone().with(ClientCapability::SamplingTools);
    });
    let mut s = ClientHarness::legacy_with(handlers);
    let result = json!({"type": "tool_result", "toolUseId": "1", "content": []});
    let params = json!({"messages": [{"role": "user", "content": result}], "maxTokens": 1});
    s.receive(&[request(&json!(1), "sampling/createMessage", params)]);
    let line = s.line();
    assert_eq!(line["error"]["code"], code::INVALID_PARAMS);
    assert!(line["error"]["message"].as_str().unwrap().contains("\"1\""), "{line}");
}

/// R9
#[test]
fn client_does_not_send_a_model_response_that_violates_the_tool_choice() {
    let handlers = ClientHandlers::new()
        .sampling(async |_, _| {
            says(SamplingBlock::ToolUse(ToolUseContent::new("1", "add", Json::empty_object())))
        })
        .declare(|declared| {
            *declared = declared.clone().with(ClientCapability::SamplingTools);
        });
    let mut s = ClientHarness::legacy_with(handlers);
    for (mode, goes_out) in [("auto", true), ("required", true), ("none", false)] {
        let params = json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 1,
            "tools": [{"name": "add", "inputSchema": {"type": "object"}}], "toolChoice": {"mode": mode},
        });
        s.receive(&[request(&json!(mode), "sampling/createMessage", params)]);
        let line = s.line();
        assert_eq!(line["result"].is_object(), goes_out, "{line}");
        if !goes_out {
            assert_eq!(line["error"]["code"], code::INTERNAL_ERROR);
        }
    }
}

/// R9: nor does it send the call again with such a response.
#[test]
fn client_retries_no_call_with_a_model_response_that_violates_the_tool_choice() {
    for (mode, calls, goes_out) in
        [("required", true, true), ("required", false, false), ("none", true, false), ("none", false, true)]
    {
        let handlers = ClientHandlers::new()
            .sampling(move |_, _| async move {
                if calls {
                    says(SamplingBlock::ToolUse(ToolUseContent::new("1", "add", Json::empty_object())))
                } else {
                    says("I would rather not.")
                }
            })
            .declare(|declared| {
                *declared = declared.clone().with(ClientCapability::SamplingTools);
            });
        let mut s = ClientHarness::modern_with(handlers);
        let mut call = s.client.call_tool("think", json!({}));
        pending(poll(&mut call));
        let first = s.line();
        let params = json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 1,
            "tools": [{"name": "add", "inputSchema": {"type": "object"}}], "toolChoice": {"mode": mode},
        });
        let required = json!({
            "resultType": "input_required", "requestState": "S",
            "inputRequests": {"a": {"method": "sampling/createMessage", "params": params}},
        });
        s.receive(&[answer(&first["id"], required)]);
        if goes_out {
            let again = s.line();
            assert_eq!(again["params"]["inputResponses"]["a"]["model"], "a model", "{mode} {calls}: {again}");
        } else {
            s.expect_silence();
            assert!(ready(poll(&mut call)).is_err(), "{mode} {calls}");
        }
    }
}

/// C11.3, F103: the token limit is for the handler to apply.
#[test]
fn handler_receives_the_token_limit() {
    let handlers =
        ClientHandlers::new().sampling(async |params, _| says(params.max_tokens.to_string().as_str()));
    let mut s = ClientHarness::legacy_with(handlers);
    let params = json!({"messages": [], "maxTokens": 77});
    s.receive(&[request(&json!(1), "sampling/createMessage", params)]);
    assert_eq!(s.line()["result"]["content"]["text"], "77");
}

/// C11.2, C11.6
#[test]
fn user_can_refuse_a_sampling_request() {
    let handlers =
        ClientHandlers::new().sampling(async |_, _| -> Result<CreateMessageResult, HandlerError> {
            Err(ErrorObject::new(code::USER_REJECTED, "User rejected sampling request").into())
        });
    let mut s = ClientHarness::legacy_with(handlers);
    s.receive(&[request(&json!(1), "sampling/createMessage", json!({"messages": [], "maxTokens": 1}))]);
    assert_eq!(s.line()["error"]["code"], -1);
}

/// C10.6, C13.3
#[test]
fn unsafe_page_never_reaches_the_handler() {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = shown.clone();
    let handlers = ClientHandlers::new()
        .elicitation(move |params, _| {
            let seen = seen.clone();
            async move {
                seen.lock().unwrap().push(params.message().to_string());
                ElicitResult::new(mcp_proto::schema::ElicitAction::Accept)
            }
        })
        .declare(|declared| {
            *declared = declared.clone().with(ClientCapability::ElicitationUrl);
        });
    let mut s = ClientHarness::legacy_with(handlers);
    for (url, goes_on) in
        [("https://example.com/a", true), ("javascript:alert(1)", false), ("file:///etc/passwd", false)]
    {
        let params = json!({"mode": "url", "message": url, "url": url, "elicitationId": "e"});
        s.receive(&[request(&json!(url), "elicitation/create", params)]);
        let line = s.line();
        let expected = if goes_on { Value::Null } else { json!(code::INVALID_PARAMS) };
        assert_eq!(line["error"]["code"], expected, "{line}");
    }
    assert_eq!(*shown.lock().unwrap(), ["https://example.com/a"]);
}

/// C10.2, C10.4
#[test]
fn handler_knows_the_server_and_can_decline_or_cancel() {
    let handlers = ClientHandlers::new().elicitation(async |params, cx| {
        assert_eq!(params.mode(), ElicitMode::Form);
        assert_eq!(cx.server().unwrap().implementation.as_ref().unwrap().name, "scripted");
        match params.message() {
            "decline" => ElicitResult::decline(),
            "cancel" => ElicitResult::cancel(),
            _ => std::future::pending().await,
        }
    });
    let mut s = ClientHarness::legacy_with(handlers);
    let form =
        |message: &str| json!({"message": message, "requestedSchema": {"type": "object", "properties": {}}});
    for action in ["decline", "cancel"] {
        s.receive(&[request(&json!(action), "elicitation/create", form(action))]);
        assert_eq!(s.line()["result"], json!({"action": action}));
    }
    // An unanswered request delays no other.
    s.receive(&[
        request(&json!("open"), "elicitation/create", form("…")),
        request(&json!(2), "ping", json!({})),
    ]);
    assert_eq!(s.line()["id"], 2);
    s.expect_silence();
}

/// C11.7
#[test]
fn client_does_not_send_invalid_roots() {
    for (uri, told) in [
        ("file:///project", true),
        ("https://example.com/", false),
        ("file:/project", false),
        ("file:///a/%2e%2e/b", false),
    ] {
        let handlers = ClientHandlers::new()
            .roots(move |_, _| async move { ListRootsResult::new(vec![Root::new(uri)]) });
        let mut s = ClientHarness::legacy_with(handlers);
        s.receive(&[request(&json!(1), "roots/list", json!({}))]);
        let line = s.line();
        assert_eq!(line["result"].is_object(), told, "{line}");
        assert!(told || line["error"]["code"] == code::INTERNAL_ERROR, "{line}");
    }
}

/// C11.9: whatever sets the handler of roots, and in whichever order.
#[test]
fn client_exposes_only_accessible_roots() {
    let roots = || ["file:///there", "file:///gone", "file:///here"].map(Root::new).to_vec();
    let is_accessible = |root: &Root| root.uri != "file:///gone";
    let by_name =
        json!({"roots": [{"uri": "file:///there"}, {"uri": "file:///gone"}, {"uri": "file:///here"}]});
    for handlers in [
        ClientHandlers::new()
            .roots(move |_, _| async move { ListRootsResult::new(roots()) })
            .root_access(is_accessible),
        ClientHandlers::new().root_access(is_accessible).custom("roots/list", move |_, _| {
            let result: CustomResult = serde_json::from_str(&by_name.to_string()).unwrap();
            async move { result }
        }),
    ] {
        let mut s = ClientHarness::legacy_with(declaring(handlers));
        s.receive(&[request(&json!(1), "roots/list", json!({}))]);
        let line = s.line();
        let uris: Vec<_> =
            line["result"]["roots"].as_array().unwrap().iter().map(|root| root["uri"].as_str()).collect();
        assert_eq!(uris, [Some("file:///there"), Some("file:///here")], "{line}");
    }
}

/// C11.8
#[test]
fn client_reports_new_roots_if_it_declared_that() {
    let roots = || ClientHandlers::new().roots(async |_, _| ListRootsResult::new(vec![]));
    let mut s = ClientHarness::legacy_with(roots().roots_change());
    s.client.roots_changed().unwrap();
    s.expect("notifications/roots/list_changed");

    let mut s = ClientHarness::legacy_with(roots());
    assert!(matches!(s.client.roots_changed(), Err(Error::NotSent(RequestError::Capability { .. }))));
    s.expect_silence();

    // Modern servers request the roots again each time.
    let mut s = ClientHarness::modern_with(roots().roots_change());
    s.client.roots_changed().unwrap();
    s.expect_silence();
}

// --- Results ---

/// C9.11: contents of an unknown type, or with broken base64, leave the rest of a result usable.
#[test]
fn unknown_content_leaves_the_result_usable() {
    for mut s in [ClientHarness::modern(), ClientHarness::legacy()] {
        let mut call = s.client.call_tool("add", json!({}));
        pending(poll(&mut call));
        let id = s.expect("tools/call");
        let broken = json!({"type": "image", "data": "####", "mimeType": "image/png"});
        let blocks = json!([{"type": "hologram", "beams": 3}, broken, {"type": "text", "text": "5"}]);
        s.answer(&id, json!({"content": blocks}));
        let got = ready(poll(&mut call)).unwrap();
        assert_eq!(got.text_content(), "5");
        assert!(matches!(got.content[0], ContentBlock::Unknown(_)));
        assert!(matches!(&got.content[1], ContentBlock::Image(image) if image.bytes().is_err()));

        let mut read = s.client.read_resource("file:///a");
        pending(poll(&mut read));
        let id = s.expect("resources/read");
        s.answer(&id, json!({"contents": [{"uri": "file:///a"}, {"uri": "file:///a", "blob": "####"}]}));
        let got = ready(poll(&mut read)).unwrap();
        assert!(matches!(got.contents[0], ResourceContents::Unknown(_)));
        assert!(matches!(&got.contents[1], ResourceContents::Blob(blob) if blob.bytes().is_err()));
    }
}

// --- Requests of a server ---

/// C10.3
#[test]
fn unknown_mode_never_reaches_the_handler() {
    let handlers =
        ClientHandlers::new().elicitation(async |_, _| -> ElicitResult { panic!("not to be called") });
    let mut s = ClientHarness::legacy_with(handlers);
    for mode in [json!("voice"), json!(7)] {
        let schema = json!({"type": "object", "properties": {}});
        let params = json!({"mode": mode, "message": "m", "requestedSchema": schema});
        s.receive(&[request(&json!(1), "elicitation/create", params)]);
        assert_eq!(s.line()["error"]["code"], code::INVALID_PARAMS);
    }
}

fn declaring(handlers: ClientHandlers) -> ClientHandlers {
    handlers.declare(|declared| {
        for capability in
            [ClientCapability::SamplingTools, ClientCapability::ElicitationUrl, ClientCapability::Roots]
        {
            *declared = declared.clone().with(capability);
        }
    })
}

/// C11.4, C11.7, C10.6: a handler that is set by its method, or by name, obeys the same rules.
#[test]
fn rules_hold_for_handlers_set_by_their_method() {
    let by_method = ClientHandlers::new()
        .handler::<CreateMessage, _, _>(async |_, _| -> CreateMessageResult { panic!("not to be called") })
        .handler::<Elicit, _, _>(async |_, _| -> ElicitResult { panic!("not to be called") })
        .handler::<ListRoots, _, _>(async |_, _| {
            ListRootsResult::new(vec![Root::new("https://example.com/")])
        });
    let by_name = ClientHandlers::new()
        .custom("sampling/createMessage", async |_, _| -> CustomResult { panic!("not to be called") })
        .custom("elicitation/create", async |_, _| -> CustomResult { panic!("not to be called") })
        .custom("roots/list", async |_, _| {
            let mut result = CustomResult::new();
            result.extra.insert("roots", json!([{"uri": "https://example.com/"}]));
            result
        });
    for handlers in [by_method, by_name] {
        let mut s = ClientHarness::legacy_with(declaring(handlers));
        let result = json!({"type": "tool_result", "toolUseId": "1", "content": []});
        let page = json!({"mode": "url", "message": "m", "url": "javascript:alert(1)", "elicitationId": "e"});
        let conversation = json!({"messages": [{"role": "user", "content": result}], "maxTokens": 1});
        for (method, params, expected) in [
            ("sampling/createMessage", conversation, code::INVALID_PARAMS),
            ("elicitation/create", page, code::INVALID_PARAMS),
            ("roots/list", json!({}), code::INTERNAL_ERROR),
        ] {
            s.receive(&[request(&json!(method), method, params)]);
            let line = s.line();
            assert_eq!(line["error"]["code"], expected, "{line}");
        }
    }
}

/// C11.4, C11.7: answers that satisfy the rules are sent.
#[test]
fn handlers_set_by_their_method_answer_valid_requests() {
    let handlers = ClientHandlers::new()
        .handler::<ListRoots, _, _>(async |_, _| ListRootsResult::new(vec![Root::new("file:///project")]))
        .handler::<Elicit, _, _>(async |_, _| ElicitResult::decline());
    let mut s = ClientHarness::legacy_with(declaring(handlers));
    let page = json!({"mode": "url", "message": "m", "url": "https://example.com", "elicitationId": "e"});
    for (method, params, expected) in [
        ("roots/list", json!({}), json!({"roots": [{"uri": "file:///project"}]})),
        ("elicitation/create", page, json!({"action": "decline"})),
    ] {
        s.receive(&[request(&json!(method), method, params)]);
        let mut line = s.line();
        let result: Value = line["result"].take();
        assert_eq!(result, expected, "{line}");
    }
}

/// C11.7: in an input round, the call ends instead.
#[test]
fn input_round_sends_no_invalid_roots() {
    for (uri, sent) in [
        ("file:///project", true),
        ("https://example.com/", false),
        ("file:/project", false),
        ("file:///a/%2e%2e/b", false),
    ] {
        let handlers = ClientHandlers::new()
            .roots(move |_, _| async move { ListRootsResult::new(vec![Root::new(uri)]) });
        let mut s = ClientHarness::modern_with(handlers);
        let mut call = s.client.call_tool("add", json!({}));
        pending(poll(&mut call));
        let id = s.expect("tools/call");
        let requests = json!({"r": {"method": "roots/list"}});
        let required =
            json!({"resultType": "input_required", "inputRequests": requests, "requestState": "S"});
        s.answer(&id, required);
        if sent {
            assert_eq!(s.line()["params"]["inputResponses"]["r"], json!({"roots": [{"uri": uri}]}));
        } else {
            let error = ready(poll(&mut call)).unwrap_err();
            assert!(matches!(error, Error::Input(InputError::Failed { .. })), "{uri}: {error}");
            s.expect_silence();
        }
    }
}
