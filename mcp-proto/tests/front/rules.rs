//! Rules that the front enforces for its application: what reaches a handler, what is sent, and what has no effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::front::{ClientHarness, config};
use crate::common::messages::{answer, error, text};
use crate::common::polling::{pending, poll, ready};
use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use mcp_proto::front::{ClientHandlers, Context, Error, HandlerError, NoArguments, Router, RouterError};
use mcp_proto::peer::RequestError;
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    CallToolParams, CallToolResult, ContentBlock, Json, Meta, ServerCapability, TextResourceContents, apps,
    meta,
};
use serde_json::{Value, json};

// --- Requests of a client ---

/// C1.21
#[test]
fn client_does_not_send_a_malformed_trace_context() {
    let mut s = ClientHarness::modern();
    for (key, value) in
        [(meta::TRACEPARENT, json!("00-1-2-3")), (meta::TRACESTATE, json!("A")), (meta::BAGGAGE, json!(7))]
    {
        let mut own = Meta::new();
        own.insert(key, value);
        let mut params = CallToolParams::new("add");
        params.meta = own.clone();
        let mut by_params = s.client.request::<mcp_proto::schema::CallTool>(params).into_future();
        let mut by_options = s.client.call_tool("add", json!({})).meta(own).into_future();
        for call in [&mut by_params, &mut by_options] {
            match ready(poll(call)) {
                Err(Error::NotSent(RequestError::Encode(error))) => assert!(error.contains(key), "{error}"),
                other => panic!("{other:?}"),
            }
        }
        s.expect_silence();
    }
}

/// C2.12: the handshake is sent first and alone, whatever the application requests before.
#[test]
fn client_sends_nothing_but_the_handshake_before_its_response() {
    let mut config = config();
    config.era_policy = mcp_proto::peer::client::EraPolicy::LegacyOnly;
    let mut s = ClientHarness::open(config, ClientHandlers::new());
    let id = s.expect("initialize");
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll(&mut call));
    s.expect_silence();
    s.answer(&id, json!({
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"},
    }));
    s.expect("notifications/initialized");
    s.expect("tools/call");
}

/// C1.10: their meaning is up to the server that sends them; the client acts upon none.
#[test]
fn client_gives_no_meaning_to_codes_of_older_implementations() {
    let mut s = ClientHarness::modern();
    for code in -32019..=-32000 {
        let mut call = s.client.call_tool("add", json!({}));
        pending(poll(&mut call));
        let id = s.expect("tools/call");
        s.receive(&[error(&id, code)]);
        assert_eq!(ready(poll(&mut call)).unwrap_err().code(), Some(code));
        s.expect_silence();
    }
}

/// C9.8
#[test]
fn tool_call_times_out_by_default() {
    let mut s = ClientHarness::modern();
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll(&mut call));
    let id = s.expect("tools/call");
    s.advance(core::time::Duration::from_secs(29));
    pending(poll(&mut call));
    s.advance(core::time::Duration::from_secs(1));
    assert!(ready(poll(&mut call)).unwrap_err().is_timeout());
    let cancelled = s.line();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], id);
}

/// C9.9, F51, K16
#[test]
fn content_and_structured_content_come_together_or_alone() {
    let mut s = ClientHarness::modern();
    for (result, texts, structured) in [
        (json!({"content": [{"type": "text", "text": "5"}], "structuredContent": 5}), "5", Some("5")),
        (json!({"structuredContent": null}), "", Some("null")),
        (json!({"content": [], "structuredContent": [1]}), "", Some("[1]")),
        (json!({"content": [{"type": "text", "text": "5"}]}), "5", None),
        (json!({}), "", None),
    ] {
        let mut call = s.client.call_tool("add", json!({}));
        pending(poll(&mut call));
        let id = s.expect("tools/call");
        s.answer(&id, result);
        let got = ready(poll(&mut call)).unwrap();
        assert_eq!(got.text_content(), texts);
        assert_eq!(got.structured_content.as_ref().map(Json::as_str), structured);
    }
}

