//! What news do to what is kept, and what may have happened unheard.

use super::*;

/// C6.5, C8.5: what may have changed while a subscription was broken is asked for again, and nothing else.
#[test]
fn what_may_have_changed_unheard_is_not_answered_from_what_is_kept() {
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
            is_asked::<ReadResource>(s, &params, contents(uri, 60_000))
        };
        let resources = [read("x://a"), read("x://b")];
        let tools = is_asked::<ListTools>(s, &first(), list("tools"));
        (tools, is_asked::<ListPrompts>(s, &first(), list("prompts")), resources)
    };
    assert_eq!(asked(&mut s), (true, true, [true, true]));
    assert_eq!(asked(&mut s), (false, false, [false, false]));
    s.answer_error(&id, -32603, None);
    s.advance(SECOND);
    listening(&mut s);
    assert_eq!(asked(&mut s), (true, false, [true, false]));
}

/// C6.5, C8.5: what was kept before a watch was on may have changed since, and nobody would ever tell.
#[test]
fn what_was_kept_before_a_watch_is_on_is_asked_for_again() {
    let mut s = ClientHarness::modern(config());
    let list = |name: &str| hinted(json!({ name: [] }), 60_000, "public");
    let asked = |s: &mut ClientHarness| {
        let tools = is_asked::<ListTools>(s, &first(), list("tools"));
        (tools, is_asked::<ListPrompts>(s, &first(), list("prompts")))
    };
    assert_eq!(asked(&mut s), (true, true));
    s.client.at(s.now).watch(WatchFilter::new().tools().prompts(), WatchStart::Now).unwrap();
    let meta = json!({"io.modelcontextprotocol/subscriptionId": s.expect("subscriptions/listen")});
    let granted = json!({"toolsListChanged": true});
    s.notify("notifications/subscriptions/acknowledged", json!({"_meta": meta, "notifications": granted}));
    while s.client.poll_event().is_some() {}
    // Of what is not granted nothing is promised.
    assert_eq!(asked(&mut s), (true, false));
    assert_eq!(asked(&mut s), (false, false));
}

/// C8.5
#[test]
fn news_end_the_time_of_what_they_concern() {
    let mut s = ClientHarness::modern(config());
    let all = |s: &mut ClientHarness| {
        let list = |name: &str| hinted(json!({ name: [] }), 60_000, "public");
        let mut asked = vec![
            ("tools", is_asked::<ListTools>(s, &first(), list("tools"))),
            ("prompts", is_asked::<ListPrompts>(s, &first(), list("prompts"))),
            ("resources", is_asked::<ListResources>(s, &first(), list("resources"))),
            ("templates", is_asked::<ListResourceTemplates>(s, &first(), list("resourceTemplates"))),
        ];
        for uri in ["x://a", "x://a/b", "x://c"] {
            let read = ReadResourceParams::new(uri);
            asked.push((uri, is_asked::<ReadResource>(s, &read, contents(uri, 60_000))));
        }
        asked.into_iter().filter(|(_, asked)| *asked).map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(all(&mut s).len(), 7);
    assert_eq!(all(&mut s), [""; 0]);
    let cases: [(&str, Value, &[&str]); 7] = [
        ("notifications/tools/list_changed", json!({}), &["tools"]),
        ("notifications/prompts/list_changed", json!({}), &["prompts"]),
        ("notifications/resources/list_changed", json!({}), &["resources", "templates"]),
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

/// C8.5: it may have been read before the change.
#[test]
fn an_answer_that_was_overtaken_by_news_is_not_kept() {
    let mut s = ClientHarness::modern(config());
    let request = ask::<ListTools>(&mut s, &first());
    let id = s.expect("tools/list");
    s.notify("notifications/tools/list_changed", json!({}));
    s.answer(&id, tools("old?", 60_000));
    value(s.outcome(request));
    fetch::<ListTools>(&mut s, &first(), tools("new", 60_000));
    assert_eq!(known::<ListTools>(&mut s, &first())["tools"][0]["name"], "new");
}

/// C8.4: an unexpected error says that the list is out of date.
#[test]
fn what_the_server_does_not_know_shows_that_its_list_is_out_of_date() {
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
    assert!(!refused(&mut s, -32603), "that says nothing about the list");
    let prompts = hinted(json!({"prompts": []}), 60_000, "public");
    fetch::<ListPrompts>(&mut s, &first(), prompts.clone());
    let request = ask::<GetPrompt>(&mut s, &GetPromptParams::new("p"));
    let id = s.expect("prompts/get");
    s.answer_error(&id, -32602, None);
    s.outcome(request);
    fetch::<ListPrompts>(&mut s, &first(), prompts);
}
