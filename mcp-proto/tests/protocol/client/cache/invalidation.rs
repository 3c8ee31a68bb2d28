//! How change notifications and lost subscriptions invalidate cached results.

use super::*;
use crate::common::messages::discover_result;
use mcp_proto::schema::skills::ListSkills;

/// C6.5, C8.5: results that may have changed while a subscription was broken are fetched again, and no others.
#[test]
fn lost_subscription_invalidates_the_results_it_covered() {
    let mut s = ClientHarness::modern(config());
    s.client.at(s.now).watch(WatchFilter::new().tools().resource("x://a"), WatchStart::Now).unwrap();
    let listening = |s: &mut ClientHarness| {
        let id = s.line()["id"].clone();
        let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
        let granted = json!({"toolsListChanged": true, "resourceSubscriptions": ["x://a"]});
        s.notify(
            "notifications/subscriptions/acknowledged",
            json!({"_meta": meta, "notifications": granted}),
        );
        while s.client.poll_event().is_some() {}
        id
    };
    let id = listening(&mut s);
    let asked = |s: &mut ClientHarness| {
        let list = |name: &str| hinted(json!({ name: [] }), 60_000, "public");
        let mut read = |uri| {
            let params = ReadResourceParams::new(uri);
            reaches_server::<ReadResource>(s, &params, contents(uri, 60_000))
        };
        let resources = [read("x://a"), read("x://b")];
        let tools = reaches_server::<ListTools>(s, &first(), list("tools"));
        (tools, reaches_server::<ListPrompts>(s, &first(), list("prompts")), resources)
    };
    assert_eq!(asked(&mut s), (true, true, [true, true]));
    assert_eq!(asked(&mut s), (false, false, [false, false]));
    s.answer_error(&id, -32603, None);
    s.advance(SECOND);
    listening(&mut s);
    assert_eq!(asked(&mut s), (true, false, [true, false]));
}

/// C6.5, C8.5: a result cached before the watch was on may have changed since, without a notification.
#[test]
fn client_fetches_again_what_it_cached_before_the_watch() {
    let mut s = ClientHarness::modern(config());
    let list = |name: &str| hinted(json!({ name: [] }), 60_000, "public");
    let asked = |s: &mut ClientHarness| {
        let tools = reaches_server::<ListTools>(s, &first(), list("tools"));
        (tools, reaches_server::<ListPrompts>(s, &first(), list("prompts")))
    };
    assert_eq!(asked(&mut s), (true, true));
    s.client.at(s.now).watch(WatchFilter::new().tools().prompts(), WatchStart::Now).unwrap();
    let meta = json!({"io.modelcontextprotocol/subscriptionId": s.expect("subscriptions/listen")});
    let granted = json!({"toolsListChanged": true});
    s.notify("notifications/subscriptions/acknowledged", json!({"_meta": meta, "notifications": granted}));
    while s.client.poll_event().is_some() {}
    // The server promises no notifications of prompts, so their list stays valid.
    assert_eq!(asked(&mut s), (true, false));
    assert_eq!(asked(&mut s), (false, false));
}

/// C8.5
#[test]
fn change_notification_invalidates_the_results_it_concerns() {
    let mut s = ClientHarness::open(config());
    let id = s.expect("server/discover");
    let mut discovered = discover_result();
    discovered["capabilities"]["extensions"]["io.modelcontextprotocol/skills"] = json!({});
    s.answer(&id, discovered);
    s.take_events();
    let all = |s: &mut ClientHarness| {
        let list = |name: &str| hinted(json!({ name: [] }), 60_000, "public");
        let mut asked = vec![
            ("tools", reaches_server::<ListTools>(s, &first(), list("tools"))),
            ("prompts", reaches_server::<ListPrompts>(s, &first(), list("prompts"))),
            ("resources", reaches_server::<ListResources>(s, &first(), list("resources"))),
            ("templates", reaches_server::<ListResourceTemplates>(s, &first(), list("resourceTemplates"))),
        ];
        asked.push(("skills", reaches_server::<ListSkills>(s, &first(), list("skills"))));
        for uri in ["x://a", "x://a/b", "x://c"] {
            let read = ReadResourceParams::new(uri);
            asked.push((uri, reaches_server::<ReadResource>(s, &read, contents(uri, 60_000))));
        }
        asked.into_iter().filter(|(_, asked)| *asked).map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(all(&mut s).len(), 8);
    assert_eq!(all(&mut s), [""; 0]);
    let cases: [(&str, Value, &[&str]); 7] = [
        ("notifications/tools/list_changed", json!({}), &["tools"]),
        ("notifications/prompts/list_changed", json!({}), &["prompts"]),
        ("notifications/resources/list_changed", json!({}), &["resources", "templates", "skills"]),
        ("notifications/resources/updated", json!({"uri": "x://a/b"}), &["x://a", "x://a/b"]),
        ("notifications/resources/updated", json!({"uri": "x://c/d/e"}), &["x://c"]),
        ("notifications/resources/updated", json!({}), &["x://a", "x://a/b", "x://c"]),
        ("notifications/message", json!({"level": "info", "data": "x"}), &[]),
    ];
    for (method, params, expected) in cases {
        s.notify(method, params);
        assert_eq!(all(&mut s), expected, "{method}");
    }
}

/// C8.5: the server may have read it before the change.
#[test]
fn client_does_not_cache_a_result_overtaken_by_a_change_notification() {
    let mut s = ClientHarness::modern(config());
    let request = ask::<ListTools>(&mut s, &first());
    let id = s.expect("tools/list");
    s.notify("notifications/tools/list_changed", json!({}));
    s.answer(&id, tools("old?", 60_000));
    value(s.outcome(request));
    fetch::<ListTools>(&mut s, &first(), tools("new", 60_000));
    assert_eq!(cached::<ListTools>(&mut s, &first())["tools"][0]["name"], "new");
}

/// C8.4: an unexpected error says that the list is out of date.
#[test]
fn unknown_tool_or_resource_invalidates_its_list() {
    let mut s = ClientHarness::modern(config());
    let refused = |s: &mut ClientHarness, code: i64| {
        fetch_with::<ListTools>(s, &first(), using(CacheMode::Refresh), tools("a", 60_000));
        let request = ask::<CallTool>(s, &CallToolParams::new("a"));
        let id = s.expect("tools/call");
        s.answer_error(&id, code, None);
        s.outcome(request);
        let request = ask::<ListTools>(s, &first());
        let asked = s.try_line().map(|line| line["id"].clone());
        if let Some(id) = &asked {
            s.answer(id, tools("a", 60_000));
        }
        value(s.outcome(request));
        asked.is_some()
    };
    assert!(refused(&mut s, -32602) && refused(&mut s, -32601));
    assert!(!refused(&mut s, -32603), "such an error says nothing about the list");
    let prompts = hinted(json!({"prompts": []}), 60_000, "public");
    fetch::<ListPrompts>(&mut s, &first(), prompts.clone());
    let request = ask::<GetPrompt>(&mut s, &GetPromptParams::new("p"));
    let id = s.expect("prompts/get");
    s.answer_error(&id, -32602, None);
    s.outcome(request);
    fetch::<ListPrompts>(&mut s, &first(), prompts);
}
