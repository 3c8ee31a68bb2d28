//! What holds for every request of a client, whatever made it: ids, progress tokens, metadata, filters.

use core::time::Duration;
use std::collections::BTreeSet;

use super::tasks::{INTERVAL, created, declared};
use crate::common::client::{ClientHarness, config};
use mcp_proto::peer::client::{WatchFilter, WatchStart};
use mcp_proto::peer::{ProgressOption, RequestError, RequestOptions};
use mcp_proto::schema::{
    CallTool, CallToolParams, ClientCapability, GetPrompt, GetPromptParams, Json, ListResources, ListTools,
    Meta, ReadResource, ReadResourceParams, SubscribeResource, SubscribeResourceParams, UnsubscribeResource,
    UnsubscribeResourceParams,
};
use serde_json::{Value, json};

fn call(s: &mut ClientHarness, options: RequestOptions) -> Value {
    s.client.at(s.now).request::<CallTool>(&CallToolParams::new("slow"), options).unwrap();
    s.line()
}

/// C1.2, C1.3, C7.8
#[test]
fn requests_in_flight_have_ids_and_progress_tokens_of_their_own() {
    for mut s in [ClientHarness::modern(config()), ClientHarness::legacy(config())] {
        let (mut ids, mut tokens) = (BTreeSet::new(), BTreeSet::new());
        for count in 0..50 {
            let line = call(&mut s, RequestOptions::default().progress(ProgressOption::Always));
            let token = &line["params"]["_meta"]["progressToken"];
            assert!(token.is_i64() || token.is_string(), "{line}");
            assert!(tokens.insert(token.to_string()), "{line}");
            assert!(ids.insert(line["id"].as_i64().unwrap()), "{line}");
            // Some are answered meanwhile.
            if count % 3 == 0 {
                s.answer(&line["id"], json!({"content": []}));
            }
        }
        let line = call(&mut s, RequestOptions::default().progress(ProgressOption::Never));
        assert!(line["params"]["_meta"].get("progressToken").is_none(), "{line}");
        assert!(ids.insert(line["id"].as_i64().unwrap()));
    }
}

/// C7.8: the application's metadata sets no progress token: it would not be unique.
#[test]
fn metadata_of_the_application_sets_no_progress_token() {
    let mut meta = Meta::new();
    meta.insert("progressToken", json!(1));
    for mut s in [ClientHarness::modern(config()), ClientHarness::legacy(config())] {
        for (progress, has_one) in [(ProgressOption::Always, true), (ProgressOption::Never, false)] {
            for _ in 0..2 {
                let options = RequestOptions::default().progress(progress).meta(meta.clone());
                let line = call(&mut s, options);
                let token = line["params"]["_meta"].get("progressToken");
                assert_eq!(token, has_one.then_some(&line["id"]), "{line}");
            }
        }
    }
}

/// C1.14, C1.15, C1.17, C14.1: the requests of the application, and those that the client makes by itself.
#[test]
fn each_kind_of_modern_request_carries_the_metadata() {
    let mut config = config();
    config.capabilities = config.capabilities.with(ClientCapability::Roots);
    let mut s = ClientHarness::open(config);
    let mut lines = vec![s.line()];
    s.answer(&lines[0]["id"], crate::common::messages::discover_result());
    let now = s.now;
    let options = RequestOptions::default;
    s.client.at(now).request::<ListTools>(&Default::default(), options()).unwrap();
    s.client.at(now).request::<ListResources>(&Default::default(), options()).unwrap();
    s.client.at(now).request::<ReadResource>(&ReadResourceParams::new("file:///a"), options()).unwrap();
    s.client.at(now).request::<GetPrompt>(&GetPromptParams::new("p"), options()).unwrap();
    s.client.at(now).watch(WatchFilter::new().tools(), WatchStart::Now).unwrap();
    lines.extend(core::iter::from_fn(|| s.try_line()));
    let task = call(&mut s, options());
    s.answer(&task["id"], created());
    s.advance(INTERVAL);
    lines.extend([task, s.line()]);
    let round = call(&mut s, options());
    s.answer(&round["id"], json!({"resultType": "input_required", "requestState": "S"}));
    lines.extend([round, s.line()]);
    let methods: Vec<&str> = lines.iter().map(|line| line["method"].as_str().unwrap()).collect();
    assert_eq!(
        methods,
        [
            "server/discover",
            "tools/list",
            "resources/list",
            "resources/read",
            "prompts/get",
            "subscriptions/listen",
            "tools/call",
            "tasks/get",
            "tools/call",
            "tools/call",
        ]
    );
    for line in &lines {
        let meta = &line["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{line}");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"]["roots"], json!({}), "{line}");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "test-client", "{line}");
        assert!(declared(line).is_object(), "{line}");
    }
}

/// C6.1
#[test]
fn listen_request_names_exactly_the_watched_changes() {
    let lists = WatchFilter::new().tools().prompts().resources();
    for (filter, expected) in [
        (WatchFilter::new().prompts(), json!({"promptsListChanged": true})),
        (WatchFilter::new().resource("file:///a"), json!({"resourceSubscriptions": ["file:///a"]})),
        (
            lists.resource("file:///b").resource("file:///a"),
            json!({
                "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
                "resourceSubscriptions": ["file:///a", "file:///b"],
            }),
        ),
    ] {
        let mut s = ClientHarness::modern(config());
        s.client.at(s.now).watch(filter, WatchStart::Now).unwrap();
        let line = s.line();
        assert_eq!(line["method"], "subscriptions/listen");
        assert_eq!(line["params"]["notifications"], expected);
        s.expect_silence();
    }
    // Without a watch there is no such request, and `resources/subscribe` is of other revisions.
    let mut s = ClientHarness::modern(config());
    s.advance(Duration::from_secs(60));
    let options = RequestOptions::default;
    let params = SubscribeResourceParams::new("file:///a");
    let refused = s.client.at(s.now).request::<SubscribeResource>(&params, options());
    assert!(matches!(refused, Err(RequestError::Revision { .. })), "{refused:?}");
    let params = UnsubscribeResourceParams::new("file:///a");
    let refused = s.client.at(s.now).request::<UnsubscribeResource>(&params, options());
    assert!(matches!(refused, Err(RequestError::Revision { .. })), "{refused:?}");
    s.expect_silence();
}

/// C3.1, F26: also where the application's own JSON has line breaks.
#[test]
fn client_writes_each_message_on_one_line() {
    let mut s = ClientHarness::modern(config());
    let arguments = Json::new("{\r\n  \"text\": \"a\\nb\",\n  \"list\": [\n1,\r2]\n}").unwrap();
    let params = CallToolParams::new("slow").with_arguments(arguments);
    s.client.at(s.now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
    let mut out = Vec::new();
    assert!(s.client.poll_transmit(&mut out));
    let breaks = out.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    assert!(breaks == 1 && out.ends_with(b"\n"), "{}", String::from_utf8_lossy(&out));
    let line: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(line["params"]["arguments"], json!({"text": "a\nb", "list": [1, 2]}));
}
