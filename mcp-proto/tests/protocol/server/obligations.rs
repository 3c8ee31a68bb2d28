//! Messages that a server must not send, and their allowed counterparts.

use mcp_proto::peer::server::{Answer, Diagnostic, Event, ListKind};
use mcp_proto::peer::{RequestOptions, Strictness};
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    BlobResourceContents, CallToolResult, ContentBlock, CreateMessageParams, Elicit, ElicitParams,
    ElicitSchema, EnumOption, IncludeContext, InputRequest, InputRequests, InputRequiredResult, LoggingLevel,
    LoggingMessageParams, SamplingMessage, ServerCapability, StringSchema, TextResourceContents,
    TitledEnumSchema,
};
use serde_json::{Value, json};

use crate::common::server::{ServerHarness, config};

fn call(s: &mut ServerHarness, id: i64, capabilities: Value) -> mcp_proto::peer::InboundId {
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    s.modern(id, "tools/call", json!({"name": "t", "_meta": meta}));
    s.request()
}

/// Answers a call by one input request.
fn ask(capabilities: Value, request: impl Into<InputRequest>) -> Value {
    let mut s = ServerHarness::new(config());
    let id = call(&mut s, 1, capabilities);
    let requests: InputRequests = [("a", request.into())].into();
    s.server.at(s.now).respond(id, Answer::InputRequired(&InputRequiredResult::requests(requests)));
    s.line()
}

