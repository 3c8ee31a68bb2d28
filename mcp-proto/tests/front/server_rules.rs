//! Rules that a router enforces: declared capabilities, lists and registrations.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use crate::common::router::ServerHarness;
use crate::common::tools::tool;
use mcp_proto::front::{NoArguments, Router, RouterError};
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    BlobResourceContents, CacheHint, Cached, CachedPage, Complete, EmptyResult, GetPrompt, ListPrompts,
    ListPromptsResult, Prompt, ReadResource, ReadResourceResult, Resource, ResourceTemplate,
    ServerCapability, Tool,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Any {}

fn declared(router: Router) -> Value {
    ServerHarness::modern(router).result("server/discover", json!({}))["capabilities"].clone()
}

fn server() -> Router {
    Router::new("s", "1")
}

/// R5, S8.17: each registration declares its capability, and nothing else does.
#[test]
fn each_registration_declares_its_own_capability() {
    assert_eq!(declared(server()), json!({}));
    assert_eq!(declared(server().tool_with(tool("t"), async |NoArguments {}, _| "")), json!({"tools": {}}));
    assert_eq!(declared(server().prompt(Prompt::new("p"), async |Any {}, _| "")), json!({"prompts": {}}));
    let resource = server().resource(Resource::new("x:y", "y"), async |_, _| "");
    assert_eq!(declared(resource), json!({"resources": {}}));
    let template = server().template(ResourceTemplate::new("x:{id}", "y"), async |Any {}, _| "");
    assert_eq!(declared(template), json!({"resources": {}}));
    let completions = server().completion(async |_, _| Vec::<String>::new());
    assert_eq!(declared(completions), json!({"completions": {}}));
    assert_eq!(declared(server().declare(ServerCapability::Logging)), json!({"logging": {}}));
}

/// R5: so does the handler of a whole method.
#[test]
fn handler_of_a_method_declares_the_capability_of_the_method() {
    let prompts = server()
        .handler::<ListPrompts, _, _>(async |_, _| {
            CachedPage::new(Duration::ZERO, ListPromptsResult::new(Vec::new()))
        })
        .handler::<GetPrompt, _, _>(async |_, _| mcp_proto::schema::GetPromptResult::new(Vec::new()));
    assert_eq!(declared(prompts), json!({"prompts": {}}));
    let resources = server().handler::<ReadResource, _, _>(async |_, _| {
        Cached::new(CacheHint::none(), ReadResourceResult::new(Vec::new()))
    });
    assert_eq!(declared(resources), json!({"resources": {}}));
    let completions = server().handler::<Complete, _, _>(async |_, _| {
        mcp_proto::schema::CompleteResult::new(mcp_proto::schema::Completion::new(Vec::new()))
    });
    assert_eq!(declared(completions), json!({"completions": {}}));
    assert_eq!(declared(server().custom("com.example/x", async |_, _| EmptyResult::new())), json!({}));
}

/// R5, S1.19, S8.17: a method without its capability is unknown.
/// R5: so does the handshake of earlier revisions.
#[test]
fn handshake_declares_what_is_registered() {
    let initialized = |router: Router| {
        let info = json!({"name": "t", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        ServerHarness::unintroduced(router).result("initialize", params)["capabilities"].clone()
    };
    assert_eq!(initialized(server()), json!({}));
    let all = server()
        .tool_with(tool("t"), async |NoArguments {}, _| "")
        .prompt(Prompt::new("p"), async |Any {}, _| "")
        .resource(Resource::new("x:y", "y"), async |_, _| "")
        .completion(async |_, _| Vec::<String>::new());
    assert_eq!(initialized(all), json!({"tools": {}, "prompts": {}, "resources": {}, "completions": {}}));
    let raw = server().handler::<ReadResource, _, _>(async |_, _| {
        Cached::new(CacheHint::none(), ReadResourceResult::new(Vec::new()))
    });
    assert_eq!(initialized(raw), json!({"resources": {}}));
}

#[test]
fn server_answers_no_method_whose_capability_it_does_not_declare() {
    for mut s in [ServerHarness::modern(server()), ServerHarness::legacy(server())] {
        for (method, params) in [
            ("tools/list", json!({})),
            ("tools/call", json!({"name": "t"})),
            ("prompts/list", json!({})),
            ("prompts/get", json!({"name": "p"})),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({"uri": "x:y"})),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
            ),
        ] {
            assert_eq!(s.error(method, params)["code"], code::METHOD_NOT_FOUND, "{method}");
        }
    }
}

