//! Rules of a client for whatever a server sends: contents that it does not know, and handlers set by their method.

use crate::common::front::ClientHarness;
use crate::common::messages::request;
use crate::common::polling::{pending, poll, ready};
use mcp_proto::front::{ClientHandlers, Error};
use mcp_proto::peer::InputError;
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    ClientCapability, ContentBlock, CreateMessage, CreateMessageResult, CustomResult, Elicit, ElicitResult,
    ListRoots, ListRootsResult, ResourceContents, Root,
};
use serde_json::{Value, json};

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