/// S1.12
#[test]
fn server_answers_no_notification() {
    for mut s in [ServerHarness::new(config()), ServerHarness::legacy_at("2025-11-25")] {
        for method in
            ["notifications/initialized", "notifications/roots/list_changed", "notifications/x", "x"]
        {
            s.notify(method, json!({}));
        }
        s.notify("notifications/progress", json!({"progressToken": 77, "progress": 1}));
        s.notify("notifications/progress", json!({"progress": "far"}));
        s.send(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t"}}"#);
        s.send(r#"{"jsonrpc":"2.0","method":"notifications/x","params":7}"#);
        s.expect_silence();
        let reached = |event: &Event| matches!(event, Event::Request { .. });
        assert!(!s.events().iter().any(reached));
    }
}

/// S6.1: the request goes on.
#[test]
fn server_ignores_a_malformed_cancellation() {
    for mut s in [ServerHarness::new(config()), ServerHarness::legacy_at("2025-11-25")] {
        s.modern(5, "tools/call", json!({"name": "t"}));
        let request = s.request();
        for params in
            [json!({}), json!({"requestId": [5]}), json!({"requestId": null}), json!({"requestId": 5.5})]
        {
            s.notify("notifications/cancelled", params);
        }
        s.notify("notifications/cancelled", json!({"requestId": 6}));
        s.notify("notifications/cancelled", json!({"requestId": "5"}));
        s.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#);
        s.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[5]}"#);
        s.expect_silence();
        let cancelled = |event: &Event| matches!(event, Event::Cancelled { .. });
        assert!(!s.events().iter().any(cancelled));
        s.server.at(s.now).respond(request, Answer::Result(&CallToolResult::text("done")));
        assert_eq!(s.line()["result"]["content"][0]["text"], "done");
        // Nor does one do anything that arrives after the answer.
        s.notify("notifications/cancelled", json!({"requestId": 5}));
        s.expect_silence();
        assert!(!s.events().iter().any(cancelled));
    }
}

/// S4.2
#[test]
fn server_never_requires_input_without_requests_and_state() {
    let mut s = ServerHarness::new(config());
    for (required, allowed) in [
        (InputRequiredResult::requests(InputRequests::new()), false),
        (InputRequiredResult { request_state: Some("s".into()), ..InputRequiredResult::new() }, true),
    ] {
        let request = call(&mut s, 1, json!({}));
        s.server.at(s.now).respond(request, Answer::InputRequired(&required));
        let line = s.line();
        assert_eq!(line["result"]["resultType"] == "input_required", allowed, "{line}");
        assert_eq!(line["error"]["code"] == -32603, !allowed, "{line}");
    }
}

/// S5.5: the answers to other requests end them, whatever ends the connection.
#[test]
fn server_cancels_only_subscriptions() {
    let mut s = ServerHarness::new(config());
    s.modern(5, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    s.line();
    let answered = call(&mut s, 6, json!({}));
    call(&mut s, 7, json!({}));
    call(&mut s, 8, json!({}));
    s.notify("notifications/cancelled", json!({"requestId": 8}));
    s.server.at(s.now).respond(answered, Answer::Result(&CallToolResult::text("done")));
    s.server.at(s.now).close();
    s.advance(core::time::Duration::from_secs(60));
    assert!(s.server.is_closed());
    let lines = s.lines();
    let cancelled = lines.iter().filter(|line| line["method"] == "notifications/cancelled");
    let ids: Vec<_> = cancelled.map(|line| line["params"]["requestId"].clone()).collect();
    assert_eq!(ids, [json!(5)], "{lines:?}");
    let mut answered: Vec<_> = lines.iter().filter_map(|line| line["id"].as_i64()).collect();
    answered.sort_unstable();
    assert_eq!(answered, [5, 6, 7], "{lines:?}");
}

/// S9.1
#[test]
fn server_requests_no_secret_by_a_form() {
    let form = |name: &str, title: Option<&str>| {
        let mut field = StringSchema::new();
        field.title = title.map(String::from);
        ElicitParams::form("Please", ElicitSchema::new([(name.to_owned(), field.into())]))
    };
    let declared = || json!({"elicitation": {"form": {}, "url": {}}});
    for (name, title) in [
        ("password", None),
        ("confirm_password", None),
        ("userPassword2", None),
        ("api_key", None),
        ("apiKey", None),
        ("ACCESS_TOKEN", None),
        ("client-secret", None),
        ("cardNumber", None),
        ("p", Some("Your password")),
    ] {
        let line = ask(declared(), form(name, title));
        assert_eq!(line["error"]["code"], -32603, "{name}");
        assert!(line["error"]["message"].as_str().unwrap().contains(name), "{line}");
    }
    for name in ["name", "email", "password_hint", "tokens", "secretary", "key", "number"] {
        let line = ask(declared(), form(name, None));
        assert_eq!(line["result"]["resultType"], "input_required", "{name}: {line}");
    }
    // The page is how secrets are requested.
    let line = ask(declared(), ElicitParams::url("Your password, please.", "https://mcp.example/login"));
    assert_eq!(line["result"]["inputRequests"]["a"]["params"]["mode"], "url");
}

/// S9.11: a form that shows a URL is sent and reported; a strict server does not send it.
#[test]
fn server_reports_a_form_that_shows_a_url() {
    let form = |message: &str, description: &str, title: &str| {
        let option = EnumOption::new("a", title);
        let mut choice = TitledEnumSchema::new(vec![option]);
        choice.description = Some(description.to_owned());
        ElicitParams::form(message, ElicitSchema::new([("choice", choice.into())]))
    };
    for (form, shows_url) in [
        (form("Choose.", "From example.com: one.", "A"), false),
        (form("See HTTPS://example.com/terms", "One.", "A"), true),
        (form("Choose.", "Described at http://example.com", "A"), true),
        (form("Choose.", "One.", "(https://example.com/a)"), true),
    ] {
        for strictness in [Strictness::Lenient, Strictness::Strict] {
            let sends = strictness == Strictness::Lenient || !shows_url;
            let configured = || {
                let mut config = config();
                config.strictness = strictness;
                config
            };
            let mut s = ServerHarness::new(configured());
            let id = call(&mut s, 1, json!({"elicitation": {}}));
            let requests: InputRequests = [("a", form.clone().into())].into();
            s.server.at(s.now).respond(id, Answer::InputRequired(&InputRequiredResult::requests(requests)));
            let line = s.line();
            assert_eq!(line["result"]["resultType"] == "input_required", sends, "{line}");
            let is_reported = |events: Vec<Event>| {
                let is_it = |event: &Event| matches!(event, Event::Diagnostic(Diagnostic::UrlInForm { .. }));
                events.iter().any(is_it)
            };
            assert_eq!(is_reported(s.events()), shows_url && sends);

            let mut s = ServerHarness::legacy_with(configured(), "2025-11-25", json!({"elicitation": {}}));
            let sent = s.server.at(s.now).request::<Elicit>(&form, RequestOptions::default());
            assert_eq!(sent.is_ok(), sends, "{sent:?}");
            assert_eq!(is_reported(s.events()), shows_url && sends);
        }
    }
}

/// S8.22: without the capability no message is sent, and the server reports that once.
#[test]
fn server_reports_messages_that_it_drops_for_want_of_the_capability() {
    let info = mcp_proto::schema::Implementation::new("s", "1");
    let silent = mcp_proto::peer::server::ServerConfig::new(info);
    for (config, is_declared) in [(silent, false), (config(), true)] {
        let mut s = ServerHarness::legacy_with(config, "2025-11-25", json!({}));
        for _ in 0..3 {
            let message = LoggingMessageParams::new(LoggingLevel::Error, json!("the disk is full"));
            s.server.at(s.now).log(None, &message);
        }
        assert_eq!(s.try_line().is_some(), is_declared);
        let reports = s.events().into_iter().filter(|event| {
            matches!(event, Event::Diagnostic(diagnostic @ Diagnostic::UndeclaredLogging)
                if diagnostic.to_string().contains("Router::declare"))
        });
        assert_eq!(reports.count(), usize::from(!is_declared));
    }
}

/// S9.2
#[test]
fn server_sends_its_clients_only_to_encrypted_pages() {
    let page = |url: &str| ask(json!({"elicitation": {"url": {}}}), ElicitParams::url("Look.", url));
    for url in ["http://mcp.example/a", "https://alice:secret@mcp.example/", "javascript:alert(1)", "page"] {
        assert_eq!(page(url)["error"]["code"], -32603, "{url}");
    }
    for url in ["https://mcp.example/a", "http://localhost:8080/a", "http://127.0.0.1/a", "http://[::1]/a"] {
        assert_eq!(page(url)["result"]["resultType"], "input_required", "{url}");
    }
}

fn conversation(messages: Value) -> CreateMessageParams {
    let params = json!({
        "messages": messages, "maxTokens": 10, "tools": [{"name": "add", "inputSchema": {"type": "object"}}],
    });
    serde_json::from_str(&params.to_string()).unwrap()
}

/// S9.8
#[test]
fn server_sends_only_conversations_whose_tool_calls_have_results() {
    let calls = |id: &str| json!({"role": "assistant", "content": {"type": "tool_use", "id": id, "name": "add", "input": {}}});
    let result = |id: &str| json!({"type": "tool_result", "toolUseId": id, "content": []});
    let text = json!({"type": "text", "text": "and?"});
    let sampled = |messages: Value| ask(json!({"sampling": {"tools": {}}}), conversation(messages));
    for messages in [
        json!([calls("1")]),
        json!([calls("1"), {"role": "user", "content": text}]),
        json!([calls("1"), {"role": "user", "content": result("2")}]),
        json!([calls("1"), {"role": "user", "content": [result("1"), text]}]),
        json!([{"role": "user", "content": result("1")}]),
    ] {
        let line = sampled(messages.clone());
        assert_eq!(line["error"]["code"], -32603, "{messages}");
    }
    let whole =
        json!([{"role": "user", "content": text}, calls("1"), {"role": "user", "content": result("1")}]);
    assert_eq!(sampled(whole.clone())["result"]["resultType"], "input_required");
    // Tools need their own capability.
    let refused = ask(json!({"sampling": {}}), conversation(whole));
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({"sampling": {"tools": {}}}));
}

/// S8.20
#[test]
fn server_requests_the_context_of_servers_only_from_clients_that_declare_it() {
    for context in [IncludeContext::ThisServer, IncludeContext::AllServers, IncludeContext::None] {
        let params = || {
            let mut params = CreateMessageParams::new([SamplingMessage::user("hi")], 10_u64);
            params.include_context = Some(context);
            params
        };
        let line = ask(json!({"sampling": {}}), params());
        if context == IncludeContext::None {
            assert_eq!(line["result"]["resultType"], "input_required", "{line}");
        } else {
            assert_eq!(line["error"]["code"], -32021, "{line}");
            let required = &line["error"]["data"]["requiredCapabilities"];
            assert_eq!(required, &json!({"sampling": {"context": {}}}));
        }
        let line = ask(json!({"sampling": {"context": {}}}), params());
        assert_eq!(line["result"]["resultType"], "input_required", "{line}");
    }
}

/// S8.10
#[test]
fn server_reports_embedded_resources_that_it_does_not_declare() {
    let text = || ContentBlock::resource(TextResourceContents::new("x:y", "why"));
    let blob = || ContentBlock::resource(BlobResourceContents::from_bytes("x:z", [1]));
    let quoted = || ContentBlock::text(r#"{"type":"resource","resource":{}}"#);
    let reports = |declares: bool, content: Vec<ContentBlock>| {
        let mut config =
            mcp_proto::peer::server::ServerConfig::new(mcp_proto::schema::Implementation::new("s", "1"));
        config.capabilities = config.capabilities.with(ServerCapability::Tools);
        if declares {
            config.capabilities = config.capabilities.with(ServerCapability::Resources);
        }
        let mut s = ServerHarness::new(config);
        let request = call(&mut s, 1, json!({}));
        let mut result = CallToolResult::new();
        result.content = content;
        s.server.at(s.now).respond(request, Answer::Result(&result));
        assert!(s.line()["result"]["content"].is_array(), "it is sent in either case");
        let events = s.events();
        events.iter().any(|event| matches!(event, Event::Diagnostic(Diagnostic::UndeclaredResources)))
    };
    assert!(reports(false, vec![text()]));
    assert!(reports(false, vec![quoted(), blob()]));
    assert!(!reports(false, vec![quoted()]));
    assert!(!reports(false, vec![]));
    assert!(!reports(true, vec![text(), blob()]));
}

/// S1.19, S5.7, S5.8: without the capability there is neither the method nor the notification.
#[test]
fn server_neither_subscribes_nor_notifies_without_the_capability() {
    let plain = || {
        let info = mcp_proto::schema::Implementation::new("s", "1");
        let mut config = mcp_proto::peer::server::ServerConfig::new(info);
        for capability in [ServerCapability::Tools, ServerCapability::Resources] {
            config.capabilities = config.capabilities.with(capability);
        }
        config
    };
    let mut s = ServerHarness::legacy_with(plain(), "2025-11-25", json!({}));
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        s.request_with_id(2, method, json!({"uri": "a://b"}));
        assert_eq!(s.code(), code::METHOD_NOT_FOUND, "{method}");
    }
    s.server.at(s.now).resource_updated("a://b");
    s.server.at(s.now).list_changed(ListKind::Tools);
    s.expect_silence();
    let mut s = ServerHarness::new(plain());
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["a://b"]});
    s.modern(1, "subscriptions/listen", json!({"notifications": filter}));
    assert_eq!(s.line()["params"]["notifications"], json!({}));
    s.server.at(s.now).resource_updated("a://b");
    s.server.at(s.now).list_changed(ListKind::Tools);
    s.expect_silence();
}