/// S8.2
#[test]
fn every_declared_list_is_answered_even_if_empty() {
    for (capability, lists) in [
        (ServerCapability::Tools, &[("tools/list", "tools")][..]),
        (ServerCapability::Prompts, &[("prompts/list", "prompts")][..]),
        (
            ServerCapability::Resources,
            &[("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")][..],
        ),
    ] {
        let router = || server().declare(capability);
        for mut s in [ServerHarness::modern(router()), ServerHarness::legacy(router())] {
            for (method, member) in lists {
                let result = s.result(method, json!({}));
                assert_eq!(result[member], json!([]), "{method}");
                assert!(result.get("nextCursor").is_none(), "{method}");
            }
        }
    }
    // A tool without resources has no list of resources.
    let mut s = ServerHarness::modern(server().declare(ServerCapability::Tools));
    assert_eq!(s.error("resources/list", json!({}))["code"], code::METHOD_NOT_FOUND);
}

/// S8.4: names that differ by case are different names.
#[test]
fn tools_whose_names_differ_by_case_are_different_tools() {
    let router = server()
        .tool_with(tool("get"), async |NoArguments {}, _| "lower")
        .tool_with(tool("Get"), async |NoArguments {}, _| "upper");
    let mut s = ServerHarness::modern(router);
    let listed = s.result("tools/list", json!({}));
    let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["get", "Get"]);
    assert_eq!(s.call("get", json!({}))["content"][0]["text"], "lower");
    assert_eq!(s.call("Get", json!({}))["content"][0]["text"], "upper");
    assert_eq!(s.error("tools/call", json!({"name": "GET"}))["code"], code::INVALID_PARAMS);
}

/// S8.9: a tool that breaks any rule of header marks is refused at its registration.
#[test]
fn router_refuses_each_invalid_header_mark() {
    let check = |properties: Value| {
        let schema = json!({"type": "object", "properties": properties});
        server().tool_with(Tool::new("t", "", schema), async |NoArguments {}, _| "").check()
    };
    for properties in [
        json!({"a": {"type": "string", "x-mcp-header": ""}}),
        json!({"a": {"type": "string", "x-mcp-header": "A b"}}),
        json!({"a": {"type": "string", "x-mcp-header": "A:b"}}),
        json!({"a": {"type": "string", "x-mcp-header": "Ä"}}),
        json!({"a": {"type": "string", "x-mcp-header": "A\r\nB"}}),
        json!({"a": {"type": "string", "x-mcp-header": 7}}),
        json!({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}),
        json!({"a": {"type": "number", "x-mcp-header": "A"}}),
        json!({"a": {"type": "object", "x-mcp-header": "A"}}),
        json!({"a": {"x-mcp-header": "A"}}),
        json!({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}),
        json!({"a": {"oneOf": [{"type": "string", "x-mcp-header": "A"}]}}),
    ] {
        let checked = check(properties.clone());
        assert!(
            matches!(&checked, Err(RouterError::ParamHeader { tool, .. }) if tool == "t"),
            "{properties}: {checked:?}"
        );
    }
    let allowed = json!({
        "a": {"type": "string", "x-mcp-header": "A"},
        "b": {"type": "integer", "x-mcp-header": "B"},
        "c": {"type": "object", "properties": {"d": {"type": "boolean", "x-mcp-header": "D"}}},
    });
    assert_eq!(check(allowed), Ok(()));
}