/// C9.10
#[test]
fn resource_without_contents_is_no_error() {
    for mut s in [ClientHarness::modern(), ClientHarness::legacy()] {
        let mut read = s.client.read_resource("dir:///empty");
        pending(poll(&mut read));
        let id = s.expect("resources/read");
        s.answer(&id, json!({"contents": []}));
        assert_eq!(ready(poll(&mut read)).unwrap().contents, []);
    }
}

/// The lines that a client writes while it uses a server with this name.
fn conversation(own: &str, server: Value) -> Vec<String> {
    let mut config = config();
    config.info.name = own.into();
    let mut s = ClientHarness::open(config, ClientHandlers::new());
    let mut wrote = Vec::new();
    let mut discover = s.line();
    let id = discover["id"].clone();
    let result = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0,
        "cacheScope": "private", "_meta": {"io.modelcontextprotocol/serverInfo": server},
    });
    s.receive(&[answer(&id, result)]);
    let mut call = s.client.call_tool("add", json!({}));
    pending(poll(&mut call));
    let mut called = s.line();
    s.receive(&[answer(&called["id"], text("5"))]);
    wrote.push(format!("{:?}", ready(poll(&mut call)).map(|result| result.text_content())));
    for line in [&mut discover, &mut called] {
        line["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] = Value::Null;
        wrote.push(line.to_string());
    }
    wrote
}

/// C1.16, C1.18
#[test]
fn names_of_client_and_server_change_no_behaviour() {
    let plain = conversation("a", json!({"name": "b", "version": "1"}));
    for server in [
        json!({"name": "everything", "version": "999"}),
        json!({"name": "claude-code", "version": ""}),
        json!("nonsense"),
        Value::Null,
    ] {
        assert_eq!(conversation("Claude Desktop", server), plain);
    }

    let answers = |client: Value| {
        let mut s = ServerHarness::modern(
            Router::new("s", "1").tool_with(tool("t"), async |NoArguments {}, _| "done"),
        );
        let own = json!({"io.modelcontextprotocol/clientInfo": client});
        ["tools/list", "tools/call"].map(|method| s.request(method, json!({"name": "t", "_meta": own})))
    };
    let plain = answers(json!({"name": "a", "version": "1"}));
    assert_eq!(answers(json!({"name": "Cursor", "version": "0.0.1"})), plain);
}

// --- Responses of a server ---

