//! Routers that are merged into others, or mounted in them.

mod conflicts;
mod links;
mod parts;

use core::time::Duration;
use std::sync::{Arc, Mutex};

use crate::common::front_http::HttpHarness;
use crate::common::messages::LEGACY;
use crate::common::router::ServerHarness;
use crate::common::tools::{accept, name_form, named, prompt, tool};
use mcp_proto::front::layer::{Layer, LayerFuture, LayerRequest, Next};
use mcp_proto::front::tasks::{DetachedWork, TaskChoice, TaskConfig};
use mcp_proto::front::{
    Context, HandlerError, LimitedCall, NoArguments, NotificationContext, Router, RouterError, mounted_name,
    mounted_uri,
};
use mcp_proto::peer::Principal;
use mcp_proto::quota::RateLimit;
use mcp_proto::rpc::Raw;
use mcp_proto::schema::{
    CacheHint, Cached, CallTool, CallToolParams, CallToolResult, CompleteParams, ContentBlock, CustomParams,
    Discover, Extension, GetPromptParams, ListTools, ListToolsResult, Prompt, PromptMessage, ReadResource,
    ReadResourceResult, Resource, ResourceContents, ResourceLink, ResourceTemplate, ServerCapability,
    TextResourceContents, apps,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Note {
    id: String,
}

/// A server of notes, whose handlers say what they saw.
fn notes() -> Router {
    Router::new("notes", "1")
        .instructions("Call clear with care.")
        .tool_raw(tool("clear"), async |call: CallToolParams, _| call.name)
        .prompt_raw(prompt("review", "text"), async |get: GetPromptParams, _| get.name)
        .resource(Resource::new("note:///today", "today"), async |uri, _| uri)
        .template(ResourceTemplate::new("note:///by-id/{id}", "note"), async |Note { id }, _| {
            match id.as_str() {
                "0" => Err(HandlerError::no_resource("note:///by-id/0")),
                _ => Ok(id),
            }
        })
}

fn desk() -> Router {
    Router::new("desk", "1")
        .instructions("A desk.")
        .tool_with(tool("date"), async |NoArguments {}, _| "Monday")
}

fn both_eras(router: &Router) -> [ServerHarness; 2] {
    [ServerHarness::modern(router.clone()), ServerHarness::legacy(router.clone())]
}

fn members(result: &Value, list: &str, member: &str) -> Vec<String> {
    let items = result[list].as_array().unwrap();
    items.iter().map(|item| item[member].as_str().unwrap().to_owned()).collect()
}

fn text(s: &mut ServerHarness, tool: &str) -> String {
    s.call(tool, json!({}))["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn merged_router_offers_the_items_of_both() {
    for mut s in both_eras(&desk().merge(notes())) {
        assert_eq!(members(&s.result("tools/list", json!({})), "tools", "name"), ["date", "clear"]);
        assert_eq!(members(&s.result("prompts/list", json!({})), "prompts", "name"), ["review"]);
        assert_eq!([text(&mut s, "date"), text(&mut s, "clear")], ["Monday", "clear"]);
        let read = s.result("resources/read", json!({"uri": "note:///today"}));
        assert_eq!(read["contents"], json!([{"uri": "note:///today", "text": "note:///today"}]));
    }
}

#[test]
fn combined_routers_keep_their_own_states() {
    struct Count(Mutex<u32>);
    let counter = Router::new("counter", "1").with_state(Count(Mutex::new(7))).tool_with(
        tool("count"),
        async |NoArguments {}, cx: Context<Count>| {
            let mut count = cx.state().0.lock().unwrap();
            *count += 1;
            count.to_string()
        },
    );
    let router = Router::new("desk", "1")
        .with_state("desk".to_owned())
        .merge(counter.clone())
        .mount("c", counter)
        .tool_with(tool("name"), async |NoArguments {}, cx: Context<String>| cx.state().clone());
    let mut s = ServerHarness::modern(router);
    assert_eq!(["count", "c_count", "name"].map(|tool| text(&mut s, tool)), ["8", "9", "desk"]);
}

#[test]
fn handlers_of_a_mounted_router_see_the_names_that_they_were_registered_under() {
    for mut s in both_eras(&desk().mount("notes", notes())) {
        assert_eq!(members(&s.result("tools/list", json!({})), "tools", "name"), ["date", "notes_clear"]);
        assert_eq!(text(&mut s, "notes_clear"), "clear");
        assert_eq!(members(&s.result("prompts/list", json!({})), "prompts", "name"), ["notes_review"]);
        let got = s.result("prompts/get", json!({"name": "notes_review", "arguments": {"text": "a"}}));
        assert_eq!(got["messages"][0]["content"]["text"], "review");
        let resources = s.result("resources/list", json!({}));
        assert_eq!(members(&resources, "resources", "uri"), ["notes+note:///today"]);
        let templates = s.result("resources/templates/list", json!({}));
        assert_eq!(members(&templates, "resourceTemplates", "uriTemplate"), ["notes+note:///by-id/{id}"]);
        for (uri, text) in [("notes+note:///today", "note:///today"), ("notes+note:///by-id/7%20up", "7 up")]
        {
            let read = s.result("resources/read", json!({"uri": uri}));
            assert_eq!(read["contents"], json!([{"uri": uri, "text": text}]));
        }
        for uri in ["notes+note:///by-id/0", "note:///today"] {
            let error = s.error("resources/read", json!({"uri": uri}));
            assert_eq!(error["data"]["uri"], uri, "{error}");
        }
        assert_eq!(s.request("tools/call", json!({"name": "clear"}))["error"]["code"], -32602);
    }
}

#[test]
fn routers_may_be_mounted_in_mounted_routers() {
    let router = Router::new("house", "1").mount("desk", desk().mount("my-notes", notes()));
    for mut s in both_eras(&router) {
        let tools = s.result("tools/list", json!({}));
        assert_eq!(members(&tools, "tools", "name"), ["desk_date", "desk_my-notes_clear"]);
        assert_eq!(text(&mut s, "desk_my-notes_clear"), "clear");
        let uri = mounted_uri("desk", &mounted_uri("my-notes", "note:///today"));
        assert_eq!(uri, "desk+my-notes+note:///today");
        let read = s.result("resources/read", json!({"uri": uri}));
        assert_eq!(read["contents"], json!([{"uri": uri, "text": "note:///today"}]));
        let name = mounted_name("desk", &mounted_name("my-notes", "review"));
        let got = s.result("prompts/get", json!({"name": name, "arguments": {"text": "a"}}));
        assert_eq!(got["messages"][0]["content"]["text"], "review");
    }
}

#[test]
fn combined_router_appends_the_instructions() {
    let instructions = |router: Router| {
        let mut s = ServerHarness::modern(router);
        s.result("server/discover", json!({}))["instructions"].clone()
    };
    assert_eq!(instructions(desk().merge(notes())), "A desk.\n\nCall clear with care.");
    let mounted = "About names that begin with notes_, here without it:\nCall clear with care.";
    assert_eq!(instructions(desk().mount("notes", notes())), format!("A desk.\n\n{mounted}"));
    assert_eq!(instructions(Router::new("desk", "1").mount("notes", notes())), mounted);
}

#[test]
fn combined_router_declares_what_its_parts_declare() {
    let printing = Extension::new("com.example/printing").unwrap();
    let other = notes()
        .declare(ServerCapability::ResourcesSubscribe)
        .declare(ServerCapability::Logging)
        .experimental("charts", json!({"svg": true}))
        .with_extension(printing)
        .tasks(TaskConfig::default());
    for router in [desk().merge(other.clone()), desk().mount("notes", other)] {
        let declared = serde_json::to_value(router.capabilities()).unwrap();
        let expected = json!({
            "tools": {}, "resources": {"subscribe": true}, "prompts": {}, "logging": {},
            "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}},
            "experimental": {"charts": {"svg": true}},
            "extensions": {"com.example/printing": {}, "io.modelcontextprotocol/tasks": {}},
        });
        assert_eq!(declared, expected);
        assert_eq!(router.config().extensions.len(), 1);
    }
}

#[test]
fn live_router_mounts_others_in_an_update() {
    let live = desk().declare(ServerCapability::Resources).declare(ServerCapability::Prompts).live();
    let mut s = ServerHarness::modern(live.clone());
    s.send(
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true, "resourcesListChanged": true}}),
    );
    assert_eq!(s.line()["method"], "notifications/subscriptions/acknowledged");
    let silent = || {
        let mut notes = notes();
        notes = notes.disable_tool("clear");
        Router::new("plugin", "1").merge(notes.instructions(""))
    };
    let error = live.update(|router| router.mount("notes", notes())).unwrap_err();
    assert_eq!(error, RouterError::Fixed { what: "instructions" });
    s.expect_silence();
    let plugin = Router::new("plugin", "1")
        .tool_raw(tool("clear"), async |call: CallToolParams, _| call.name)
        .resource(Resource::new("note:///today", "today"), async |uri, _| uri);
    live.update(|router| router.mount("notes", plugin.clone())).unwrap();
    let changed = [s.line()["method"].clone(), s.line()["method"].clone()];
    assert_eq!(changed, ["notifications/tools/list_changed", "notifications/resources/list_changed"]);
    assert_eq!(text(&mut s, "notes_clear"), "clear");
    let twice = live.update(|router| router.mount("notes", plugin.clone())).unwrap_err();
    assert_eq!(twice, RouterError::Duplicate { kind: "tool", name: "notes_clear".into() });
    live.update(|router| router.remove_tool("notes_clear").remove_resource("notes+note:///today")).unwrap();
    live.update(|router| router.mount("notes", plugin)).unwrap();
    assert_eq!(
        live.update(|router| router.merge(silent())),
        Err(RouterError::Fixed { what: "instructions" })
    );
}

#[test]
fn live_router_refuses_the_access_checks_of_others() {
    let live = desk().declare(ServerCapability::Resources).live();
    let guarded = Router::new("plugin", "1")
        .resource(Resource::new("note:///today", "today"), async |uri, _| uri)
        .subscription_access(|_, principal| principal.is_some());
    let error = live.update(|router| router.mount("notes", guarded)).unwrap_err();
    assert_eq!(error, RouterError::Fixed { what: "subscription access" });
}

/// A disabled tool stays disabled, and can be enabled under its new name.
#[test]
fn mounted_items_stay_disabled() {
    let router = desk().mount("notes", notes().disable_tool("clear"));
    let mut s = ServerHarness::modern(router.clone());
    assert_eq!(members(&s.result("tools/list", json!({})), "tools", "name"), ["date"]);
    let mut s = ServerHarness::modern(router.enable_tool("notes_clear"));
    assert_eq!(text(&mut s, "notes_clear"), "clear");
}