/// S8.13: the URI of a resource is one of RFC 3986, whatever its scheme.
#[test]
fn router_accepts_only_uris_of_rfc_3986() {
    let check = |uri: &str| server().resource(Resource::new(uri, "r"), async |_, _| "").check();
    for uri in [
        "file:///project/a.rs",
        "git://repo/main",
        "https://example.com/a?b=c",
        "a+b-c.1:anything",
        "note:///%C3%BCber",
        "urn:isbn:0451450523",
    ] {
        assert_eq!(check(uri), Ok(()), "{uri}");
    }
    for uri in [
        "",
        "/etc/passwd",
        "today",
        "1note:///x",
        "no_te:///x",
        ":x",
        "note:///a b",
        "note:///über",
        "note:///%2",
        "note:///<x>",
    ] {
        assert_eq!(check(uri), Err(RouterError::Uri { uri: uri.into() }), "{uri}");
    }
}

/// S8.13: values of templates that lead out of their directory are unknown resources, and bytes are sent in base64.
#[test]
fn server_reads_no_resource_outside_of_its_template() {
    #[derive(Deserialize)]
    struct File {
        path: String,
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let router =
        server().template(ResourceTemplate::new("file:///data/{+path}", "file"), move |File { path }, _| {
            kept.lock().unwrap().push(path.clone());
            core::future::ready(mcp_proto::schema::ResourceContents::from(BlobResourceContents::from_bytes(
                format!("file:///data/{path}"),
                [0xFF, 0, 1],
            )))
        });
    let mut s = ServerHarness::modern(router);
    let read = s.result("resources/read", json!({"uri": "file:///data/a/b.bin"}));
    assert_eq!(read["contents"], json!([{"uri": "file:///data/a/b.bin", "blob": "/wAB"}]));
    for uri in [
        "file:///data/../secret",
        "file:///data/a/../../secret",
        "file:///data/%2e%2e/secret",
        "file:///data/a%2F..%2F..%2Fsecret",
        "file:///data/..%5Csecret",
        "file:///data/a%00",
        "file:///other/a",
        "not a uri",
    ] {
        assert_eq!(s.error("resources/read", json!({"uri": uri}))["code"], code::INVALID_PARAMS, "{uri}");
    }
    assert_eq!(*seen.lock().unwrap(), ["a/b.bin"]);
}

/// S5.6, S8.18: a log message stays with its request. Another request of the same connection gets none.
#[test]
fn log_messages_reach_only_requests_that_ask_for_their_level() {
    let router = server().declare(ServerCapability::Logging).tool_with(
        tool("t"),
        async |NoArguments {}, cx: mcp_proto::front::Context| {
            cx.log(mcp_proto::schema::LoggingLevel::Warning, "hot");
            "done"
        },
    );
    let mut s = ServerHarness::modern(router);
    let leveled = |level: &str| json!({"name": "t", "_meta": {"io.modelcontextprotocol/logLevel": level}});
    for (params, logs) in [
        (json!({"name": "t"}), 0),
        (leveled("error"), 0),
        (leveled("warning"), 1),
        (leveled("debug"), 1),
        (json!({"name": "t"}), 0),
    ] {
        s.send("tools/call", params.clone());
        let lines: Vec<_> = core::iter::from_fn(|| s.try_line()).collect();
        let logged = lines.iter().filter(|line| line["method"] == "notifications/message").count();
        assert_eq!((logged, lines.len()), (logs, logs + 1), "{params}");
    }
    for level in [json!("loud"), json!(3), json!(null)] {
        let params = json!({"name": "t", "_meta": {"io.modelcontextprotocol/logLevel": level}});
        let line = s.request("tools/call", params);
        let expected = if level.is_null() { Value::Null } else { json!(code::INVALID_PARAMS) };
        assert_eq!(line["error"]["code"], expected, "{level}");
    }
}