/// C2.9, C1.11
#[test]
fn error_of_a_tool_names_the_extension_that_the_client_must_declare() {
    let router = || {
        Router::new("charts", "1.0.0").extension("com.example/charts", json!({})).tool_with(
            tool("chart"),
            async |NoArguments {}, cx: Context| -> Result<String, HandlerError> {
                Ok(cx.require_extension("com.example/charts")?.as_str().to_string())
            },
        )
    };
    let call = json!({"name": "chart", "arguments": {}});
    let declared = json!({"extensions": {"com.example/charts": {"size": 3}}});
    let mut s = ServerHarness::modern_with(router(), declared);
    assert_eq!(s.result("tools/call", call.clone())["content"][0]["text"], r#"{"size":3}"#);
    let discovered = s.result("server/discover", json!({}));
    assert_eq!(discovered["capabilities"]["extensions"], json!({"com.example/charts": {}}));

    let mut s = ServerHarness::modern(router());
    let error = s.error("tools/call", call.clone());
    assert_eq!(error["code"], code::MISSING_REQUIRED_CLIENT_CAPABILITY);
    let needed = json!({"requiredCapabilities": {"extensions": {"com.example/charts": {}}}});
    assert_eq!(error["data"], needed);

    let mut s = ServerHarness::legacy(router());
    assert_eq!(s.error("tools/call", call)["code"], code::INVALID_REQUEST);
}

/// C2.9: the answer to a client without the extension is of the core protocol.
#[test]
fn tool_reverts_to_the_core_protocol_without_the_extension() {
    let router = || {
        Router::new("charts", "1.0.0").extension("com.example/charts", json!({})).tool_with(
            tool("chart"),
            async |NoArguments {}, cx: Context| {
                if cx.extension("com.example/charts").is_some() { "a chart" } else { "a table" }
            },
        )
    };
    let call = json!({"name": "chart", "arguments": {}});
    let declared = json!({"extensions": {"com.example/charts": {}}});
    let other = json!({"extensions": {"com.example/other": {}}});
    for (mut s, expected) in [
        (ServerHarness::modern_with(router(), declared), "a chart"),
        (ServerHarness::modern_with(router(), other), "a table"),
        (ServerHarness::modern(router()), "a table"),
        (ServerHarness::legacy(router()), "a table"),
    ] {
        assert_eq!(s.result("tools/call", call.clone())["content"][0]["text"], expected);
    }
}

/// C2.9, C2.16
#[test]
fn server_declares_no_extension_without_a_prefix() {
    let router = Router::new("charts", "1.0.0").extension("charts", json!({}));
    assert_eq!(router.check(), Err(RouterError::Extension { identifier: "charts".into() }));
}

fn clock(page: &str) -> Router {
    let described = tool("clock").with_page(page);
    Router::new("clock", "1.0.0").page("ui://clock/page.html", "clock", async |_, _| "<p>").tool_with(
        described,
        async |NoArguments {}, _| {
            CallToolResult::from_structured(&json!({"hour": 9})).map_or_else(
                |_| CallToolResult::new(),
                |mut result| {
                    result.content.clear();
                    result
                },
            )
        },
    )
}

/// S11.12
#[test]
fn tool_with_an_app_page_names_its_resource_and_returns_text() {
    for mut s in [
        ServerHarness::modern_with(
            clock("ui://clock/page.html"),
            json!({"extensions": {
                "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}
            }}),
        ),
        ServerHarness::modern(clock("ui://clock/page.html")),
        ServerHarness::legacy(clock("ui://clock/page.html")),
    ] {
        let listed = s.result("tools/list", json!({}));
        assert_eq!(listed["tools"][0]["_meta"]["ui"]["resourceUri"], "ui://clock/page.html");
        let read = s.result("resources/read", json!({"uri": "ui://clock/page.html"}));
        assert_eq!(read["contents"][0]["mimeType"], apps::MEDIA_TYPE);
        assert_eq!(read["contents"][0]["text"], "<p>");
        let result = s.call("clock", json!({}));
        assert_eq!(result["content"], json!([{"type": "text", "text": "{\"hour\":9}"}]));
    }
    let discovered =
        ServerHarness::modern(clock("ui://clock/page.html")).result("server/discover", json!({}));
    assert!(discovered["capabilities"]["extensions"][apps::EXTENSION].is_object());

    let missing = RouterError::Page { tool: "clock".into(), uri: "ui://clock/other.html".into() };
    assert_eq!(clock("ui://clock/other.html").check(), Err(missing));
    let plain = Router::new("clock", "1")
        .resource(mcp_proto::schema::Resource::new("ui://clock/plain", "plain"), async |_, _| "<p>")
        .tool_with(tool("clock").with_page("ui://clock/plain"), async |NoArguments {}, _| "nine");
    assert!(matches!(plain.check(), Err(RouterError::Page { .. })));
}

/// S11.12
#[test]
fn tool_with_an_app_page_returns_text_even_without_a_result() {
    let router = || {
        Router::new("clock", "1.0.0")
            .page("ui://clock", "clock", async |_, _| "<p>")
            .tool_with(tool("silent").with_page("ui://clock"), async |NoArguments {}, _| ())
            .tool_with(tool("plain"), async |NoArguments {}, _| ())
    };
    let mut s = ServerHarness::modern(router());
    assert_eq!(s.call("silent", json!({}))["content"][0]["type"], "text");
    assert_eq!(s.call("plain", json!({}))["content"], json!([]));
}

/// S8.6
#[test]
fn structured_result_alone_is_also_sent_as_text() {
    let router = Router::new("s", "1").tool_with(tool("t"), async |NoArguments {}, _| {
        let mut result = CallToolResult::new();
        result.structured_content = Some(json!([1, 2]).into());
        result
    });
    let result = ServerHarness::modern(router).call("t", json!({}));
    assert_eq!(result["content"], json!([{"type": "text", "text": "[1,2]"}]));
    assert_eq!(result["structuredContent"], json!([1, 2]));
}

/// S8.1
#[test]
fn lists_do_not_depend_on_the_client_or_on_earlier_requests() {
    let router = || {
        Router::new("s", "1")
            .tool_with(tool("b"), async |NoArguments {}, _| "b")
            .tool_with(tool("a"), async |NoArguments {}, _| "a")
            .resource(mcp_proto::schema::Resource::new("x:y", "y"), async |_, _| "y")
            .prompt(mcp_proto::schema::Prompt::new("p"), async |NoArguments {}, _| "p")
    };
    let lists = |s: &mut ServerHarness| {
        ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]
            .map(|method| s.result(method, json!({})))
    };
    let mut one = ServerHarness::modern(router());
    let fresh = lists(&mut one);
    one.call("a", json!({}));
    assert_eq!(lists(&mut one), fresh);
    let mut other =
        ServerHarness::modern_with(router(), json!({"sampling": {}, "elicitation": {}, "roots": {}}));
    assert_eq!(lists(&mut other), fresh);
}