/// S9.4: a modern client learns of the end of an interaction by its retry.
#[test]
fn server_notifies_no_modern_client_of_a_completed_page() {
    let mut s = ServerHarness::new(config());
    call(&mut s, 1, json!({"elicitation": {"url": {}}}));
    assert!(!s.server.at(s.now).elicitation_complete("e"));
    s.expect_silence();
    let mut page = mcp_proto::schema::ElicitUrlParams::new("Look.", "https://mcp.example/a");
    page.elicitation_id = Some("e".into());
    let line = ask(json!({"elicitation": {"url": {}}}), ElicitParams::Url(page));
    let params = &line["result"]["inputRequests"]["a"]["params"];
    assert_eq!(params["url"], "https://mcp.example/a");
    assert!(params.get("elicitationId").is_none(), "{params}");
}

/// S1.20: a ping is answered while other requests wait, and before any handshake.
#[test]
fn server_answers_a_ping_while_requests_are_unanswered() {
    let mut s = ServerHarness::legacy_at("2025-11-25");
    s.request_with_id(2, "tools/call", json!({"name": "t"}));
    s.request();
    s.request_with_id(3, "ping", json!({}));
    assert_eq!(s.line(), json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    s.expect_silence();
}

/// S2.1: JSON of the application may have line breaks; a message has none.
#[test]
fn message_is_one_line_whatever_the_application_sends() {
    let mut s = ServerHarness::new(config());
    let request = call(&mut s, 1, json!({}));
    let mut result = CallToolResult::text("two\nlines\r\u{2028}");
    result.structured_content = Some(mcp_proto::schema::Json::new("{\n  \"a\":\r\n 1\n}").unwrap());
    s.server.at(s.now).respond(request, Answer::Result(&result));
    let mut out = Vec::new();
    assert!(s.server.poll_transmit(&mut out));
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1, "{}", String::from_utf8_lossy(&out));
    assert!(out.ends_with(b"\n") && !out.contains(&b'\r'));
    let line: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(line["result"]["structuredContent"], json!({"a": 1}));
    assert_eq!(line["result"]["content"][0]["text"], "two\nlines\r\u{2028}");
}

/// S8.15
#[test]
fn media_are_sent_in_base64_with_their_types() {
    let mut s = ServerHarness::new(config());
    let request = call(&mut s, 1, json!({}));
    let mut result = CallToolResult::new();
    let mut blob = BlobResourceContents::from_bytes("x:z", [0, 255]);
    blob.mime_type = Some("application/octet-stream".into());
    result.content = vec![
        ContentBlock::image_bytes([1, 2, 3, 4], "image/png"),
        ContentBlock::audio_bytes([255, 254], "audio/wav"),
        ContentBlock::resource(TextResourceContents::new("x:y", "why")),
        ContentBlock::resource(blob),
    ];
    s.server.at(s.now).respond(request, Answer::Result(&result));
    assert_eq!(
        s.line()["result"]["content"],
        json!([
            {"type": "image", "data": "AQIDBA==", "mimeType": "image/png"},
            {"type": "audio", "data": "//4=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x:y", "text": "why"}},
            {"type": "resource", "resource": {"uri": "x:z", "blob": "AP8=", "mimeType": "application/octet-stream"}},
        ])
    );
}