/// S8.10, S8.15
#[test]
fn tool_may_embed_resources_and_the_server_declares_them() {
    let router = Router::new("s", "1").declare(ServerCapability::Resources).tool_with(
        tool("t"),
        async |NoArguments {}, _| {
            vec![
                ContentBlock::image_bytes([1, 2, 3], "image/png"),
                ContentBlock::resource(TextResourceContents::new("x:y", "why")),
            ]
        },
    );
    let mut s = ServerHarness::modern(router);
    let content = s.call("t", json!({}))["content"].clone();
    assert_eq!(content[0], json!({"type": "image", "data": "AQID", "mimeType": "image/png"}));
    assert_eq!(content[1]["resource"], json!({"uri": "x:y", "text": "why"}));
    assert_eq!(s.result("server/discover", json!({}))["capabilities"], json!({"resources": {}, "tools": {}}));
    assert_eq!(s.result("resources/list", json!({}))["resources"], json!([]));
}

/// S5.6: progress and logs of a request belong to the request, and subscriptions do not receive them.
#[test]
fn subscriptions_receive_no_messages_of_requests() {
    let router = Router::new("s", "1")
        .declare(ServerCapability::ToolsListChanged)
        .declare(ServerCapability::Logging)
        .tool_with(tool("t"), async |NoArguments {}, cx: Context| {
            cx.progress(1);
            cx.log(mcp_proto::schema::LoggingLevel::Error, "trouble");
            "done"
        });
    let mut s = ServerHarness::modern(router);
    let listening = s.send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    assert_eq!(s.line()["method"], "notifications/subscriptions/acknowledged");
    let own = json!({"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"});
    let called = s.send("tools/call", json!({"name": "t", "_meta": own}));
    let mut methods = Vec::new();
    while let Some(line) = s.try_line() {
        assert_eq!(line["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], Value::Null, "{line}");
        assert_ne!(line["id"], listening);
        methods.push(line["method"].as_str().unwrap_or("the answer").to_string());
        assert!(line["id"].is_null() || line["id"] == called);
    }
    assert_eq!(methods, ["notifications/progress", "notifications/message", "the answer"]);
}

/// C1.28, S1.7: a request carries its own context, so several conversations can share a connection.
#[test]
fn requests_of_several_conversations_share_a_connection_and_can_change_it() {
    let started = Arc::new(AtomicUsize::new(0));
    let router = || {
        let started = started.clone();
        Router::new("s", "1").tool_raw(tool("t"), move |call: CallToolParams, _| {
            started.fetch_add(1, Ordering::SeqCst);
            async move {
                call.meta
                    .get("com.example/thread")
                    .map(|thread| thread.as_str().to_string())
                    .unwrap_or_default()
            }
        })
    };
    let mut first = ServerHarness::modern(router());
    let mut second = ServerHarness::modern(router());
    for (thread, on) in [("1", &mut first), ("2", &mut second)] {
        for _ in 0..2 {
            let own = json!({"com.example/thread": thread});
            assert_eq!(
                on.result("tools/call", json!({"name": "t", "_meta": own}))["content"][0]["text"],
                format!("\"{thread}\"")
            );
        }
    }
    let own = json!({"com.example/thread": "1"});
    let moved = second.result("tools/call", json!({"name": "t", "_meta": own}));
    assert_eq!(moved["content"][0]["text"], "\"1\"");
    assert_eq!(started.load(Ordering::SeqCst), 5);
}
